"""Runs with pod groups: they hold, and a scheduler that binds gangs in part or forgets them is noticed."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stowplan.lab.chaos import execute, plan_of
from stowplan.scheduler.plugins.pod_groups.gangscheduling import GangScheduling
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.table.pod_groups import PodGroups

SEEDS = (57, 13, 1)
"""Runs that show all of it."""


@pytest.mark.parametrize("seed", [13, 57])
def test_nothing_is_broken_in_runs_with_groups(seed: int) -> None:
    outcome = execute(plan_of(seed, groups=True))
    assert not outcome.findings


def test_a_pod_is_not_expected_where_its_devices_did_not_get_ready_in_time() -> None:
    """Nor may they be taken away: another scheduler has bound a pod with the same claim to another node."""
    plan = msgspec.structs.replace(plan_of(1015, groups=True), faulty_profiles=(), extenders=())
    assert execute(plan).findings == []


def test_some_runs_have_groups_and_leaders_change_in_them() -> None:
    plans = [plan_of(seed) for seed in range(40)]
    assert 0 < sum(plan.groups for plan in plans) < 40
    assert any(action.what == "change-leader" for plan in plans for action in plan.actions)


def _never_wait(patch: pytest.MonkeyPatch) -> None:
    """Members are bound one by one, and a placement is good if any member has a place in it."""
    patch.setattr(GangScheduling, "permit", lambda self, cycle, pod, node: None)
    patch.setattr(GangScheduling, "placement_feasible", lambda self, cycle, group, progress: None)


def _lose_failed_groups(patch: pytest.MonkeyPatch) -> None:
    """Groups that failed do not come back."""

    def drop(self: GroupSchedulingQueue, *anything: Any) -> None:
        self._last_popped = ""

    patch.setattr(GroupSchedulingQueue, "add_attempted_group", drop)


def _forget_members(patch: pytest.MonkeyPatch) -> None:
    """Members that are gone stay members."""
    patch.setattr(PodGroups, "remove_pod", lambda self, pod: None)


SABOTAGES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "gangs are bound in part": (_never_wait, "no gang begins to be bound before its minimum has nodes"),
    "failed groups are lost": (_lose_failed_groups, "no pod is lost"),
    "members are not forgotten": (_forget_members, "what is known of groups equals the store"),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_broken_handling_of_groups_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage, invariant = SABOTAGES[name]
    sabotage(monkeypatch)
    found: set[str] = set()
    for seed in SEEDS:
        found |= {finding.invariant for finding in execute(plan_of(seed, groups=True)).findings}
        if invariant in found:
            return
    pytest.fail(f"{invariant!r} was not found broken within {len(SEEDS)} seeds: {found}")
