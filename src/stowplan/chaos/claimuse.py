"""Pods and their claims: whether a pod may be bound where and when it is, as far as its volumes go."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.chaos import storagerules
from stowplan.chaos.world import World
from stowplan.cluster.table import ClusterTable

BOUND_FIRST = "no pod is bound before its claims are"
WITHIN_REACH = "no pod goes where its volumes are not"


class _Decided(NamedTuple):
    """What was known when a node was chosen: the uids of the pod's claims, and the labels of the node."""

    claims: Mapping[str, str]
    labels: Mapping[str, str]


class ClaimUse:
    """Compares decisions and bindings with what the scheduler has been told of volumes and claims.

    Claims that were replaced and nodes that were labelled anew since the decision are left out: that happened
    behind the scheduler's back.
    """

    def __init__(self, world: World, table: Callable[[], ClusterTable]) -> None:
        self._world = world
        self._table = table
        self._decided: dict[str, _Decided] = {}

    def decide(self, pod: Pod, node: Node) -> None:
        """A node was chosen for a pod."""
        told = self._table().storage.claims
        uids = {key: told[key].metadata.uid for key in storagerules.claims_of(pod) if key in told}
        self._decided[pod.metadata.uid] = _Decided(uids, node.metadata.labels)
        self._check(pod.metadata.uid, node.name, must_be_bound=False)

    def begin(self, uid: str, node: str) -> None:
        """A scheduler asks for a binding."""
        if uid in self._decided:
            self._check(uid, node, must_be_bound=True)

    def for_one(self, pod: Pod) -> frozenset[str]:
        """The keys of a pod's claims that nobody else may use."""
        told = self._table().storage.claims
        keys = storagerules.claims_of(pod)
        return frozenset(key for key in keys if key in told and storagerules.is_for_one(told[key]))

    def _check(self, uid: str, node: str, *, must_be_bound: bool) -> None:
        table, decided = self._table(), self._decided[uid]
        found = table.node(node)
        moved = found is None or found.node.metadata.labels != decided.labels
        for key, claim_uid in decided.claims.items():
            claim = table.storage.claims.get(key)
            if claim is None or claim.metadata.uid != claim_uid:
                continue
            if not storagerules.is_bound(claim):
                if must_be_bound:
                    self._world.broken(BOUND_FIRST, f"pod {uid} to {node}, claim {key}")
                continue
            volume = table.storage.volumes.get(claim.spec.volume_name)
            if volume is not None and not moved and not storagerules.reaches(volume, decided.labels):
                self._world.broken(WITHIN_REACH, f"pod {uid} to {node}, volume {volume.name}")
