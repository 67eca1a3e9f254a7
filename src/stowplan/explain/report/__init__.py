"""Reports: what a command found out, once, for three readers.

A command describes its result as a `Report` of tables, charts and figures; `terminal` writes it as text,
`page` as one HTML file that opens without network, and `--json` prints its data.

* `model`: what a report consists of
* `terminal`: text of limited width
* `page`: a self-contained HTML file, drawn by the modules of the live page
"""

from stowplan.explain.report.model import (
    Bar,
    Bars,
    Cell,
    Columns,
    Figure,
    Figures,
    Funnel,
    Part,
    Report,
    Section,
    Series,
    StackedBar,
    StackedBars,
    Table,
    Text,
    TileGroup,
    Tiles,
    TimeSeries,
)

__all__ = [
    "Bar",
    "Bars",
    "Cell",
    "Columns",
    "Figure",
    "Figures",
    "Funnel",
    "Part",
    "Report",
    "Section",
    "Series",
    "StackedBar",
    "StackedBars",
    "Table",
    "Text",
    "TileGroup",
    "Tiles",
    "TimeSeries",
]
