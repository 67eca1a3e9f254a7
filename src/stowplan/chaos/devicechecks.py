"""What must hold of devices: nobody gets a device that another has, and nothing is left behind.

Every write of a claim is looked at in the store, and the judgement uses nothing of the scheduler's code:
slices, claims and reservations as they are stored.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from stowplan.api.catalogue import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.api.devices import EXTENDED_RESOURCE_CLAIM, DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.chaos.deviceobjects import EXTENDED_RESOURCE
from stowplan.chaos.objects import NAMESPACE
from stowplan.chaos.oracle import thousandths
from stowplan.chaos.world import World
from stowplan.cluster.devices import Devices
from stowplan.embedded.client import typed
from stowplan.embedded.store import DELETED, Change
from stowplan.scheduler import Scheduler

ONCE: Final = "no device is given to two claims"
CAPACITY: Final = "no device gives more capacity than it has"
COUNTERS: Final = "no counter is overdrawn"
RESERVED_FIRST: Final = "no pod is bound before its claims are reserved for it"
NODE_OF_DEVICES: Final = "no pod is bound to a node without its devices"
LEAKED: Final = "no claim is leaked"
LEFT_BEHIND: Final = "no reservation is left behind"
SETTLED: Final = "no claim stays assumed or in flight"

DeviceKey = tuple[str, str, str]


def asks_for_devices(pod: Pod) -> bool:
    """Whether a pod has resource claims, or extended resources that mean devices."""
    return bool(pod.spec.resource_claims) or any(
        EXTENDED_RESOURCE in container.resources.requests for container in pod.spec.containers
    )


class DeviceOwnership:
    """Watches claims in the store: whatever a claim gets must have been free."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._offered: dict[DeviceKey, Json] = {}
        self._counters: dict[tuple[str, str], Json] = {}
        world.store.watch(RESOURCE_SLICES, self._slice_changed)
        world.store.watch(RESOURCE_CLAIMS, self._claim_changed)

    def _slice_changed(self, change: Change) -> None:
        """Keep what was last offered under a name: allocations outlive the slices they were made from."""
        if change.type == DELETED:
            return
        spec = change.object["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        for device in spec.get("devices") or ():
            self._offered[*pool, device["name"]] = {**device, "generation": spec["pool"]["generation"]}
        for counter_set in spec.get("sharedCounters") or ():
            self._counters[pool] = {**counter_set, "generation": spec["pool"]["generation"]}

    def _claim_changed(self, change: Change) -> None:
        if change.type == DELETED:
            return
        claim = change.object
        before = {} if change.previous is None else change.previous
        if not _results(claim) or _results(before) == _results(claim):
            return
        self._world.counts["claims allocated"] += 1
        self._check(claim)

    def _check(self, claim: Json) -> None:
        """The devices that a claim just got, beside those that others have."""
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
            holders = [whose for whose, one in others if _key(one) == device]
            shared = result.get("shareID") is not None
            if not shared and (holders or device in seen):
                self._world.violated(ONCE, f"{'/'.join(device)} to {name}, held by {holders or name}")
            elif any(one.get("shareID") is None for _, one in others if _key(one) == device):
                self._world.violated(ONCE, f"a share of {'/'.join(device)} to {name}, held by {holders}")
            seen.add(device)
        for device in sorted(seen):
            self._check_capacity(name, device, [*mine, *(one for _, one in others)])
        for pool in sorted({device[:2] for device in seen}):
            self._check_counters(name, pool, {_key(one) for one in (*mine, *(one for _, one in others))})

    def _check_capacity(self, claim: str, device: DeviceKey, results: list[Json]) -> None:
        offered = self._offered.get(device, {}).get("capacity") or {}
        consumed: Counter[str] = Counter()
        for one in results:
            if _key(one) == device:
                for name, amount in (one.get("consumedCapacity") or {}).items():
                    consumed[name] += thousandths(amount)
        for name, amount in consumed.items():
            if name in offered and amount > thousandths(offered[name]["value"]):
                self._world.violated(CAPACITY, f"{name} of {'/'.join(device)}, the last taken by {claim}")

    def _check_counters(self, claim: str, pool: tuple[str, str], taken: set[DeviceKey]) -> None:
        """Devices of an earlier generation may draw differently, so pools with such are left out."""
        counter_set = self._counters.get(pool)
        if counter_set is None:
            return
        drawn: Counter[str] = Counter()
        for key in taken:
            if key[:2] != pool:
                continue
            device = self._offered.get(key)
            if device is None or device["generation"] != counter_set["generation"]:
                return
            for consumption in device.get("consumesCounters") or ():
                for name, counter in consumption["counters"].items():
                    drawn[name] += thousandths(counter["value"])
        for name, amount in drawn.items():
            if amount > thousandths(counter_set["counters"][name]["value"]):
                self._world.violated(COUNTERS, f"{name} of {'/'.join(pool)}, the last taken by {claim}")


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return results


def _key(result: Json) -> DeviceKey:
    return (result["driver"], result["pool"], result["device"])


class ReservationChecks:
    """Compares bindings with the claims of pods as they are stored when the binding takes effect.

    Those count that the pod had when its node was chosen. A claim that users replaced or deleted meanwhile is
    left out, and so is one that lost its allocation to somebody else's write.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._touched: set[str] = set()
        self._decided: dict[str, list[str]] = {}
        world.store.watch(RESOURCE_CLAIMS, self._claim_changed)

    def _claim_changed(self, change: Change) -> None:
        """Note the claims from which somebody takes an allocation or a reservation, or that are deleted."""
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
    """Whether the devices of a claim can be used on a node: those of runs name one node or none."""
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
    """Slices, classes and claims as a scheduler sees them, without what is in flight."""
    for view in devices.slices.all():
        yield view.slice
    yield from devices.classes.all()
    yield from devices.claims.all()


class DeviceFinalChecks:
    """Compares the claims an idle scheduler knows, and those that are stored, with the pods there are."""

    def __init__(self, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._devices = scheduler.context.cache.table.devices
        self._profiles = scheduler.context.profiles
        store = world.store
        self._claims = store.list(RESOURCE_CLAIMS).items
        self.objects: list[Object] = [
            *(typed(obj, ResourceSlice) for obj in store.list(RESOURCE_SLICES).items),
            *(typed(obj, DeviceClass) for obj in store.list(DEVICE_CLASSES).items),
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
        self._check_extended(by_uid)

    def _check_allocated(self) -> None:
        """What counts as taken is what stored claims have."""
        stored = Counter(
            _key(one) for claim in self._claims for one in _results(claim) if not one.get("adminAccess")
        )
        allocated = self._devices.claims.allocated
        known = Counter({**allocated.devices}) + Counter({**allocated.shared})
        if known != stored:
            wrong = sorted({*known, *stored} - {key for key in known if known[key] == stored[key]})
            self._world.violated("what is taken is what claims have", f"{wrong}")

    def _check_reservations(self, claim: Json, pods: dict[str, Pod]) -> None:
        """Every reservation is for a pod that is there, has a node and has not ended."""
        name = claim["metadata"]["name"]
        for uid in sorted(_reserved(claim)):
            pod = pods.get(uid)
            if pod is None or pod.is_finished:
                self._world.violated(LEFT_BEHIND, f"{name} for {uid}, which is gone or has ended")
            elif not pod.spec.node_name:
                self._world.violated(LEFT_BEHIND, f"{name} for {pod.key}, which has no node")

    def _check_owner(self, claim: Json, pods: dict[str, Pod]) -> None:
        """A claim that was made for a pod is there as long as the pod, and one being deleted goes."""
        metadata = claim["metadata"]
        owners = [one["uid"] for one in metadata.get("ownerReferences") or ()]
        if owners and not any(uid in pods for uid in owners):
            self._world.violated(LEAKED, f"{metadata['name']}: its pod is gone")
        if "deletionTimestamp" in metadata and not _reserved(claim):
            self._world.violated(LEAKED, f"{metadata['name']} is being deleted, nobody uses it")

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
