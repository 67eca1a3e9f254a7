"""Invariants of a run: checked at every scheduling cycle, binding and storage write.

A scheduler is only responsible for what it could know. So every decision is kept with the scheduler's
knowledge when its cycle began, and a node counts as overcommitted by the scheduler only if the pods the
decision had to count do not fit together: those it knew of, and those it had itself sent there before without
an error. A node that shrank meanwhile, a pod bound by another scheduler, a binding that took effect though
its answer was an error are not the scheduler's fault.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.lab.chaos.devicechecks import ReservationChecks, known_devices
from stowplan.lab.chaos.groupchecks import GangChecks
from stowplan.lab.chaos.oracle import (
    Oracle,
    claims_of,
    ignores_other_pods,
    is_bound,
    is_exclusive,
    known_storage,
    overcommitment,
    reaches,
    rejection,
)
from stowplan.lab.chaos.world import ChaosWorld
from stowplan.localcluster.client import typed
from stowplan.localcluster.store import DELETED, StoreChange
from stowplan.scheduler import Instrument, Scheduler
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

BOUND_FIRST = "no pod is bound before its claims are"
WITHIN_REACH = "no pod is bound out of reach of its volumes"


class _KnownThen(NamedTuple):
    """Knowledge of the scheduler when it chose a node: uids of the pod's claims, labels of the node."""

    claims: Mapping[str, str]
    labels: Mapping[str, str]


class ClaimChecks:
    """Compares decisions and bindings with the volumes and claims the scheduler knows.

    Claims that were replaced and nodes whose labels changed since the decision are left out.
    """

    def __init__(self, world: ChaosWorld, table: Callable[[], ClusterTable]) -> None:
        self._world = world
        self._table = table
        self._decided: dict[str, _KnownThen] = {}

    def decide(self, pod: Pod, node: Node) -> None:
        """A node was chosen for a pod."""
        known = self._table().storage.claims
        uids = {key: known[key].metadata.uid for key in claims_of(pod) if key in known}
        self._decided[pod.metadata.uid] = _KnownThen(uids, node.metadata.labels)
        self._check(pod.metadata.uid, node.name, must_be_bound=False)

    def begin(self, uid: str, node: str) -> None:
        """A scheduler sends a binding."""
        if uid in self._decided:
            self._check(uid, node, must_be_bound=True)

    def exclusive(self, pod: Pod) -> frozenset[str]:
        """The keys of a pod's ReadWriteOncePod claims."""
        known = self._table().storage.claims
        keys = claims_of(pod)
        return frozenset(key for key in keys if key in known and is_exclusive(known[key]))

    def _check(self, uid: str, node: str, *, must_be_bound: bool) -> None:
        table, decided = self._table(), self._decided[uid]
        found = table.node(node)
        moved = found is None or found.node.metadata.labels != decided.labels
        for key, claim_uid in decided.claims.items():
            claim = table.storage.claims.get(key)
            if claim is None or claim.metadata.uid != claim_uid:
                continue
            if not is_bound(claim):
                if must_be_bound:
                    self._world.violated(BOUND_FIRST, f"pod {uid} to {node}, claim {key}")
                continue
            volume = table.storage.volumes.get(claim.spec.volume_name)
            if volume is not None and not moved and not reaches(volume, decided.labels):
                self._world.violated(WITHIN_REACH, f"pod {uid} to {node}, volume {volume.name}")


@dataclass(frozen=True, slots=True)
class ObservedDecision:
    """A pod is to be bound to a node.

    `number` counts the decisions of a run, `scheduler` its schedulers. `known_node` is the node as the
    scheduler knew it, None if it did not; `known_pods` are the uids of the pods on it, and `known_placed` of
    those on any of `known_nodes`. `exclusive` are the pod's claims that no other pod may use.
    """

    number: int
    scheduler: int
    uid: str
    node: str
    known_node: Node | None
    known_pods: Set[str]
    known_nodes: Set[str]
    known_placed: Set[str]
    exclusive: Set[str]


