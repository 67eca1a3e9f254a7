"""Very many disruption budgets: which of them a pod is under is worked out in steps, once for labels that no
selector tells apart, and gives what matching every selector gives."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.plugins.defaultpreemption.preempting import budget, framework_of, high, low, plugin_of, small
from stowplan.api.labels import Selector
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from stowplan.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.plugins.defaultpreemption import importance
from stowplan.scheduler.table.lookups import DisruptionBudgets
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster, pod

KEYS = st.sampled_from("abc")
VALUES = st.sampled_from(("", "x", "y", "z"))
LABELS = st.dictionaries(KEYS, VALUES)


def expression(key: str, operator: str, values: Sequence[str]) -> LabelSelectorRequirement:
    wanted = tuple(values) if operator in ("In", "NotIn") else ()
    return LabelSelectorRequirement(key=key, operator=operator, values=wanted)


EXPRESSIONS = st.builds(
    expression,
    KEYS,
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(VALUES, min_size=1, max_size=2, unique=True),
)


def selecting(
    name: str,
    expressions: Sequence[LabelSelectorRequirement],
    allowed: int = 0,
    disrupted: Sequence[str] = (),
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_expressions=tuple(expressions))),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2025-01-01T00:00:00Z")
        ),
    )


BUDGETS = st.builds(
    selecting,
    st.sampled_from([f"budget-{number}" for number in range(6)]),
    st.lists(EXPRESSIONS, max_size=3),
    st.integers(0, 2),
    st.lists(st.sampled_from([f"pod-{number}" for number in range(4)]), max_size=2),
)


def pods_with(labels: Sequence[Mapping[str, str]]) -> list[Any]:
    table = ClusterTable()
    return [table.info(pod(f"pod-{n}").labels(**one).obj()) for n, one in enumerate(labels)]


@settings(max_examples=examples(150), deadline=None)
@given(
    changes=st.lists(BUDGETS | st.text("012345", min_size=1, max_size=1), max_size=12),
    labels=st.lists(LABELS, max_size=4),
)
def test_the_budgets_of_a_pod_are_all_whose_selector_matches(changes: list[Any], labels: list[Any]) -> None:
    budgets, pods = DisruptionBudgets(), pods_with(labels)
    there: dict[str, PodDisruptionBudget] = {}
    for change in changes:
        if isinstance(change, str):
            budgets.remove(budget(f"budget-{change}", None))
            there.pop(f"budget-{change}", None)
        else:
            budgets.put(change)
            there[change.name] = change
        for info in pods:
            found = [one.name for one in budgets.of(info)]
            assert found == [name for name in sorted(there) if selects(there[name], info.labels)]
            assert [one.number for one in budgets.of(info)] == budgets.numbers_of(info).tolist()


def selects(pdb: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
    demands = () if pdb.spec.selector is None else pdb.spec.selector.match_expressions
    return bool(labels and demands) and all(holds(one, labels) for one in demands)


def holds(demand: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    match demand.operator:
        case "In":
            return labels.get(demand.key) in demand.values
        case "NotIn":
            return labels.get(demand.key) not in demand.values
        case "Exists":
            return demand.key in labels
        case _:
            return demand.key not in labels


@settings(max_examples=examples(150), deadline=None)
@given(put=st.lists(BUDGETS, max_size=6), labels=st.lists(LABELS, max_size=4), first=st.booleans())
def test_budgets_are_charged_with_arrays_as_one_by_one(
    put: list[Any], labels: list[Any], first: bool
) -> None:
    budgets, pods = DisruptionBudgets(stops_at_exceeded=first), pods_with(labels)
    for one in put:
        budgets.put(one)
    one_by_one = importance.over_budget(pods, budgets)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(importance, "MANY_BUDGETS", 0)
        assert importance.over_budget(pods, budgets) == one_by_one


def test_selectors_are_not_matched_against_every_pod_and_never_very_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """40 budgets that an index cannot rule out for any of 240 pods with a distinct label each."""
    matched = 0
    plainly = Selector.matches

    def counted(self: Selector, labels: Mapping[str, str]) -> bool:
        nonlocal matched
        matched += 1
        return plainly(self, labels)

    count = 40
    made = cluster(
        nodes=[small(f"n{number}", cpu=10) for number in range(24)],
        pods=[low(f"p{number}", f"n{number % 24}").labels(id=f"v{number}") for number in range(240)],
        objects=[selecting(f"b{n}", [expression("id", "NotIn", [f"v{n}"])]) for n in range(count)],
    )
    framework = framework_of(made)
    monkeypatch.setattr(Selector, "matches", counted)
    evaluation = framework.evaluate(made.table.info(high(cpu=2).obj()))
    matched, most = 0, 0
    steps = plugin_of(framework).post_filter(evaluation.cycle, evaluation.cycle.pod)
    while True:
        before = matched
        try:
            next(steps)
        except StopIteration as end:
            result: PostFilterResult = end.value
            break
        most = max(most, matched - before)
    assert result.nominated_node
    assert matched >= count
    assert matched <= count * (count + 1)
    assert most <= 8 * count
