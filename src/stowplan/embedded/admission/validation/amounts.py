"""Amounts of resources: readable, not negative, whole where they have to be, requests within limits."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, invalid, required
from stowplan.api.names import is_extended_resource, label_key_problems
from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
_REMEMBERED: Final = 40
_read = lru_cache(maxsize=4096)(quantity_of)


def read_amount(raw: Any) -> Quantity | None:
    """The amount, None if it is none."""
    try:
        return _read(raw) if len(str(raw)) <= _REMEMBERED else quantity_of(raw)
    except (QuantityError, TypeError):
        return None


def amount_errors(amounts: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    """What is wrong with a list of resources."""
    for name, raw in (amounts or {}).items():
        here = f"{path}[{name}]"
        if name not in _NATIVE:
            yield from (invalid(here, name, problem) for problem in label_key_problems(name))
        amount = read_amount(raw)
        if amount is None:
            yield invalid(
                here,
                str(raw),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )
        elif amount.sign < 0:
            yield invalid(here, str(amount), NOT_NEGATIVE)
        elif is_extended_resource(name) and amount.milli_value() % 1000:
            yield invalid(here, str(amount), "must be an integer")


def requirement_errors(resources: Json | None, path: str) -> Iterator[FieldError]:
    """What is wrong with the resources of a container."""
    if not resources:
        return
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    wrong = [*amount_errors(limits, f"{path}.limits"), *amount_errors(requests, f"{path}.requests")]
    yield from wrong
    if wrong:
        return
    for name, raw in requests.items():
        here = f"{path}.requests"
        asked, most = read_amount(raw), read_amount(limits[name]) if name in limits else None
        assert asked is not None
        whole = is_extended_resource(name)
        if most is None:
            if whole:
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif whole and asked != most:
            yield invalid(here, str(asked), f"must be equal to {name} limit of {most}")
        elif asked > most:
            yield invalid(here, str(asked), f"must be less than or equal to {name} limit of {most}")