class Bindings:
    """Decisions and the bindings that follow from them.

    `claims` checks the volumes of pods, `reservations` their devices, `gangs` their groups.
    """

    def __init__(
        self,
        world: ChaosWorld,
        claims: ClaimChecks | None = None,
        reservations: ReservationChecks | None = None,
        gangs: GangChecks | None = None,
    ) -> None:
        self._world = world
        self.gangs = gangs
        self.claims = claims
        self.reservations = reservations
        self._decisions: dict[str, ObservedDecision] = {}
        self._under_way: set[str] = set()
        self._acknowledged: set[str] = set()
        self._count = 0

    def decide(
        self,
        scheduler: int,
        pod: Pod,
        node: str,
        known_node: Node | None,
        known: Set[str],
        *,
        known_nodes: Set[str] = frozenset(),
        known_placed: Set[str] = frozenset(),
        exclusive: Set[str] = frozenset(),
    ) -> None:
        self._count += 1
        uid = pod.metadata.uid
        self._decisions[uid] = ObservedDecision(
            self._count, scheduler, uid, node, known_node, known, known_nodes, known_placed, exclusive
        )

    def begin(self, uid: str, node: str, scheduler: int) -> None:
        """A scheduler sends a binding."""
        if uid in self._acknowledged:
            self._world.violated("no pod is bound twice", f"pod {uid} is bound again, to {node}")
        if uid in self._under_way:
            self._world.violated("no pod is bound twice", f"two bindings of pod {uid} are under way")
        decision = self._decisions.get(uid)
        if decision is None or (decision.node, decision.scheduler) != (node, scheduler):
            self._world.violated(
                "bindings follow decisions", f"pod {uid} is bound to {node}, decided: {decision}"
            )
        self._under_way.add(uid)
        if self.claims is not None:
            self.claims.begin(uid, node)
        if self.gangs is not None:
            self.gangs.begin(uid, scheduler)

    def end(self, uid: str, *, acknowledged: bool) -> None:
        """The scheduler has its answer, or gave up waiting for one."""
        self._under_way.discard(uid)
        if acknowledged:
            self._acknowledged.add(uid)

    def applied(self, uid: str, node: str) -> None:
        """The store has bound a pod for a scheduler."""
        self._world.counts["bound"] += 1
        self._world.bound.add(uid)
        if self.reservations is not None:
            self.reservations.applied(uid, node)
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
            if later.exclusive and later.node == placed[other].spec.node_name:
                self._check_sharing(later, placed, uid)

    def _check_load(self, decision: ObservedDecision, on_node: dict[str, Pod], latest: str) -> None:
        if decision.known_node is None:
            self._world.violated(
                "no pod is bound to an infeasible node", f"node {decision.node} is not known"
            )
            return
        known = decision.known_pods
        counted = [pod for pod in on_node.values() if self._had_to_count(decision, pod, known, latest)]
        newcomer = on_node[decision.uid]
        problem = overcommitment(decision.known_node, newcomer, counted)
        if problem is not None:
            pods = ", ".join(sorted(pod.name for pod in counted))
            detail = f"{newcomer.key} on {decision.node} with {pods or 'no other pod'}: {problem}"
            self._world.violated("no node is overcommitted", detail)

    def _check_sharing(self, decision: ObservedDecision, placed: dict[str, Pod], latest: str) -> None:
        """No other pod uses the same ReadWriteOncePod claim. Pods on nodes that are gone do not count."""
        for pod in placed.values():
            if pod.spec.node_name not in decision.known_nodes:
                continue
            shared = decision.exclusive & set(claims_of(pod))
            if shared and self._had_to_count(decision, pod, decision.known_placed, latest):
                detail = f"{placed[decision.uid].key} and {pod.key}: {sorted(shared)}"
                self._world.violated("a ReadWriteOncePod claim has one user", detail)

    def _had_to_count(self, decision: ObservedDecision, other: Pod, known: Set[str], latest: str) -> bool:
        """True if a decision had to count another pod on the node."""
        uid = other.metadata.uid
        if uid == decision.uid:
            return False
        if uid in known:
            return True
        earlier = self._decisions.get(uid)
        if earlier is None or earlier.node != other.spec.node_name or earlier.scheduler != decision.scheduler:
            return False
        return earlier.number < decision.number and (uid in self._acknowledged or uid == latest)

    def _placed(self) -> dict[str, Pod]:
        """The unfinished pods on nodes in the store."""
        stored = (typed(obj, Pod) for obj in self._world.store.list(PODS).items)
        return {pod.metadata.uid: pod for pod in stored if pod.spec.node_name and not pod.is_finished}


