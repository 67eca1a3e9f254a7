"""Validation of `conditions` of the type that most kinds use."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from stowplan.api.fielderrors import FieldError, Kind, duplicate, invalid, not_supported, required
from stowplan.api.names import label_key_problems
from stowplan.api.requests import Json

Errors = Iterator[FieldError]

_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32768
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    "regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def conditions_errors(conditions: Sequence[Json], path: str) -> Errors:
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind = condition.get("type") or ""
        if kind in seen:
            yield duplicate(f"{path}[{i}].type", kind)
        seen.add(kind)
        yield from _condition_errors(condition, f"{path}[{i}]")


def _condition_errors(condition: Json, path: str) -> Errors:
    kind, status = condition.get("type") or "", condition.get("status") or ""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    yield from (invalid(f"{path}.type", kind, text) for text in label_key_problems(kind))
    if status not in _STATUSES:
        yield not_supported(f"{path}.status", status, _STATUSES)
    if (condition.get("observedGeneration") or 0) < 0:
        generation = condition["observedGeneration"]
        yield invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime")
    if not reason:
        yield required(f"{path}.reason")
    else:
        if not _REASON.fullmatch(reason):
            yield invalid(f"{path}.reason", reason, _REASON_TEXT)
        if len(reason) > _MAX_REASON:
            yield FieldError(f"{path}.reason", Kind.TOO_LONG, "", _too_long(_MAX_REASON))
    if len(message) > _MAX_MESSAGE:
        yield FieldError(f"{path}.message", Kind.TOO_LONG, "", _too_long(_MAX_MESSAGE))


def _too_long(most: int) -> str:
    return f"may not be more than {most} bytes"
