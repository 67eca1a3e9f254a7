"""Resources a pod takes on a node: requests and limits added up over its containers.

Regular containers run concurrently, so they add up. Init containers run one after the other before them, so
only the largest counts, together with the sidecars (restartable init containers) started before it. Requests
set on the pod as a whole replace that sum; overhead comes on top.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from stowplan.api.names import is_extended_resource
from stowplan.api.pod import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from stowplan.api.quantity import ZERO, Quantity, QuantityError, quantity_of
from stowplan.gocompat.caching import cached_by_text
from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"

DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024

_SMALL: Final = 1 << 50

Amounts = dict[str, Quantity]

_NON_ZERO_DEFAULTS: Final[Mapping[str, Quantity]] = MappingProxyType(
    {CPU: Quantity(DEFAULT_MILLI_CPU, -3), MEMORY: Quantity(DEFAULT_MEMORY)}
)
_NO_DEFAULTS: Final[Mapping[str, Quantity]] = MappingProxyType({})
_NO_STATUSES: Final[Mapping[str, ContainerStatus]] = MappingProxyType({})
_NO_SCALARS: Final[Mapping[str, int]] = MappingProxyType({})


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """A pod's requests as the scheduler counts them.

    The non-zero figures count 100m and 200Mi for each container that leaves cpu or memory open, so that
    such pods do not look free when nodes are scored.
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalars: Mapping[str, int] = _NO_SCALARS
    non_zero_milli_cpu: int = 0
    non_zero_memory: int = 0

    def amounts(self) -> dict[str, int]:
        """All requests by resource (cpu in millicores), without zeros."""
        core = {
            CPU: self.milli_cpu,
            MEMORY: self.memory,
            EPHEMERAL_STORAGE: self.ephemeral_storage,
            **self.scalars,
        }
        return {name: amount for name, amount in core.items() if amount}


@cached_by_text(4096)
def is_scalar(name: str) -> bool:
    """True if a resource other than cpu, memory and ephemeral storage is counted at all."""
    return is_extended(name) or is_hugepages(name) or is_prefixed_native(name) or is_attachable_volumes(name)


@cached_by_text(4096)
def is_extended(name: str) -> bool:
    """`domain/name` outside kubernetes.io and not written as a quota (`requests.`)."""
    return is_extended_resource(name)


def is_native(name: str) -> bool:
    """In the kubernetes.io domain, in which names without a domain are too."""
    return "/" not in name or is_prefixed_native(name)


def is_prefixed_native(name: str) -> bool:
    return "kubernetes.io/" in name


def is_hugepages(name: str) -> bool:
    return name.startswith("hugepages-")


def is_attachable_volumes(name: str) -> bool:
    return name.startswith("attachable-volumes-")


def is_pod_level(name: str) -> bool:
    """True if a request or limit of this resource may be set on the pod as a whole."""
    return name in (CPU, MEMORY) or is_hugepages(name)


ResizeAccounting = Literal["per-container", "per-view"]
"""How a pod counts that is being resized; releases differ (`releases.behaviour.Rules`)."""


def accounted_requests(
    pod: Pod, accounting: ResizeAccounting = "per-container", *, by_claims: bool = False
) -> PodRequests:
    """Resources a pod takes on its node, with resizes under way counted at the larger size.

    `by_claims`: including those it takes through claims according to its status.
    """
    return _count(pod, use_status=True, accounting=accounting, by_claims=by_claims)


def incoming_requests(pod: Pod, *, by_claims: bool = False) -> PodRequests:
    """Resources an incoming pod requests; its status has nothing yet except those of claims."""
    return _count(pod, use_status=False, by_claims=by_claims)