SELECTED_NODE = "volume.kubernetes.io/selected-node"
ASSUMED = "volumes of an assumed pod are assumed"
NEEDED = "assumed volumes belong to an assumed pod"


class AssumedVolumes:
    """Compares the volumes and claims one scheduler has assumed with the pods it is about to bind."""

    def __init__(self, world: ChaosWorld, cache: Cache) -> None:
        self._world = world
        self._cache = cache
        self._storage = cache.table.storage
        self._latest: tuple[Pod, int] | None = None
        self._users: dict[str, set[str]] = {}

    def decide(self, pod: Pod) -> None:
        """A node was chosen; now the pod's volumes are reserved."""
        self._latest = (pod, self._storage.version)
        for key in claims_of(pod):
            self._users.setdefault(key, set()).add(pod.metadata.uid)

    def check(self) -> None:
        """To be called when no cycle is half done."""
        latest, self._latest = self._latest, None
        if latest is not None and latest[1] == self._storage.version:
            self._check_assumed(latest[0])
        assumed = self._storage.assumed()
        if assumed:
            self._check_needed(assumed)

    def _check_assumed(self, pod: Pod) -> None:
        """Every unbound claim of an assumed pod has a volume or a selected node.

        A watch event since, or another pod with the same claim that released it, may have undone that.
        """
        node = self._cache.assumed.get(pod.metadata.uid)
        if node is None:
            return
        for key in claims_of(pod):
            claim = self._storage.claim(key)
            if claim is None or is_bound(claim) or len(self._users[key]) > 1:
                continue
            asks = claim.metadata.annotations.get(SELECTED_NODE) == node
            if not asks and not self._has_volume(claim):
                self._world.violated(ASSUMED, f"{pod.key} to {node}, claim {key}")

    def _has_volume(self, claim: PersistentVolumeClaim) -> bool:
        volumes = (self._storage.volume(name) for name in self._storage.volumes)
        refs = (volume.spec.claim_ref for volume in volumes if volume is not None)
        return any(ref is not None and ref.uid == claim.metadata.uid for ref in refs)

    def _check_needed(self, assumed: list[Object]) -> None:
        """Nothing is assumed without an assumed pod that needs it.

        Written objects stay assumed until the watch delivers them; and a deleted pod keeps its assumptions
        until its binding cycle notices.
        """
        pods = self._cache.table.pods
        wanted = {key for uid in self._cache.assumed if uid in pods for key in claims_of(pods[uid].pod)}
        for obj in assumed:
            needed = _claim_key(obj) in wanted or self._is_written(obj)
            if not needed and not _is_binding():
                self._world.violated(NEEDED, f"{obj.key} for {_claim_key(obj)}")

    def _is_written(self, obj: Object) -> bool:
        resource = PERSISTENT_VOLUMES if isinstance(obj, PersistentVolume) else PERSISTENT_VOLUME_CLAIMS
        stored = self._world.store.find(resource, obj.namespace, obj.name)
        return stored is None or stored["metadata"]["resourceVersion"] != obj.metadata.resource_version


def _is_binding() -> bool:
    """True if a pod is being bound that needs a separate task."""
    return any(task.get_name() == "binding" for task in asyncio.all_tasks())


def _claim_key(obj: Object) -> str:
    """The key of the claim that an assumed object belongs to."""
    if not isinstance(obj, PersistentVolume):
        return obj.key
    ref = obj.spec.claim_ref
    return "" if ref is None else f"{ref.namespace}/{ref.name}"


