"""Callbacks for deletions run once, and the rule for terminating pods."""

import pytest
from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.scheduler.framework.held_pods import AwaitedDeletions, HeldPods, is_going
from stowplan.testing import pod


def _terminating(grace: int | None) -> Pod:
    made = pod("p").obj()
    going = replace(
        made.metadata, deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=grace
    )
    return replace(made, metadata=going)


@pytest.mark.parametrize(
    ("known", "going"),
    [
        pytest.param(None, True, id="one that is gone"),
        pytest.param(pod("p").obj(), False, id="one that stays"),
        pytest.param(_terminating(30), True, id="one that has half a minute"),
        pytest.param(_terminating(None), True, id="one of which that is not told"),
        pytest.param(_terminating(0), False, id="one that has no time, and is gone in a moment"),
    ],
)
def test_a_pod_is_going(known: Pod | None, going: bool) -> None:
    assert is_going(known) is going


def test_a_deletion_is_told_once_and_to_nobody_who_no_longer_waits() -> None:
    told: list[str] = []
    deletions = AwaitedDeletions()
    first, second = (lambda: told.append("first")), (lambda: told.append("second"))
    deletions.add("d/p", first)
    deletions.add("d/p", second)
    deletions.remove("d/p", first)
    deletions.seen("d/other")
    assert told == []
    deletions.seen("d/p")
    deletions.seen("d/p")
    assert told == ["second"]
    assert not deletions


def test_those_let_go_are_told_from_a_position_on_until_they_are_forgotten() -> None:
    held = HeldPods()
    for number in range(5000):
        held.hold(str(number))
    start = held.position
    held.let_go("7")
    held.let_go("7")
    held.let_go("8")
    assert held.let_go_since(start) == ["7", "8"]
    assert held.let_go_since(held.position) == []
    for number in range(5000):
        held.let_go(str(number))
    assert held.let_go_since(start) is None
    assert not held
