"""Invariants of devices: none is allocated twice, and nothing is left behind.

Every write of a claim is checked in the store, and the check uses none of the scheduler's code: slices,
claims and reservations as they are stored.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from stowplan.api.catalogue import DEVICE_CLASSES, DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.lab.chaos.deviceobjects import EXTENDED_RESOURCE
from stowplan.lab.chaos.objects import NAMESPACE
from stowplan.lab.chaos.oracle import thousandths
from stowplan.lab.chaos.world import ChaosWorld
from stowplan.localcluster.client import typed
from stowplan.localcluster.controllers.devices.resourceclaim import CLAIM_NAME
from stowplan.localcluster.store import DELETED, StoreChange
from stowplan.scheduler import Scheduler
from stowplan.scheduler.plugins.defaultpreemption.units import Units, UnknownNodeError
from stowplan.scheduler.queue.instrument import GATED
from stowplan.scheduler.table.devices import Devices

ONCE: Final = "no device is given to two claims"
CAPACITY: Final = "no device gives more capacity than it has"
COUNTERS: Final = "no counter is overdrawn"
RESERVED_FIRST: Final = "no pod is bound before its claims are reserved for it"
NODE_OF_DEVICES: Final = "no pod is bound to a node without its devices"
LEAKED: Final = "no claim is leaked"
LEFT_BEHIND: Final = "no reservation is left behind"
SETTLED: Final = "no claim stays assumed or in flight"

DeviceKey = tuple[str, str, str]
PoolKey = tuple[str, str]


def asks_for_devices(pod: Pod) -> bool:
    """True if a pod has resource claims, or extended resources that mean devices."""
    return bool(pod.spec.resource_claims) or any(
        EXTENDED_RESOURCE in container.resources.requests for container in pod.spec.containers
    )


class DeviceOwnership:
    """Watches claims in the store: every newly allocated device must have been free."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._store = world.store
        self._offered: dict[DeviceKey, list[Json]] = {}
        """Everything that was ever offered under a name."""
        self._pools: dict[PoolKey, dict[int, ObservedPool]] = {}
        """The generations of pools with counters."""
        world.store.watch(RESOURCE_SLICES, self._slice_changed)
        world.store.watch(RESOURCE_CLAIMS, self._claim_changed)

    def _slice_changed(self, change: StoreChange) -> None:
        """Keep what was offered: allocations outlive slices, and a scheduler may be late to see new ones."""
        if change.type == DELETED:
            return
        spec = change.object["spec"]
        key = (spec["driver"], spec["pool"]["name"])
        pool = self._pools.setdefault(key, {}).setdefault(spec["pool"]["generation"], ObservedPool())
        for device in spec.get("devices") or ():
            self._offered.setdefault((*key, device["name"]), []).append(device)
            pool.devices[device["name"]] = device
        for counter_set in spec.get("sharedCounters") or ():
            pool.counters = counter_set["counters"]

    def _claim_changed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            return
        claim = change.object
        before = {} if change.previous is None else change.previous
        if not _results(claim) or _results(before) == _results(claim):
            return
        self._world.counts["claims allocated"] += 1
        self._check(claim)

    def _check(self, claim: Json) -> None:
        """Compare the devices that a claim just got with those that others have."""
        mine = [one for one in _results(claim) if not one.get("adminAccess")]
        others = [
            (other["metadata"]["name"], one)
            for other in self._store.all(RESOURCE_CLAIMS)
            if other["metadata"]["uid"] != claim["metadata"]["uid"]
            for one in _results(other)
            if not one.get("adminAccess")
        ]
        name = claim["metadata"]["name"]
        seen: set[DeviceKey] = set()
        for result in mine:
            device = _key(result)
            held = {
                whose: one
                for whose, one in others
                if _key(one) == device and not self._was_changed(device, result, one)
            }
            if result.get("shareID") is None and (held or device in seen):
                self._world.violated(ONCE, f"{'/'.join(device)} to {name}, held by {[*held] or name}")
            elif any(one.get("shareID") is None for one in held.values()):
                self._world.violated(ONCE, f"a share of {'/'.join(device)} to {name}, held by {[*held]}")
            seen.add(device)
        for device in sorted(seen):
            self._check_capacity(name, device, [*mine, *(one for _, one in others)])
        for pool in sorted({device[:2] for device in seen}):
            taken = {_key(one)[2] for one in (*mine, *(one for _, one in others)) if _key(one)[:2] == pool}
            self._check_counters(name, pool, {one[2] for one in seen if one[:2] == pool}, taken)

    def _was_changed(self, device: DeviceKey, mine: Json, other: Json) -> bool:
        """True if the driver made a device of another kind, shared or not, while it was allocated.

        Then it was allocated again, by kube-scheduler as well.
        """
        kinds = {bool(one.get("allowMultipleAllocations")) for one in self._offered.get(device, ())}
        return len(kinds) > 1 and (mine.get("shareID") is None) != (other.get("shareID") is None)

    def _check_capacity(self, claim: str, device: DeviceKey, results: list[Json]) -> None:
        offered = next((one.get("capacity") for one in self._offered.get(device, ())), None) or {}
        consumed: Counter[str] = Counter()
        for one in results:
            if _key(one) == device:
                for name, amount in (one.get("consumedCapacity") or {}).items():
                    consumed[name] += thousandths(amount)
        for name, amount in consumed.items():
            if name in offered and amount > thousandths(offered[name]["value"]):
                self._world.violated(CAPACITY, f"{name} of {'/'.join(device)}, the last taken by {claim}")

    def _check_counters(self, claim: str, key: PoolKey, mine: set[str], taken: set[str]) -> None:
        """In some generation of the pool that has these devices there must be enough for all of them."""
        generations = [one for one in self._pools.get(key, {}).values() if mine <= one.devices.keys()]
        overdrawn = [one.overdrawn(taken) for one in generations]
        if overdrawn and all(overdrawn):
            short = ", ".join(overdrawn[-1])
            self._world.violated(COUNTERS, f"{short} of {'/'.join(key)}, the last taken by {claim}")


