"""Two troubles of one pod: the answer names both, and its first remedy ends both."""

import pytest

from troubles.corpus import Instance, named
from troubles.judging import Answer
from troubles.world import world

PAIRS = (
    ("selector-with-a-typo", "ephemeral-storage"),
    ("selector-with-a-typo", "affinity-to-pods-that-are-not-there"),
    ("taint-of-the-selected-pool", "ephemeral-storage"),
    ("taint-of-the-selected-pool", "affinity-to-pods-that-are-not-there"),
    ("taint-of-the-selected-pool", "spread-over-a-label-nodes-lack"),
    ("gpu-without-a-toleration", "affinity-for-a-zone-that-is-not-there"),
)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_both_troubles_are_named_and_both_are_mended(one: str, other: str) -> None:
    instance = Instance.of([named(one), named(other)], "few")
    with world(instance) as found:
        answer = Answer.of(found)
        words = [word for trouble in instance.faults for word in instance.filled(trouble.headline.has)]
        missing = [word for word in words if str(word).lower() not in answer.headline.lower()]
        assert missing == [], answer.headline
        first = answer.changes[0]
        found.kubectl(first["command"])
        assert found.wait(lambda: found.running() > 0), first["text"]
