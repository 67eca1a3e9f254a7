"""The exposition formats of Prometheus: text, and delimited protobuf messages."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import groupby
from math import isinf, isnan
from struct import pack
from typing import Final, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from stowplan.gocompat.protowire import length_delimited, varint
from stowplan.scheduler.metrics.native import ZERO_THRESHOLD, NativeBuckets, spans_and_deltas
from stowplan.scheduler.metrics.options import SHOW_EVERYTHING, Visibility

_PLAIN_INTEGERS_BELOW: Final = 1_000_000
_MIN_PLAIN_EXPONENT: Final = -4
_MAX_PLAIN_EXPONENT: Final = 6

_TYPES: Final = {"counter": 0, "gauge": 1, "summary": 2, "unknown": 3, "histogram": 4}
_GAUGE, _COUNTER, _SUMMARY, _UNTYPED, _HISTOGRAM = 2, 3, 4, 5, 7
_VALUE_FIELDS: Final = {"counter": _COUNTER, "gauge": _GAUGE}

Natives = Mapping[tuple[tuple[str, str], ...], NativeBuckets]
_NO_NATIVES: Final[Natives] = {}


# Text


class ExposedFamily(NamedTuple):
    """A family as it is exposed."""

    name: str
    help: str
    type: str
    samples: list[Sample]
    natives: Natives = _NO_NATIVES
    """The native buckets of histograms, by the labels of the series."""


def exposed_families(
    collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING
) -> list[ExposedFamily]:
    """All families that have samples, sorted by name."""
    visibility.begin()
    found = [
        shown for collector in collectors for metric in collector.collect() for shown in _with_samples(metric)
    ]
    unseen = visibility.disabled | visibility.hidden
    seen = [_with_allowed_labels(family, visibility) for family in found if family.name not in unseen]
    visibility.end()
    return sorted(seen, key=lambda family: family.name)


def exposition(collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING) -> bytes:
    """All metrics in the text format."""
    families = exposed_families(collectors, visibility)
    return "".join(piece for family in families for piece in _lines(family)).encode()


def _with_samples(metric: Metric) -> Iterator[ExposedFamily]:
    """A family if it has samples; `_created` samples are dropped."""
    samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    if samples:
        name = samples[0].name if metric.type == "counter" else metric.name
        natives: Natives = getattr(metric, "natives", _NO_NATIVES)
        yield ExposedFamily(name, metric.documentation, metric.type, samples, natives)


def _with_allowed_labels(family: ExposedFamily, visibility: Visibility) -> ExposedFamily:
    """The family with disallowed label values replaced; series that are joined have classic buckets only."""
    allowed = visibility.allowed.get(family.name)
    if allowed is None:
        return family
    folded = visibility.folded(family.samples, family.type, allowed)
    return family._replace(samples=folded, natives=_NO_NATIVES)


def _lines(family: ExposedFamily) -> Iterator[str]:
    yield help_and_type(family.name, family.help, family.type)
    for sample in family.samples:
        yield f"{sample.name}{label_text(sample.labels)} {number_text(sample.value)}\n"


def help_and_type(name: str, text: str, kind: str) -> str:
    """The HELP and TYPE lines of a family."""
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def label_text(labels: dict[str, str]) -> str:
    """Labels sorted by name; `le` and `quantile` come last."""
    if not labels:
        return ""
    names = sorted(labels, key=lambda name: (name in ("le", "quantile"), name))
    return "{" + ",".join(f'{name}="{escaped(str(labels[name]))}"' for name in names) + "}"


def escaped(value: str) -> str:
    """The escaped value of a label."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


# Numbers as Go writes them


def number_text(value: float) -> str:
    """The shortest form that parses as the same number; with an exponent from a million on."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if -_PLAIN_INTEGERS_BELOW < value < _PLAIN_INTEGERS_BELOW and value == (whole := int(value)):
        return str(whole)
    return _shortest_repr(float(value))


def _shortest_repr(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + exponent - 1
    minus = "-" if sign else ""
    if _MIN_PLAIN_EXPONENT <= power < _MAX_PLAIN_EXPONENT:
        return repr(value).removesuffix(".0")
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


# Delimited messages of io.prometheus.client.MetricFamily


def delimited(collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING) -> bytes:
    """All metrics, one length-delimited message per family."""
    messages = (_family_message(family) for family in exposed_families(collectors, visibility))
    return b"".join(varint(len(message)) + message for message in messages)


def _family_message(family: ExposedFamily) -> bytes:
    kind = _TYPES.get(family.type, _TYPES["unknown"])
    head = _string_field(1, family.name) + _string_field(2, family.help) + _varint_field(3, kind)
    if family.type in ("histogram", "summary"):
        return head + b"".join(length_delimited(4, metric) for metric in _distribution_messages(family))
    field = _VALUE_FIELDS.get(family.type, _UNTYPED)
    return head + b"".join(
        length_delimited(
            4, _label_pairs(sample.labels) + length_delimited(field, _double_field(1, sample.value))
        )
        for sample in family.samples
    )


def _distribution_messages(family: ExposedFamily) -> Iterable[bytes]:
    """One message per series of a histogram or summary."""
    field = _HISTOGRAM if family.type == "histogram" else _SUMMARY
    for labels, group in groupby(family.samples, key=_series_labels):
        count, total, parts = 0.0, 0.0, b""
        for sample in group:
            if sample.name.endswith("_bucket"):
                bound = float(sample.labels["le"])
                parts += length_delimited(3, _varint_field(1, int(sample.value)) + _double_field(2, bound))
            elif "quantile" in sample.labels:
                parts += length_delimited(
                    3, _double_field(1, float(sample.labels["quantile"])) + _double_field(2, sample.value)
                )
            elif sample.name.endswith("_count"):
                count = sample.value
            else:
                total = sample.value
        native = family.natives.get(labels)
        if native is not None:
            parts += _native_fields(native)
        whole = _varint_field(1, int(count)) + _double_field(2, total) + parts
        yield _label_pairs(dict(labels)) + length_delimited(field, whole)


def _native_fields(native: NativeBuckets) -> bytes:
    """The schema and the buckets of a native histogram."""
    head = _signed_field(5, native.schema) + _double_field(6, ZERO_THRESHOLD) + _varint_field(7, native.zeros)
    return head + _native_buckets(9, 10, native.negative) + _native_buckets(12, 13, native.positive)


def _native_buckets(spans_field: int, deltas_field: int, found: Counter[int]) -> bytes:
    spans, deltas = spans_and_deltas(found)
    return b"".join(
        (
            *(
                length_delimited(spans_field, _signed_field(1, span.offset) + _varint_field(2, span.length))
                for span in spans
            ),
            *(_signed_field(deltas_field, delta) for delta in deltas),
        )
    )


def _series_labels(sample: Sample) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in sample.labels.items() if name not in ("le", "quantile"))


def _label_pairs(labels: dict[str, str]) -> bytes:
    pairs = sorted(labels.items())
    return b"".join(
        length_delimited(1, _string_field(1, name) + _string_field(2, str(value))) for name, value in pairs
    )


def _string_field(field: int, value: str) -> bytes:
    return length_delimited(field, value.encode())


def _varint_field(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _signed_field(field: int, value: int) -> bytes:
    return _varint_field(field, value * 2 if value >= 0 else -value * 2 - 1)


def _double_field(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + pack("<d", value)
