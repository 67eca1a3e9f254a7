"""Amounts of resources as people write them, and the patch that makes a pod ask for less."""

from collections.abc import Mapping
from typing import Any

from stowplan.api.pod import Container, Pod, ResourceList
from stowplan.api.quantity import milli_value_of, value_of

_CPU = "cpu"
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


def smaller_requests(pod: Pod, by: Mapping[str, int]) -> dict[str, Any] | None:
    """A strategic merge patch after which the pod requests so much less; None if no single request is enough.

    Of every resource the largest request is reduced. Limits of extended resources follow, as they have to.
    """
    pod_level: dict[str, Any] = {}
    containers: dict[str, dict[str, Any]] = {}
    for name, amount in by.items():
        if pod.spec.resources is not None and name in pod.spec.resources.requests:
            left = _amount(name, pod.spec.resources.requests) - amount
            pod_level.setdefault("requests", {})[name] = exact_amount(name, left)
            continue
        largest = max(pod.spec.containers, key=lambda one: _requested(name, one), default=None)
        if largest is None or _requested(name, largest) < amount:
            return None
        resources = containers.setdefault(largest.name, {})
        left_over = exact_amount(name, _requested(name, largest) - amount)
        if name in largest.resources.requests or name not in largest.resources.limits:
            resources.setdefault("requests", {})[name] = left_over
        if name in largest.resources.limits and "/" in name:
            resources.setdefault("limits", {})[name] = left_over
        elif name not in largest.resources.requests:
            resources.setdefault("requests", {})[name] = left_over
    spec: dict[str, Any] = {"resources": pod_level} if pod_level else {}
    if containers:
        spec["containers"] = [{"name": name, "resources": change} for name, change in containers.items()]
    return {"spec": spec}


def _requested(name: str, container: Container) -> int:
    """Request of a container; a limit without a request is one."""
    resources = container.resources
    return _amount(name, resources.requests if name in resources.requests else resources.limits)


def _amount(name: str, amounts: ResourceList) -> int:
    raw = amounts.get(name, 0)
    return milli_value_of(raw) if name == _CPU else value_of(raw)
