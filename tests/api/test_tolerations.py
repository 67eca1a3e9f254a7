"""Tolerations and the taints that they tolerate."""

import pytest

from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.api.rules.taints import tolerates, untolerated

GPU = Taint(key="gpu", value="a", effect="NoSchedule")
LEVEL = Taint(key="level", value="5", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", value="a", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="a"), True),
        (Toleration(key="gpu", operator="Equal", value="b"), False),
        (Toleration(key="gpu", operator="Exists", value="b"), True),
        (Toleration(key="disk", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="a"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Near", value="a"), False),
    ],
)
def test_a_toleration_must_agree_in_effect_key_and_value_where_it_names_them(
    toleration: Toleration, expected: bool
) -> None:
    assert tolerates(toleration, GPU) is expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Gt", "-1", True),
        ("Gt", "04", False),
        ("Gt", "+4", False),
        ("Gt", "four", False),
        ("Lt", "9223372036854775808", False),
    ],
)
def test_comparisons_work_on_plain_integers_and_only_when_switched_on(
    operator: str, value: str, expected: bool
) -> None:
    toleration = Toleration(key="level", operator=operator, value=value)
    assert tolerates(toleration, LEVEL, compare=True) is expected
    assert not tolerates(toleration, LEVEL)


def test_the_first_untolerated_taint_with_a_hard_effect_is_found() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    first = Taint(key="first", effect="NoExecute")
    taints = (soft, GPU, first, LEVEL)
    assert untolerated(taints, [Toleration(key="gpu", operator="Exists")]) == first
    assert untolerated(taints, [Toleration(operator="Exists")]) is None
    assert untolerated(taints, [], effects=("PreferNoSchedule",)) == soft
    assert untolerated((), []) is None


def test_taints_differ_only_in_what_counts() -> None:
    later = Taint(key="gpu", value="a", effect="NoSchedule", time_added="2026-01-01T00:00:00Z")
    other = Taint(key="gpu", value="b", effect="NoSchedule")
    assert [one != GPU for one in (later, other)] == [False, True]
