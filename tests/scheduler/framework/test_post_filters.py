"""Asking PostFilter plugins in order: who ends the round, whose words are kept."""

import re
from typing import Any

import pytest

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import run_post_filters
from stowplan.scheduler.framework.interface import Handle, Plugin, PostFilterResult
from stowplan.scheduler.framework.status import (
    SUCCESS,
    PluginError,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import pod


class Answering(Plugin):
    """Gives the answer it was made with, or raises it."""

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Any:
        if isinstance(self.args, Exception):
            raise self.args
        return self.args


class First(Answering):
    """Asked first."""


class Second(Answering):
    """Asked second."""


def asked(first: Any, second: Any) -> PostFilterResult:
    table = ClusterTable()
    handle = Handle(table, FeatureGates())
    info = table.info(pod("p").obj())
    return run_post_filters([First(first, handle), Second(second, handle)], Cycle(table, info, {}), info)


VICTIM = pod("victim").obj()
NEVER = unresolvable("never asked")

ROUNDS = [
    (unschedulable("a"), unschedulable("b"), PostFilterResult(unschedulable("a", "b").by("First"))),
    (SUCCESS, NEVER, PostFilterResult(SUCCESS)),
    (unschedulable("a"), SUCCESS, PostFilterResult(SUCCESS)),
    (unresolvable("a"), NEVER, PostFilterResult(unresolvable("a").by("First"))),
    (unschedulable("a"), unresolvable("b"), PostFilterResult(unresolvable("b").by("Second"))),
    (error("a"), NEVER, PostFilterResult(error("a").by("First"))),
    (unschedulable("a"), error("b", "c"), PostFilterResult(error("b, c").by("Second"))),
    (
        PostFilterResult(unschedulable("a"), ""),
        unschedulable("b"),
        PostFilterResult(unschedulable("a", "b").by("First"), ""),
    ),
    (
        PostFilterResult(unschedulable("a"), "n"),
        PostFilterResult(unschedulable("b"), ""),
        PostFilterResult(unschedulable("a", "b").by("First"), ""),
    ),
    (
        PostFilterResult(unschedulable("a"), ""),
        PostFilterResult(SUCCESS, "n", (VICTIM,)),
        PostFilterResult(SUCCESS, "n", (VICTIM,)),
    ),
    (
        PostFilterResult(unschedulable("a"), ""),
        PostFilterResult(error("b"), "n"),
        PostFilterResult(error("b").by("Second")),
    ),
]


@pytest.mark.parametrize(("first", "second", "result"), ROUNDS)
def test_success_failure_and_hopelessness_end_the_round_and_other_reasons_add_up(
    first: Any, second: Any, result: PostFilterResult
) -> None:
    assert asked(first, second) == result


def test_the_message_is_all_reasons_one_after_the_other() -> None:
    assert asked(unschedulable("a", "b"), unschedulable("c")).status.message == "a, b, c"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (OSError("disk on fire"), 'running PostFilter plugin "First": OSError: disk on fire'),
        (
            None,
            'running PostFilter plugin "First": expected a Status or a PostFilterResult, got NoneType',
        ),
    ],
)
def test_a_plugin_that_raises_or_answers_nonsense_fails_this_attempt_alone(
    answer: Any, complaint: str
) -> None:
    with pytest.raises(PluginError) as raised:
        asked(answer, Status(SUCCESS.code))
    assert re.sub(r" \(\w+\.py:\d+\)$", "", raised.value.message) == complaint
    assert raised.value.plugin == "First"