class CycleChecks(Instrument):
    """Checks one scheduler whenever it pops a pod and whenever it assumes one.

    When a pod is popped no other cycle is half done: cache, queue and informers must agree.
    """

    def __init__(self, scheduler: Scheduler, number: int, world: ChaosWorld, bindings: Bindings) -> None:
        self.scheduler = scheduler
        self._number = number
        self._world = world
        self._bindings = bindings
        self._assumed_volumes = AssumedVolumes(world, scheduler.context.cache)
        self._known_nodes: dict[str, Node] = {}
        self._known_pods: dict[str, str] = {}
        self._assumed_in_cycle: list[str] = []
        scheduler.install(self)

    def popped(self, queued: QueuedPod) -> None:
        with self._world.watchdog.uncounted():
            self._check_popped(queued)

    def assuming(self, pod: PodInfo, node: str) -> None:
        with self._world.watchdog.uncounted():
            self._check_assuming(pod, node)

    def _check_popped(self, queued: QueuedPod) -> None:
        self._world.counts["attempts"] += 1
        self._world.note(f"try {queued.key}")
        pods = self.scheduler.informers.pods.objects
        self._known_nodes = dict(self.scheduler.informers.nodes.objects)
        self._known_pods = {
            pod.metadata.uid: pod.spec.node_name for pod in pods.values() if pod.spec.node_name
        }
        self._assumed_in_cycle = []
        members = queued.pods() if isinstance(queued, QueuedGroup) else (queued,)
        self.check_queue({one.uid for one in members})
        self.check_cache()
        self._assumed_volumes.check()

    def _check_assuming(self, info: PodInfo, node: str) -> None:
        pod = info.pod
        known = self._known_nodes.get(node)
        on_node = {uid for uid, where in self._known_pods.items() if where == node}
        claims = self._bindings.claims
        exclusive = claims.exclusive(pod) if claims is not None else frozenset[str]()
        self._bindings.decide(
            self._number,
            pod,
            node,
            known,
            on_node,
            known_nodes=self._known_nodes.keys(),
            known_placed=self._known_pods.keys(),
            exclusive=exclusive,
        )
        if claims is not None and known is not None:
            claims.decide(pod, known)
        if self._bindings.reservations is not None:
            self._bindings.reservations.decide(pod)
        if self._bindings.gangs is not None:
            self._bindings.gangs.assuming(pod, self._number)
        self._assumed_volumes.decide(pod)
        self._check_decision(pod, node, known)
        self._assumed_in_cycle.append(pod.metadata.uid)

    # Decisions

    def _check_decision(self, pod: Pod, node: str, known: Node | None) -> None:
        problem = "the node is not known" if known is None else rejection(pod, known)
        lost = self._lost_a_member() and not ignores_other_pods(pod)
        if problem is None and not lost and node not in self._fresh_evaluation(pod):
            problem = "a fresh evaluation rejects the node"
        if problem is None and pod.spec.scheduling_gates:
            problem = "the pod is gated"
        if problem is not None:
            self._world.violated("no pod is bound to an infeasible node", f"{pod.key} to {node}: {problem}")

    def _lost_a_member(self) -> bool:
        """True if a member of the group that is being placed was given a node and has lost it.

        The others get the nodes that were found with it, which topology spread or affinity may forbid without
        it: here as in kube-scheduler, which continues with them when one fails Reserve or Permit.
        """
        placed = self.scheduler.context.cache.table.pods
        return any(uid not in placed for uid in self._assumed_in_cycle)

    def _fresh_evaluation(self, pod: Pod) -> list[str]:
        cache = self.scheduler.context.cache
        placed = [
            (info.pod, cache.assumed.get(uid, info.pod.spec.node_name))
            for uid, info in cache.table.pods.items()
        ]
        oracle = Oracle(self.scheduler, self._world.plan.extenders, cache.nodes(), placed)
        if self._world.plan.storage is not None:
            oracle.add_storage(known_storage(cache.table.storage), cache.table.storage.assumed())
        if self._world.plan.devices:
            claims = cache.table.devices.claims
            oracle.add_devices(
                known_devices(cache.table.devices),
                [one.claim for one in claims.in_flight().values() if one.counts],
            )
        return oracle.feasible(pod, during_faults=True)

    # Cache and queue

    def check_queue(self, popped: Set[str] = frozenset()) -> None:
        """Every pending pod is either in the queue, or in a scheduling or binding cycle; never both."""
        context = self.scheduler.context
        queue, assumed = context.queue, context.cache.assumed
        for pod in self.scheduler.informers.pods.objects.values():
            if pod.spec.node_name or pod.is_terminating or pod.spec.scheduler_name not in context.profiles:
                continue
            uid = pod.metadata.uid
            queued = queue.get(pod.key)
            waits = queued is not None and queued.uid == uid
            tried = uid in popped or uid in assumed
            if waits == tried:
                where = "in the queue and in a cycle" if waits else "neither in the queue nor in a cycle"
                self._world.violated("no pod is lost", f"{pod.key} is {where}")
            if queued is not None and queued.uid != uid:
                self._world.violated(
                    "no pod is lost", f"{pod.key} is in the queue with the uid of a pod that is gone"
                )
        self._check_queue_entries()

    def _check_queue_entries(self) -> None:
        places = Counter(one.key for one in self.scheduler.context.queue)
        for key, count in places.items():
            if count > 1:
                self._world.violated("no pod is lost", f"{key} is in {count} places of the queue")
            known = self.scheduler.pod(key)
            if known is None or known.spec.node_name:
                self._world.violated("no pod is lost", f"{key} is in the queue though it is bound or gone")

    def check_cache(self) -> None:
        """The cache has the pods the informer knows on nodes, and those that are assumed."""
        cache = self.scheduler.context.cache
        table = cache.table
        for uid, node in self._known_pods.items():
            info = table.pods.get(uid)
            if info is None or info.pod.spec.node_name != node:
                self._world.violated(
                    "the cache follows the watch", f"pod {uid} on {node} is not in the cache"
                )
        for uid, info in table.pods.items():
            if uid not in self._known_pods and uid not in cache.assumed:
                self._world.violated(
                    "the cache follows the watch", f"{info.key} is in the cache but neither assumed nor known"
                )
        names = {node.name for node in cache.nodes()}
        if names != self._known_nodes.keys():
            self._world.violated(
                "the cache follows the watch", f"nodes {sorted(names ^ self._known_nodes.keys())}"
            )


