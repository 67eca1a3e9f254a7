"""The small parts that count: each against the plainest way of doing the same."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.pod import HostPort, conflicts
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.columns import DENSE_FROM, Counts
from stowplan.scheduler.table.nodecontents import HostPortIndex
from stowplan.scheduler.table.nodelabels import LabelColumn

# Counts by index


@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from([1, 1, 1, 2, -1])), max_size=200))
def test_counts_are_those_of_a_counter_whether_few_or_many(changes: list[tuple[int, int]]) -> None:
    counts, plain = Counts(), Counter[int]()
    for index, delta in changes:
        before = counts.version
        counts.add(index, delta)
        plain[index] += delta
        assert counts.version == before + 1
    expected = [plain[index] for index in range(201)]
    assert counts.total == sum(expected)
    assert [counts.get(index) for index in range(201)] == expected
    assert counts.to_array(201).tolist() == expected
    assert counts.at(slice(0, 100), 201).tolist() == expected[:100]
    assert counts.at(np.array([7, 150]), 201).tolist() == [expected[7], expected[150]]
    weighted = np.ones(201, dtype=np.int64)
    counts.add_into(weighted, 3)
    assert weighted.tolist() == [1 + 3 * count for count in expected]


def test_counts_stay_right_while_they_turn_from_few_to_many() -> None:
    counts = Counts()
    for index in range(0, 4 * DENSE_FROM, 2):
        counts.add(index, index + 1)
    assert counts.get(2 * DENSE_FROM) == 2 * DENSE_FROM + 1
    assert counts.get(2 * DENSE_FROM + 1) == 0
    assert counts.get(10_000) == 0
    counts.add(10_000, 5)
    assert counts.get(10_000) == 5


@given(
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["clear", "fill"])), max_size=60),
    st.integers(0, 60),
)
def test_what_changed_since_a_version_covers_every_difference(changes: list[int | str], look_at: int) -> None:
    counts = Counts()
    version, then = 0, [0] * 10
    for number, change in enumerate(changes):
        if number == look_at:
            version, then = counts.version, counts.to_array(10).tolist()
        if change == "clear":
            counts.clear()
        elif change == "fill":
            counts.fill(np.arange(10))
        else:
            counts.add(int(change), 1)
    changed = counts.changed_since(version)
    if changed is not None:
        now = counts.to_array(10).tolist()
        assert {index for index in range(10) if now[index] != then[index]} <= set(changed)
    if version == counts.version:
        assert changed == []


# The log of touched rows


@given(st.lists(st.integers(0, 6), max_size=80), st.integers(0, 80), st.integers(2, 30))
def test_a_reader_is_told_all_rows_since_or_that_it_was_too_long_ago(
    rows: list[int], look_at: int, limit: int
) -> None:
    log = ChangeLog(limit)
    position = log.position
    for number, row in enumerate(rows):
        if number == look_at:
            position = log.position
        log.append(row)
    start = look_at if look_at < len(rows) else 0
    assert position == start
    expected = set(rows[start:])
    found = log.since(position)
    if found is None:
        assert len(rows) - start > limit // 2
    else:
        assert len(found) == len(set(found.tolist()))
        assert set(found.tolist()) == expected
    few = log.few_since(position, 3)
    if few is not None:
        assert found is not None
        assert len(few) == len(set(few)) <= 3
        assert set(few) == expected
    elif found is not None:
        assert len(rows) - start > 1


# Label values by id


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["x", "y", "z", "", None])), max_size=60))
def test_a_label_column_says_of_every_row_what_was_said_last(steps: list[tuple[int, str | None]]) -> None:
    column, plain = LabelColumn("zone", np.zeros(8, dtype=np.intp)), dict[int, str | None]()
    for row, value in steps:
        column.set(row, value)
        plain[row] = value
        assert [column.values[int(column.ids[row])] for row in range(8)] == [plain.get(r) for r in range(8)]
        in_use = {value for value in plain.values() if value is not None}
        assert set(column.index) == in_use
        assert column.size <= 1 + 4, "ids are used again"
        for value, number in column.index.items():
            rows = {row for row, said in plain.items() if said == value}
            assert column.populations[number] == len(rows)
            assert set(column.rows_of([number], 8).tolist()) == rows
        together = set(column.rows_of(sorted(column.index.values()), 8).tolist())
        assert together == {row for row, said in plain.items() if said is not None}


def test_ids_of_values_that_are_gone_are_used_again() -> None:
    column = LabelColumn("kubernetes.io/hostname", np.zeros(4, dtype=np.intp))
    for number in range(1000):
        column.set(number % 4, f"host-{number}")
    assert column.size <= 1 + 4 + 1


# Host ports

ports = st.builds(
    HostPort,
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([80, 443]),
)
port_lists = st.lists(ports, max_size=3).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 3), port_lists, st.booleans()), max_size=12), port_lists)
def test_ports_clash_on_the_rows_where_one_pod_s_ports_do(
    steps: list[tuple[int, tuple[HostPort, ...], bool]], wanted: tuple[HostPort, ...]
) -> None:
    index, users = HostPortIndex(), list[tuple[int, tuple[HostPort, ...]]]()
    for row, taken, stays in steps:
        index.add(row, taken, 1)
        if stays:
            users.append((row, taken))
        else:
            index.add(row, taken, -1)
    assert index.conflicting_rows(wanted) == {row for row, taken in users if conflicts(wanted, taken)}
    for row, taken in users:
        index.add(row, taken, -1)
    assert index.conflicting_rows(wanted) == set()
