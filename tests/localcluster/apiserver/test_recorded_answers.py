"""Every answer that was recorded from kube-apiserver, against the answers of `stowplan apiserver`."""

import pytest

from localcluster.apiserver.stories.comparison import (
    UNEXPLAINED,
    Differences,
    differences,
    listed_differences,
)


@pytest.fixture(scope="module")
def found() -> Differences:
    return differences()


def test_no_answer_differs_that_is_not_listed_with_a_reason(found: Differences) -> None:
    known = listed_differences()
    new = {
        f"{story} {step}": difference
        for story, steps in found.items()
        for step, difference in steps.items()
        if step not in known.get(story, {})
    }
    assert new == {}


def test_no_answer_is_listed_that_has_become_equal(found: Differences) -> None:
    listed = {(story, step) for story, steps in listed_differences().items() for step in steps}
    differing = {(story, step) for story, steps in found.items() for step in steps}
    assert listed - differing == set()


def test_every_listed_difference_has_a_reason() -> None:
    reasons = [reason for steps in listed_differences().values() for reason in steps.values()]
    assert [reason for reason in reasons if not reason or reason.startswith(UNEXPLAINED)] == []
