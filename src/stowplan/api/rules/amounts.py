"""Amounts of resources as people write them, and the patch that makes a pod ask for less."""

from collections.abc import Mapping
from typing import Any

from stowplan.api.pod import Container, Pod, ResourceList
from stowplan.api.quantity import milli_value_of, value_of

_CPU = "cpu"
_ALWAYS = "Always"
_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi")


def shown_amount(name: str, amount: int) -> str:
    """An amount for people, from what the scheduler counts: cpu in millicores, the rest in whole units."""
    if name == _CPU:
        return f"{amount}m" if amount % 1000 and amount < 10_000 else f"{amount / 1000:g}"
    return _bytes(amount) if _is_bytes(name) else str(amount)


def _is_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-")


def _bytes(amount: int) -> str:
    unit, size = "", 1
    for place, name in enumerate(_UNITS, 1):
        if abs(amount) < 1 << (10 * place):
            break
        unit, size = name, 1 << (10 * place)
    return f"{amount}" if not unit else f"{amount / size:.4g}{unit}"


def exact_amount(name: str, amount: int) -> str:
    """An amount as an object has it."""
    if name != _CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def round_amount(name: str, amount: int) -> int:
    """An amount rounded down to one that people would write: whole Mi, 100m of a larger number of cpu."""
    if name == _CPU:
        return amount if amount < 1000 else amount - amount % 100
    return amount - amount % (1 << 20) if _is_bytes(name) and amount >= 1 << 20 else amount


def smaller_requests(pod: Pod, totals: Mapping[str, int]) -> dict[str, Any] | None:
    """A strategic merge patch after which the pod requests these totals in all; None if it cannot.

    `totals` include the overhead of a RuntimeClass, which stays. Of every resource the largest container is
    reduced, and each init container that alone requests too much. Limits follow where they must be equal.
    """
    pod_level: dict[str, Any] = {}
    changes: dict[str, dict[str, Any]] = {}
    for name, total in totals.items():
        total -= _amount(name, pod.spec.overhead)
        if total <= 0:
            return None
        if pod.spec.resources is not None and name in pod.spec.resources.requests:
            pod_level.setdefault("requests", {})[name] = exact_amount(name, total)
            continue
        reduced = _reduced(pod, name, total)
        if reduced is None:
            return None
        for container, amount in reduced:
            _set(changes.setdefault(container.name, {}), container, name, exact_amount(name, amount))
    spec: dict[str, Any] = {"resources": pod_level} if pod_level else {}
    for field, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        chosen = [
            {"name": one.name, "resources": changes[one.name]} for one in containers if one.name in changes
        ]
        if chosen:
            spec[field] = chosen
    return {"spec": spec}


def _reduced(pod: Pod, name: str, total: int) -> list[tuple[Container, int]] | None:
    """The containers that request less of a resource then, with the new amounts."""
    sidecars = sum(_requested(name, one) for one in pod.spec.init_containers if one.restart_policy == _ALWAYS)
    found = []
    excess = sum(_requested(name, one) for one in pod.spec.containers) + sidecars - total
    if excess > 0:
        largest = max(pod.spec.containers, key=lambda one: _requested(name, one), default=None)
        if largest is None or _requested(name, largest) < excess:
            return None
        found.append((largest, _requested(name, largest) - excess))
    before = 0
    for one in pod.spec.init_containers:
        if one.restart_policy == _ALWAYS:
            before += _requested(name, one)
        elif _requested(name, one) > total - before:
            if total <= before:
                return None
            found.append((one, total - before))
    return found


def _set(resources: dict[str, Any], container: Container, name: str, amount: str) -> None:
    """Write an amount where it counts: as the request, the limit, or both if they have to be equal."""
    given = container.resources
    if name in given.requests or name not in given.limits or not _is_limited(name):
        resources.setdefault("requests", {})[name] = amount
    if name in given.limits and _is_limited(name):
        resources.setdefault("limits", {})[name] = amount


def _is_limited(name: str) -> bool:
    """True for resources whose request has to be equal to their limit."""
    return "/" in name or name.startswith("hugepages-")


def _requested(name: str, container: Container) -> int:
    """Request of a container; a limit without a request is one."""
    resources = container.resources
    return _amount(name, resources.requests if name in resources.requests else resources.limits)


def _amount(name: str, amounts: ResourceList) -> int:
    raw = amounts.get(name, 0)
    return milli_value_of(raw) if name == _CPU else value_of(raw)
