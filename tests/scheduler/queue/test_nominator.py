"""Nodes that are nominated to pods."""

import pytest

from releases import GATES_1_36, GATES_1_37
from scheduler.queue.still_queue import rig
from stowplan.api.pod import Pod
from stowplan.scheduler.queue.nominator import Nominator
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import PodBuilder, pod

TABLE = ClusterTable()


def info(builder: PodBuilder) -> PodInfo:
    return TABLE.info(builder.obj())


def nominated(nominator: Nominator) -> dict[str, list[str]]:
    return {node: [pod.name for pod in pods.values()] for node, pods in nominator.by_node.items()}


@pytest.mark.parametrize(
    ("in_status", "given", "expected"),
    [
        ("", None, {}),
        ("a", None, {"a": ["p"]}),
        ("a", "b", {"b": ["p"]}),
        ("a", "", {}),
        ("", "b", {"b": ["p"]}),
    ],
)
def test_what_is_given_goes_before_what_the_status_says(
    in_status: str, given: str | None, expected: dict[str, list[str]]
) -> None:
    nominator = Nominator()
    nominator.add(info(pod("p").nominated(in_status)), given)
    assert nominated(nominator) == expected


def test_a_pod_is_nominated_one_node_at_a_time() -> None:
    nominator = Nominator()
    nominator.add(info(pod("p")), "a")
    nominator.add(info(pod("q")), "a")
    nominator.add(info(pod("p")), "b")
    assert nominated(nominator) == {"a": ["q"], "b": ["p"]}
    assert nominator.node_of(pod("p").obj().metadata.uid) == "b"
    assert [each.name for each in nominator.pods_for("a")] == ["q"]
    assert len(nominator) == 2
    nominator.remove(pod("q").obj().metadata.uid)
    nominator.remove(pod("q").obj().metadata.uid)
    assert nominated(nominator) == {"b": ["p"]}


@pytest.mark.parametrize(
    ("known", "expected"),
    [(None, {}), (pod("p").on("n").obj(), {}), (pod("p").obj(), {"a": ["p"]})],
)
def test_a_pod_that_is_gone_or_on_a_node_gets_no_nomination(
    known: Pod | None, expected: dict[str, list[str]]
) -> None:
    nominator = Nominator(lambda key: known)
    nominator.add(info(pod("p")), "a")
    assert nominated(nominator) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", {"memory": ["p"]}),
        ("", "b", {"b": ["p"]}),
        ("a", "b", {"b": ["p"]}),
        ("a", "", {}),
        ("a", "a", {"a": ["p"]}),
    ],
)
def test_an_update_says_what_is_nominated_unless_it_knows_nothing_of_nominations(
    before: str, after: str, expected: dict[str, list[str]]
) -> None:
    nominator = Nominator()
    nominator.add(info(pod("p")), "memory")
    nominator.update(pod("p").nominated(before).obj(), info(pod("p").nominated(after).labels(v="2")))
    assert nominated(nominator) == expected
    for node in expected:
        assert [each.labels for each in nominator.pods_for(node)] == [{"v": "2"}]


def test_the_queue_takes_nominations_from_new_and_updated_pods_and_takes_them_back_from_deleted_ones() -> (
    None
):
    r = rig()
    builder = pod("p").nominated("a")
    r.add(builder)
    assert nominated(r.queue.nominator) == {"a": ["p"]}
    moved = pod("p").nominated("b")
    r.queue.update(builder.obj(), moved.obj())
    assert nominated(r.queue.nominator) == {"b": ["p"]}
    r.queue.delete(moved.obj())
    assert nominated(r.queue.nominator) == {}
    r.queue.update(builder.obj(), moved.obj())
    assert nominated(r.queue.nominator) == {"b": ["p"]}


def test_a_nomination_lasts_while_the_pod_is_in_flight_or_waits() -> None:
    r = rig()
    r.add(pod("p").nominated("a"))
    queued = r.pop()
    r.queue.nominator.add(queued.pod, "b")
    r.reject(queued, "NodeName")
    assert nominated(r.queue.nominator) == {"b": ["p"]}


def test_a_gated_pod_is_nominated_since_1_37() -> None:
    for gates, expected in ((GATES_1_36, {}), (GATES_1_37, {"a": ["p"]})):
        r = rig(gates=gates)
        r.add(pod("p").gates("g").nominated("a"))
        assert nominated(r.queue.nominator) == expected
