"""Validation of events, under the names they are stored with."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, invalid, required
from stowplan.api.requests import Json

_MISMATCH: Final = "does not match event.namespace"
_LIMITS: Final[Mapping[str, int]] = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}


def event_errors(obj: Json) -> list[FieldError]:
    """An event is kept where its object is; one that says its time also says who reports it, and why."""
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("regarding") or {}).get("namespace") or ""
    if not obj.get("eventTime"):
        is_right = about == namespace if about else namespace in ("", "default")
        return [] if is_right else [invalid("involvedObject.namespace", about, _MISMATCH)]
    errors = [*_new_event_errors(obj)]
    if not about and namespace not in ("default", "kube-system"):
        errors.insert(0, invalid("involvedObject.namespace", about, _MISMATCH))
    return errors


def _new_event_errors(obj: Json) -> Iterator[FieldError]:
    for field in ("reportingController", "reportingInstance", "action", "reason", "note"):
        value, limit = obj.get(field) or "", _LIMITS.get(field)
        if not value and field != "note":
            yield required(field)
        if limit is not None and len(value) > limit:
            shown = "message" if field == "note" else field
            yield invalid(shown, "", f"can have at most {limit} characters")


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {catalogue.EVENTS: event_errors}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {}
