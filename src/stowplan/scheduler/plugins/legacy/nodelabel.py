"""NodeLabel: nodes by the keys of their labels, as the predicate CheckNodeLabelPresence and the priority
NodeLabelPriority did. NodeAffinity can express the same for single pods, or with `addedAffinity` for all pods
of a profile."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.node import Node
from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Hint,
    NodeRows,
    PodInfo,
    Reads,
    Resource,
    Scores,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import FeatureGates
from stowplan.scheduler.plugins.legacy.base import LegacyArgs, LegacyPlugin
from stowplan.scheduler.table.columns import BoolColumn

REASON: Final = "node(s) didn't have the requested labels"


class NodeLabelArgs(LegacyArgs, frozen=True):
    """Labels that a node must have and must not have, and those that make it better liked."""

    present_labels: tuple[str, ...] = ()
    absent_labels: tuple[str, ...] = ()
    present_labels_preference: tuple[str, ...] = ()
    absent_labels_preference: tuple[str, ...] = ()

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        return [
            *super().validate(path, gates),
            *_conflicts(self.present_labels, self.absent_labels, path, "presentLabels", "absentLabels"),
            *_conflicts(
                self.present_labels_preference,
                self.absent_labels_preference,
                path,
                "presentLabelsPreference",
                "absentLabelsPreference",
            ),
        ]


def _conflicts(
    present: tuple[str, ...], absent: tuple[str, ...], path: Path, present_name: str, absent_name: str
) -> Iterator[str]:
    """A label cannot be wished for and away at once."""
    for index, label in enumerate(absent):
        if label in present:
            where = path.child(absent_name).at(index)
            yield invalid(where, label, f"must not be in {path.child(present_name)} too")


class NodeLabel(LegacyPlugin):
    """All pods are equal to it."""

    args_type = NodeLabelArgs
    args: NodeLabelArgs
    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventRegistration(nodes, self._after_node_change, by_template=True),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        fits = self._fits(new.metadata.labels)
        return queue_if(fits and (old is None or not self._fits(old.metadata.labels)))

    def _fits(self, labels: Mapping[str, str]) -> bool:
        args = self.args
        return all(key in labels for key in args.present_labels) and not any(
            key in labels for key in args.absent_labels
        )

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        args = self.args
        if not args.present_labels and not args.absent_labels:
            return None
        codes = np.zeros(nodes.count, dtype=np.int64)
        for key in args.present_labels:
            codes[~_has(nodes, key)] = 1
        for key in args.absent_labels:
            codes[_has(nodes, key)] = 1
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        """The share of wishes that a node meets, rounded down."""
        present, absent = self.args.present_labels_preference, self.args.absent_labels_preference
        if not present and not absent:
            return None
        met = np.zeros(nodes.count, dtype=np.int64)
        for key in present:
            met += _has(nodes, key)
        for key in absent:
            met += ~_has(nodes, key)
        return MAX_NODE_SCORE * met // (len(present) + len(absent))


def _has(nodes: NodeRows, key: str) -> BoolColumn:
    has: BoolColumn = nodes.labels(key) != 0
    return has
