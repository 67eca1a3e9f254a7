"""TopologyPlacementGenerator: a group with a topology constraint is placed within one domain, as a rack."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stowplan.scheduler.framework import (
    Contract,
    Handle,
    Plugin,
    Reads,
    Status,
    error,
)
from stowplan.scheduler.framework.advanced import GroupCycle, Placement, PodGroupInfo
from stowplan.scheduler.table.podinfo import PodInfo

_MOST_KEYS: Final = 16
"""Of how many labels the domains are kept."""


class TopologyPlacementGenerator(Plugin):
    """One placement for every value that the label of the constraint has on the nodes of the parent's.

    Where pods of the group run already, it is their domain alone. A group without a constraint may have all
    of the nodes.
    """

    contract = Contract(reads=Reads.NODE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._kept: dict[str, tuple[int, Sequence[Placement]]] = {}

    def generate_placements(
        self, cycle: GroupCycle, group: PodGroupInfo, parent: Placement
    ) -> Status | Sequence[Placement]:
        key = group.topology_key
        if not key:
            return [parent]
        if problem := group.too_deep():
            return error(problem)
        try:
            only = self._domain_of(group.running, key)
        except LookupError as unclear:
            return error(f"cannot determine domain for already scheduled pods: {unclear}")
        placements = self._domains(key, parent)
        return placements if only is None else [one for one in placements if one.name == only]

    def _domains(self, key: str, parent: Placement) -> Sequence[Placement]:
        """The domains of a label among the nodes of a placement, in the order of their names.

        Those of the whole cluster are kept as long as nodes and labels stay what they are.
        """
        version = self.handle.table.topology_version
        kept = self._kept.get(key)
        if parent.rows is None and kept is not None and kept[0] == version:
            return kept[1]
        column = self.handle.table.label_column(key)
        rows = parent.rows_of(self.handle.table)
        ids = column.ids[rows]
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
        placements = []
        for part in np.split(order, starts[1:]) if len(order) else ():
            value = column.values[ids[part[0]]]
            if value is not None:
                placements.append(Placement(value, rows[part]))
        placements.sort(key=lambda placement: placement.name)
        if parent.rows is None:
            if len(self._kept) >= _MOST_KEYS:
                self._kept.clear()
            self._kept[key] = version, placements
        return placements

    def _domain_of(self, pods: Sequence[PodInfo], key: str) -> str | None:
        """The domain that pods are in, None without any. Raises LookupError."""
        found: str | None = None
        for pod in pods:
            node = self.handle.table.nodes[pod.row] if pod.row >= 0 else None
            if node is None:
                missing = f'nodeinfo not found for node name "{pod.pod.spec.node_name}"'
                raise LookupError(f"getting node for pod {pod.key}: {missing}")
            domain = node.metadata.labels.get(key)
            if domain is None:
                raise LookupError(f"no topology domain found for pod {pod.key}")
            if found and found != domain:
                raise LookupError(f"more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found
