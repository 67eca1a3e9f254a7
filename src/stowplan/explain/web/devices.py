"""Devices of nodes: their number by driver for the map, and each with its holder for one node."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from stowplan.api.devices import DeviceID, ResourceClaim
from stowplan.api.quantity import ZERO, Quantity, quantity_of
from stowplan.explain.document.cluster import CounterOnNode, DeviceOnNode
from stowplan.explain.web.turns import in_turns
from stowplan.scheduler.table.devices import DeviceRef
from stowplan.scheduler.table.table import ClusterTable

PREFIX: Final = "devices of "
"""Name of a driver's column among the resources of nodes."""
MOST: Final = 256
"""Devices of one node that are listed."""

Counts = Mapping[str, Mapping[str, tuple[int, int]]]
"""By driver and node: the number of devices, and how many of them are taken."""


class DeviceCounts:
    """Counts of devices by driver and node, made again when slices or allocations have changed."""

    def __init__(self) -> None:
        self._table: ClusterTable | None = None
        self._version = -1
        self._counts: Counts = {}

    def of(self, table: ClusterTable) -> Counts:
        devices = table.devices
        version = devices.slices.version + devices.claims.allocated.log.position
        if table is not self._table or version != self._version:
            self._table, self._version, self._counts = table, version, device_counts(table)
        return self._counts


def device_counts(table: ClusterTable) -> Counts:
    """The counts of the devices that belong to one node each."""
    is_allocated = table.devices.claims.allocated.is_allocated
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for view in table.devices.slices.all():
        node = view.slice.spec.node_name
        if not node or not view.devices:
            continue
        nodes = found.setdefault(f"{PREFIX}{view.slice.spec.driver}", {})
        total, taken = nodes.get(node, (0, 0))
        taken += sum(is_allocated(one.id) for one in view.devices)
        nodes[node] = (total + len(view.devices), taken)
    return found


async def devices_on(
    table: ClusterTable, node: str, visible: Collection[str]
) -> tuple[tuple[DeviceOnNode, ...], int]:
    """The devices of a node with their holders, and their number; hidden claims have no name."""
    slices = (view for view in table.devices.slices.for_node(node) if view.slice.spec.node_name == node)
    devices = [ref for view in slices for ref in view.devices]
    if not devices:
        return (), 0
    wanted = {ref.id for ref in devices[:MOST]}
    holders: dict[DeviceID, ResourceClaim] = {}
    async for claims in in_turns(list(table.devices.claims.all())):
        for claim in claims:
            holders.update((id, claim) for id in _allocated(claim) if id in wanted)
    is_allocated = table.devices.claims.allocated.is_allocated
    return tuple(
        _device(ref, holders.get(ref.id), is_allocated(ref.id), visible) for ref in devices[:MOST]
    ), len(devices)


def counters_on(table: ClusterTable, node: str) -> tuple[CounterOnNode, ...]:
    """The counters of the pools of a node, with what its taken devices draw from them."""
    slices, is_allocated = table.devices.slices, table.devices.claims.allocated.is_allocated
    found: list[CounterOnNode] = []
    for view in slices.counting_for(node):
        spec = view.slice.spec
        if spec.node_name != node:
            continue
        drawn: dict[tuple[str, str], Quantity] = {}
        taken = (ref for one in slices.of_pool(view.pool) for ref in one.devices if is_allocated(ref.id))
        for drawing in (drawing for ref in taken for drawing in ref.device.consumes_counters):
            for name, counter in drawing.counters.items():
                key = (drawing.counter_set, name)
                drawn[key] = drawn.get(key, ZERO).add(quantity_of(counter.value))
        for counters in spec.shared_counters:
            for name, counter in counters.counters.items():
                total, used = quantity_of(counter.value), drawn.get((counters.name, name), ZERO)
                share = used.approximate_float() / max(total.approximate_float(), 1e-9)
                shown = (str(total), str(used))
                found.append(CounterOnNode(counters.name, name, *shown, round(share, 4)))
    return tuple(found[:MOST])


def _allocated(claim: ResourceClaim) -> Iterator[DeviceID]:
    allocation = claim.status.allocation
    return iter(()) if allocation is None else (one.id for one in allocation.devices.results)


def _device(
    ref: DeviceRef, claim: ResourceClaim | None, taken: bool, visible: Collection[str]
) -> DeviceOnNode:
    driver, pool, name = ref.id
    named = claim is not None and claim.namespace in visible
    pods = () if claim is None or not named else claim.status.reserved_for
    return DeviceOnNode(
        name=name,
        driver=driver,
        pool=pool,
        taken=taken,
        claim=claim.key if claim is not None and named else "",
        pods=tuple(f"{claim.namespace}/{one.name}" for one in pods if claim is not None),
        taints=tuple(f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in ref.taints),
        counters=tuple(drawn.counter_set for drawn in ref.device.consumes_counters),
    )
