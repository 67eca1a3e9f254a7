"""The figures as text, in the format Prometheus reads."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric


class ByName:
    """Everything in a registry, families in the order of their names, as kube-scheduler shows them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        return sorted(self._registry.collect(), key=_shown_name)


def _shown_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def exposition(registry: CollectorRegistry) -> bytes:
    """The text of all figures in a registry."""
    return generate_latest(ByName(registry))
