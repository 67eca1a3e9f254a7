"""The metrics of a process: build, REST client requests, authentication and authorization, health checks."""

import platform
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

import stowplan
from stowplan.api.gates.feature_gates import DEFAULT_GATES, GATE_GROUPS, FeatureGates
from stowplan.api.releases import DEFAULT, NEWEST, Stage
from stowplan.runtime.clock import LoopWatchdog
from stowplan.scheduler.metrics.descriptions import MetricDescription
from stowplan.scheduler.metrics.exposition import delimited, exposition
from stowplan.scheduler.metrics.families import UNLABELLED, Families, Labels
from stowplan.scheduler.metrics.options import MetricsOptions
from stowplan.scheduler.metrics.process_catalogue import HEALTH, PROCESS
from stowplan.scheduler.metrics.scheduling import SchedulerMetrics

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

_UNLIMITED: Final = float(2**64)
_NETSTAT: Final = Path("/proc/self/net/netstat")

_NAMED_USERS: Final = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)
"""The only users that are counted by name; others are too many, and names may be private."""


class Build(NamedTuple):
    """Version of this program, and the Kubernetes version it implements."""

    kubernetes: str = f"v{DEFAULT.version}"
    version: str = stowplan.__version__
    commit: str = ""
    date: str = ""

    @property
    def major_minor(self) -> tuple[int, int]:
        major, minor = self.kubernetes.removeprefix("v").split(".")[:2]
        return int(major), int(minor)

    @property
    def labels(self) -> Labels:
        """The label values of `kubernetes_build_info`, with Python's version as go_version."""
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
    """The metrics of a process, which may run several schedulers one after the other.

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
        options = options or MetricsOptions()
        self._visibility = options.visibility()
        self._release = gates.release
        self._shows_hidden = bool(options.show_hidden_for_version)
        self._scheduling: SchedulerMetrics | None = None
        self._slow_paths: tuple[str, Callable[[], int]] | None = None
        self._watchdog: LoopWatchdog | None = None
        self.requests = RequestMetrics(families, timer)
        self.access = AccessMetrics(families)
        self._show_facts(gates, build or Build(f"v{gates.release.version}"))
        families.before_collect(self._count)

    def show(self, scheduling: SchedulerMetrics) -> None:
        """Expose the metrics of a scheduler, instead of the last one's."""
        self._scheduling = scheduling
        self._visibility.hidden = frozenset(one.full_name for one in scheduling.shown if self._hides(one))

    def watch_loop(self, watchdog: LoopWatchdog) -> None:
        """Read from a watchdog for how long the event loop was held."""
        self._watchdog = watchdog
        gauge = self._families.read_gauge("event_loop_longest_hold_seconds")
        gauge.read_series_from(lambda: _longest_hold(watchdog))

    def watch_servers(self, reachable: Callable[[], Mapping[str, bool]]) -> None:
        """Read from `reachable` which API servers can be reached, by address."""
        gauge = self._families.read_gauge("apiserver_reachable")
        gauge.read_series_from(lambda: {(server,): int(there) for server, there in reachable().items()})

    def watch_reloads(self, successful: Callable[[], bool]) -> None:
        """Read from `successful` whether the configuration was loaded when it changed last."""
        gauge = self._families.read_gauge("config_last_reload_successful")
        gauge.read_series_from(lambda: {(): int(successful())})

    def watch_election(self, name: str, leads: Callable[[], bool], slow_paths: Callable[[], int]) -> None:
        """Callbacks of leader election: whether this process leads, and its slow-path acquisitions."""
        status = self._families.read_gauge("leader_election_master_status")
        status.read_series_from(lambda: {(name,): int(leads())})
        self._slow_paths = (name, slow_paths)

    def text(self) -> bytes:
        """All metrics in the text format."""
        return exposition(self._collectors(), self._visibility)

    def delimited(self) -> bytes:
        """All metrics as delimited protobuf messages."""
        return delimited(self._collectors(), self._visibility)

    def reset(self) -> None:
        """Reset metrics with labels, as `SchedulerMetrics.reset` does."""
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
            (name, _stage(gates.release.gates[name].stage)): float(on) for name, on in gates.items()
        }
        features |= {
            (name, _stage(stage)): float(name in gates.groups) for name, stage in GATE_GROUPS.items()
        }
        families.read_gauge("kubernetes_feature_enabled").read_series_from(lambda: features)
        emulated, compatible = str(gates.release.emulated), str(gates.release.compatible)
        version: dict[Labels, float] = {("kube", NEWEST.name, emulated, compatible): 1.0}
        families.read_gauge("version_info").read_series_from(lambda: version)
        families.read_gauge("process_virtual_memory_max_bytes").read_series_from(
            lambda: {UNLABELLED: virtual_memory_limit()}
        )

    def _hides(self, family: MetricDescription) -> bool:
        return not self._shows_hidden and family.is_hidden(self._release.minor)

    def _count(self) -> None:
        """Update counters that are kept elsewhere."""
        families = self._families
        described = list(families.shown)
        if self._scheduling is not None:
            described += self._scheduling.shown
        registered = families.counter("registered_metrics_total")
        registered.clear()
        for family in described:
            if not self._hides(family):
                registered[str(family.stability), f"{family.deprecated}.0" if family.deprecated else ""] += 1
        families.counter("hidden_metrics_total")[UNLABELLED] = len(self._visibility.hidden)
        families.counter("disabled_metrics_total")[UNLABELLED] = len(self._visibility.disabled)
        unexpected = families.counter("cardinality_enforcement_unexpected_categorizations_total")
        unexpected[UNLABELLED] = self._visibility.unexpected
        received, sent = network_bytes() or (0, 0)
        families.counter("process_network_receive_bytes_total")[UNLABELLED] = received
        families.counter("process_network_transmit_bytes_total")[UNLABELLED] = sent
        if self._slow_paths is not None:
            name, slow_paths = self._slow_paths
            families.counter("leader_election_slowpath_total")[name,] = slow_paths()
        if self._watchdog is not None:
            holds = families.counter("event_loop_holds_total")
            for activity, count in self._watchdog.holds.items():
                holds[activity,] = count