ONE_CLAIM = "no volume has two claims"
ONE_VOLUME = "no claim has two volumes"


class VolumeOwnership:
    """Watches volumes and claims in the store.

    A volume's claimRef does not change from one claim to another without being cleared; a claim keeps its
    volume; no two claims have the same volume.
    """

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        world.store.watch(PERSISTENT_VOLUMES, self._volume_changed)
        world.store.watch(PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def check_at_rest(self) -> None:
        """At rest, claimRef and volumeName agree."""
        claims = {claim["metadata"]["uid"]: claim for claim in self._claims()}
        owned: dict[str, list[str]] = {}
        for volume in self._world.store.list(PERSISTENT_VOLUMES).items:
            uid, name = _claimed_by(volume), volume["metadata"]["name"]
            if uid in claims:
                owned.setdefault(uid, []).append(name)
        for uid, names in owned.items():
            key, has = claims[uid]["metadata"]["name"], _volume_of(claims[uid])
            if len(names) > 1:
                self._world.violated(ONE_VOLUME, f"{key} is named by {names}")
            if has and has not in names:
                self._world.violated(ONE_VOLUME, f"{key} has {has} and is named by {names}")

    def _volume_changed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            return
        volume, before = change.object, change.previous
        name, uid = volume["metadata"]["name"], _claimed_by(volume)
        held = _claimed_by(before) if before is not None else ""
        if held and uid and held != uid:
            self._world.violated(ONE_CLAIM, f"{name} is taken from claim {held} for {uid}")
        if uid and uid != held:
            self._world.counts["volumes claimed"] += 1
            for claim in self._claims():
                if _volume_of(claim) == name and claim["metadata"]["uid"] != uid:
                    self._world.violated(ONE_CLAIM, f"{name} of {claim['metadata']['name']} goes to {uid}")

    def _claim_changed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            return
        claim, before = change.object, change.previous
        name, has = claim["metadata"]["name"], _volume_of(claim)
        had = _volume_of(before) if before is not None else ""
        if had and had != has:
            self._world.violated(ONE_VOLUME, f"{name} has {has or 'no volume'} in the place of {had}")
        if has and not had:
            others = [one["metadata"]["name"] for one in self._claims() if _volume_of(one) == has]
            if len(others) > 1:
                self._world.violated(ONE_CLAIM, f"{has} is the volume of {sorted(others)}")

    def _claims(self) -> list[Json]:
        return list(self._world.store.list(PERSISTENT_VOLUME_CLAIMS).items)


def _claimed_by(volume: Json) -> str:
    """The uid in a volume's claimRef."""
    uid: str = (volume["spec"].get("claimRef") or {}).get("uid", "")
    return uid


def _volume_of(claim: Json) -> str:
    name: str = claim["spec"].get("volumeName") or ""
    return name
