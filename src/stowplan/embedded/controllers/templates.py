"""Pods and other objects made from templates, and short names for what they were made from."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.controllers.informers import namespace_of
from stowplan.embedded.controllers.objects import controller_reference, name_of

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters that make no words."""

_LONGEST_PREFIX: Final = 57


def pod_from(
    template: Json,
    resource: Resource,
    owner: Json,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """A pod of a template that `owner` controls; without a name it gets one that begins with its owner's."""
    given = template.get("metadata") or {}
    metadata: Json = {
        "namespace": namespace_of(owner),
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "annotations": {**(given.get("annotations") or {}), **(annotations or {})},
        "ownerReferences": [controller_reference(resource, owner)],
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{name_of(owner)[:_LONGEST_PREFIX]}-"
    held = [*(given.get("finalizers") or ()), *finalizers]
    if held:
        metadata["finalizers"] = held
    return {"metadata": metadata, "spec": {**(template.get("spec") or {}), **(spec or {})}}


def short_hash(data: Any, salt: int = 0) -> str:
    """A short name for some data, the same for equal data whatever the order of its maps."""
    text = msgspec.json.encode(data, order="deterministic") + str(salt).encode() * bool(salt)
    found = 2166136261
    for byte in text:
        found = ((found ^ byte) * 16777619) & 0xFFFFFFFF
    return "".join(_LETTERS[int(digit) % len(_LETTERS)] for digit in str(found))


def share(value: Any, total: int, default: str | int, *, round_up: bool) -> int:
    """A number, or a percentage of a total: `25%`."""
    if value is None:
        value = default
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("%")
    percent = int(text) if text.isdigit() else 0
    exact = percent * total
    return -(-exact // 100) if round_up else exact // 100