def _stage(stage: Stage) -> str:
    """The stage label of a feature gate; empty for GA."""
    return "" if stage is Stage.GA else stage.upper()


def virtual_memory_limit() -> float:
    """The limit of virtual memory in bytes; unlimited is 2⁶⁴, as in Go."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else float(soft)


def network_bytes(netstat: Path = _NETSTAT) -> tuple[int, int] | None:
    """Bytes received and sent in the process's network namespace, None if unknown."""
    try:
        lines = netstat.read_text().splitlines()
    except OSError:
        return None
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith("IpExt:"):
            found = dict(zip(names.split()[1:], values.split()[1:], strict=False))
            return int(found.get("InOctets", 0)), int(found.get("OutOctets", 0))
    return None


# Requests to API servers


class _Codes(dict[int, str]):
    """Status codes as label values."""

    def __missing__(self, status: int) -> str:
        made = self[status] = str(status)
        return made


_CODES: Final = _Codes({0: "<error>"})


class RequestMetrics:
    """REST client requests of a process."""

    def __init__(self, families: Families, timer: Callable[[], float]) -> None:
        self.timer = timer
        self.sent = families.counter("rest_client_requests_total")
        self.repeated = families.counter("rest_client_request_retries_total")
        self.seconds = families.histogram("rest_client_request_duration_seconds")
        self.held = families.histogram("rest_client_rate_limiter_duration_seconds")
        self.request_sizes = families.histogram("rest_client_request_size_bytes")
        self.response_sizes = families.histogram("rest_client_response_size_bytes")

    def to(self, host: str) -> "HostRequests":
        """The metrics of requests to a host, such as `127.0.0.1:6443`."""
        return HostRequests(self, host)


class HostRequests:
    """Requests to one server. Two of these methods are called for every write."""

    __slots__ = (
        "_held",
        "_host",
        "_repeated",
        "_request_sizes",
        "_response_sizes",
        "_seconds",
        "_sent",
        "timer",
    )

    def __init__(self, metrics: RequestMetrics, host: str) -> None:
        self._host = host
        self.timer = metrics.timer
        self._sent = metrics.sent
        self._repeated = metrics.repeated
        self._seconds = metrics.seconds
        self._held = metrics.held
        self._request_sizes = metrics.request_sizes
        self._response_sizes = metrics.response_sizes

    def answered(self, method: str, status: int, held: float, size: int, again: bool) -> None:
        """A request got a response, or none (status 0); `again` if it was a retry."""
        host = self._host
        code = _CODES[status]
        self._sent[code, method, host] += 1
        labels = (method, host)
        self._held[labels].observe(held)
        self._request_sizes[labels].observe(size)
        if again:
            self._repeated[code, method, host] += 1

    def ended(self, method: str, seconds: float, size: int) -> None:
        """A request with all its retries ended."""
        labels = (method, self._host)
        self._seconds[labels].observe(seconds)
        self._response_sizes[labels].observe(size)

    def streaming(self, status: int) -> None:
        """A watch was started or refused, or got no response (status 0)."""
        self._sent[_CODES[status], "GET", self._host] += 1


