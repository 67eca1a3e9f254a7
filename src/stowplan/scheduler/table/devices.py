"""Devices as the scheduler sees them: slices, classes, claims, and which devices are taken by whom.

A claim is seen as the scheduler wrote it last until the API server tells of that version or a later one.
Allocations that are decided but not written yet are in flight; their devices count as taken.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    AllocationResult,
    Device,
    DeviceClass,
    DeviceID,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.scheduler.table.changes import ChangeLog

DEVICE_TYPES: Final = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)

PoolID = tuple[str, str]
"""Driver and name of a pool."""

Consumed = dict[str, Quantity]

_ANY_NODE: Final = ""
_MOST_CHANGES: Final = 65536
"""Number of slice changes that are remembered."""


class DeviceRef:
    """One device of a slice. `taints` are its own and those that rules add.

    `matches` caches the results of selectors for the device, by expression: True, False, or the error. `seen`
    is the device as a CEL object, created by the first evaluation.
    """

    __slots__ = ("device", "id", "matches", "seen", "slice", "taints")

    def __init__(self, slice: ResourceSlice, device: Device, taints: tuple[DeviceTaint, ...]) -> None:
        spec = slice.spec
        self.id: DeviceID = (spec.driver, spec.pool.name, device.name)
        self.device = device
        self.slice = slice
        self.taints = taints
        self.matches: dict[str, bool | Exception] = {}
        self.seen: object = None


class SliceView:
    """A slice and its devices, with the taints of rules."""

    __slots__ = ("devices", "has_groups", "slice")

    def __init__(self, slice: ResourceSlice, rules: "Mapping[str, DeviceTaintRule]") -> None:
        self.slice = slice
        self.has_groups = any(
            drawn.compatibility_groups for device in slice.spec.devices for drawn in device.consumes_counters
        )
        self.devices = [
            DeviceRef(slice, device, (*device.taints, *_given_taints(slice, device, rules)))
            for device in slice.spec.devices
        ]

    @property
    def pool(self) -> PoolID:
        return (self.slice.spec.driver, self.slice.spec.pool.name)


def _given_taints(
    slice: ResourceSlice, device: Device, rules: "Mapping[str, DeviceTaintRule]"
) -> Iterator[DeviceTaint]:
    """Taints of the rules that select a device. A rule without a selector selects nothing."""
    for rule in rules.values():
        selector = rule.spec.device_selector
        if (
            selector is not None
            and selector.driver in (None, slice.spec.driver)
            and selector.pool in (None, slice.spec.pool.name)
            and selector.device in (None, device.name)
        ):
            yield rule.spec.taint


class SliceChange(NamedTuple):
    """The pool of a slice that changed, and the node it is for, "" if it may concern any.

    Those of slices with counters concern the nodes that see devices of the pool.
    """

    pool: PoolID
    node: str
    is_counting: bool


class Slices:
    """All slices: by node for one node, those of several nodes, those with counters, and all by pool.

    Counters apply to any node with devices that draw from them.
    """

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}
        self._heeds_rules = True
        self._views: dict[str, SliceView] = {}
        self._of_node: dict[str, dict[str, SliceView]] = {}
        self._shared: dict[str, dict[str, SliceView]] = {}
        self._counting: dict[PoolID, dict[str, SliceView]] = {}
        self._counting_for: dict[str, dict[str, SliceView]] = {}
        self._of_pool: dict[PoolID, dict[str, SliceView]] = {}
        self._changes: list[SliceChange] = []
        self._forgotten = 0
        self.version = 0
        """Counts changes."""

    def __len__(self) -> int:
        return len(self._views)

    def put(self, slice: ResourceSlice) -> None:
        self._take_out(slice.name)
        view = self._views[slice.name] = SliceView(slice, self._rules if self._heeds_rules else {})
        for index, key in self._indexes(view):
            index.setdefault(key, {})[slice.name] = view
        self._changed(view)

    def remove(self, name: str) -> None:
        self._take_out(name)

    def put_rule(self, rule: DeviceTaintRule | None, name: str) -> None:
        """Take in a taint rule; None: it is gone."""
        if rule is None:
            self._rules.pop(name, None)
        else:
            self._rules[name] = rule
        if self._heeds_rules:
            self._put_again()

    def rules(self) -> Iterable[DeviceTaintRule]:
        return self._rules.values()

    def heed_rules(self, heeded: bool) -> None:
        """Set the effect of taint rules (gate DRADeviceTaintRules)."""
        if heeded != self._heeds_rules:
            self._heeds_rules = heeded
            if self._rules:
                self._put_again()

    def _put_again(self) -> None:
        for view in list(self._views.values()):
            self.put(view.slice)

    def _take_out(self, name: str) -> None:
        view = self._views.pop(name, None)
        if view is None:
            return
        for index, key in self._indexes(view):
            listed = index[key]
            del listed[name]
            if not listed:
                del index[key]
        self._changed(view)

    def _indexes(self, view: SliceView) -> Iterator[tuple[dict[Any, dict[str, SliceView]], Hashable]]:
        """Where a slice is listed, and under which key."""
        yield self._of_pool, view.pool
        if view.slice.spec.shared_counters:
            yield self._counting, view.pool
            yield self._counting_for, view.slice.spec.node_name or _ANY_NODE
        elif view.slice.spec.node_name:
            yield self._of_node, view.slice.spec.node_name
        else:
            yield self._shared, _ANY_NODE

    def _changed(self, view: SliceView) -> None:
        self.version += 1
        spec = view.slice.spec
        self._changes.append(SliceChange(view.pool, spec.node_name or _ANY_NODE, bool(spec.shared_counters)))
        if len(self._changes) > _MOST_CHANGES:
            half = len(self._changes) // 2
            del self._changes[:half]
            self._forgotten += half

    def since(self, version: int) -> list[SliceChange] | None:
        """Changes since a version; None if that is too long ago."""
        start = version - self._forgotten
        return None if start < 0 else self._changes[start:]

    def all(self) -> Iterator[SliceView]:
        yield from self._views.values()

    def for_node(self, node: str) -> Iterator[SliceView]:
        """The slices that may have devices for a node: its own, and all that are not for one node."""
        yield from self._of_node.get(node, {}).values()
        yield from self._shared.get(_ANY_NODE, {}).values()

    def counting(self, pool: PoolID) -> Iterator[SliceView]:
        """The slices with the counters of a pool."""
        yield from self._counting.get(pool, {}).values()

    def counting_for(self, node: str) -> Iterator[SliceView]:
        """The slices with counters that may be for a node."""
        yield from self._counting_for.get(node, {}).values()
        yield from self._counting_for.get(_ANY_NODE, {}).values()

    def counting_pools(self) -> Iterable[PoolID]:
        return self._counting.keys()

    def has_counters(self, pool: PoolID) -> bool:
        return pool in self._counting

    def of_pool(self, pool: PoolID) -> Iterator[SliceView]:
        yield from self._of_pool.get(pool, {}).values()


class AllocatedState:
    """Which devices are taken: as a whole, or in shares with the capacity they consume.

    Devices given with admin access do not count.
    """

    def __init__(self) -> None:
        self.devices: Counter[DeviceID] = Counter()
        self.shared: Counter[DeviceID] = Counter()
        self.capacity: dict[DeviceID, Consumed] = {}
        self.pool_versions: Counter[PoolID] = Counter()
        """A number for the devices of a pool that are taken, the same whenever the same ones are."""
        self.log = ChangeLog()
        """The numbers of the pools of which devices were taken, or are free again."""
        self._numbers: dict[PoolID, int] = {}
        self._pools: list[PoolID] = []

    def number_of(self, pool: PoolID) -> int:
        """Number that represents a pool in the log."""
        number = self._numbers.get(pool)
        if number is None:
            number = self._numbers[pool] = len(self._pools)
            self._pools.append(pool)
        return number

    def pool_of(self, number: int) -> PoolID:
        """The pool that a number in the log stands for."""
        return self._pools[number]

    def _touch(self, pool: PoolID, change: int) -> None:
        """Note that something of a pool was taken (its hash) or is free again (minus its hash)."""
        self.pool_versions[pool] += change
        self.log.append(self.number_of(pool))

    def is_allocated(self, device: DeviceID) -> bool:
        return device in self.devices or device in self.shared or device in self.capacity

    def add(self, allocation: AllocationResult) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            id = result.id
            if result.share_id is None:
                self.devices[id] += 1
                if self.devices[id] == 1:
                    self._touch(id[:2], hash(id))
                continue
            self._touch(id[:2], _hash_of_share(result))
            self.shared[id] += 1
            if result.consumed_capacity:
                add_consumed(self.capacity, id, _quantities(result.consumed_capacity))

    def remove(self, allocation: AllocationResult) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            id = result.id
            if result.share_id is None:
                _uncount(self.devices, id)
                if id not in self.devices:
                    self._touch(id[:2], -hash(id))
                continue
            self._touch(id[:2], -_hash_of_share(result))
            _uncount(self.shared, id)
            if result.consumed_capacity:
                remove_consumed(self.capacity, id, _quantities(result.consumed_capacity))


def _hash_of_share(result: DeviceRequestAllocationResult) -> int:
    consumed = result.consumed_capacity or {}
    return hash((result.id, tuple(sorted((name, str(amount)) for name, amount in consumed.items()))))


def _quantities(raw: Mapping[str, str | int | float]) -> Consumed:
    return {name: quantity_of(value) for name, value in raw.items()}


def _uncount(counter: Counter[DeviceID], key: DeviceID) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


def add_consumed(known: dict[DeviceID, Consumed], device: DeviceID, consumed: Consumed) -> None:
    """Add what is consumed of a device; a device is known from then on even if that is nothing."""
    totals = known.setdefault(device, {})
    for name, amount in consumed.items():
        totals[name] = totals[name].add(amount) if name in totals else amount


def remove_consumed(known: dict[DeviceID, Consumed], device: DeviceID, consumed: Consumed) -> None:
    """Take back what was consumed of a device; it is forgotten when nothing is left."""
    totals = known.get(device)
    if totals is None:
        return
    for name, amount in consumed.items():
        if name in totals:
            totals[name] = totals[name].sub(amount)
    if all(total.is_zero for total in totals.values()):
        del known[device]


class InFlight(NamedTuple):
    """An allocation that is decided and not written; `sharers` pods rely on it.

    `waiting` pods were rejected because of it. `searches` were begun before it was decided. It `counts` until
    it is written: from then on its devices count with the claim.
    """

    claim: ResourceClaim
    sharers: int
    waiting: dict[str, Pod]
    searches: int
    counts: bool = True


class Claims:
    """Claims by key, seen as the scheduler wrote them last, and the devices they hold."""

    def __init__(self) -> None:
        self._told: dict[str, ResourceClaim] = {}
        self._assumed: dict[str, ResourceClaim] = {}
        self._in_flight: dict[str, InFlight] = {}
        self._released: dict[str, Pod] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._made_for: dict[str, dict[str, None]] = {}
        """Claims for extended resources, by the pod that they belong to."""
        self.allocated = AllocatedState()
        self.version = 0
        self.searches = 0
        """Number of attempts that have looked for devices."""
        self.freed: Callable[[ResourceClaim], None] | None = None
        """Called when an allocation in flight ends without being written, if other attempts looked for
        devices meanwhile: no watch event reports that its devices are free again."""

    def __len__(self) -> int:
        return len(self._told)

    def get(self, key: str) -> ResourceClaim | None:
        return self._assumed.get(key) or self._told.get(key)

    def all(self) -> Iterator[ResourceClaim]:
        for key, claim in self._told.items():
            yield self._assumed.get(key, claim)

    def made_for(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that the scheduler made for the extended resources of a pod."""
        key = next(iter(self._made_for.get(pod_uid, ())), None)
        return None if key is None else self.get(key)

    def assumed(self) -> list[ResourceClaim]:
        return list(self._assumed.values())

    def in_flight(self) -> Mapping[str, InFlight]:
        return self._in_flight

    # State reported by the API server

    def put(self, claim: ResourceClaim) -> None:
        key = claim.key
        before = self.get(key)
        self._index(self._told.get(key), claim)
        self._told[key] = claim
        assumed = self._assumed.get(key)
        if assumed is not None and not is_older(claim, assumed):
            del self._assumed[key]
        self._changed(before, self.get(key))
        self._tell(key)

    def remove(self, claim: ResourceClaim) -> None:
        key = claim.key
        before = self.get(key)
        self._index(self._told.pop(key, None), None)
        self._assumed.pop(key, None)
        self._changed(before, None)
        self._tell(key)

    def _index(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        """Keep track of claims for extended resources."""
        owner = None if before is None else _owner_of_made(before)
        if before is not None and owner is not None:
            made = self._made_for[owner]
            made.pop(before.key, None)
            if not made:
                del self._made_for[owner]
        owner = None if now is None else _owner_of_made(now)
        if now is not None and owner is not None:
            self._made_for.setdefault(owner, {})[now.key] = None

    def _changed(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        self.version += 1
        old = None if before is None else before.allocation
        new = None if now is None else now.allocation
        if old is new or (old is not None and new is not None and old.devices == new.devices):
            return
        if new is not None:
            self.allocated.add(new)
        if old is not None:
            self.allocated.remove(old)

    # State assumed by the scheduler

    def assume(self, claim: ResourceClaim) -> bool:
        """See a claim as it was written, unless the API server has told of that version or a later one.

        False if it is not known (yet).
        """
        key = claim.key
        told = self._told.get(key)
        if told is None:
            return False
        if not is_older(told, claim):
            return True
        before = self.get(key)
        self._assumed[key] = claim
        self._changed(before, claim)
        return True

    def restore(self, key: str) -> None:
        """See a claim as the API server told of it."""
        before = self.get(key)
        if self._assumed.pop(key, None) is not None:
            self._changed(before, self.get(key))

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        found = self._in_flight.get(uid)
        return None if found is None else found.claim.allocation

    def signal_pending(self, claim: ResourceClaim) -> None:
        """An allocation is decided; the claim has it."""
        uid = claim.metadata.uid
        known = self._in_flight.get(uid)
        if known is not None:
            self._in_flight[uid] = known._replace(sharers=known.sharers + 1)
            return
        self._in_flight[uid] = InFlight(claim, 1, {}, self.searches)
        self.version += 1
        if claim.allocation is not None:
            self.allocated.add(claim.allocation)

    def remove_pending(self, uid: str, *, force: bool = False, tried: bool = False) -> bool:
        """A pod no longer relies on an allocation in flight; True if that was the last, or `force`.

        `tried`: it was only tried, for a pod of a group that is being placed.
        """
        known = self._in_flight.get(uid)
        if known is None:
            return False
        if known.sharers > 1 and not force:
            self._in_flight[uid] = known._replace(sharers=known.sharers - 1)
            return False
        del self._in_flight[uid]
        self.version += 1
        self._uncount(known)
        seen = self.get(known.claim.key)
        if seen is not None and seen.allocation is None:
            self._released.update(known.waiting)
        has_devices = seen is not None and seen.allocation is not None
        is_missed = known.counts and known.searches < self.searches and not (tried or has_devices)
        if self.freed is not None and is_missed:
            self.freed(known.claim)
        return True

    def await_pending(self, uid: str, pod: Pod) -> None:
        """Remember a pod that was rejected because a claim is in the process of being allocated."""
        known = self._in_flight.get(uid)
        if known is not None:
            known.waiting[pod.metadata.uid] = pod

    def take_released(self) -> list[Pod]:
        """Pods whose claim has no devices although it is no longer being allocated, each reported once.

        No watch event would requeue them if the claim was written and its devices were freed meanwhile.
        """
        released, self._released = self._released, {}
        return list(released.values())

    def settle(self, uid: str, key: str) -> None:
        """An allocation in flight was written to a claim; others still may not allocate that one."""
        known, seen = self._in_flight.get(uid), self.get(key)
        if known is not None and seen is not None and seen.allocation is not None:
            self._in_flight[uid] = known._replace(counts=False)
            self._uncount(known)

    def _uncount(self, known: InFlight) -> None:
        if known.counts and known.claim.allocation is not None:
            self.allocated.remove(known.claim.allocation)

    # Hypothetical state

    @contextmanager
    def seen_as(self, claims: Sequence[ResourceClaim]) -> Iterator[None]:
        """See claims in a hypothetical state for the duration of the block, without notifying anything."""
        before = [(claim.key, self._told.get(claim.key), self._assumed.get(claim.key)) for claim in claims]
        for claim in claims:
            seen = self.get(claim.key)
            self._assumed.pop(claim.key, None)
            self._told[claim.key] = claim
            self._changed(seen, claim)
        try:
            yield
        finally:
            for key, told, assumed in before:
                seen = self.get(key)
                _set(self._told, key, told)
                _set(self._assumed, key, assumed)
                self._changed(seen, self.get(key))

    # Waiting

    async def changed(self, keys: list[str]) -> None:
        """Wait until the API server tells of one of these claims."""
        future = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, []).append(future)
        try:
            await future
        finally:
            for key in keys:
                self._waiting[key].remove(future)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _tell(self, key: str) -> None:
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_result(None)


def _set(claims: dict[str, ResourceClaim], key: str, claim: ResourceClaim | None) -> None:
    if claim is None:
        claims.pop(key, None)
    else:
        claims[key] = claim


def _owner_of_made(claim: ResourceClaim) -> str | None:
    """The uid of the pod for whose extended resources the scheduler made a claim, None for other claims."""
    metadata = claim.metadata
    if metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return None
    return next((owner.uid for owner in metadata.owner_references if owner.controller), None)


def is_older(one: Object, other: Object) -> bool:
    """True if a version of an object precedes another."""
    try:
        return int(one.metadata.resource_version) < int(other.metadata.resource_version)
    except ValueError:
        return False


class Classes:
    """Device classes, and which one an extended resource means."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._by_resource: dict[str, DeviceClass] = {}
        self.resources: frozenset[str] = frozenset()
        """The extended resources that mean devices."""
        self.version = 0

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    def all(self) -> Iterator[DeviceClass]:
        yield from self._classes.values()

    def put(self, device_class: DeviceClass) -> None:
        self._classes[device_class.name] = device_class
        self._index()

    def remove(self, name: str) -> None:
        self._classes.pop(name, None)
        self._index()

    def for_resource(self, resource: str) -> DeviceClass | None:
        """The class that an extended resource means, None if it means none."""
        return self._by_resource.get(resource)

    def _index(self) -> None:
        """Of several classes with the same resource the youngest counts, then the first by name."""
        self.version += 1
        found: dict[str, DeviceClass] = {}
        for one in sorted(self._classes.values(), key=lambda one: one.name, reverse=True):
            for resource in one.resource_names:
                known = found.get(resource)
                if known is None or one.metadata.creation_timestamp >= known.metadata.creation_timestamp:
                    found[resource] = one
        self._by_resource = found
        self.resources = frozenset(found)


class Devices:
    """All state about devices. `version` changes with everything an allocation may depend on."""

    def __init__(self) -> None:
        self.slices = Slices()
        self.classes = Classes()
        self.claims = Claims()

    @property
    def version(self) -> int:
        return self.slices.version + self.classes.version + self.claims.version

    def sizes(self) -> dict[str, int]:
        return {
            "resource slices": len(self.slices),
            "device classes": len(self.classes),
            "resource claims": len(self.claims),
            "allocated devices": len(self.claims.allocated.devices) + len(self.claims.allocated.shared),
            "assumed resource claims": len(self.claims.assumed()),
            "allocations in flight": len(self.claims.in_flight()),
        }

    def put(self, obj: Object) -> None:
        match obj:
            case ResourceClaim():
                self.claims.put(obj)
            case ResourceSlice():
                self.slices.put(obj)
            case DeviceClass():
                self.classes.put(obj)
            case DeviceTaintRule():
                self.slices.put_rule(obj, obj.name)

    def remove(self, obj: Object) -> None:
        match obj:
            case ResourceClaim():
                self.claims.remove(obj)
            case ResourceSlice():
                self.slices.remove(obj.name)
            case DeviceClass():
                self.classes.remove(obj.name)
            case DeviceTaintRule():
                self.slices.put_rule(None, obj.name)


def with_allocation(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """A claim as it will be once an allocation is written."""
    return replace(claim, status=replace(claim.status, allocation=allocation))
