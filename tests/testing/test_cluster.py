"""The cluster of stowplan.testing: the real engine on objects in memory."""

from pathlib import Path
from typing import Any

import pytest

from stowplan.api.meta import LabelSelector, Namespace, ObjectMeta
from stowplan.config import ConfigError, default_profile
from stowplan.scheduler.framework.contract import Contract, Reads
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin, Scores
from stowplan.scheduler.framework.status import PluginError, ProfileError
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRow, NodeRows
from stowplan.testing import cluster, node, pod

HOSTNAME = "kubernetes.io/hostname"


class LastName(Plugin):
    """Loves the node whose name its args give."""

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        wanted = (self.args or {}).get("name", "b")
        return 100 if node.name == wanted else 0


class Broken(Plugin):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> None:
        raise KeyError("price")


class Stale(Plugin):
    """Says it reads nothing of a node, and then counts its pods."""

    contract = Contract(reads=Reads.NOTHING)

    def sign(self, pod: PodInfo) -> str:
        return ""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return 100 - nodes.pod_count


def test_scheduling_fills_the_cluster() -> None:
    c = cluster(nodes=[node("a").capacity(pods=1), node("b").capacity(pods=1)])
    first, second, third = (c.schedule(pod(name)) for name in ("p", "q", "r"))
    assert {first.node, second.node} == {"a", "b"}
    assert third.node is None
    assert third.message == "0/2 nodes are available: 2 Too many pods."
    assert c.pods_on("a") + c.pods_on("b") in (["default/p", "default/q"], ["default/q", "default/p"])


def test_deciding_changes_nothing() -> None:
    c = cluster(nodes=[node("a").capacity(pods=1)])
    assert c.decide(pod("p")).node == "a"
    assert c.decide(pod("q")).node == "a"
    assert c.pods_on("a") == []


def test_pods_that_run_already_take_their_room() -> None:
    running = pod("old").requests(cpu="3500m").on("a")
    c = cluster(nodes=[node("a"), node("b").capacity(cpu="1")], pods=[running])
    assert c.schedule(pod("p").requests(cpu="600m")).node == "b"
    c.remove(running)
    assert c.schedule(pod("q").requests(cpu="2")).node == "a"


def test_objects_come_and_go() -> None:
    c = cluster()
    assert c.schedule(pod("p")).message == "no nodes available to schedule pods"
    c.add(node("a"))
    assert c.schedule(pod("p")).node == "a"
    c.add(node("a").unschedulable())
    assert c.schedule(pod("q")).node is None
    c.remove(node("a"))
    assert c.table.node_count == 0


def test_namespaces_are_looked_up() -> None:
    friends = Namespace(kind="Namespace", metadata=ObjectMeta(name="friends", labels={"club": "yes"}))
    c = cluster(
        nodes=[node("a"), node("b")],
        pods=[pod("other").namespace("friends").labels(app="x").on("a")],
        objects=[friends],
    )
    club = LabelSelector(match_labels={"club": "yes"})
    wish = pod("p").affinity(HOSTNAME, {"app": "x"}, namespace_selector=club)
    assert c.decide(wish).node == "a"
    c.remove(friends)
    assert c.decide(wish).node is None


@pytest.mark.parametrize("seed", range(3))
def test_equal_nodes_are_chosen_by_seed(seed: int) -> None:
    def choices() -> list[str | None]:
        c = cluster(nodes=[node(name) for name in "abcdefgh"], seed=seed)
        return [c.schedule(pod(f"p{n}").requests(cpu="1")).node for n in range(6)]

    assert choices() == choices()


def test_different_seeds_choose_differently() -> None:
    chosen = {
        cluster(nodes=[node(name) for name in "abcdefgh"], seed=s).schedule(pod("p")).node for s in range(20)
    }
    assert len(chosen) > 3


def test_a_nominated_node_is_taken_if_it_can_be() -> None:
    c = cluster(nodes=[node("a"), node("b").capacity(cpu="100")])
    decision = c.decide(pod("p").requests(cpu="1").nominated("a"))
    assert (decision.node, decision.nominated) == ("a", True)
    decision = c.decide(pod("p").requests(cpu="50").nominated("a"))
    assert (decision.node, decision.nominated) == ("b", False)


def test_plugins_join_the_default_profile() -> None:
    c = cluster(nodes=[node("a").capacity(cpu="5"), node("b")], plugins=[LastName])
    decision = c.decide(pod("p").requests(cpu="100m"))
    assert decision.node == "b"
    assert decision.weights["LastName"] == 1


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "mine",
            "plugins": {"score": {"enabled": [{"name": "LastName", "weight": 9}]}},
            "pluginConfig": [{"name": "LastName", "args": {"name": "c"}}],
        }
    ],
}


def test_a_config_gives_weight_and_arguments(tmp_path: Path) -> None:
    as_text = str(CONFIG).replace("'", '"')
    file = tmp_path / "scheduler.yaml"
    file.write_text(as_text)
    for config in (CONFIG, as_text, file):
        c = cluster(nodes=[node(n) for n in "abc"], plugins=[LastName], config=config)
        decision = c.decide(pod("p").scheduler("mine"))
        assert decision.node == "c"
        assert decision.best[0].scores["LastName"] == 900


def test_a_resolved_profile_can_be_given() -> None:
    c = cluster(nodes=[node("a")], config=default_profile())
    assert c.schedule(pod("p")).node == "a"


def test_a_config_decides_whether_a_plugin_is_used() -> None:
    plain: dict[str, Any] = {**CONFIG, "profiles": [{"schedulerName": "default-scheduler"}]}
    decision = cluster(nodes=[node("a"), node("b")], plugins=[LastName], config=plain).decide(pod("p"))
    assert "LastName" not in decision.weights


def test_a_failing_plugin_is_named() -> None:
    c = cluster(nodes=[node("a")], plugins=[Broken])
    with pytest.raises(PluginError, match=r'running "Broken" filter plugin: KeyError: \'price\''):
        c.schedule(pod("p"))


def test_wrong_declarations_show_without_reuse() -> None:
    def totals(reuse: bool) -> list[int]:
        c = cluster(nodes=[node("a"), node("b")], plugins=[Stale], reuse=reuse)
        for n in range(4):
            c.schedule(pod(f"p{n}"))
        return [candidate.scores["Stale"] for candidate in c.decide(pod("p")).best]

    assert totals(reuse=False) == [98, 98]
    assert totals(reuse=True) == [100, 100]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(
            lambda: cluster(pods=[pod("p")]),
            ValueError,
            "pod default/p: expected one that is on a node",
            id="pod",
        ),
        pytest.param(
            lambda: cluster().schedule(pod("p").scheduler("x")),
            LookupError,
            "pod default/p: no profile for scheduler 'x', there is default-scheduler",
            id="scheduler",
        ),
        pytest.param(lambda: cluster().pods_on("a"), LookupError, "no node a", id="node"),
        pytest.param(lambda: cluster(config="kind: Pod"), ConfigError, "apiVersion", id="config"),
        pytest.param(
            lambda: cluster(plugins=["nowhere"]), ProfileError, "expected module:Class", id="plugin"
        ),
    ],
)
def test_mistakes_are_told(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