def requests_for_scoring(
    pod: Pod,
    resource_names: Sequence[str],
    *,
    non_zero: bool,
    pod_level: bool,
    accounting: ResizeAccounting = "per-container",
) -> tuple[int, ...]:
    """The incoming pod's requests as node scores see them (cpu in milli), one figure per resource.

    Fit scores fill gaps (`non_zero`) and see container requests only. Balanced allocation takes real
    requests and, with `pod_level`, those of the whole pod and of resizes under way.
    """
    defaults = _NON_ZERO_DEFAULTS if non_zero else _NO_DEFAULTS
    requests = pod_requests(
        pod, use_status=pod_level, pod_level=pod_level, defaults=defaults, accounting=accounting
    )
    return tuple(_figure(requests, name) for name in resource_names)


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = True,
    pod_level: bool = True,
    defaults: Mapping[str, Quantity] = _NO_DEFAULTS,
    accounting: ResizeAccounting = "per-container",
    by_claims: bool = False,
) -> Amounts:
    """A pod's total requests. `defaults` stand in for what a container does not mention.

    `by_claims`: with what its status says of resources that it takes through claims.
    """
    infeasible = use_status and resize_is_infeasible(pod)
    per_view = use_status and accounting == "per-view"
    if per_view:
        total = _largest_view(pod, defaults, infeasible)
    else:
        total = _sum_of_largest(pod, defaults, use_status, infeasible)
    if by_claims:
        for claim in pod.status.node_allocatable_resource_claim_statuses:
            _add(total, _amounts(claim.resources))
            for mapped in claim.mapping:
                _add(total, _amounts({mapped.name: mapped.quantity or 0}))
            for overhead in claim.overhead:
                for raw in (overhead.per_pod, *[overhead.per_container] * len(claim.containers)):
                    _add(total, _amounts({overhead.name: raw or 0}))
    if pod_level:
        total.update(_pod_level_requests(pod, use_status, infeasible, per_view))
    _add(total, _amounts(pod.spec.overhead))
    return total


def _sum_of_largest(
    pod: Pod, defaults: Mapping[str, Quantity], use_status: bool, infeasible: bool
) -> Amounts:
    """Of each container that is being resized the largest of spec, actuated and allocated counts."""

    def effective(container: Container, status: ContainerStatus | None) -> Amounts:
        spec = container.resources.requests
        amounts = _resized(spec, status, infeasible) if status else _amounts(spec)
        return {**defaults, **amounts} if defaults else amounts

    return _total(pod, effective, _given_statuses(pod) if use_status else _NO_STATUSES)


def _largest_view(pod: Pod, defaults: Mapping[str, Quantity], infeasible: bool) -> Amounts:
    """Three sums over the whole pod (spec, allocated, actuated), of which the largest counts."""
    statuses = _statuses(pod)

    def sum_of(view: Callable[[ContainerStatus], ResourceList | None] | None) -> Amounts:
        def effective(container: Container, status: ContainerStatus | None) -> Amounts:
            found = None if view is None or status is None else view(status)
            if found is None:
                found = {} if infeasible and view is not None else container.resources.requests
            amounts = _amounts(found)
            return {**defaults, **amounts} if defaults else amounts

        return _total(pod, effective, statuses, init_statuses=True)

    whole, given = pod.status.allocated_resources, pod.status.resources
    if whole is not None and given is not None and given.requests:
        views = [_amounts(whole), _amounts(given.requests)]
    else:
        views = [sum_of(_allocated), sum_of(_actuated)]
    return _largest(*views) if infeasible else _largest(sum_of(None), *views)


def _allocated(status: ContainerStatus) -> ResourceList | None:
    return status.allocated_resources


def _actuated(status: ContainerStatus) -> ResourceList | None:
    if status.resources is not None and status.resources.requests:
        return status.resources.requests
    return status.allocated_resources