# Authentication and authorization on the secure port


class AccessMetrics:
    """Authentication and authorization of requests, with kube-scheduler's label values."""

    def __init__(self, families: Families) -> None:
        self._users = families.counter("authenticated_user_requests")
        self._authenticated = families.counter("authentication_attempts")
        self._authenticating = families.histogram("authentication_duration_seconds")
        self._authorized = families.counter("authorization_attempts_total")
        self._authorizing = families.histogram("authorization_duration_seconds")
        self._lookups = families.counter("authentication_token_cache_request_total")
        self._looking_up = families.histogram("authentication_token_cache_request_duration_seconds")
        self._fetched = families.counter("authentication_token_cache_fetch_total")
        self._fetching = families.gauge("authentication_token_cache_active_fetch_count")
        self._token_reviews = families.counter("apiserver_delegated_authn_request_total")
        self._token_reviewing = families.histogram("apiserver_delegated_authn_request_duration_seconds")
        self._access_reviews = families.counter("apiserver_delegated_authz_request_total")
        self._access_reviewing = families.histogram("apiserver_delegated_authz_request_duration_seconds")
        self._certificates = families.distribution("apiserver_client_certificate_expiration_seconds")

    def authenticated(self, result: str, seconds: float, username: str = "") -> None:
        """The authenticator's result: `success` with a name, `failure` or `error`."""
        self._authenticated[result,] += 1
        self._authenticating[result,].observe(seconds)
        if username:
            self._users[_username_label(username),] += 1

    def authorized(self, result: str, seconds: float) -> None:
        """The authorizer's result: `allowed`, `denied`, `no-opinion` or `error`."""
        self._authorized[result,] += 1
        self._authorizing[result,].observe(seconds)

    def looked_up(self, hit: bool, seconds: float) -> None:
        """A token was looked up in the cache."""
        labels = ("hit" if hit else "miss",)
        self._lookups[labels] += 1
        self._looking_up[labels].observe(seconds)

    def fetched(self, good: bool) -> None:
        """A TokenReview ended; `good` if the token is valid."""
        self._fetched["ok" if good else "error",] += 1

    def fetching(self, status: str, change: int) -> None:
        """The number of TokenReviews `in_flight`, or of requests `blocked` by them, changed."""
        self._fetching[status,] += change

    def token_reviewed(self, code: str, seconds: float) -> None:
        """The status code of a TokenReview, `<error>` without a response."""
        self._token_reviews[code,] += 1
        self._token_reviewing[code,].observe(seconds)

    def access_reviewed(self, code: str, seconds: float) -> None:
        """The status code of a SubjectAccessReview, `<error>` without a response."""
        self._access_reviews[code,] += 1
        self._access_reviewing[code,].observe(seconds)

    def certificate_shown(self, good_for: float) -> None:
        """Observe the remaining seconds of a verified client certificate."""
        self._certificates.observe(good_for)


def _username_label(username: str) -> str:
    if username in _NAMED_USERS:
        return username
    return "email_id" if "@" in username else "other"


# Health checks, for /metrics/slis


class HealthMetrics:
    """Health checks by name and page. `started` is in seconds since 1970."""

    def __init__(self, started: float) -> None:
        families = Families(DEFAULT_GATES, HEALTH)
        self._registry = CollectorRegistry()
        self._registry.register(families)
        self._families = families
        self._last = families.gauge("kubernetes_healthcheck")
        self._all = families.counter("kubernetes_healthchecks_total")
        families.read_gauge("process_start_time_seconds").read_series_from(lambda: {UNLABELLED: started})

    def checked(self, name: str, page: str, passed: bool) -> None:
        """A check of a page (`healthz`, `livez`, `readyz`) ended."""
        self._last[name, page] = int(passed)
        self._all[name, page, "success" if passed else "error"] += 1

    def text(self) -> bytes:
        return exposition([self._registry])

    def delimited(self) -> bytes:
        return delimited([self._registry])

    def reset(self) -> None:
        """Reset; a check is exposed again when it next runs."""
        self._last.clear()
        self._families.reset()


def _longest_hold(watchdog: LoopWatchdog) -> dict[Labels, float]:
    hold = watchdog.longest
    return {(hold.holder.activity, hold.holder.plugin): hold.seconds} if hold.seconds else {}
