"""A row as if other pods stood on it, without a copy of the world."""

from types import TracebackType
from typing import Self

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable


class AsIf:
    """One row as if some of its pods were gone and others stood there too.

    Inside the `with` block the table counts everything as it would if it were so. On leaving it every pod is
    back in its old place and every count is what it was. `gone` and `guests` say how the row differs from
    what it is.
    """

    __slots__ = ("_home", "_table", "gone", "guests", "row")

    def __init__(self, table: ClusterTable, row: int) -> None:
        self._table = table
        self.row = row
        self.gone: dict[str, PodInfo] = {}
        self.guests: list[PodInfo] = []

    def __enter__(self) -> Self:
        pods_on = self._table.pods_on
        self._home = pods_on[self.row]
        pods_on[self.row] = dict(self._home)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()
        for info in reversed(tuple(self.gone.values())):
            self.put_back(info)
        self._table.pods_on[self.row] = self._home

    def take_away(self, info: PodInfo) -> None:
        """As if a pod of the row were gone."""
        self._table.take_off(info)
        self.gone[info.uid] = info

    def put_back(self, info: PodInfo) -> None:
        """A pod taken away is there again."""
        del self.gone[info.uid]
        self._table.put_on(info, self.row)

    def invite(self, info: PodInfo) -> None:
        """As if a pod that is on no node stood here; the pod itself is left alone."""
        guest = PodInfo(info.pod, info.template)
        self._table.put_on(guest, self.row)
        self.guests.append(guest)

    def dismiss(self) -> None:
        """All guests leave."""
        while self.guests:
            self._table.take_off(self.guests.pop())
