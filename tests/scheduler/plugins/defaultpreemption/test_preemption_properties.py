"""Invariants of every preemption, on random small clusters, and equality of all ways of trying nodes.

Pods come one after the other. A pod that fits is placed; a preemptor gets a nominated node, or is placed. So
results kept between attempts are tested, too: pods have the same requests as earlier ones, budgets change,
pods go, and the cluster where nodes are tried together is not the one where they are tried one by one, which
would touch them.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from effort import examples
from scheduler.plugins.answers import profile_with
from scheduler.plugins.defaultpreemption.preempting import budget, fresh_chance, plugin_of, told
from scheduler.plugins.defaultpreemption.random_clusters import World, budgets, wanting, worlds
from stowplan.api.pod import PodAffinityTerm
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import run_to_end
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, cluster
from stowplan.testing.builders import uid_of

LIMITED = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 2}
CONFIGS = [None, profile_with("DefaultPreemption", LIMITED)]


Happening = list[tuple[str, Any]]


def happenings() -> SearchStrategy[Happening]:
    one = budgets().flatmap(lambda made: st.sampled_from(made or [budget("none", None)]))
    return st.lists(
        st.one_of(
            st.tuples(
                st.just("gone"), st.integers(0, 19).map(lambda number: uid_of("Pod", f"default/r{number}"))
            ),
            st.tuples(st.just("put"), one),
            st.tuples(st.just("no budget"), one),
        ),
        max_size=2,
    )


class Side:
    """A cluster, a scheduler that tries nodes in one way, and the pods that were nominated nodes."""

    def __init__(
        self, world: World, config: Any, *, one_by_one: bool, reuse: bool = True, few: int = 4
    ) -> None:
        nodes, pods, budgets = world
        made = cluster(nodes=nodes, pods=pods, objects=budgets, config=config)
        self.table = made.table
        profile = made.frameworks["default-scheduler"].profile
        self.framework = Framework(profile, self.table, in_tree_registry(), reuse=reuse)
        plugin_of(self.framework).one_by_one = one_by_one
        plugin_of(self.framework).few = few
        plugin_of(self.framework).keeps_search = True
        self.nominated: dict[int, list[PodInfo]] = {}

    def evaluate(self, builder: PodBuilder) -> Evaluation:
        return self.framework.evaluate(self.table.info(builder.obj()), self.nominated)

    def happens(self, news: Happening) -> None:
        """Something changes between two attempts: a pod goes, or a budget is put or is gone."""
        for label_set, what in news:
            if label_set == "gone" and what in self.table.pods:
                self.table.remove_pod(what)
            elif label_set == "put":
                self.table.budgets.put(what)
            elif label_set == "no budget":
                self.table.budgets.remove(what)

    def preempt(self, evaluation: Evaluation, seed: int) -> PostFilterResult:
        before = picture(self.table)
        fresh_chance(self.framework, seed)
        result = run_to_end(plugin_of(self.framework).post_filter(evaluation.cycle, evaluation.cycle.pod))
        assert picture(self.table) == before
        return told(result)

    def make_room(self, info: PodInfo, result: PostFilterResult, *, at_once: bool) -> None:
        """The victims go, and the pod is placed or nominated its node.

        It fits there then. Only where pods are spread it need not: as in kube-scheduler, pods imagined away
        are subtracted from counts that some of them were never part of.
        """
        assert result.nominated_node
        for victim in result.victims:
            self.table.remove_pod(victim.metadata.uid)
        row = self.table.row_of(result.nominated_node)
        assert row is not None
        fits = self.framework.evaluate(info, self.nominated, row).only_row == row
        assert fits or info.spec.topology_spread_constraints
        if at_once:
            self.table.assume(info, result.nominated_node)
        else:
            self.nominated.setdefault(row, []).append(info)


def picture(table: ClusterTable) -> object:
    """Everything about pods that trying must leave as it was, the order of pods on nodes included."""
    pods = table.pods.values()
    label_sets = {info.template.label_set for info in pods}
    return (
        [list(here) for here in table.pods_on],
        [(info.uid, info.row) for info in pods],
        table.requested.tolist(),
        table.non_zero.tolist(),
        table.pod_count.tolist(),
        sorted(
            (sorted(k.labels.items()), sorted(k.live.items()), sorted(k.dying.items())) for k in label_sets
        ),
        [sorted(table.host_ports.conflicting_rows(info.template.ports)) for info in pods],
    )


def check(evaluation: Evaluation, result: PostFilterResult) -> None:
    """Every candidate: only lesser pods go, they are enough, and each of them is needed."""
    table, pod = evaluation.cycle.table, evaluation.cycle.pod
    assert result.nominated_node in result.ties
    assert set(result.ties) <= result.candidates.keys()
    assert result.victims == result.candidates[result.nominated_node].pods
    for name, found in result.candidates.items():
        row = table.row_of(name)
        assert row is not None
        assert evaluation.status(row).code is Code.UNSCHEDULABLE
        assert found.pods
        assert all(victim.priority < pod.priority for victim in found.pods)
        infos = [table.pods[victim.metadata.uid] for victim in found.pods]
        with evaluation.simulations() as simulations, simulations.row(row) as simulation:
            for info in infos:
                simulation.remove_pod(info)
            assert simulation.verdict() is None
            for info in infos if not wanted_company(pod) else ():
                simulation.restore_pod(info)
                assert simulation.verdict() is not None
                simulation.remove_pod(info)


def check_account(side: Side, evaluation: Evaluation, result: PostFilterResult) -> None:
    """Every node is accounted for: the chosen one, candidates by criterion, and the others by reason."""
    others = plugin_of(side.framework).not_candidates()
    compared = () if result.choice is None else result.choice.ruled_out()
    if others or compared:
        accounted = [one.nodes for one in (*others, *compared)]
        assert sum(accounted) + bool(result.nominated_node) == side.table.node_count
        assert sum(one.nodes for one in compared) + 1 == len(result.candidates) or not result.nominated_node
    assert len({one.reason for one in others}) == len(others)
    for one in others:
        for example in one.examples:
            assert example.node not in result.candidates
            if one.reason.startswith("no pod of lower priority"):
                row = side.table.row_of(example.node)
                assert row is not None
                below = evaluation.cycle.pod.priority
                assert all(info.priority >= below for info in side.table.pods_on[row].values())


def wanted_company(pod: PodInfo) -> tuple[PodAffinityTerm, ...]:
    """Pods that want others near them may need one victim only because of another."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required_during_scheduling_ignored_during_execution


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.data(), st.sampled_from(CONFIGS))
def test_all_ways_agree_and_victims_are_lesser_enough_and_needed(
    world: World, data: st.DataObject, config: Any
) -> None:
    sides = [
        Side(world, config, one_by_one=False, few=0),
        Side(world, config, one_by_one=True),
        Side(world, config, one_by_one=False, few=100),
        Side(world, config, one_by_one=True, reuse=False),
    ]
    wishes: list[PodBuilder] = []
    for number in range(data.draw(st.integers(1, 5), label="pods")):
        again = [st.sampled_from(wishes)] if wishes else []
        wanted = data.draw(st.one_of(*again, wanting(f"w{number}")), label="wanted").uid(f"w{number}")
        wishes.append(wanted)
        if number:
            news = data.draw(happenings(), label="meanwhile")
            for side in sides:
                side.happens(news)
        evaluations = [side.evaluate(wanted) for side in sides]
        if evaluations[0].feasible_count:
            node = sides[0].table.name_of(choose_node(evaluations[0], lambda _: 0)[0])
            for side, evaluation in zip(sides, evaluations, strict=True):
                side.table.assume(evaluation.cycle.pod, node)
            continue
        results = [
            side.preempt(evaluation, number) for side, evaluation in zip(sides, evaluations, strict=True)
        ]
        assert all(result == results[0] for result in results)
        for side, evaluation, result in zip(sides, evaluations, results, strict=True):
            check_account(side, evaluation, result)
        if results[0].nominated_node:
            check(evaluations[1], results[1])
            at_once = data.draw(st.booleans(), label="placed at once")
            for side, evaluation in zip(sides, evaluations, strict=True):
                side.make_room(evaluation.cycle.pod, results[0], at_once=at_once)