def pod_limits(pod: Pod, *, use_status: bool = False, pod_level: bool = True) -> Amounts:
    """A pod's total limits. Overhead raises only limits that are set and not zero."""
    infeasible = use_status and resize_is_infeasible(pod)

    def effective(container: Container, status: ContainerStatus | None) -> Amounts:
        return _resized_limits(container.resources.limits, status.resources if status else None, infeasible)

    total = _total(pod, effective, _given_statuses(pod) if use_status else _NO_STATUSES)
    if pod_level and pod.spec.resources is not None:
        actual = pod.status.resources if use_status else None
        limits = _resized_limits(pod.spec.resources.limits, actual, infeasible)
        total.update(
            (name, limits.get(name, ZERO)) for name in pod.spec.resources.limits if is_pod_level(name)
        )
    for name, quantity in _amounts(pod.spec.overhead).items():
        limit = total.get(name)
        if limit is not None and not limit.is_zero:
            total[name] = limit.add(quantity)
    return total


def _count(
    pod: Pod, *, use_status: bool, accounting: ResizeAccounting = "per-container", by_claims: bool = False
) -> PodRequests:
    claimed = by_claims and pod.status.node_allocatable_resource_claim_statuses
    if not (use_status or claimed) and _is_one_container(pod):
        requests = _amounts(pod.spec.containers[0].resources.requests)
        filled = (
            requests
            if len(requests) > 1 and _NON_ZERO_DEFAULTS.keys() <= requests.keys()
            else {**_NON_ZERO_DEFAULTS, **requests}
        )
    else:
        count = partial(pod_requests, pod, use_status=use_status, accounting=accounting, by_claims=by_claims)
        requests = count()
        defaults = _missing_defaults(pod, requests)
        if use_status or not all(map(_mentions_all_of(defaults), _containers(pod))):
            filled = count(defaults=defaults)
        else:
            filled = requests
    return PodRequests(
        milli_cpu=_figure(requests, CPU),
        memory=_figure(requests, MEMORY),
        ephemeral_storage=_figure(requests, EPHEMERAL_STORAGE),
        scalars={name: _amount(quantity, 0) for name, quantity in requests.items() if is_scalar(name)},
        non_zero_milli_cpu=_figure(filled, CPU),
        non_zero_memory=_figure(filled, MEMORY),
    )


def _is_one_container(pod: Pod) -> bool:
    """True if a pod's requests are those of its only container, so that there is nothing to add up."""
    spec = pod.spec
    return not (
        len(spec.containers) != 1 or spec.init_containers or spec.overhead or spec.resources is not None
    )


def _containers(pod: Pod) -> Iterable[Container]:
    return (
        (*pod.spec.init_containers, *pod.spec.containers) if pod.spec.init_containers else pod.spec.containers
    )


def _mentions_all_of(names: Iterable[str]) -> Callable[[Container], bool]:
    """Returns a test if a container requests each resource, so that there is nothing to fill in."""

    def mentions(container: Container) -> bool:
        requests = container.resources.requests
        return all(name in requests for name in names)

    return mentions


def _missing_defaults(pod: Pod, requests: Amounts) -> Mapping[str, Quantity]:
    """The defaults to fill in: all of them, or with pod-level requests only for resources without a
    request."""
    resources = pod.spec.resources
    if resources is None or not any(map(is_pod_level, resources.requests)):
        return _NON_ZERO_DEFAULTS
    return {name: quantity for name, quantity in _NON_ZERO_DEFAULTS.items() if name not in requests}


def _figure(amounts: Amounts, name: str) -> int:
    quantity = amounts.get(name)
    if quantity is None:
        return 0
    return _amount(quantity, 3 if name == CPU else 0)


def _amount(quantity: Quantity, shift: int) -> int:
    """A quantity as a number of 64 bits, cpu in thousandths; the largest one if it is more.

    A sum of requests that wrapped around would be one that fits everywhere.
    """
    if not -_SMALL < quantity.mantissa < _SMALL or quantity.scale > 0:
        saturated = quantity.saturated(-shift)
        if saturated in (MAX_INT64, MIN_INT64):
            return saturated
    return quantity.milli_value() if shift else quantity.value()


