"""The quality of service class of a pod."""

from typing import Any, Final

from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json

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
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for resources in given:
        asked, most = _positive(resources.get("requests")), _positive(resources.get("limits"))
        guaranteed = guaranteed and len(most) == len(_COMPUTE)
        _add(requests, asked)
        _add(limits, most)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _positive(amounts: Any) -> dict[str, Quantity]:
    found = {}
    for name in _COMPUTE:
        if amounts and name in amounts:
            try:
                amount = quantity_of(amounts[name])
            except (QuantityError, TypeError):
                continue
            if amount.sign > 0:
                found[name] = amount
    return found


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name].add(amount) if name in total else amount
