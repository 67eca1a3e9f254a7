"""Plain text tables: columns aligned, words to the left, figures to the right."""

from collections.abc import Collection, Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], figures: Collection[int] = ()) -> list[str]:
    """Lines of a table with headings and a ruler. `figures` are the columns aligned to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    ruler = ["-" * width for width in widths]
    return [_aligned(row, widths, figures) for row in (headings, ruler, *rows)]


def _aligned(row: Sequence[str], widths: Sequence[int], figures: Collection[int]) -> str:
    cells = (
        cell.rjust(width) if place in figures else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def indented(lines: Sequence[str], by: int = 2) -> list[str]:
    """The same lines, moved to the right."""
    return [" " * by + line if line else line for line in lines]