def _total(
    pod: Pod,
    effective: Callable[[Container, ContainerStatus | None], Amounts],
    statuses: Mapping[str, ContainerStatus],
    *,
    init_statuses: bool = False,
) -> Amounts:
    """Add up containers: those that run together, or the largest moment before, whichever is more.

    Statuses of init containers that are no sidecars count only with `init_statuses`.
    """
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, effective(container, statuses.get(container.name)))
    if not pod.spec.init_containers:
        return total
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            amounts = effective(container, statuses.get(container.name))
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise(largest, sidecars)
        else:
            moment: Amounts = {}
            _add(moment, effective(container, statuses.get(container.name) if init_statuses else None))
            _add(moment, sidecars)
            _raise(largest, moment)
    _raise(total, largest)
    return total


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Statuses by container name."""
    status = pod.status
    everyone: Iterable[ContainerStatus] = (*status.init_container_statuses, *status.container_statuses)
    return {container.name: container for container in everyone}


def _given_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Statuses that say what a container was given, by container name."""
    return {name: one for name, one in _statuses(pod).items() if one.resources is not None}


def _pod_level_requests(pod: Pod, use_status: bool, infeasible: bool, per_view: bool = False) -> Amounts:
    """Requests of the pod as a whole: of what its spec names, `per_view` also of what its status names."""
    resources = pod.spec.resources
    if resources is None:
        return {}
    names = [name for name in resources.requests if is_pod_level(name)]
    amounts = _amounts(resources.requests)
    if use_status and pod.status.resources is not None:
        amounts = _largest(
            {} if infeasible else amounts,
            _amounts(pod.status.resources.requests),
            _amounts(pod.status.allocated_resources or {}),
        )
        if per_view and names:
            names = [name for name in amounts if is_pod_level(name)]
    return {name: amounts.get(name, ZERO) for name in names}


def resize_is_infeasible(pod: Pod) -> bool:
    """True if a pod runs and cannot be resized on its node."""
    return _pending_resize(pod) == "Infeasible"


def is_resize_deferred(pod: Pod) -> bool:
    """True if a pod runs and waits for room on its node to be resized."""
    return _pending_resize(pod) == "Deferred"


def _pending_resize(pod: Pod) -> str:
    """Why a resize has not been carried out; "" if none is pending."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason
    return ""


def _resized(spec: ResourceList, status: ContainerStatus, infeasible: bool) -> Amounts:
    """The most a container may have while it is resized; an infeasible resize does not count."""
    actual = status.resources.requests if status.resources else {}
    return _largest(
        {} if infeasible else _amounts(spec), _amounts(actual), _amounts(status.allocated_resources or {})
    )


def _resized_limits(spec: ResourceList, actual: ResourceRequirements | None, infeasible: bool) -> Amounts:
    if actual is None:
        return _amounts(spec)
    return _largest({} if infeasible else _amounts(spec), _amounts(actual.limits))


def _amounts(resources: ResourceList) -> Amounts:
    try:
        return {name: quantity_of(raw) for name, raw in resources.items()}
    except QuantityError:
        return {name: _named_quantity(name, raw) for name, raw in resources.items()}


def _named_quantity(name: str, raw: str | int | float) -> Quantity:
    try:
        return quantity_of(raw)
    except QuantityError as error:
        raise QuantityError(f"{name}: {raw!r}: {error}") from None


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, quantity in amounts.items():
        known = total.get(name)
        total[name] = quantity if known is None else known.add(quantity)


def _raise(least: Amounts, amounts: Amounts) -> None:
    """Raise each resource of `least` to that of `amounts` where the latter is more."""
    for name, quantity in amounts.items():
        known = least.get(name)
        if known is None:
            least[name] = quantity
        elif quantity.cmp(known) > 0:
            least[name] = quantity.as_wide() if known.wide else quantity


def _largest(first: Amounts, *others: Amounts) -> Amounts:
    largest = dict(first)
    for amounts in others:
        _raise(largest, amounts)
    return largest
