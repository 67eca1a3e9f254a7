"""What a scheduler process shows beside its scheduling, and everything together."""

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

import stowplan
from stowplan.framework.gates import GATES, FeatureGates, Stage
from stowplan.metrics.access import AccessMetrics
from stowplan.metrics.accumulators import UNLABELLED, Labels
from stowplan.metrics.delimited import delimited
from stowplan.metrics.exposition import exposition
from stowplan.metrics.families import Families
from stowplan.metrics.options import MetricsOptions
from stowplan.metrics.processcatalogue import PROCESS
from stowplan.metrics.requests import RequestMetrics
from stowplan.metrics.scheduling import SchedulerMetrics
from stowplan.metrics.system import network_bytes, virtual_memory_limit

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Build(NamedTuple):
    """Which version this is, and of which Kubernetes version it behaves like."""

    kubernetes: str = "v1.36.4"
    version: str = stowplan.__version__
    commit: str = ""
    date: str = ""

    @property
    def major_minor(self) -> tuple[int, int]:
        major, minor = self.kubernetes.removeprefix("v").split(".")[:2]
        return int(major), int(minor)

    @property
    def labels(self) -> Labels:
        """The label values of `kubernetes_build_info`; the language stands where Go's version does."""
        major, minor = self.major_minor
        python = ".".join(map(str, sys.version_info[:3]))
        machine = platform.machine()
        return (
            str(major),
            str(minor),
            f"{self.kubernetes}+stowplan.{self.version}",
            self.commit,
            "",
            self.date,
            f"python{python}",
            sys.implementation.name,
            f"{sys.platform}/{_ARCHITECTURES.get(machine, machine)}",
        )


class ProcessMetrics:
    """The metrics of a process. There is one for its whole life; schedulers in it may come and go.

    Raises OSError or ValueError if the options name a file that cannot be read.
    """

    def __init__(
        self,
        gates: FeatureGates,
        *,
        timer: Callable[[], float],
        options: MetricsOptions | None = None,
        build: Build | None = None,
    ) -> None:
        self._families = families = Families(gates, PROCESS)
        self._registry = CollectorRegistry()
        self._registry.register(families)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._visibility = (options or MetricsOptions()).visibility()
        self._scheduling: SchedulerMetrics | None = None
        self._slow_paths: tuple[str, Callable[[], int]] | None = None
        self.requests = RequestMetrics(families, timer)
        self.access = AccessMetrics(families)
        self._show_facts(gates, build or Build())
        families.before_showing(self._count)

    def show(self, scheduling: SchedulerMetrics) -> None:
        """Show a scheduler's metrics from now on, instead of another's."""
        self._scheduling = scheduling

    def watch_election(self, name: str, leads: Callable[[], bool], slow_paths: Callable[[], int]) -> None:
        """Whom to ask about an election: does this process lead, and how often was the lease read first?"""
        status = self._families.read_gauge("leader_election_master_status")
        status.read_series_from(lambda: {(name,): int(leads())})
        self._slow_paths = (name, slow_paths)

    def watch_servers(self, reachable: Callable[[], Mapping[str, bool]]) -> None:
        """Whom to ask which API servers can be reached, by their addresses."""
        gauge = self._families.read_gauge("apiserver_reachable")
        gauge.read_series_from(lambda: {(server,): int(there) for server, there in reachable().items()})

    def text(self) -> bytes:
        """Everything in Prometheus's text format."""
        return exposition(self._collectors(), self._visibility)

    def delimited(self) -> bytes:
        """Everything as protobuf messages."""
        return delimited(self._collectors(), self._visibility)

    def reset(self) -> None:
        """Let figures with labels start anew, as `SchedulerMetrics.reset` does."""
        self._families.reset()
        if self._scheduling is not None:
            self._scheduling.reset()

    def _collectors(self) -> Iterator[Collector]:
        yield self._registry
        if self._scheduling is not None:
            yield self._scheduling.registry

    def _show_facts(self, gates: FeatureGates, build: Build) -> None:
        families = self._families
        info = {build.labels: 1.0}
        families.read_gauge("kubernetes_build_info").read_series_from(lambda: info)
        features: dict[Labels, float] = {
            (name, _stage(GATES[name].stage)): float(on) for name, on in gates.items()
        }
        families.read_gauge("kubernetes_feature_enabled").read_series_from(lambda: features)
        major, minor = build.major_minor
        binary, earlier = f"{major}.{minor}", f"{major}.{minor - 1}"
        version: dict[Labels, float] = {("kube", binary, binary, earlier): 1.0}
        families.read_gauge("version_info").read_series_from(lambda: version)
        families.read_gauge("process_virtual_memory_max_bytes").read_series_from(
            lambda: {UNLABELLED: virtual_memory_limit()}
        )

    def _count(self) -> None:
        """Bring counters up to date that somebody else knows the value of."""
        families = self._families
        described = list(families.shown)
        if self._scheduling is not None:
            described += self._scheduling.shown
        registered = families.counter("registered_metrics_total")
        registered.clear()
        for family in described:
            registered[str(family.stability), ""] += 1
        families.counter("disabled_metrics_total")[UNLABELLED] = len(self._visibility.disabled)
        unexpected = families.counter("cardinality_enforcement_unexpected_categorizations_total")
        unexpected[UNLABELLED] = self._visibility.unexpected
        received, sent = network_bytes() or (0, 0)
        families.counter("process_network_receive_bytes_total")[UNLABELLED] = received
        families.counter("process_network_transmit_bytes_total")[UNLABELLED] = sent
        if self._slow_paths is not None:
            name, slow_paths = self._slow_paths
            families.counter("leader_election_slowpath_total")[name,] = slow_paths()


def _stage(stage: Stage) -> str:
    """A gate's stage as the metric names it: features that are there for good have none."""
    return "" if stage is Stage.GA else stage.upper()