class ObservedPool:
    """One generation of a pool."""

    def __init__(self) -> None:
        self.devices: dict[str, Json] = {}
        self.counters: Json = {}

    def overdrawn(self, taken: set[str]) -> list[str]:
        """The counters of which devices that are taken draw more than there is."""
        if not self.counters:
            return []
        drawn: Counter[str] = Counter()
        for name in taken & self.devices.keys():
            for consumption in self.devices[name].get("consumesCounters") or ():
                for counter, amount in consumption["counters"].items():
                    drawn[counter] += thousandths(amount["value"])
        return sorted(
            name for name, amount in drawn.items() if amount > thousandths(self.counters[name]["value"])
        )


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return results


def _key(result: Json) -> DeviceKey:
    return (result["driver"], result["pool"], result["device"])


class ReservationChecks:
    """Compares bindings with the claims of pods as they are stored when the binding takes effect.

    The claims that the pod had when its node was chosen count. Claims that users replaced or deleted
    meanwhile are left out, and so are those that lost their allocation to another client's write.
    """

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._touched: set[str] = set()
        self._decided: dict[str, list[str]] = {}
        world.store.watch(RESOURCE_CLAIMS, self._claim_changed)

    def _claim_changed(self, change: StoreChange) -> None:
        """Note claims that are deleted or lose an allocation or a reservation to another client."""
        uid = change.object["metadata"]["uid"]
        if change.type == DELETED or "deletionTimestamp" in change.object["metadata"]:
            self._touched.add(uid)
        before = change.previous
        if before is not None and (
            (_results(before) and not _results(change.object))
            or not _reserved(before) <= _reserved(change.object)
        ):
            self._touched.add(uid)

    def decide(self, pod: Pod) -> None:
        """A node was chosen for a pod."""
        named = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        names = [one.resource_claim_name or named.get(one.name) for one in pod.spec.resource_claims]
        self._decided[pod.metadata.uid] = [name for name in names if name]

    def applied(self, uid: str, node: str) -> None:
        """The store has bound a pod for a scheduler."""
        pod = next((one for one in self._world.store.all(PODS) if one["metadata"]["uid"] == uid), None)
        if pod is None:
            return
        extended = pod.get("status", {}).get("extendedResourceClaimStatus")
        names = [*self._decided.get(uid, ()), *([extended["resourceClaimName"]] if extended else ())]
        for key in names:
            claim = self._world.store.find(RESOURCE_CLAIMS, NAMESPACE, key)
            if claim is None or claim["metadata"]["uid"] in self._touched:
                continue
            if uid not in _reserved(claim):
                self._world.violated(RESERVED_FIRST, f"{pod['metadata']['name']} to {node}, claim {key}")
            elif not _is_for(claim, node):
                self._world.violated(NODE_OF_DEVICES, f"{pod['metadata']['name']} to {node}, claim {key}")


def _reserved(claim: Json) -> set[str]:
    return {one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or ()}


