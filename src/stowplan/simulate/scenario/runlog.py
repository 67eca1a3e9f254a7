"""A row for each pod and node of a run: when it came, where it went, what it waited for."""

from collections.abc import Mapping
from re import compile as pattern
from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.queue.queued_group import QueuedGroup

Row = dict[str, Any]

_PREEMPTED: Final = pattern(r"Preempted by \S+ (?P<uid>\S+) on node ")


class RunLog(Instrument):
    """The pods and nodes of a run in the order in which they came. Times are seconds of the run."""

    def __init__(self) -> None:
        self.pods: dict[str, Row] = {}
        self.nodes: dict[str, Row] = {}
        self._removed_nodes: list[Row] = []

    # Pods

    def created(self, pod: Json, second: float) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.pods[metadata["uid"]] = {
            "pod": f"{metadata.get('namespace', '')}/{metadata['name']}",
            "namespace": metadata.get("namespace", ""),
            "priority": spec.get("priority") or 0,
            "arrived": second,
            "placed": None,
            "node": spec.get("nodeName"),
            "waited": None,
            "attempts": 0,
            "ended": None,
            "preempted_by": None,
        }

    def popped(self, queued: Any) -> None:
        members = queued.pods() if isinstance(queued, QueuedGroup) else (queued,)
        for member in members:
            row = self.pods.get(member.pod.uid)
            if row is not None:
                row["attempts"] += 1

    def placed(self, pod: Json, second: float) -> None:
        row = self.pods.get(pod["metadata"]["uid"])
        if row is not None:
            row |= {"placed": second, "node": pod["spec"]["nodeName"], "waited": second - row["arrived"]}

    def ended(self, uid: str, second: float) -> None:
        row = self.pods.get(uid)
        if row is not None:
            row["ended"] = second

    def recorded(self, event: Json) -> None:
        """An event of the scheduler: those about victims say what they had to go for, by uid."""
        if event.get("reason") != "Preempted":
            return
        row = self.pods.get(event.get("regarding", {}).get("uid", ""))
        found = _PREEMPTED.match(event.get("note", ""))
        if row is not None and found is not None:
            by = self.pods.get(found["uid"])
            row["preempted_by"] = found["uid"] if by is None else by["pod"]

    # Nodes

    def node_added(self, name: str, group: str, second: float, price: float) -> None:
        self.nodes[name] = {
            "node": name,
            "group": group,
            "added": second,
            "removed": None,
            "price": price or None,
        }

    def node_removed(self, name: str, second: float) -> None:
        row = self.nodes.pop(name)
        self._removed_nodes.append({**row, "removed": second})

    def node_rows(self) -> list[Mapping[str, Any]]:
        """All nodes in the order in which they came."""
        return sorted([*self._removed_nodes, *self.nodes.values()], key=lambda row: row["added"])
