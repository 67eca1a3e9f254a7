"""Pools of devices as one node sees them: complete, being updated, or invalid."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from stowplan.api.devices import CounterSet, Device, ResourceSlice
from stowplan.api.node import Node
from stowplan.api.pod import NodeSelector
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.rules.nodeselector import CompiledNodeSelector, compile_node_selector
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import AllocatedState, DeviceRef, PoolID, Slices, SliceView


class PoolError(Exception):
    """A node selector that cannot be read."""


@dataclass(slots=True)
class Pool:
    """The devices of a pool that a node can use, and the counters they share.

    Nothing can be taken from a pool that is incomplete or invalid. `elsewhere` are its devices for other
    nodes, which draw from the same counters.
    """

    id: PoolID
    devices: list[DeviceRef] = field(default_factory=list)
    elsewhere: list[DeviceRef] = field(default_factory=list)
    counter_sets: dict[str, CounterSet] = field(default_factory=dict)
    is_incomplete: bool = False
    is_invalid: bool = False
    depends_on_node: bool = False
    """True if nodes that see the pool may still not be able to use all of its devices."""

    @property
    def text(self) -> str:
        return "/".join(self.id)


@lru_cache(maxsize=1024)
def compiled(selector: NodeSelector) -> CompiledNodeSelector:
    return compile_node_selector(selector)


def node_matches(node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """True if a slice or device is for a node. Raises PoolError."""
    if name:
        return node.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    found = compiled(selector)
    if found.parse_error is not None:
        raise PoolError(f"failed to parse node selector: {found.parse_error}")
    return found.matches(node.metadata.labels, node.name)


def device_matches(node: Node, device: Device) -> bool:
    """True if a device with its own node selection is for a node. Raises PoolError."""
    return node_matches(node, device.node_name, device.all_nodes, device.node_selector)


Built = dict[tuple[SliceView, ...], "Pool | None"]
"""Pools by the slices that a node sees of them: nodes that see the same have the same pool."""


def gather_pools(
    slices: Slices,
    node: Node,
    features: Features,
    problems: Mapping[PoolID, Pool] | None = None,
    built: Built | None = None,
) -> list[Pool]:
    """The pools with devices for a node, in the order they are tried. Raises PoolError.

    Of a pool the highest generation seen counts. Pools are ordered by driver and name, those that have
    devices with binding conditions after all others. Where counters are seen from everywhere, pools of which
    a node sees nothing else count only as far as there is a problem with them. `built` keeps pools from one
    node to the next, as long as no slice changes.
    """
    built = {} if built is None else built
    if problems is None:
        problems = problem_pools(slices, features, slices.counting_pools())
    newest = _newest_slices(slices, node, features)
    found: dict[PoolID, Pool] = {id: pool for id, pool in problems.items() if id not in newest}
    for id, views in newest.items():
        seen = tuple(views)
        if seen not in built:
            built[seen] = _pool(id, views, slices, features)
        pool = built[seen]
        if pool is not None:
            found[id] = pool
    pools: list[Pool] = []
    conditional: list[Pool] = []
    for _, pool in sorted(found.items()):
        binds = any(ref.device.binding_conditions for ref in pool.devices)
        (conditional if binds else pools).append(pool)
    return pools + conditional


def problem_pools(slices: Slices, features: Features, ids: Iterable[PoolID]) -> dict[PoolID, Pool]:
    """Of some pools those that are incomplete or invalid to a node that sees only their counters."""
    if not features.partitionable or not sees_counters_everywhere(features):
        return {}
    found: dict[PoolID, Pool] = {}
    for id in ids:
        newest: dict[PoolID, list[SliceView]] = {}
        for view in slices.counting(id):
            _add_newest(newest, view)
        pool = _pool(id, newest[id], slices, features) if newest else None
        if pool is not None and (pool.is_incomplete or pool.is_invalid):
            found[id] = pool
    return found


def _newest_slices(slices: Slices, node: Node, features: Features) -> dict[PoolID, list[SliceView]]:
    """The slices for a node by pool, of each pool those of the highest generation."""
    found: dict[PoolID, list[SliceView]] = {}
    for view in slices.for_node(node.name):
        if not features.partitionable and view.slice.spec.per_device_node_selection is not None:
            continue
        if view.has_groups and features.ignores_grouped_slices:
            continue
        if _is_relevant(view.slice, node):
            _add_newest(found, view)
    if not features.partitionable:
        return found
    if sees_counters_everywhere(features):
        counting = (view for id in list(found) for view in slices.counting(id))
    else:
        counting = (view for view in slices.counting_for(node.name) if _is_relevant(view.slice, node))
    for view in counting:
        _add_newest(found, view)
    return found


def sees_counters_everywhere(features: Features) -> bool:
    """True if slices with counters are read on every node, not only on those that they are for."""
    return features.choices.counter_slices == "every-node"


def _add_newest(found: dict[PoolID, list[SliceView]], view: SliceView) -> None:
    """Take in a slice, unless one of a higher generation is there."""
    known = found.get(view.pool)
    generation = view.slice.spec.pool.generation
    if known is None or generation > known[0].slice.spec.pool.generation:
        found[view.pool] = [view]
    elif generation == known[0].slice.spec.pool.generation:
        known.append(view)


def _is_relevant(slice: ResourceSlice, node: Node) -> bool:
    spec = slice.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return bool(spec.per_device_node_selection) and any(
        device_matches(node, device) for device in spec.devices
    )


def _pool(id: PoolID, views: list[SliceView], slices: Slices, features: Features) -> Pool | None:
    """A pool from the slices a node sees of it; None if a newer generation is on its way elsewhere."""
    first = views[0].slice.spec.pool
    others: list[SliceView] = []
    if len(views) != first.resource_slice_count:
        every = list(slices.of_pool(id))
        if any(view.slice.spec.pool.generation > first.generation for view in every):
            return None
        every = [
            view
            for view in every
            if view.slice.spec.pool.generation == first.generation
            and not (view.has_groups and features.ignores_grouped_slices)
        ]
        if len(every) != first.resource_slice_count:
            return Pool(id, is_incomplete=True)
        seen = {view.slice.name for view in views}
        others = [view for view in every if view.slice.name not in seen]
    return _built(id, sorted(views, key=lambda view: view.slice.name), others, features)


def _built(id: PoolID, views: list[SliceView], others: list[SliceView], features: Features) -> Pool:
    """A complete pool; invalid if names are not unique or counters are not known."""
    counting = [
        view for view in (*views, *others) if features.partitionable and view.slice.spec.shared_counters
    ]
    devices = [ref for view in views if view not in counting for ref in view.devices]
    if len({ref.device.name for ref in devices}) != len(devices):
        return Pool(id, is_invalid=True)
    depends = any(_depends_on_node(view.slice) for view in views)
    if not features.partitionable:
        return Pool(id, devices, depends_on_node=depends)
    sets = [counter_set for view in counting for counter_set in view.slice.spec.shared_counters]
    counter_sets = {counter_set.name: counter_set for counter_set in sets}
    elsewhere = [ref for view in others for ref in view.devices]
    drawing = [ref for view in views for ref in view.devices]
    if len(counter_sets) != len(sets) or not _counters_exist([*drawing, *elsewhere], counter_sets):
        return Pool(id, is_invalid=True)
    return Pool(id, devices, elsewhere, counter_sets, depends_on_node=depends)


def _depends_on_node(slice: ResourceSlice) -> bool:
    return bool(slice.spec.per_device_node_selection or slice.spec.skip_node_operations)


def _counters_exist(devices: Iterable[DeviceRef], counter_sets: dict[str, CounterSet]) -> bool:
    for ref in devices:
        for drawn in ref.device.consumes_counters:
            counter_set = counter_sets.get(drawn.counter_set)
            if counter_set is None or not drawn.counters.keys() <= counter_set.counters.keys():
                return False
    return True


def available_counters(pool: Pool, allocated: AllocatedState) -> dict[str, dict[str, Quantity]]:
    """Remaining counters of a pool; below zero where more was taken than there is."""
    found = {
        name: {key: quantity_of(counter.value) for key, counter in counter_set.counters.items()}
        for name, counter_set in pool.counter_sets.items()
    }
    for ref in (*pool.devices, *pool.elsewhere):
        if ref.device.consumes_counters and allocated.is_allocated(ref.id):
            for drawn in ref.device.consumes_counters:
                left = found.get(drawn.counter_set, {})
                for key, counter in drawn.counters.items():
                    if key in left:
                        left[key] = left[key].sub(quantity_of(counter.value))
    return found
