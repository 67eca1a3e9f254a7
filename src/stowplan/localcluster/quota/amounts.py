"""Arithmetic on resource lists (`{"requests.cpu": "500m"}`), name by name."""

from collections.abc import Iterable, Mapping
from typing import Any

from stowplan.api.quantity import ZERO, Quantity, quantity_of

Amounts = dict[str, Quantity]


def amounts_of(written: Mapping[str, Any] | None) -> Amounts:
    """A resource list as it stands in an object."""
    return {name: quantity_of(raw) for name, raw in (written or {}).items()}


def as_text(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """A resource list as an object carries it."""
    return {name: str(amount) for name, amount in amounts.items()}


def printed(amounts: Mapping[str, Quantity]) -> str:
    """A resource list as messages show it: `pods=1,requests.cpu=5`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def plus(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total[name].add(amount) if name in total else amount
    return total


def increase(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Amounts:
    """Amounts added in `new`, zero where it has less."""
    result: Amounts = {}
    for name, amount in new.items():
        difference = amount.sub(old[name]) if name in old else amount
        result[name] = difference if difference > ZERO else ZERO
    return result


def only(amounts: Mapping[str, Quantity], names: Iterable[str]) -> Amounts:
    kept = set(names)
    return {name: amount for name, amount in amounts.items() if name in kept}


def exceeding(amounts: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> list[str]:
    """The names whose amount is above its limit."""
    return [name for name, amount in amounts.items() if name in limits and amount > limits[name]]
