"""The bindings of a run: who was to go where, knowing what; and whether that can have been right.

A scheduler can only be held to what it could know. So every decision is kept with what the scheduler had been
told when it began to look for a node; and a node is overcommitted by us only if the pods that the decision
had to reckon with do not fit together: those it had been told of, and those it had itself sent there before
and not heard a refusal for. What happened behind its back (a node made smaller, a pod bound by somebody
else, a binding that took effect though the answer was an error) is not its fault.
"""

from collections.abc import Set
from dataclasses import dataclass

from stowplan.api.catalogue import PODS
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.chaos import rules
from stowplan.chaos.claimuse import ClaimUse
from stowplan.chaos.storagerules import claims_of
from stowplan.chaos.world import World
from stowplan.embedded.client import typed


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod shall go to a node.

    `number` counts the decisions of a run, `scheduler` its schedulers. `told_node` is the node as the
    scheduler had been told of it, None if it had not; `told_pods` are the uids of the pods on it, and
    `told_placed` of those on any of `told_nodes`. `for_one` are the pod's claims that nobody else may use.
    """

    number: int
    scheduler: int
    uid: str
    node: str
    told_node: Node | None
    told_pods: Set[str]
    told_nodes: Set[str]
    told_placed: Set[str]
    for_one: Set[str]


class Bindings:
    """Decisions, and the bindings that come of them. `claims` looks after the volumes of pods, if need be."""

    def __init__(self, world: World, claims: ClaimUse | None = None) -> None:
        self._world = world
        self.claims = claims
        self._decisions: dict[str, Decision] = {}
        self._under_way: set[str] = set()
        self._acknowledged: set[str] = set()
        self._count = 0

    def decide(
        self,
        scheduler: int,
        pod: Pod,
        node: str,
        told_node: Node | None,
        told: Set[str],
        *,
        told_nodes: Set[str] = frozenset(),
        told_placed: Set[str] = frozenset(),
        for_one: Set[str] = frozenset(),
    ) -> None:
        self._count += 1
        uid = pod.metadata.uid
        self._decisions[uid] = Decision(
            self._count, scheduler, uid, node, told_node, told, told_nodes, told_placed, for_one
        )

    def begin(self, uid: str, node: str, scheduler: int) -> None:
        """A scheduler asks for a binding."""
        if uid in self._acknowledged:
            self._world.broken("no pod is bound twice", f"pod {uid} is bound again, to {node}")
        if uid in self._under_way:
            self._world.broken("no pod is bound twice", f"two bindings of pod {uid} are under way")
        decision = self._decisions.get(uid)
        if decision is None or (decision.node, decision.scheduler) != (node, scheduler):
            self._world.broken(
                "bindings follow decisions", f"pod {uid} is bound to {node}, decided: {decision}"
            )
        self._under_way.add(uid)
        if self.claims is not None:
            self.claims.begin(uid, node)

    def end(self, uid: str, *, acknowledged: bool) -> None:
        """The scheduler has its answer, or will never have one."""
        self._under_way.discard(uid)
        if acknowledged:
            self._acknowledged.add(uid)

    def effective(self, uid: str, node: str) -> None:
        """The store has put a pod on a node, as asked by a scheduler."""
        self._world.counts["bound"] += 1
        placed = self._placed()
        on_node = {other: pod for other, pod in placed.items() if pod.spec.node_name == node}
        decision = self._decisions.get(uid)
        if decision is None:
            return
        for other in sorted(placed):
            later = self._decisions.get(other)
            if later is None or later.number < decision.number:
                continue
            if later.node == node and other in on_node:
                self._check_load(later, on_node, uid)
            if later.for_one and later.node == placed[other].spec.node_name:
                self._check_sharing(later, placed, uid)

    def _check_load(self, decision: Decision, on_node: dict[str, Pod], latest: str) -> None:
        if decision.told_node is None:
            self._world.broken("no pod goes to a node that rejects it", f"node {decision.node} is not known")
            return
        told = decision.told_pods
        counted = [pod for pod in on_node.values() if self._had_to_know(decision, pod, told, latest)]
        newcomer = on_node[decision.uid]
        problem = rules.overload(decision.told_node, newcomer, counted)
        if problem is not None:
            pods = ", ".join(sorted(pod.name for pod in counted))
            detail = f"{newcomer.key} on {decision.node} beside {pods or 'nobody'}: {problem}"
            self._world.broken("no node is overcommitted", detail)

    def _check_sharing(self, decision: Decision, placed: dict[str, Pod], latest: str) -> None:
        """Nobody else uses what only one may. Pods on nodes that are gone do not count."""
        for pod in placed.values():
            if pod.spec.node_name not in decision.told_nodes:
                continue
            shared = decision.for_one & set(claims_of(pod))
            if shared and self._had_to_know(decision, pod, decision.told_placed, latest):
                detail = f"{placed[decision.uid].key} and {pod.key}: {sorted(shared)}"
                self._world.broken("a claim for one pod has one user", detail)

    def _had_to_know(self, decision: Decision, other: Pod, told: Set[str], latest: str) -> bool:
        """Whether a decision had to reckon with another pod on a node."""
        uid = other.metadata.uid
        if uid == decision.uid:
            return False
        if uid in told:
            return True
        earlier = self._decisions.get(uid)
        if earlier is None or earlier.node != other.spec.node_name or earlier.scheduler != decision.scheduler:
            return False
        return earlier.number < decision.number and (uid in self._acknowledged or uid == latest)

    def _placed(self) -> dict[str, Pod]:
        """The unfinished pods on nodes in the store."""
        stored = (typed(obj, Pod) for obj in self._world.store.list(PODS).items)
        return {pod.metadata.uid: pod for pod in stored if pod.spec.node_name and not pod.is_finished}
