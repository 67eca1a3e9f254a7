"""Native histograms: buckets of values, and their format next to the classic buckets."""

from collections.abc import Iterator
from math import inf, nan
from random import Random
from struct import unpack

import pytest

from releases import GATES_1_36, GATES_1_37, V1_37
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.metrics.exposition import delimited, exposition
from stowplan.scheduler.metrics.native import COARSEST_SCHEMA, MOST_BUCKETS, NativeBuckets, spans_and_deltas
from stowplan.scheduler.metrics.scheduling import SchedulerMetrics


@pytest.mark.parametrize(
    ("values", "spans", "deltas"),
    [
        ((0, 1, 2, 3), [(0, 1), (7, 1), (4, 1)], [1, 0, 0]),
        ((1, 1.1, 1.2), [(0, 4)], [1, -1, 1, 0]),
        ((0.001, 0.001, 0.5), [(-79, 1), (70, 1)], [2, -1]),
        ((inf, 1.0), [(0, 1), (8192, 1)], [1, 0]),
    ],
)
def test_values_are_in_the_buckets_that_prometheus_has(
    values: tuple[float, ...], spans: list[tuple[int, int]], deltas: list[int]
) -> None:
    """A bucket has its upper bound: that of number n is 2 ** (n / 8)."""
    native = NativeBuckets()
    native.take(values)
    assert native.schema == 3
    assert native.zeros == values.count(0)
    assert spans_and_deltas(native.positive) == (spans, deltas)


def test_negative_values_have_buckets_of_their_own_and_nan_has_none() -> None:
    native = NativeBuckets()
    native.take((-1.0, -2.0, nan, 4.0))
    assert (dict(native.negative), dict(native.positive)) == ({0: 1, 8: 1}, {16: 1})


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 7.0, -2.0, nan])
def test_a_value_can_be_repeated(value: float) -> None:
    repeated, one_by_one = NativeBuckets(), NativeBuckets()
    for native in (repeated, one_by_one):
        native.take((0.3, 5.0))
    repeated.repeat(value, 3)
    one_by_one.take((value, value, value))
    assert repeated.zeros == one_by_one.zeros
    assert (repeated.positive, repeated.negative) == (one_by_one.positive, one_by_one.negative)


def test_too_many_buckets_are_joined() -> None:
    rng = Random(1)
    values = [10 ** rng.uniform(-30, 300) for _ in range(5000)]
    at_once, one_by_one = NativeBuckets(), NativeBuckets()
    at_once.take(values)
    for place in range(0, len(values), 100):
        one_by_one.take(values[place : place + 100])
    assert sum(at_once.positive.values()) == len(values)
    assert COARSEST_SCHEMA <= at_once.schema < 3
    assert len(at_once.positive) <= MOST_BUCKETS
    assert (one_by_one.schema, one_by_one.positive) == (at_once.schema, at_once.positive)


@pytest.mark.parametrize(
    ("gates", "expected"),
    [(GATES_1_37, True), (GATES_1_36, False), (FeatureGates({"NativeHistograms": False}, V1_37), False)],
)
def test_scrapes_in_protobuf_have_them_with_the_gate(gates: FeatureGates, expected: bool) -> None:
    metrics = SchedulerMetrics(lambda: 0.0, gates, Random(0))
    for seconds in (0.0, 1.0, 2.0, 3.0):
        metrics.attempt("scheduled", "default-scheduler", seconds)
    written = dict(_families(delimited([metrics.registry])))
    [series] = [
        part for number, part in written["scheduler_scheduling_attempt_duration_seconds"] if number == 4
    ]
    [histogram] = [bytes(part) for number, part in _fields(series) if number == 7]  # type: ignore[arg-type]
    fields = list(_fields(histogram))
    assert dict(fields)[1] == 4
    found = [(number, value) for number, value in fields if number in (5, 7, 13)]
    assert found == ([(5, 6), (7, 1), (13, 2), (13, 0), (13, 0)] if expected else [])
    assert b"schema" not in exposition([metrics.registry])


def _families(data: bytes) -> Iterator[tuple[str, list[tuple[int, int | bytes | float]]]]:
    place = 0
    while place < len(data):
        length, place = _varint(data, place)
        fields = list(_fields(data[place : place + length]))
        yield bytes(dict(fields)[1]).decode(), fields  # type: ignore[arg-type]
        place += length


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes | float]]:
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        if key & 7 == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
        elif key & 7 == 1:
            yield key >> 3, unpack("<d", data[place : place + 8])[0]
            place += 8
        else:
            length, place = _varint(data, place)
            yield key >> 3, data[place : place + length]
            place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        shift += 7
        place += 1
        if byte < 0x80:
            return value, place
