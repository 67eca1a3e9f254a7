"""Allocation results: what a search found, in the form in which it is written to the status of claims."""

from collections.abc import Iterator, Sequence
from random import Random
from uuid import UUID

from msgspec.structs import replace

from stowplan.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from stowplan.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.rules.nodeselector import NODE_NAME_FIELD
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Found
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError, Chosen
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Wanted
from stowplan.scheduler.plugins.dynamicresources.features import Features

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_result(
    claim: ResourceClaim, found: Found, node: str, features: Features, rng: Random
) -> AllocationResult:
    """Allocation result to write for one claim. Raises AllocationError."""
    devices = DeviceAllocationResult(
        results=tuple(_result(chosen, features, rng) for chosen in found.devices),
        config=_config(claim, found.wanted, features),
    )
    return AllocationResult(devices=devices, node_selector=_node_selector(claim, found.devices, node))


def _result(chosen: Chosen, features: Features, rng: Random) -> DeviceRequestAllocationResult:
    request, device = chosen.request, chosen.ref.device
    driver, pool, name = chosen.ref.id
    conditions = device.binding_conditions if features.binding_conditions else ()
    failures = device.binding_failure_conditions if features.binding_conditions else ()
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if request.admin else None,
        tolerations=request.tolerations,
        binding_conditions=conditions,
        binding_failure_conditions=failures,
        share_id=str(UUID(int=rng.getrandbits(128), version=4)) if chosen.is_share else None,
        consumed_capacity={name: str(amount) for name, amount in chosen.consumed.items()},
        skip_node_operations=(
            chosen.ref.slice.spec.skip_node_operations if features.heeds_skipped_operations else ()
        ),
    )


def _config(
    claim: ResourceClaim, wanted: Sequence[Wanted], features: Features
) -> tuple[DeviceAllocationConfiguration, ...]:
    found = (*_class_config(wanted), *_claim_config(claim, wanted))
    return found if features.choices.config_requests == "listed" else tuple(_shortened(found, wanted))


def _class_config(wanted: Sequence[Wanted]) -> list[DeviceAllocationConfiguration]:
    """The configuration of the classes, each class once, with all requests that are for it."""
    requests: dict[str, list[str]] = {}
    classes = {one.device_class.name: one.device_class for one in wanted}
    for one in wanted:
        requests.setdefault(one.device_class.name, []).append(one.request.full_name)
    return [
        DeviceAllocationConfiguration(source=FROM_CLASS, requests=tuple(names), opaque=config.opaque)
        for name, names in requests.items()
        for config in classes[name].spec.config
    ]


def _claim_config(claim: ResourceClaim, wanted: Sequence[Wanted]) -> list[DeviceAllocationConfiguration]:
    """The configuration of the claim, for each request it is about; without requests it is about all."""
    found: list[DeviceAllocationConfiguration] = []
    for config in claim.spec.devices.config:
        entry = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            found.append(entry)
            continue
        found += [entry for one in wanted if _is_about(entry, one)]
    return found


def _is_about(config: DeviceAllocationConfiguration, wanted: Wanted) -> bool:
    request = wanted.request
    return (request.parent or request.name) in config.requests or request.full_name in config.requests


def _shortened(
    configs: Sequence[DeviceAllocationConfiguration], wanted: Sequence[Wanted]
) -> Iterator[DeviceAllocationConfiguration]:
    """Each configuration once, without requests if it is about all of them, which means the same."""
    before: DeviceAllocationConfiguration | None = None
    for config in configs:
        if config is not before:
            before = config
            yield replace(config, requests=()) if all(_is_about(config, one) for one in wanted) else config


def _node_selector(claim: ResourceClaim, devices: Sequence[Chosen], node: str) -> NodeSelector | None:
    """The nodes where all devices can be used, None if that is everywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for chosen in devices:
        device, spec = chosen.ref.device, chosen.ref.slice.spec
        local, selector = spec.node_name, spec.node_selector
        if spec.per_device_node_selection:
            local, selector = device.node_name, device.node_selector
        if local is not None or device.binds_to_node:
            only = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        if selector is None or not selector.node_selector_terms:
            continue
        if len(selector.node_selector_terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.name}: unsupported ResourceSlice.NodeSelector with "
                f"{len(selector.node_selector_terms)} terms"
            )
        term = selector.node_selector_terms[0]
        _add_new(fields, term.match_fields)
        _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for one in more:
        if not any(_is_same(one, other) for other in known):
            known.append(one)


def _is_same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
