"""`check_plugin` lets a good plugin pass, and names what is wrong with each of these broken ones."""

import subprocess
import sys
from collections.abc import Hashable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase
from hypothesis import strategies as st

from effort import LONG
from stowplan.framework import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRow,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    ScoreRange,
    Scores,
    Signs,
    Status,
    unschedulable,
)
from stowplan.scheduler.framework.status import PluginError, ProfileError
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import PluginCheckError, check_plugin, node, pod
from stowplan.testing.plugin_answers import CHECKS

NODES = [node("n").labels(price=price) for price in ("1", "3", "9")]
NODES += [node("n").labels(price="2").annotations(closed="yes"), node("n").labels(price="2").capacity(pods=1)]
PODS = [pod("p").labels(team=team).requests(cpu=cpu) for team in ("red", "blue") for cpu in ("1", "2")]

DEAR, BUSY = 1, 2
REASONS = {DEAR: unschedulable("node(s) cost too much"), BUSY: unschedulable("node(s) were too busy")}


class Good(Plugin):
    """Every form of filter and score, a signature, events with a hint."""

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.labels.get("team")

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return [
            EventRegistration(nodes, self.after_node),
            EventRegistration(ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_LABEL)),
        ]

    def after_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        return Hint.QUEUE if float(new.metadata.labels.get("price", 0)) <= 5 else Hint.SKIP

    def code(self, pod: PodInfo, node: NodeRow, more: int = 0) -> int:
        if float(node.labels.get("price", 0)) > 5:
            return DEAR
        return BUSY if len(node.pods) + more >= self.most(pod) else 0

    def most(self, pod: PodInfo) -> int:
        return 1 if pod.labels.get("team") == "red" else 3

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        column = nodes.table.label_column("price")
        prices = np.array([float(value or 0) for value in column.values])[column.ids[nodes.rows]]
        return np.where(prices > 5, DEAR, np.where(nodes.pod_count >= self.most(pod), BUSY, 0))

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return self.code(pod, NodeRow(cycle.table, row))

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        return REASONS.get(self.code(pod, node))

    def filter_row_with_pods(self, cycle: Cycle, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> int:
        return self.code(pod, NodeRow(cycle.table, row), len(others))

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return REASONS[code]

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return nodes.pod_count * 7

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return int(cycle.table.pod_count[row]) * 7

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return len(node.pods) * 7

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return scores * 100 // max(extremes.high, 1)


class Licences(Plugin):
    """Reserves one of a few."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.holders: set[str] = set()

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if len(self.holders) >= self.args["most"]:
            return unschedulable("no licence is left")
        self.holders.add(pod.uid)
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.holders.discard(pod.uid)


class Plain(Plugin):
    """Filters by node and declares nothing."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        return unschedulable("closed") if "closed" in node.annotations else None


@pytest.mark.parametrize(("plugin", "args"), [(Good, None), (Licences, {"most": 3}), (Plain, None)])
def test_a_plugin_that_keeps_to_its_contract_passes(plugin: type[Plugin], args: Any) -> None:
    check_plugin(plugin, args=args, pods=PODS, nodes=NODES, examples=12)


# Each is broken in one way


class RowFormForgetsPods(Good):
    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return DEAR if super().filter_row(cycle, pod, row) == DEAR else 0


class NodeFormPassesAll(Good):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        return None


class NominatedFormForgetsThem(Good):
    def filter_row_with_pods(self, cycle: Cycle, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> int:
        return self.filter_row(cycle, pod, row)


class RowFormOfScoreDiffers(Good):
    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return super().score_row(cycle, pod, row) + 1


class NodeFormOfScoreDiffers(Good):
    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 5


class ScoresByPlaceInTheArray(Good):
    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return np.arange(len(scores))


class ScoresTooHigh(Good):
    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return scores * 100


class SignsNothing(Good):
    def sign(self, pod: PodInfo) -> Hashable:
        return None


class SignsByNameForTemplate(Good):
    contract = Contract(signs=Signs.TEMPLATE)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.name


class SignsLabelsInSecret(Good):
    contract = Contract(signs=Signs.TEMPLATE_WITHOUT_LABELS)

    def sign(self, pod: PodInfo) -> Hashable:
        return frozenset(pod.labels.items())


class ReadsPodsInSecret(Good):
    contract = Contract(reads=Reads.NODE)


class ReadsAnnotationsInSecret(Plain):
    contract = Contract(reads=Reads.USAGE)

    def sign(self, pod: PodInfo) -> Hashable:
        return None


class ReadsOtherRowsInSecret(Plugin):
    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return np.full(nodes.count, min(cycle.table.node_count, 100))


class NamesNoStaleRows(ReadsOtherRowsInSecret):
    contract = Contract(reads_others=Reads.ANYTHING)

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, then: Any, now: Any) -> Any:
        return np.empty(0, dtype=np.intp)


class SkipsByTheClusterForEver(Good):
    contract = Contract(constant_pre_filter=True)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return SKIP if cycle.table.node_count > 2 else None


class HearsOfNewNodesOnly(Good):
    def events(self) -> Sequence[EventRegistration]:
        return [EventRegistration(ClusterEvent(Resource.NODE, Action.ADD))]


class HintThatSkips(Good):
    def after_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        return Hint.SKIP


class HintThatRaises(Good):
    def after_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        return Hint.QUEUE if old.metadata.labels != new.metadata.labels else Hint.SKIP


class Raises(Plugin):
    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return len(node.annotations["closed"])


class AnswersWithAList(Good):
    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Any:
        return [0] * nodes.count


class ReasonIsSuccess(Good):
    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return SUCCESS


class LabelsThePod(Good):
    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        pod.pod.metadata.labels["seen"] = "yes"
        return super().filter_row(cycle, pod, row)


class WritesToTheTable(Good):
    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        nodes.table.allowed_pods[0] += 1
        return super().score(cycle, pod, nodes)


class KeepsLicences(Licences):
    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        pass


class RemembersEverybody(Licences):
    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        self.holders.add(pod.uid)
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        pass


class TakesBackFromStrangers(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.left = args["most"]
        self.refused: set[str] = set()

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if not self.left:
            self.refused.add(pod.uid)
            return unschedulable("no licence is left")
        self.left -= 1
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        if pod.uid in self.refused:
            self.refused.remove(pod.uid)
        else:
            self.left += 1


class RemembersNodesForEver(Plugin):
    """The same in every single cluster; only a history finds it out."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.seen: dict[str, Status] = {}

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        dear = node.labels.get("price") == "9"
        return self.seen.setdefault(node.name, REASONS[DEAR] if dear else SUCCESS)


class ThrowsADie(Plugin):
    die = Random(3)

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return self.die.randrange(100)


class SortsByNameOrNumber(Plugin):
    def sort_key(self, queued: Any) -> Any:
        return queued.pod.name if queued.pod.name == "p1" else 3


BROKEN: dict[type[Plugin], str] = {
    RowFormForgetsPods: "forms-agree",
    NodeFormPassesAll: "forms-agree",
    NominatedFormForgetsThem: "forms-agree",
    RowFormOfScoreDiffers: "forms-agree",
    NodeFormOfScoreDiffers: "forms-agree",
    ScoresByPlaceInTheArray: "forms-agree",
    ScoresTooHigh: "score-range",
    SignsNothing: "signature",
    SignsByNameForTemplate: "signature",
    SignsLabelsInSecret: "signature",
    ReadsPodsInSecret: "reads",
    ReadsAnnotationsInSecret: "reads",
    ReadsOtherRowsInSecret: "row-local",
    NamesNoStaleRows: "row-local",
    SkipsByTheClusterForEver: "constant-answers",
    HearsOfNewNodesOnly: "queueing-hints",
    HintThatSkips: "queueing-hints",
    HintThatRaises: "no-exceptions",
    Raises: "no-exceptions",
    AnswersWithAList: "valid-answers",
    ReasonIsSuccess: "valid-answers",
    LabelsThePod: "no-mutation",
    WritesToTheTable: "no-mutation",
    KeepsLicences: "reserve-balance",
    RemembersEverybody: "reserve-balance",
    TakesBackFromStrangers: "reserve-balance",
    RemembersNodesForEver: "reuse",
    ThrowsADie: "deterministic",
    SortsByNameOrNumber: "sort-order",
}


@pytest.mark.parametrize(("plugin", "check"), BROKEN.items(), ids=lambda value: getattr(value, "name", value))
def test_a_broken_plugin_fails_the_check_it_breaks(
    plugin: type[Plugin], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any counterexample will do; the tests below look at the smallest ones."""
    monkeypatch.setattr("stowplan.testing.plugin_checks.PHASES", (Phase.generate,))
    nodes = NODES if check != "reuse" else [NODES[0], NODES[2]]
    with pytest.raises(PluginCheckError) as found:
        check_plugin(plugin, args={"most": 3}, pods=PODS, nodes=nodes)
    assert (found.value.plugin, found.value.check) == (plugin.name, check)
    assert str(found.value).startswith(f"{plugin.name} fails the check {check!r}: ")


def test_every_check_has_a_plugin_that_fails_it() -> None:
    assert set(BROKEN.values()) == CHECKS.keys()


def test_the_report_is_the_smallest_cluster_with_what_each_form_said() -> None:
    with pytest.raises(PluginCheckError) as found:
        check_plugin(NominatedFormForgetsThem, pods=PODS[:1], nodes=NODES[:1])
    assert str(found.value).splitlines() == [
        "NominatedFormForgetsThem fails the check 'forms-agree': filter_row_with_pods and filter differ "
        'beside pod("o0").labels(team="red").requests(cpu="1"), on node n0',
        f"({CHECKS['forms-agree']})",
        "nodes:",
        '    node("n0").labels(price="1")',
        "pod to schedule:",
        '    pod("p1").labels(team="red").requests(cpu="1")',
        "said:",
        "    filter_row_with_pods          passes",
        "    filter with them on the node  Unschedulable: node(s) were too busy",
    ]


def test_what_happened_is_part_of_the_report() -> None:
    with pytest.raises(PluginCheckError) as found:
        check_plugin(RemembersNodesForEver, pods=PODS[:1], nodes=[NODES[0], NODES[2]])
    lines = str(found.value).splitlines()
    history = lines[lines.index("history:") + 1 : lines.index("pod to schedule, each time:")]
    assert len(history) <= 4
    assert {'    put node("n0").labels(price="1")', '    put node("n0").labels(price="9")'} <= set(history)
    assert any("verdicts, n0: kept" in line and "from scratch" in line for line in lines)


def test_an_exception_is_shown_with_its_line() -> None:
    with pytest.raises(PluginCheckError, match=r"score_node raised KeyError: 'closed'") as found:
        check_plugin(Raises, pods=PODS, nodes=NODES)
    assert 'return len(node.annotations["closed"])' in str(found.value)
    assert __file__ in str(found.value)


def test_runs_repeat_and_another_seed_is_another_run() -> None:
    seen: list[list[str]] = []

    class Watching(Plugin):
        def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
            seen[-1].append(f"{pod.name} {node.labels}")
            return 0

    for seed in (None, None, 1, 1, 2):
        seen.append([])
        check_plugin(Watching, pods=PODS, nodes=NODES, examples=3, seed=seed)
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[2] != seen[4]


def test_strategies_say_what_pods_and_nodes_there_are() -> None:
    prices = st.integers(0, 9).map(lambda price: node("n").labels(price=str(price)))
    teams = st.sampled_from(["red", "blue"]).map(lambda team: pod("p").labels(team=team).obj())
    check_plugin(Good, pods=teams, nodes=prices, examples=10)
    with pytest.raises(PluginCheckError, match="queueing-hints"):
        check_plugin(HintThatSkips, pods=teams, nodes=prices)


def test_the_plugin_runs_as_its_configuration_says() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "Licences"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "other"},
            {
                "schedulerName": "with-licences",
                "plugins": plugins,
                "pluginConfig": [{"name": "Licences", "args": {"most": 3}}],
            },
        ],
    }
    check_plugin(Licences, config=config, examples=5)
    with pytest.raises(ValueError, match="config: expected a profile that enables plugin Plain"):
        check_plugin(Plain, config={**config, "profiles": [{"schedulerName": "other"}]}, examples=5)


