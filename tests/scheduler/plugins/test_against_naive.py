"""The engine says what a reading of the rules says that walks every pod on every node."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.framework.reuse_profiles import CURVED, DEFAULT, PACKING, REGISTRY, SPREADING
from scheduler.plugins.naive import spread
from scheduler.plugins.naive.clusters import AdmissionContext, filling, neighbouring, spreading
from scheduler.plugins.naive.interpod import Neighbourhood
from scheduler.plugins.naive.resources import Filling, on_shape, requested
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    UtilizationShapePoint,
    utilization_scores,
)
from stowplan.scheduler.plugins.podtopologyspread.common import SYSTEM_DEFAULTS
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing.cluster_strategies import FPGA, GPU

MANY = settings(max_examples=examples(120))


class Answers:
    """The engine's answers for a pod."""

    def __init__(self, profile: ProfileSpec, cluster: AdmissionContext) -> None:
        self.table = ClusterTable()
        for node in cluster.nodes:
            self.table.put_node(node)
        for other in cluster.pods:
            self.table.put_pod(other)
        for obj in cluster.around:
            self.table.put(obj)
        self.framework = Framework(profile, self.table, REGISTRY)
        self.evaluation = self.framework.evaluate(self.table.info(cluster.pod))
        assume(self.evaluation.rejected_outright is None)

    def feasible(self) -> set[str]:
        """The nodes that were scored; none where there was nothing to choose."""
        if not self.evaluation.scored:
            return set()
        return {self.table.name_of(row) for row in self.evaluation.feasible_rows.tolist()}

    def rejected_by(self, plugin: str) -> dict[str, tuple[str, bool]]:
        """Reasons of one plugin against each node, regardless of the others, and if they are unresolvable."""
        codes = self.evaluation.codes().get(plugin)
        if codes is None:
            return {}
        cycle = self.evaluation.cycle
        found = {}
        for row in range(self.table.rows_in_use):
            if codes[row]:
                status = self.framework.plugins[plugin].reason(cycle, cycle.pod, int(codes[row]))
                hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                found[self.table.name_of(row)] = (status.message, hopeless)
        return found

    def scored_by(self, plugin: str) -> dict[str, int] | None:
        """A plugin's scores, not weighted; None if it took no part."""
        rows = self.evaluation.feasible_rows
        found = self.evaluation.scores(rows).get(plugin)
        if found is None:
            return None
        weights = {use.name: use.weight for use in self.framework.profile.plugins[ExtensionPoint.SCORE]}
        return {
            self.table.name_of(row): score // weights[plugin]
            for row, score in zip(rows.tolist(), found, strict=True)
        }


def with_hopelessness(reasons: dict[str, str], hopeless: str) -> dict[str, tuple[str, bool]]:
    return {name: (reason, reason == hopeless) for name, reason in reasons.items()}


USUALLY = pytest.mark.parametrize("many", [64, 0], ids=["as usual", "as for thousands of rare keys"])


@contextmanager
def taken_for_many(many: int) -> Iterator[None]:
    """More terms and constraints than this with rare keys are taken for very many."""
    with (
        patch("stowplan.scheduler.plugins.interpodaffinity.counts.MANY_RARE_KEYS", many),
        patch("stowplan.scheduler.plugins.podtopologyspread.fewnodes.MANY_CONSTRAINTS", many),
    ):
        yield


@USUALLY
@MANY
@given(cluster=spreading(own=True))
def test_spread_constraints_of_the_pod(cluster: AdmissionContext, many: int) -> None:
    with taken_for_many(many):
        answers = Answers(DEFAULT, cluster)
    walked, pod = spread.Cluster(cluster.nodes, cluster.pods), cluster.pod
    expected = spread.verdicts(walked, pod, spread.rules_of(pod, "DoNotSchedule"))
    assert answers.rejected_by("PodTopologySpread") == with_hopelessness(expected, spread.NO_LABEL)
    feasible = answers.feasible()
    if feasible:
        soft = spread.rules_of(pod, "ScheduleAnyway")
        scores = spread.scores(walked, pod, soft, feasible, requires_all=True)
        assert answers.scored_by("PodTopologySpread") == scores


