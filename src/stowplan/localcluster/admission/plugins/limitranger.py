"""LimitRanger: defaults for the requests and limits of containers, and bounds of what may be asked for."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from stowplan.api.fielderrors import aggregate
from stowplan.api.pod import Pod
from stowplan.api.quantity import ZERO, Quantity, quantity_of
from stowplan.api.requests import Json
from stowplan.api.rules.resources import pod_limits, pod_requests
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.store.registry import Lookup

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI: Final = MAX_INT64 // 1000
_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))
Written = Mapping[str, Any]


def set_default_resources(lookup: Lookup, pod: Json) -> None:
    """Set missing resources of containers, and annotate the pod with the changes."""
    for limit_range in lookup.within(LIMIT_RANGES, pod["metadata"]["namespace"]):
        notes = [*_fill_in(limit_range, pod["spec"])]
        if notes:
            annotations = pod["metadata"]["annotations"] = dict(pod["metadata"].get("annotations") or {})
            annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _fill_in(limit_range: Json, spec: Json) -> Iterator[str]:
    """Containers may be shared with other pods of a template, so they are replaced, not changed."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for item in _limits(limit_range, "Container"):
        requests.update(item.get("defaultRequest") or {})
        limits.update(item.get("default") or {})
    for field, label in _CONTAINERS:
        containers: list[Json] = []
        for container in spec.get(field) or ():
            resources = dict(container.get("resources") or {})
            containers.append({**container, "resources": resources})
            for part, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
                added = {
                    name: amount
                    for name, amount in defaults.items()
                    if name not in (resources.get(part) or {})
                }
                if added:
                    resources[part] = {**(resources.get(part) or {}), **added}
                    yield f"{', '.join(sorted(added))} {word} for {label} {container.get('name', '')}"
        if containers:
            spec[field] = containers


def check_limits(lookup: Lookup, resource: Resource, obj: Json) -> None:
    """Raises `ApiError` 403 if a pod or claim asks for too little or too much."""
    rules = _pod_problems if resource == PODS else _claim_problems
    for limit_range in lookup.within(LIMIT_RANGES, obj["metadata"]["namespace"]):
        problems = [*rules(limit_range, obj)]
        if problems:
            raise forbidden(resource, obj["metadata"]["name"], aggregate(problems))


def check_pod_limits(lookup: Lookup, pod: Json) -> None:
    check_limits(lookup, PODS, pod)


def check_claim_limits(lookup: Lookup, claim: Json) -> None:
    check_limits(lookup, PERSISTENT_VOLUME_CLAIMS, claim)


def check_claim_update(lookup: Lookup, old: Json, new: Json) -> None:
    if "deletionTimestamp" not in old["metadata"]:
        check_claim_limits(lookup, new)


def _limits(limit_range: Json, kind: str) -> Iterator[Json]:
    return (item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == kind)


def _pod_problems(limit_range: Json, pod: Json) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for field, _ in _CONTAINERS:
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    yield from _problems(item, resources.get("requests") or {}, resources.get("limits") or {})
        elif item.get("type") == "Pod":
            typed = msgspec.convert({**pod, "spec": {**spec, "overhead": {}}}, Pod, strict=False)
            yield from _problems(item, pod_requests(typed, use_status=False), pod_limits(typed))


def _claim_problems(limit_range: Json, claim: Json) -> Iterator[str]:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for item in _limits(limit_range, "PersistentVolumeClaim"):
        for name, least in (item.get("min") or {}).items():
            yield from _below(item, name, least, requests, {})
        for name, most in (item.get("max") or {}).items():
            text = f"maximum {name} usage per {item['type']} is {_amount(most)}"
            if name not in requests:
                yield f"{text}.  No request is specified"
            elif _amount(requests[name]) > _amount(most):
                yield f"{text}, but request is {_amount(requests[name])}"


def _problems(item: Json, requests: Written, limits: Written) -> Iterator[str]:
    for name, least in (item.get("min") or {}).items():
        yield from _below(item, name, least, requests, limits)
    for name, most in (item.get("max") or {}).items():
        yield from _above(item, name, most, requests, limits)
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        yield from _too_far(item, name, ratio, requests, limits)


def _below(item: Json, name: str, least: Any, requests: Written, limits: Written) -> Iterator[str]:
    text = f"minimum {name} usage per {item['type']} is {_amount(least)}"
    if name not in requests:
        yield f"{text}.  No request is specified"
    elif _amount(requests[name]) < _amount(least):
        yield f"{text}, but request is {_amount(requests[name])}"
    elif name in limits and _amount(limits[name]) < _amount(least):
        yield f"{text}, but limit is {_amount(limits[name])}"


def _above(item: Json, name: str, most: Any, requests: Written, limits: Written) -> Iterator[str]:
    text = f"maximum {name} usage per {item['type']} is {_amount(most)}"
    if name not in limits:
        yield f"{text}.  No limit is specified"
    elif _amount(limits[name]) > _amount(most):
        yield f"{text}, but limit is {_amount(limits[name])}"
    elif name in requests and _amount(requests[name]) > _amount(most):
        yield f"{text}, but request is {_amount(requests[name])}"


def _too_far(item: Json, name: str, ratio: Any, requests: Written, limits: Written) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {item['type']} is {_amount(ratio)}, but"
    request, limit = _amount(requests.get(name, ZERO)), _amount(limits.get(name, ZERO))
    if request.is_zero:
        yield f"{text} no request is specified or request is 0"
    elif limit.is_zero:
        yield f"{text} no limit is specified or limit is 0"
    else:
        precise = request.value() <= _MAX_MILLI and limit.value() <= _MAX_MILLI
        lim, req = (
            (limit.milli_value(), request.milli_value()) if precise else (limit.value(), request.value())
        )
        if lim / req > _amount(ratio).milli_value() / 1000:
            yield f"{text} provided ratio is {lim / req:.6f}"


def _amount(written: Any) -> Quantity:
    return written if isinstance(written, Quantity) else quantity_of(written)
