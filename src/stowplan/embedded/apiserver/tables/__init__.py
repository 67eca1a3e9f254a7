"""Objects as the rows of a table, the way people know them from kubectl."""

from stowplan.embedded.apiserver.tables.columns import Table
from stowplan.embedded.apiserver.tables.tables import Tables

__all__ = ["Table", "Tables"]
