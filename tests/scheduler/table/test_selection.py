"""Node selectors over all rows give the same result as for each node, by every path of the search."""

from collections.abc import Mapping
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import selector_from_labels, sorted_requirement
from stowplan.api.rules.nodeselector import CompiledNodeSelector, FieldRequirement, RequiredNodeAffinity, Term
from stowplan.scheduler.table import nodelabels, selection
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRows
from stowplan.testing import node

KEYS = st.sampled_from(["zone", "disk", "size", "rare", "nowhere"])
VALUES = st.sampled_from(["a", "b", "", "1", "5", "-3", "7", "x9"])
LABELS = st.dictionaries(st.sampled_from(["zone", "disk", "size"]), VALUES)
NODES = st.lists(LABELS, min_size=1, max_size=14)
NAMES = st.integers(0, 15).map("n{}".format)

REQUIREMENTS = st.one_of(
    st.builds(
        sorted_requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=3)
    ),
    st.builds(sorted_requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
    st.builds(
        sorted_requirement,
        KEYS,
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["0", "5", "6", "-9", "9223372036854775807", "-9223372036854775808", "x"]).map(
            lambda v: [v]
        ),
    ),
)
FIELDS = st.builds(
    FieldRequirement,
    st.sampled_from(["metadata.name", "metadata.name", "metadata.other"]),
    st.sampled_from(["In", "NotIn"]),
    st.one_of(NAMES, st.just("")),
)
TERMS = st.builds(
    Term,
    st.lists(REQUIREMENTS, max_size=4).map(tuple),
    st.lists(FIELDS, max_size=1).map(tuple),
    st.sampled_from([(), (), (), (), ("unreadable",)]),
)
AFFINITIES = st.builds(
    RequiredNodeAffinity,
    st.one_of(st.none(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=2).map(selector_from_labels)),
    st.one_of(st.none(), st.lists(TERMS, max_size=5).map(lambda terms: CompiledNodeSelector(tuple(terms)))),
)


def made(nodes: list[dict[str, str]], gone: list[int]) -> ClusterTable:
    table = ClusterTable()
    for number, labels in enumerate(nodes):
        table.put_node(node(f"n{number}").labels(labels).labels({"rare": "a"} if number == 1 else {}).obj())
    for number in gone:
        if table.row_of(f"n{number}") is not None:
            table.remove_node(f"n{number}")
    return table


def labels_of(table: ClusterTable) -> dict[int, tuple[Mapping[str, str], str]]:
    return {row: (n.metadata.labels, n.name) for row, n in enumerate(table.nodes) if n is not None}


few = mock.patch.multiple


@given(
    NODES,
    st.lists(st.integers(0, 13), max_size=2),
    AFFINITIES,
    st.sampled_from([0, 2]),
    st.sampled_from([0, 3]),
)
def test_required_affinity_is_that_of_each_node(
    nodes: list[dict[str, str]], gone: list[int], affinity: RequiredNodeAffinity, directly: int, listed: int
) -> None:
    with few(selection, _FEW=directly), few(nodelabels, FEW=listed):
        table = made(nodes, gone)
        found = selection.matching_affinity(affinity, table.all_rows())
        some = np.array(sorted(labels_of(table)), dtype=np.intp)
        picked = selection.matching_affinity(affinity, NodeRows(table, some))
    for place, row in enumerate(some.tolist()):
        expected = affinity.matches(*labels_of(table)[row])
        assert found[row] == expected
        assert picked[place] == expected


@given(
    NODES,
    st.lists(st.integers(0, 13), max_size=2),
    st.lists(st.tuples(st.integers(1, 100), TERMS), max_size=8),
    st.sampled_from([0, 2]),
    st.sampled_from([0, 3]),
)
def test_preferences_add_up_as_for_each_node(
    nodes: list[dict[str, str]],
    gone: list[int],
    terms: list[tuple[int, Term]],
    directly: int,
    listed: int,
) -> None:
    with few(selection, _FEW=directly), few(nodelabels, FEW=listed):
        table = made(nodes, gone)
        found = selection.preference_scores([*terms, *terms[:2]], table.all_rows())
    for row, (labels, name) in labels_of(table).items():
        assert found[row] == sum(w for w, term in [*terms, *terms[:2]] if term.matches(labels, name))


HISTORY = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), LABELS)), max_size=40)


@given(HISTORY, st.sampled_from([0, 2]))
def test_columns_are_current_as_nodes_come_change_and_go(
    history: list[tuple[int, dict[str, str] | None]], listed: int
) -> None:
    """Those that are held, from before any node had the key, and those that are made for a glance."""
    with few(nodelabels, FEW=listed, _UNHELD=1):
        table = ClusterTable()
        held = table.labels.acquire("zone")
        for number, labels in history:
            name = f"n{number}"
            if labels is not None:
                table.put_node(node(name).labels(labels).obj())
            elif table.row_of(name) is not None:
                table.remove_node(name)
            for key in ("zone", "disk", "size"):
                column = table.label_column(key)
                assert key != "zone" or column is held or not held.index
                for row, there in enumerate(table.nodes):
                    expected = None if there is None else there.metadata.labels.get(key)
                    assert column.values[column.ids.item(row)] == expected
                    if key == "zone":
                        assert held.values[held.ids.item(row)] == expected
                present = [n for n in table.nodes if n is not None and key in n.metadata.labels]
                assert table.labels.any_with(key) == bool(present)
                rows = table.labels.few_with(key)
                if rows is not None:
                    assert rows == {table.row_of(n.name) for n in present}
                else:
                    assert len(present) > listed // 2
        table.labels.release(held)
        for number in range(6):
            if table.row_of(f"n{number}") is not None:
                table.remove_node(f"n{number}")
        assert set(table.labels.sizes().values()) == {0}
