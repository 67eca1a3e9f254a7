"""Every kind of claim against the slow allocator, and against a scheduler that keeps nothing from before."""

import pytest

from effort import examples
from stowplan.lab.fuzz.claims import compare_claims
from stowplan.scheduler.plugins.dynamicresources.allocation import constraints
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityRules


@pytest.mark.parametrize("seed", range(examples(30)))
def test_the_same_devices_are_found_as_by_trying_all_choices(seed: int) -> None:
    assert compare_claims(seed).differences == []


def _take_any(self: constraints.MatchAttribute, request: str, values: constraints.Values) -> bool:
    self._common.append(values)
    return True


MISTAKES: dict[str, tuple[object, str, object]] = {
    "policies of capacity": (CapacityRules, "_violates", lambda self, amount, policy: False),
    "rounding up": (CapacityRules, "_round_up", lambda self, amount, allowed: amount),
    "distinct values": (constraints, "_is_distinct", lambda values, others: True),
    "matching values": (constraints.MatchAttribute, "_take", _take_any),
    "capacity that is left": (CapacityRules, "fits", lambda self, *_: True),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    assert any(compare_claims(seed).differences for seed in range(60))
