"""A scheduler that is careless with devices does not get away with it."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from stowplan.lab.chaos import devicechecks, execute, plan_of
from stowplan.scheduler.plugins.dynamicresources import DynamicResources, binder
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityRules
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import DeviceChoice
from stowplan.scheduler.plugins.dynamicresources.reservations import Reservations
from stowplan.scheduler.table.devices import Claims

LOOKED_AT: Final = 20
SEEDS: Final = (112, 122, 242, 502, *range(100))
PLANS: Final = [plan for plan in map(plan_of, SEEDS) if plan.devices][:LOOKED_AT]

Break = Callable[[pytest.MonkeyPatch], None]


def _forget_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claims, "signal_pending", lambda self, claim: None)


def _keep_reservations(patch: pytest.MonkeyPatch) -> None:
    async def clear(self: Any, *args: Any) -> None:
        return None

    patch.setattr(Reservations, "_clear", clear)


def _take_lost_answers_for_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(binder, "_has_effect", lambda wanted, stored: False)


def _do_not_look_at_counters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeviceChoice, "_draw_counters", lambda self, ref: True)
    patch.setattr(DeviceChoice, "_change_counters", lambda self, ref, sign: None)


def _do_not_look_at_capacity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CapacityRules, "fits", lambda self, requests, capacities, taken, taking: True)


def _bind_without_claims(patch: pytest.MonkeyPatch) -> None:
    async def pre_bind(self: Any, cycle: Any, pod: Any, node: str) -> None:
        return None

    patch.setattr(DynamicResources, "pre_bind", pre_bind)


SABOTAGES: Final[dict[str, tuple[Break, str]]] = {
    "what is in flight is free for others": (_forget_what_is_in_flight, devicechecks.ONCE),
    "lost answers are taken for failures": (_take_lost_answers_for_failures, devicechecks.CAPACITY),
    "reservations are not taken back": (_keep_reservations, devicechecks.LEFT_BEHIND),
    "counters are not looked at": (_do_not_look_at_counters, devicechecks.COUNTERS),
    "capacity is not looked at": (_do_not_look_at_capacity, devicechecks.CAPACITY),
    "claims are not reserved": (_bind_without_claims, devicechecks.RESERVED_FIRST),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_carelessness_with_devices_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage, invariant = SABOTAGES[name]
    sabotage(monkeypatch)
    for plan in PLANS:
        if invariant in {finding.invariant for finding in execute(plan).findings}:
            return
    pytest.fail(f"{invariant!r} was not found broken within {len(PLANS)} seeds")
