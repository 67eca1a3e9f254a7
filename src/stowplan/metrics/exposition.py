"""The figures as Prometheus reads them: as text, or as delimited protobuf messages."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from stowplan.metrics.figures import number_text
from stowplan.metrics.options import SHOW_EVERYTHING, Visibility


class Shown(NamedTuple):
    """One family under the name it is shown by."""

    name: str
    help: str
    type: str
    samples: list[Sample]


def shown_families(collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING) -> list[Shown]:
    """All families that have samples, in the order of their names, as kube-scheduler shows them."""
    visibility.begin()
    found = [shown for collector in collectors for metric in collector.collect() for shown in _shown(metric)]
    seen = [_seen(family, visibility) for family in found if family.name not in visibility.disabled]
    visibility.end()
    return sorted(seen, key=lambda family: family.name)


def exposition(collectors: Iterable[Collector], visibility: Visibility = SHOW_EVERYTHING) -> bytes:
    """The text of all figures."""
    families = shown_families(collectors, visibility)
    return "".join(piece for family in families for piece in _text(family)).encode()


def _shown(metric: Metric) -> Iterator[Shown]:
    """A family if it has samples; when a series came into being is not told."""
    samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    if samples:
        name = samples[0].name if metric.type == "counter" else metric.name
        yield Shown(name, metric.documentation, metric.type, samples)


def _seen(family: Shown, visibility: Visibility) -> Shown:
    """The family with label values that are not allowed shown as one."""
    allowed = visibility.allowed.get(family.name)
    if allowed is None:
        return family
    return family._replace(samples=visibility.folded(family.samples, family.type, allowed))


def _text(family: Shown) -> Iterator[str]:
    yield help_and_type(family.name, family.help, family.type)
    for sample in family.samples:
        yield f"{sample.name}{label_text(sample.labels)} {number_text(sample.value)}\n"


def help_and_type(name: str, text: str, kind: str) -> str:
    """The two lines that come before a family's samples."""
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def label_text(labels: dict[str, str]) -> str:
    """Labels in the order of their names; a bucket's bound or a quantile comes last."""
    if not labels:
        return ""
    names = sorted(labels, key=lambda name: (name in ("le", "quantile"), name))
    return "{" + ",".join(f'{name}="{escaped(str(labels[name]))}"' for name in names) + "}"


def escaped(value: str) -> str:
    """A label's value as it stands in quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value