def test_what_cannot_be_checked_is_refused_in_one_line() -> None:
    with pytest.raises(ProfileError, match="has no method of any extension point"):
        check_plugin(type("Idle", (Plugin,), {}))
    with pytest.raises(ValueError, match="nodes: expected a strategy or at least one builder"):
        check_plugin(Good, nodes=[])


def test_what_was_compared_in_no_cluster_is_a_warning() -> None:
    def reserve(self: Plugin, cycle: Cycle, pod: PodInfo, node: str) -> None:
        raise PluginError("Failing", "no answer from the licence server")

    failing = type("Failing", (Plugin,), {"reserve": reserve, "unreserve": lambda *_: None})
    with pytest.warns(UserWarning, match="Failing: reserve could not be checked: .*no answer") as warned:
        check_plugin(failing, examples=5)
    assert len(warned) == 1


def test_a_plugin_that_needs_a_running_scheduler_is_a_warning() -> None:
    class Asking(Plugin):
        def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
            return unschedulable("busy") if len(self.handle.scheduler.waiting) > 3 else None

    with pytest.warns(UserWarning, match="could not be checked") as warned:
        check_plugin(Asking, examples=5)
    assert {str(one.message) for one in warned} == {
        f"Asking: {what} could not be checked: this needs a running scheduler"
        for what in ("filter and score", "queueing hints")
    }


