"""The quality of service class of a pod."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.gocompat.caching import LONGEST

_COMPUTE: Final = ("cpu", "memory")


def qos_class(spec: Json) -> str:
    """`Guaranteed`: every container limits cpu and memory and requests the same; `BestEffort`: none says
    anything of either; `Burstable` between them. Resources of the pod as a whole take the containers' place.
    """
    whole = spec.get("resources")
    if whole and (whole.get("requests") or whole.get("limits")):
        given = [whole]
    else:
        every = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        given = [container.get("resources") or {} for container in every]
    if not any(given):
        return "BestEffort"
    written = [amount for resources in given for amount in _written(resources)]
    if any(isinstance(amount, str) and len(amount) > LONGEST for amount in written):
        return _class_of.__wrapped__(*written)
    try:
        return _class_of(*written)
    except TypeError:
        return _class_of.__wrapped__(*written)


def _written(resources: Json) -> Iterator[Any]:
    """A container's requests for cpu and memory, then its limits, as written."""
    for part in ("requests", "limits"):
        amounts = resources.get(part)
        for name in _COMPUTE:
            yield amounts.get(name) if isinstance(amounts, dict) else None


@lru_cache(maxsize=1024, typed=True)
def _class_of(*written: Any) -> str:
    """The class for the amounts of all containers, four each. An unreadable amount counts as none."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for first in range(0, len(written), 4):
        asked, most = _positive(*written[first : first + 2]), _positive(*written[first + 2 : first + 4])
        guaranteed = guaranteed and len(most) == len(_COMPUTE)
        _add(requests, asked)
        _add(limits, most)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _positive(*written: Any) -> dict[str, Quantity]:
    found = {}
    for name, given in zip(_COMPUTE, written, strict=True):
        if given is None:
            continue
        try:
            amount = quantity_of(given)
        except (QuantityError, TypeError):
            continue
        if amount.sign > 0:
            found[name] = amount
    return found


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name].add(amount) if name in total else amount