def _is_for(claim: Json, node: str) -> bool:
    """True if the devices of a claim can be used on a node: those of runs name one node or none."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    selector = allocation.get("nodeSelector")
    if not selector:
        return True
    return any(
        node in field["values"]
        for term in selector["nodeSelectorTerms"]
        for field in term.get("matchFields") or ()
    )


def known_devices(devices: Devices) -> Iterator[Object]:
    """Slices, rules, classes and claims as a scheduler sees them, without what is in flight."""
    for view in devices.slices.all():
        yield view.slice
    yield from devices.slices.rules()
    yield from devices.classes.all()
    yield from devices.claims.all()


def has_lost_member(scheduler: Scheduler) -> bool:
    """True if one of the pods that are only preempted together is on a node that does not exist.

    Preemption ends with an error then, in kube-scheduler 1.37 as here.
    """
    try:
        Units(scheduler.context.cache.table).check_nodes()
    except UnknownNodeError:
        return True
    return False


class DeviceFinalChecks:
    """Compares the claims an idle scheduler knows, and those that are stored, with the pods there are."""

    def __init__(self, world: ChaosWorld, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._devices = scheduler.context.cache.table.devices
        self._profiles = scheduler.context.profiles
        store = world.store
        self._claims = store.list(RESOURCE_CLAIMS).items
        self.objects: list[Object] = [
            *(typed(obj, ResourceSlice) for obj in store.list(RESOURCE_SLICES).items),
            *(typed(obj, DeviceClass) for obj in store.list(DEVICE_CLASSES).items),
            *(typed(obj, DeviceTaintRule) for obj in store.list(DEVICE_TAINT_RULES).items),
            *(typed(obj, ResourceClaim) for obj in self._claims),
        ]

    def has_caught_up(self) -> bool:
        known = {(type(one).__name__, one.key): one for one in known_devices(self._devices)}
        return known == {(type(one).__name__, one.key): one for one in self.objects}

    def check(self, pods: list[Pod]) -> None:
        if not self._world.plan.devices:
            return
        claims = self._devices.claims
        if claims.assumed() or claims.in_flight():
            left = [*(one.key for one in claims.assumed()), *claims.in_flight()]
            self._world.violated(SETTLED, f"{sorted(left)}")
        if not self.has_caught_up():
            self._world.violated("the cache equals the store", "slices, classes or resource claims")
        self._check_allocated()
        by_uid = {pod.metadata.uid: pod for pod in pods}
        for claim in self._claims:
            self._check_reservations(claim, by_uid)
            self._check_owner(claim, by_uid)
        self._check_made()
        self._check_extended(by_uid)

    def _check_allocated(self) -> None:
        """Compare the allocated devices in memory with those of stored claims."""
        stored = Counter(
            _key(one) for claim in self._claims for one in _results(claim) if not one.get("adminAccess")
        )
        allocated = self._devices.claims.allocated
        known = Counter({**allocated.devices}) + Counter({**allocated.shared})
        if known != stored:
            wrong = sorted({*known, *stored} - {key for key in known if known[key] == stored[key]})
            self._world.violated("what is taken is what claims have", f"{wrong}")

    def _check_reservations(self, claim: Json, pods: dict[str, Pod]) -> None:
        """Every reservation is for a pod that exists, has a node and has not ended.

        Reservations of a pod that is held back before the queue are never released: here as in
        kube-scheduler. Nor are they while preemption ends with an error, because PostFilter ends with it.
        """
        name = claim["metadata"]["name"]
        for uid in sorted(_reserved(claim)):
            pod = pods.get(uid)
            if pod is None or pod.is_finished:
                self._world.violated(LEFT_BEHIND, f"{name} for {uid}, which is gone or has ended")
            elif (
                not pod.spec.node_name
                and self._scheduler.context.queue.place_of(pod.key) != GATED
                and not has_lost_member(self._scheduler)
            ):
                self._world.violated(LEFT_BEHIND, f"{name} for {pod.key}, which has no node")

    def _check_owner(self, claim: Json, pods: dict[str, Pod]) -> None:
        """A claim that was made for a pod is there as long as the pod, and one being deleted goes."""
        metadata = claim["metadata"]
        owners = [one["uid"] for one in metadata.get("ownerReferences") or ()]
        if owners and not any(uid in pods for uid in owners):
            self._world.violated(LEAKED, f"{metadata['name']}: its pod is gone")
        if "deletionTimestamp" in metadata and not _reserved(claim):
            self._world.violated(LEAKED, f"{metadata['name']} is being deleted, nobody uses it")

    def _check_made(self) -> None:
        """Of a template a pod has one claim for each of its entries."""
        made = Counter(
            (metadata["ownerReferences"][0]["name"], metadata["annotations"][CLAIM_NAME])
            for metadata in (claim["metadata"] for claim in self._claims)
            if CLAIM_NAME in (metadata.get("annotations") or {}) and "deletionTimestamp" not in metadata
        )
        for (pod, entry), count in made.items():
            if count > 1:
                self._world.violated(LEAKED, f"{pod} has {count} claims for {entry}")

    def _check_extended(self, pods: dict[str, Pod]) -> None:
        """A pod has one claim for its extended resources, which its status names, or none.

        A pod that another scheduler bound keeps what was made for it until it ends.
        """
        owned: dict[str, list[str]] = {}
        for claim in self._claims:
            metadata = claim["metadata"]
            if (metadata.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true":
                owned.setdefault(metadata["ownerReferences"][0]["uid"], []).append(metadata["name"])
        for uid, names in owned.items():
            pod = pods.get(uid)
            if pod is None or pod.is_finished:
                continue
            stored = self._world.store.find(PODS, NAMESPACE, pod.name) or {}
            named = (stored.get("status", {}).get("extendedResourceClaimStatus") or {}).get(
                "resourceClaimName"
            )
            if len(names) > 1 or (uid in self._world.bound and names != [named]):
                self._world.violated(LEAKED, f"{pod.key} has {sorted(names)}, its status names {named}")