class Moody(Plugin):
    """Gives another score whenever it is asked, and one that is too high."""

    asked = 0

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        Moody.asked += 1
        return 100 + Moody.asked


def test_a_check_is_skipped_by_its_name_with_a_reason() -> None:
    with pytest.raises(PluginCheckError, match="'deterministic'"):
        check_plugin(Moody, examples=5)
    skip = {"deterministic": "scores count calls", "reuse": "they count calls"}
    with pytest.raises(PluginCheckError) as failed:
        check_plugin(Moody, examples=5, skip=skip)
    assert failed.value.check == "score-range"
    with pytest.warns(UserWarning, match="skipped") as warned:
        check_plugin(Moody, examples=5, skip={**skip, "score-range": "nobody normalizes them"})
    assert {str(one.message) for one in warned} == {
        "Moody: the check deterministic was skipped: scores count calls",
        "Moody: the check reuse was skipped: they count calls",
        "Moody: the check score-range was skipped: nobody normalizes them",
    }


@pytest.mark.parametrize(
    ("skip", "problem"),
    [
        ({"determinism": "x"}, "skip: expected one of no-exceptions, valid-answers, .*, got 'determinism'"),
        ({"reuse": " "}, "skip: expected a reason for 'reuse'"),
    ],
)
def test_only_known_checks_are_skipped(skip: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_plugin(Moody, skip=skip)


IN_TREE = ("NodeResourcesFit", "TaintToleration", "NodeAffinity", "NodePorts", "ImageLocality")
LIKE_UPSTREAM = frozenset(("InterPodAffinity", "PodTopologySpread"))
"""Their hints lose pods where those of kube-scheduler do, which a long search finds."""


@pytest.mark.parametrize("name", sorted(in_tree_registry().own - LIKE_UPSTREAM) if LONG else IN_TREE)
def test_plugins_of_the_tree_pass(name: str) -> None:
    found = in_tree_registry().get(name)
    assert found is not None
    check_plugin(found, examples=50 if LONG else 10)


def test_a_plugin_is_not_taken_for_one_of_the_tree_that_has_its_name() -> None:
    legacy = type("NodeLabel", (Raises,), {})
    with pytest.raises(PluginCheckError, match="no-exceptions"):
        check_plugin(legacy, nodes=NODES, pods=PODS)
    with pytest.raises(ProfileError, match="a plugin named NodePorts already exists"):
        check_plugin(type("NodePorts", (Raises,), {}))


def test_without_hypothesis_one_line_says_what_to_install() -> None:
    script = "import sys; sys.modules['hypothesis'] = None; from stowplan.testing import cluster; "
    script += "from stowplan.testing import check_plugin"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    *_, last = ran.stderr.splitlines()
    assert last == "ImportError: check_plugin needs hypothesis: pip install 'stowplan[testing]'"
