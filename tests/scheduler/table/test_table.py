"""Nodes and pods come and go in any order; the table stays exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.quantity import QuantityError
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod
from stowplan.testing.builders import PodBuilder

NAMES = ("a", "b", "c")


def running(number: int, on: str) -> PodBuilder:
    return (
        pod(f"p{number}").requests(cpu=f"{100 + number}m", memory="1Gi").labels(app=f"x{number % 2}").on(on)
    )


def figures(table: ClusterTable) -> dict[str, tuple[int, ...]]:
    """Per node: allowed and counted pods, then allocatable and requested cpu and memory."""
    found = {}
    for name in NAMES:
        row = table.row_of(name)
        if row is not None:
            found[name] = (
                int(table.allowed_pods[row]),
                int(table.pod_count[row]),
                *table.allocatable[:2, row].tolist(),
                *table.requested[:2, row].tolist(),
                *table.non_zero[:, row].tolist(),
            )
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.integers(1, 4)),
        st.tuples(st.just("no node"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("pod"), st.sampled_from(NAMES), st.integers(0, 7)),
        st.tuples(st.just("no pod"), st.just(""), st.integers(0, 7)),
    ),
    max_size=40,
)


@given(steps)
def test_any_history_gives_the_same_columns_as_starting_over(history: list[tuple[str, str, int]]) -> None:
    table = ClusterTable()
    nodes: dict[str, int] = {}
    pods: dict[int, str] = {}
    for action, name, number in history:
        if action == "node":
            table.put_node(node(name).capacity(cpu=str(number), memory="8Gi").obj())
            nodes[name] = number
        elif action == "no node" and name in nodes:
            table.remove_node(name)
            del nodes[name]
        elif action == "pod":
            table.put_pod(running(number, name).obj())
            pods[number] = name
        elif action == "no pod" and number in pods:
            table.remove_pod(running(number, "a").obj().metadata.uid)
            del pods[number]
    fresh = ClusterTable()
    for name, size in nodes.items():
        fresh.put_node(node(name).capacity(cpu=str(size), memory="8Gi").obj())
    for number, name in pods.items():
        fresh.put_pod(running(number, name).obj())
    assert figures(table) == figures(fresh)
    assert table.node_count == len(nodes)
    assert set(table.pods) == set(fresh.pods)


def test_pods_of_an_unknown_node_count_once_it_appears() -> None:
    table = ClusterTable()
    table.put_pod(running(1, "a").obj())
    table.put_node(node("a").obj())
    assert figures(table)["a"][1] == 1
    table.remove_node("a")
    table.put_node(node("a").obj())
    assert figures(table)["a"][1] == 1


def test_rows_are_stable_and_used_again() -> None:
    table = ClusterTable()
    rows = [table.put_node(node(name).obj()) for name in NAMES]
    table.remove_node("b")
    assert table.put_node(node("a").labels(x="y").obj()) == rows[0]
    assert table.put_node(node("new").obj()) == rows[1]
    assert table.rows_in_use == 3


def test_the_table_grows_with_its_nodes_and_keeps_what_it_had() -> None:
    table = ClusterTable()
    disk = table.labels.acquire("disk")
    for number in range(300):
        table.put_node(node(f"n{number}").labels(disk=f"d{number % 3}").capacity(cpu=str(number)).obj())
    cpus = [int(table.allocatable[0, table.row_of(f"n{number}")]) for number in range(300)]
    assert cpus == [1000 * number for number in range(300)]
    assert len(disk.ids) == table.capacity
    assert disk.populations[1:] == [100, 100, 100]


def test_pods_count_on_as_the_table_grows_in_both_directions() -> None:
    table = ClusterTable()
    for number in range(200):
        name = f"n{number}"
        table.put_node(node(name).capacity({f"example.com/{number}": "3"}).obj())
        table.put_pod(running(number, name).requests({f"example.com/{number}": "2"}).obj())
    assert table.pod_count[:200].tolist() == [1] * 200
    assert table.requested[0, :200].tolist() == [100 + number for number in range(200)]
    assert table.non_zero[:, 199].tolist() == [299, 2**30]
    assert table.requested_of("example.com/199")[199] == 2
    assert table.allocatable_of("example.com/199")[199] == 3
    for uid in list(table.pods):
        table.remove_pod(uid)
    assert not np.any(table.requested)
    assert not np.any(table.non_zero)
    assert not np.any(table.pod_count)


def test_amounts_past_64_bits_stand_at_the_largest_number_and_come_back() -> None:
    table = ClusterTable()
    table.put_node(node("a").obj())
    for name in ("p", "q", "r"):
        table.put_pod(pod(name).requests(memory="6Ei").on("a").obj())
    assert table.requested[1, 0] == table.non_zero[1, 0] == 2**63 - 1
    assert table.exactly_requested(1, 0) == 18 * 2**60
    gone = table.remove_pod(next(iter(table.pods)))
    assert table.requested[1, 0] == 2**63 - 1
    table.remove_pod(next(iter(table.pods)))
    assert table.requested[1, 0] == 6 * 2**60
    table.place(gone, "a")
    assert table.exactly_requested(1, 0) == 12 * 2**60
    for uid in list(table.pods):
        table.remove_pod(uid)
    assert not np.any(table.requested)
    assert not np.any(table.non_zero)


def test_a_resource_nobody_had_before_gets_a_line_of_its_own() -> None:
    table = ClusterTable()
    table.put_node(node("a").obj())
    table.put_pod(pod("p").requests({"example.com/gpu": "2"}).on("a").obj())
    table.put_node(node("b").capacity({"example.com/fpga": "3"}).obj())
    b = table.node("b")
    a = table.node("a")
    assert a is not None
    assert b is not None
    assert (a.requested("example.com/gpu"), a.allocatable("example.com/gpu")) == (2, 0)
    assert (b.allocatable("example.com/fpga"), b.requested("example.com/gpu")) == (3, 0)


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    table = ClusterTable()
    table.put_node(node("a").capacity(cpu="4").obj())
    before = figures(table)
    for name in ("a", "b"):
        with pytest.raises(QuantityError):
            table.put_node(node(name).capacity(cpu="four").obj())
    assert figures(table) == before
    assert table.row_of("b") is None


def test_a_pod_that_cannot_be_read_changes_nothing() -> None:
    table = ClusterTable()
    table.put_node(node("a").obj())
    table.put_pod(pod("p").requests(cpu="1").on("a").obj())
    before = figures(table)
    for name in ("p", "q"):
        with pytest.raises(QuantityError):
            table.put_pod(pod(name).requests(cpu="one").on("a").obj())
    assert figures(table) == before
    assert len(table.pods) == 1


def test_an_update_that_changes_nothing_we_read_touches_no_row() -> None:
    table = ClusterTable()
    table.put_node(node("a").labels(x="1").obj())
    positions = (table.node_log.position, table.usage_log.position, table.topology_version)
    table.put_node(node("a").labels(x="1").obj())
    assert positions == (table.node_log.position, table.usage_log.position, table.topology_version)


def test_an_assumed_pod_counts_at_once_and_is_confirmed_without_counting_twice() -> None:
    table = ClusterTable()
    table.put_node(node("a").obj())
    table.assume(table.info(running(1, "").obj()), "a")
    assumed = figures(table)
    info = table.confirm(running(1, "a").obj())
    assert figures(table) == assumed
    assert not info.assumed
    table.remove_pod(info.uid)
    assert not np.any(table.requested)


def test_a_pod_confirmed_elsewhere_than_assumed_moves() -> None:
    table = ClusterTable()
    for name in ("a", "b"):
        table.put_node(node(name).obj())
    table.assume(table.info(running(1, "").obj()), "a")
    table.confirm(running(1, "b").obj())
    assert (figures(table)["a"][1], figures(table)["b"][1]) == (0, 1)


def test_a_value_id_is_used_again_after_its_last_node() -> None:
    table = ClusterTable()
    hosts = table.labels.acquire("host")
    for number in range(1000):
        table.put_node(node("a").labels(host=f"h{number}").obj())
    assert hosts.size <= 3
    assert hosts.values[hosts.ids[0]] == "h999"