@MANY
@given(spreading(own=False), st.sampled_from([DEFAULT, SPREADING]))
def test_spread_constraints_of_the_profile(cluster: AdmissionContext, profile: ProfileSpec) -> None:
    answers = Answers(profile, cluster)
    walked, pod = spread.Cluster(cluster.nodes, cluster.pods), cluster.pod
    system = profile is DEFAULT
    constraints = SYSTEM_DEFAULTS if system else profile.args["PodTopologySpread"].default_constraints
    hard = spread.default_rules(constraints, "DoNotSchedule", cluster.group_selectors)
    expected = spread.verdicts(walked, pod, hard)
    assert answers.rejected_by("PodTopologySpread") == with_hopelessness(expected, spread.NO_LABEL)
    feasible = answers.feasible()
    if feasible:
        soft = spread.default_rules(constraints, "ScheduleAnyway", cluster.group_selectors)
        scores = spread.scores(walked, pod, soft, feasible, requires_all=not system)
        assert answers.scored_by("PodTopologySpread") == scores


@USUALLY
@MANY
@given(cluster=neighbouring(), profile=st.sampled_from([DEFAULT, PACKING, SPREADING, CURVED]))
def test_affinity_between_pods(cluster: AdmissionContext, profile: ProfileSpec, many: int) -> None:
    with taken_for_many(many):
        answers = Answers(profile, cluster)
    walked = Neighbourhood(cluster.nodes, cluster.pods, cluster.namespaces, cluster.pod)
    expected = with_hopelessness(walked.verdicts(), "node(s) didn't match pod affinity rules")
    assert answers.rejected_by("InterPodAffinity") == expected
    feasible = answers.feasible()
    if feasible:
        args = profile.args.get("InterPodAffinity")
        scores = walked.scores(
            feasible,
            hard_weight=1 if args is None else args.hard_pod_affinity_weight,
            ignore_preferred=args is not None and args.ignore_preferred_terms_of_existing_pods,
        )
        assert answers.scored_by("InterPodAffinity") == scores


RESOURCES = ("cpu", "memory", "ephemeral-storage", FPGA, GPU)


@MANY
@given(filling(), st.sampled_from([DEFAULT, PACKING, CURVED]))
def test_what_nodes_have_left(cluster: AdmissionContext, profile: ProfileSpec) -> None:
    answers = Answers(profile, cluster)
    regarded = RESOURCES[:3] if profile is CURVED else RESOURCES
    fillings = {node.name: Filling(node, cluster.pods, cluster.pod) for node in cluster.nodes}
    expected = {}
    for name, each in fillings.items():
        reasons, hopeless = each.reasons(regarded)
        if reasons:
            expected[name] = (", ".join(reasons), hopeless)
    assert answers.rejected_by("NodeResourcesFit") == expected
    feasible = answers.feasible()
    if feasible:
        fit = {name: _fit_score(profile, each) for name, each in fillings.items() if name in feasible}
        assert answers.scored_by("NodeResourcesFit") == fit
        resources = _balanced_resources(profile)
        takes_part = any(requested(cluster.pod, name) for name in resources)
        even = {name: each.balanced(resources) for name, each in fillings.items() if name in feasible}
        assert answers.scored_by("NodeResourcesBalancedAllocation") == (even if takes_part else None)


shapes = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=4).map(
    lambda points: sorted(points.items())
)


@given(shapes)
def test_a_shape_of_straight_lines(shape: list[tuple[int, int]]) -> None:
    points = [UtilizationShapePoint(utilization=where, score=score) for where, score in shape]
    assert utilization_scores(points).tolist() == [on_shape(shape, percent) for percent in range(101)]


def _fit_score(profile: ProfileSpec, node: Filling) -> int:
    args = profile.args.get("NodeResourcesFit")
    if args is None:
        return node.least_allocated({"cpu": 1, "memory": 1})
    strategy = args.scoring_strategy
    weights = {spec.name: spec.weight for spec in strategy.resources}
    if strategy.type == "MostAllocated":
        return node.most_allocated(weights)
    shape = strategy.requested_to_capacity_ratio.shape
    return node.by_shape(weights, [(point.utilization, point.score) for point in shape])


def _balanced_resources(profile: ProfileSpec) -> list[str]:
    args = profile.args.get("NodeResourcesBalancedAllocation")
    return ["cpu", "memory"] if args is None else [spec.name for spec in args.resources]
