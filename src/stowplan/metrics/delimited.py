"""The figures as protobuf messages, each after its length: the other form Prometheus can ask for.

The messages are those of `io.prometheus.client.MetricFamily`. Only what is needed of protobuf is here: text,
whole numbers, doubles and messages inside of messages.
"""

from collections.abc import Iterable
from itertools import groupby
from struct import pack
from typing import Final

from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from stowplan.metrics.exposition import Shown, shown_families
from stowplan.metrics.options import SHOW_EVERYTHING, Visibility

_TYPES: Final = {"counter": 0, "gauge": 1, "summary": 2, "unknown": 3, "histogram": 4}
_GAUGE, _COUNTER, _SUMMARY, _UNTYPED, _HISTOGRAM = 2, 3, 4, 5, 7
_VALUES: Final = {"counter": _COUNTER, "gauge": _GAUGE}


def delimited(collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING) -> bytes:
    """All figures, one message for each family."""
    messages = (_family(family) for family in shown_families(collectors, visibility))
    return b"".join(_varint(len(message)) + message for message in messages)


def _family(family: Shown) -> bytes:
    kind = _TYPES.get(family.type, _TYPES["unknown"])
    head = _text(1, family.name) + _text(2, family.help) + _number(3, kind)
    if family.type in ("histogram", "summary"):
        return head + b"".join(_bytes(4, metric) for metric in _distributions(family))
    field = _VALUES.get(family.type, _UNTYPED)
    return head + b"".join(
        _bytes(4, _labels(sample.labels) + _bytes(field, _double(1, sample.value)))
        for sample in family.samples
    )


def _distributions(family: Shown) -> Iterable[bytes]:
    """One message for each series: its buckets or quantiles, count and sum follow each other."""
    field = _HISTOGRAM if family.type == "histogram" else _SUMMARY
    for labels, group in groupby(family.samples, key=_series):
        count, total, parts = 0.0, 0.0, b""
        for sample in group:
            if sample.name.endswith("_bucket"):
                bound = float(sample.labels["le"])
                parts += _bytes(3, _number(1, int(sample.value)) + _double(2, bound))
            elif "quantile" in sample.labels:
                parts += _bytes(3, _double(1, float(sample.labels["quantile"])) + _double(2, sample.value))
            elif sample.name.endswith("_count"):
                count = sample.value
            else:
                total = sample.value
        whole = _number(1, int(count)) + _double(2, total) + parts
        yield _labels(dict(labels)) + _bytes(field, whole)


def _series(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in sample.labels.items() if name not in ("le", "quantile"))


def _labels(labels: dict[str, str]) -> bytes:
    pairs = sorted(labels.items())
    return b"".join(_bytes(1, _text(1, name) + _text(2, str(value))) for name, value in pairs)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + pack("<d", value)
