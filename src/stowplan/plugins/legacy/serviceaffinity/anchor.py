"""Where a service's pods are: the node whose labels the next pod has to match."""

from stowplan.cluster.matchers import PodMatcher
from stowplan.cluster.table import ClusterTable


class Anchor:
    """Of the rows that have pods of a selection, the one whose node comes first by name.

    kube-scheduler took the first pod it came across, in no order to rely on. As long as the rule was kept
    from the start, all of them have the same labels anyway.
    """

    __slots__ = ("_matcher", "_row", "_seen", "_table", "_topology")

    def __init__(self, table: ClusterTable, matcher: PodMatcher) -> None:
        self._table = table
        self._matcher = matcher
        self._seen = -1
        self._topology = -1
        self._row: int | None = None

    def row(self) -> int | None:
        """The row, None while there is no such pod."""
        counts = self._matcher.rows
        if self._topology == self._table.topology_version:
            if self._seen == counts.version:
                return self._row
            changed = counts.changed_since(self._seen)
        else:
            changed = None
        if changed is None or (self._row is not None and not counts.get(self._row)):
            chosen = counts.to_array(self._table.capacity).nonzero()[0].tolist()
        else:
            chosen = [row for row in changed if counts.get(row)]
            if self._row is not None:
                chosen.append(self._row)
        self._row = min(chosen, key=self._table.name_of, default=None)
        self._seen, self._topology = counts.version, self._table.topology_version
        return self._row

    def close(self) -> None:
        self._table.matchers.release(self._matcher)
