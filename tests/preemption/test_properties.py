"""What holds for every preemption, on random small clusters, and both ways of trying nodes come to the same.

Pods come one after the other. Who fits is placed; who preempts is promised its node, or placed there at once.
So what is kept between attempts is put to the test, too.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.answers import profile_with
from preemption.preempting import fresh_chance, plugin_of, told
from preemption.random_clusters import wanting, worlds
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.framework import Framework
from stowplan.framework.postfilter import PostFilterResult
from stowplan.framework.status import Code
from stowplan.plugins.registry import in_tree_registry
from stowplan.testing import Cluster, PodBuilder, cluster

LIMITED = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 2}
CONFIGS = [None, profile_with("DefaultPreemption", LIMITED)]


class History:
    """A cluster, three frameworks over it, and the pods that were promised nodes."""

    def __init__(self, world: Cluster, config: object) -> None:
        self.table = world.table
        profile = next(iter(world.frameworks.values())).profile
        registry = in_tree_registry()
        self.together = Framework(profile, self.table, registry)
        self.one_by_one = Framework(profile, self.table, registry)
        self.afresh = Framework(profile, self.table, registry, reuse=False)
        plugin_of(self.one_by_one).one_by_one = True
        plugin_of(self.afresh).one_by_one = True
        self.promised: dict[int, list[PodInfo]] = {}

    def attempt(self, builder: PodBuilder, seed: int) -> tuple[Evaluation, PostFilterResult | None]:
        """Try to place a pod; what comes of it, the same in every way."""
        info = self.table.info(builder.obj())
        before = picture(self)
        results = []
        for framework in (self.one_by_one, self.afresh, self.together):
            evaluation = framework.evaluate(info, self.promised)
            if evaluation.feasible_count:
                results.append(None)
                continue
            fresh_chance(framework, seed)
            results.append(told(plugin_of(framework).post_filter(evaluation.cycle, info)))
        assert results[0] == results[1] == results[2]
        assert picture(self) == before
        return evaluation, results[-1]

    def place(self, info: PodInfo, node_name: str) -> None:
        self.table.assume(info, node_name)
        for pods in self.promised.values():
            pods[:] = [other for other in pods if other.uid != info.uid]

    def make_room(self, result: PostFilterResult) -> None:
        for victim in result.victims:
            self.table.remove_pod(victim.metadata.uid)

    def promise(self, info: PodInfo, node_name: str) -> None:
        row = self.table.row_of(node_name)
        assert row is not None
        self.promised.setdefault(row, []).append(info)


def picture(history: History) -> object:
    """Everything about pods that trying must leave as it was, the order of pods on nodes included."""
    table = history.table
    kinds = {info.template.kind for info in table.pods.values()}
    return (
        [list(pods) for pods in table.pods_on],
        [(uid, info.row) for uid, info in table.pods.items()],
        table.requested.tolist(),
        table.non_zero.tolist(),
        table.pod_count.tolist(),
        sorted(
            (k.namespace, sorted(k.labels.items()), sorted(k.live.items()), sorted(k.dying.items()))
            for k in kinds
        ),
        [sorted(table.host_ports.conflicting_rows(i.template.ports)) for i in table.pods.values()],
    )


def check(history: History, wanted: PodBuilder, evaluation: Evaluation, result: PostFilterResult) -> None:
    """Every candidate: only lesser pods go, they are enough, and each of them is needed."""
    table, pod = history.table, wanted.obj()
    assert set(result.ties) <= result.candidates.keys()
    assert result.victims == result.candidates[result.nominated_node].pods
    company = any(term.topology_key for term in _wanted_company(wanted))
    for name, found in result.candidates.items():
        row = table.row_of(name)
        assert row is not None
        assert evaluation.status(row).code is Code.UNSCHEDULABLE
        assert found.pods
        assert all(victim.priority < pod.priority for victim in found.pods)
        infos = [table.pods[victim.metadata.uid] for victim in found.pods]
        with evaluation.trials() as trials, trials.row(row) as trial:
            for info in infos:
                trial.take_away(info)
            assert trial.verdict() is None
            if company:
                continue
            for info in infos:
                trial.put_back(info)
                assert trial.verdict() is not None
                trial.take_away(info)


def _wanted_company(builder: PodBuilder) -> tuple:
    affinity = builder.pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required_during_scheduling_ignored_during_execution


@settings(max_examples=120, deadline=None)
@given(worlds(), st.data(), st.sampled_from(range(len(CONFIGS))))
def test_both_ways_agree_and_victims_are_lesser_enough_and_needed(
    parts: tuple, data: st.DataObject, config: int
) -> None:
    nodes, pods, budgets = parts
    world = cluster(nodes=nodes, pods=pods, objects=budgets, config=CONFIGS[config])
    history = History(world, config)
    for number in range(data.draw(st.integers(1, 4), label="pods")):
        wanted = data.draw(wanting(f"w{number}"), label="wanted")
        evaluation, result = history.attempt(wanted, number)
        info = evaluation.cycle.pod
        if result is None:
            history.place(info, history.table.name_of(evaluation.pick(0)))
        elif result.nominated_node:
            check(history, wanted, evaluation, result)
            history.make_room(result)
            if data.draw(st.booleans(), label="placed at once"):
                history.place(info, result.nominated_node)
            else:
                history.promise(info, result.nominated_node)
                assert fits(history, info, result.nominated_node)


def fits(history: History, info: PodInfo, node_name: str) -> bool:
    """After the victims are gone the pod can have its node, promises to others included."""
    row = history.table.row_of(node_name)
    evaluation = history.afresh.evaluate(info, history.promised, row)
    return evaluation.only_row == row
