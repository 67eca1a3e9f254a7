"""Kept results of the plugins of earlier releases equal results from scratch."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from effort import LONG
from scheduler.framework.reuse_machine import AllPlugins
from scheduler.framework.reuse_profiles import APART, AS_OF_1_9, AS_OF_1_18, TOGETHER
from scheduler.framework.test_reuse_is_exact import FAR, SHORT
from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node
from stowplan.api.pod import Container, Pod, PodSpec, ResourceRequirements
from stowplan.api.workloads import Service, ServiceSpec
from stowplan.testing import cluster_strategies as some
from stowplan.testing.reuse_machine import whiches

FEWER = settings(SHORT, max_examples=8)

PLAIN = Pod(
    metadata=ObjectMeta(namespace="default", labels={"app": "a"}),
    spec=PodSpec(containers=(Container(resources=ResourceRequirements(requests={"cpu": "200m"})),)),
)
some_of_both = st.sampled_from([APART.scheduler_name, TOGETHER.scheduler_name])
asked_of = st.tuples(whiches, st.sampled_from([1, 1, 2, 3]))


class EarlierReleases(AllPlugins):
    """The machine of all plugins with profiles of earlier releases only."""

    @initialize(
        templates=st.lists(some.pods(), min_size=2, max_size=3),
        asked=st.lists(
            st.tuples(
                st.sampled_from([AS_OF_1_9.scheduler_name, AS_OF_1_18.scheduler_name]),
                whiches,
                st.sampled_from([1, 1, 2, 3, 7]),
            ),
            min_size=2,
            max_size=4,
        ),
        nodes=st.lists(some.any_node, min_size=3, max_size=8),
        more=st.sampled_from([0, 3, 12]),
    )
    def begin(
        self, templates: list[Pod], asked: list[tuple[str, int, int]], nodes: list[Node], more: int
    ) -> None:
        self._begin(templates, asked, nodes, more)


class Crowds(AllPlugins):
    """Many plain pods of one service on nodes with many labels: what is spread, and what is kept together."""

    @initialize(
        template=some.pods(),
        asked=st.lists(st.tuples(some_of_both, asked_of), min_size=2, max_size=3),
        nodes=st.lists(some.any_node, min_size=3, max_size=8),
        start=st.lists(st.integers(0, 30), max_size=12),
    )
    def begin(self, template: Pod, asked: list[Any], nodes: list[Node], start: list[int]) -> None:
        pairs = [(name, which, period) for name, (which, period) in asked]
        self._begin([PLAIN, PLAIN, template], pairs, nodes, 24)
        for selector in ({"app": "a"}, {"tier": "x"}):
            name = f"s{len(self.world.around)}"
            meta = ObjectMeta(name=name, namespace="default")
            self.world.put(Service(metadata=meta, spec=ServiceSpec(selector=selector)))
        for index in start:
            self._add_plain(index)

    @rule(index=st.integers(0, 30))
    def add_plain_pod(self, index: int) -> None:
        self._add_plain(index)

    @rule(index=st.integers(0, 30))
    def add_another_plain_pod(self, index: int) -> None:
        self._add_plain(index)

    def _add_plain(self, index: int) -> None:
        names = sorted(self.world.nodes)
        if names:
            self.world.put_pod(self.world.named(PLAIN), names[index % len(names)])


@pytest.mark.parametrize("machine", [EarlierReleases, Crowds])
def test_kept_results_of_earlier_releases_equal_results_from_scratch(machine: type[AllPlugins]) -> None:
    run_state_machine_as_test(machine, settings=FAR if LONG else FEWER)
