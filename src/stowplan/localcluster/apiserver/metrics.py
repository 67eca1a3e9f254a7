"""Metrics of the API server: requests by verb and resource with their durations, watches, stored objects.

Requests of components in the same process do not go through HTTP and are not counted.
"""

import resource as process
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stowplan.gocompat.jsontext import float_text
from stowplan.localcluster.apiserver.request import RequestTarget, flag
from stowplan.localcluster.store import Store

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_APPLY: Final = "application/apply-patch+yaml"


class RequestLabels(NamedTuple):
    """Labels of a request, in the order in which they are shown."""

    component: str
    dry_run: str
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class _Durations:
    """A histogram."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


class RequestMetrics:
    """Counts the requests of a server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests: Counter[tuple[RequestLabels, int]] = Counter()
        self._durations: dict[RequestLabels, _Durations] = {}
        self._inflight = {"mutating": 0, "readOnly": 0}
        self._watches: Counter[RequestLabels] = Counter()

    def begin(self, method: str) -> None:
        self._inflight["readOnly" if method == "GET" else "mutating"] += 1

    def end(self, method: str) -> None:
        self._inflight["readOnly" if method == "GET" else "mutating"] -= 1

    def count(self, labels: RequestLabels, code: int, seconds: float) -> None:
        self._requests[labels, code] += 1
        found = self._durations.get(labels)
        if found is None:
            found = self._durations[labels] = _Durations()
        found.observe(seconds)

    def watch_begins(self, labels: RequestLabels) -> None:
        self._watches[labels] += 1

    def watch_ends(self, labels: RequestLabels) -> None:
        self._watches[labels] -= 1

    def exposition(self) -> bytes:
        return "".join(f"{line}\n" for line in self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        yield from _family(
            "apiserver_request_total",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, "
            "resource, scope, component, and HTTP response code.",
            "counter",
            (({"code": str(code), **labels._asdict()}, n) for (labels, code), n in self._requests.items()),
        )
        yield from self._duration_lines()
        yield from _family(
            "apiserver_current_inflight_requests",
            "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request "
            "kind in last second.",
            "gauge",
            (({"request_kind": kind}, n) for kind, n in self._inflight.items()),
        )
        shown = ("component", "group", "resource", "scope", "subresource", "verb", "version")
        yield from _family(
            "apiserver_longrunning_requests",
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, "
            "version, resource, scope and component. Not all requests are tracked this way.",
            "gauge",
            (({name: getattr(labels, name) for name in shown}, n) for labels, n in self._watches.items()),
        )
        yield from _family(
            "apiserver_resource_objects",
            "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching "
            "error, the value will be -1.",
            "gauge",
            (({"group": group, "resource": plural}, n) for (group, plural), n in self._objects().items()),
        )
        usage = process.getrusage(process.RUSAGE_SELF)
        text = "Total user and system CPU time spent in seconds."
        spent = usage.ru_utime + usage.ru_stime
        yield from _family("process_cpu_seconds_total", text, "counter", [({}, spent)])
        peak = usage.ru_maxrss * 1024
        yield from _family(
            "process_max_resident_memory_bytes", "Peak of the resident memory.", "gauge", [({}, peak)]
        )

    def _duration_lines(self) -> Iterator[str]:
        name = "apiserver_request_duration_seconds"
        text = (
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, "
            "resource, subresource, scope and component."
        )
        yield from help_and_type(name, text, "histogram").splitlines()
        for labels, found in self._durations.items():
            named, sofar = labels._asdict(), 0
            for bound, number in zip((*_BUCKETS, float("inf")), found.counts, strict=True):
                sofar += number
                yield f"{name}_bucket{label_text({**named, 'le': number_text(bound)})} {sofar}"
            yield f"{name}_sum{label_text(named)} {number_text(found.total)}"
            yield f"{name}_count{label_text(named)} {sofar}"

    def _objects(self) -> dict[tuple[str, str], int]:
        """Stored objects by group and plural; versions of a resource share their objects."""
        return {(one.group, one.plural): self._store.count(one) for one in self._store.catalogue if one.verbs}


def labels_of(
    method: str, path: str, target: RequestTarget | None, query: Mapping[str, str], content_type: str
) -> RequestLabels:
    """Labels of a request. Text of clients that is not known is left out: each one would be kept for ever."""
    dry_run = "All" if query.get("dryRun") == "All" else ""
    verb = method if method in _METHODS else "OTHER"
    if target is None:
        known = path if path in _PATHS else ""
        return RequestLabels("apiserver", dry_run, "", "", "", known, verb, "")
    found = target.resource
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    part = target.subresource if target.subresource in _SUBRESOURCES else ""
    if method in _METHODS:
        verb = _verb(method, target, query, content_type)
    return RequestLabels("apiserver", dry_run, found.group, found.plural, scope, part, verb, found.version)


_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_PATHS: Final = frozenset(("/healthz", "/livez", "/readyz", "/metrics", "/version"))
_SUBRESOURCES: Final = frozenset(
    (
        "approval",
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "finalize",
        "log",
        "portforward",
        "proxy",
        "resize",
        "scale",
        "status",
        "token",
    )
)


def _verb(method: str, target: RequestTarget, query: Mapping[str, str], content_type: str) -> str:
    if method == "GET" and (target.watch or flag(query, "watch")):
        return "WATCH"
    if method == "GET" and not target.name:
        return "LIST"
    if method == "PATCH" and content_type == _APPLY:
        return "APPLY"
    return "DELETECOLLECTION" if method == "DELETE" and not target.name else method


def _family(
    name: str, text: str, kind: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    lines = [f"{name}{label_text(dict(labels))} {number_text(value)}" for labels, value in samples]
    if lines:
        yield from help_and_type(name, text, kind).splitlines()
        yield from lines


def help_and_type(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def label_text(labels: Mapping[str, str]) -> str:
    """Labels in braces; their values are names of the API, which need no escapes."""
    shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{shown}}}" if shown else ""


def number_text(value: float) -> str:
    return "+Inf" if value == float("inf") else float_text(value)
