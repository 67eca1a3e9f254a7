"""The corpus: what has once brought a scheduler down or fooled it, under a name. It always runs.

Cases of this module are about lists and labels in the thousands. Those at the limits of what kube-apiserver
admits are in corpus_limits.py, those that make a scheduler search for long in corpus_searches.py, those that
concern the embedded API server in server_cases.py.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from stowplan.api import catalogue
from stowplan.lab.fuzz import corpus_limits as limits
from stowplan.lab.fuzz import corpus_searches as searches
from stowplan.lab.fuzz.cases import ROOM, STORE, WIRE, FuzzCase, FuzzStep, node, pod
from stowplan.lab.fuzz.extremes import LARGEST_OBJECT
from stowplan.testing.builders import HOSTNAME

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _wrapping_sums(size: int) -> Iterable[FuzzStep]:
    """Requests on two nodes exceed an int64 together; pods may run on those two nodes only."""
    huge = {"name": "main", "image": "i", "resources": {"requests": {"memory": "7Ei"}}}
    for name in ("node-1", "node-2"):
        for number in range(2):
            body = pod(f"huge-{name}-{number}", nodeName=name, containers=[huge])
            yield FuzzStep("create", catalogue.PODS, body, "spec.containers[].resources that wrap in a sum")
    yield FuzzStep("wait")
    wanted = {"key": HOSTNAME, "operator": "In", "values": ["node-1", "node-2"]}
    required = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    empty = {"name": "main", "image": "i"}
    for number in range(4):
        yield FuzzStep(
            "create",
            catalogue.PODS,
            pod(f"small-{number}", affinity={"nodeAffinity": required}, containers=[empty]),
        )


def _node_selector_keys(size: int) -> Iterable[FuzzStep]:
    """One pod with 10,000 node selector keys that no node has."""
    selector = {f"key-{number}": "x" for number in range(size)}
    yield FuzzStep("create", catalogue.PODS, pod("keys", nodeSelector=selector), "spec.nodeSelector")


def _node_affinity_keys(size: int) -> Iterable[FuzzStep]:
    """The same as one node affinity term each."""
    terms = [{"matchExpressions": [{"key": f"key-{number}", "operator": "Exists"}]} for number in range(size)]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    yield FuzzStep("create", catalogue.PODS, pod("terms", affinity=affinity), "spec.affinity.nodeAffinity")


def _resource_names(size: int) -> Iterable[FuzzStep]:
    """One pod with 20,000 extended resources, which only waits."""
    amounts = {f"example.com/r{number}": "1" for number in range(2 * size)}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    field = "spec.containers[].resources (extended resources)"
    yield FuzzStep("create", catalogue.PODS, pod("resources", containers=[container]), field)


def _resource_kinds(size: int) -> Iterable[FuzzStep]:
    """A pod with more kinds of resources than bits in a word, that one node offers."""
    amounts = {f"example.com/kind-{number}": "1" for number in range(70)}
    offering = node("offering")
    offering["status"]["allocatable"] = {**ROOM, **amounts}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    field = "spec.containers[].resources (70 kinds)"
    yield FuzzStep("create", catalogue.NODES, offering)
    yield FuzzStep("create", catalogue.PODS, pod("kinds", containers=[container]), field)


def _taint_values(size: int) -> Iterable[FuzzStep]:
    """An autoscaler writes the time into a taint, again and again."""
    for number in range(size):
        taint = {"key": "autoscaler", "value": f"{number}", "effect": "PreferNoSchedule"}
        body = {"metadata": {"name": "node-1"}, "spec": {"taints": [taint]}}
        yield FuzzStep("patch", catalogue.NODES, body, "spec.taints")
        if number % 500 == 499:
            yield FuzzStep("wait")
    yield FuzzStep("create", catalogue.PODS, pod("after-taints", app="b"))


def _label_values(size: int) -> Iterable[FuzzStep]:
    """A label that pods are spread over gets a new value all the time."""
    constraint = {
        "topologyKey": "rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    yield FuzzStep("create", catalogue.PODS, pod("spread", topologySpreadConstraints=[constraint]))
    for number in range(size):
        body = {"metadata": {"name": "node-1", "labels": {"rack": f"r{number}"}}}
        yield FuzzStep("patch", catalogue.NODES, body, "metadata.labels")
        if number % 500 == 499:
            yield FuzzStep("wait")


def _anti_affinity_terms(size: int) -> Iterable[FuzzStep]:
    """Many anti-affinity terms with a topology key of their own each."""
    terms = [
        {"topologyKey": f"key-{number}", "labelSelector": {"matchLabels": {"app": f"x{number}"}}}
        for number in range(size)
    ]
    body = pod("anti", affinity={"podAntiAffinity": {_REQUIRED: terms}})
    yield FuzzStep("create", catalogue.PODS, body, "spec.affinity.podAntiAffinity")
    yield FuzzStep("create", catalogue.PODS, pod("beside"))


def _disk_monitors(size: int) -> Iterable[FuzzStep]:
    """Many in-tree disks with many monitors each, as large as an object may be."""
    each = max(size // 50, 10)
    monitors = [f"10.0.0.{number}:6789" for number in range(each)]
    volumes = [
        {"name": f"v{number}", "rbd": {"monitors": monitors, "image": f"i{number}"}}
        for number in range(max(1, min(size, LARGEST_OBJECT // (each * 20))))
    ]
    field = "spec.volumes[].rbd.monitors"
    yield FuzzStep("create", catalogue.PODS, pod("disks", volumes=volumes), field)
    yield FuzzStep("create", catalogue.PODS, pod("disks-too", volumes=volumes), field)


def _csi_drivers(size: int) -> Iterable[FuzzStep]:
    """A node with thousands of CSI drivers, that come and go."""
    drivers = [
        {"name": f"d{number}.example.com", "nodeID": "n", "allocatable": {"count": number % 3}}
        for number in range(size // 2)
    ]
    body = {"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}
    yield FuzzStep("create", catalogue.CSI_NODES, body, "spec.drivers")
    yield FuzzStep("wait")
    yield FuzzStep("recreate", catalogue.NODES, node("node-1"), "the same name again")


class _Named(NamedTuple):
    """How a case is made, and what holds for it."""

    make: Callable[[int], Iterable[FuzzStep]]
    route: str = STORE
    grows: bool = False
    groups: bool = False
    lies: bool = False
    hold_ms: float | None = None

    def case(self, name: str, size: int) -> FuzzCase:
        half = self._replace(grows=False).case(name, size // 2) if self.grows else None
        steps = (*self.make(size), FuzzStep("wait"))
        return FuzzCase(name, steps, self.route, half, self.groups, self.lies, self.hold_ms)


_CORPUS: Final[dict[str, _Named]] = {
    "sums of requests that wrap": _Named(_wrapping_sums),
    "10,000 node selector keys": _Named(_node_selector_keys),
    "10,000 node affinity terms": _Named(_node_affinity_keys),
    "20,000 extended resources": _Named(_resource_names),
    "70 kinds of resources in one pod": _Named(_resource_kinds),
    "taint values that are never seen again": _Named(_taint_values),
    "label values that are never seen again": _Named(_label_values),
    "10,000 anti-affinity terms": _Named(_anti_affinity_terms),
    "in-tree disks with many monitors": _Named(_disk_monitors),
    "5,000 CSI drivers of one node": _Named(_csi_drivers),
    "managedFields 2,000 levels deep": _Named(limits.deep_pod, WIRE),
    "managedFields 9,000 levels deep in every kind": _Named(limits.deep_kinds, WIRE),
    "managedFields of 1.45 MB": _Named(limits.wide_fields, WIRE),
    "opaque parameters 2,000 levels deep": _Named(limits.deep_parameters, WIRE),
    "objects of every kind that cannot be read": _Named(limits.poison, WIRE, lies=True),
    "an object without end": _Named(lambda size: (), WIRE, lies=True),
    "a request of 1e10000000 CPUs": _Named(limits.one_exponent),
    "eight requests with large exponents": _Named(limits.eight_exponents),
    "requests with negative exponents": _Named(limits.small_exponents),
    "a sum with 1e100000": _Named(limits.summed_exponents),
    "large exponents in nodes and volumes of pods": _Named(limits.exponents_elsewhere),
    "claims of 1e2000000 bytes": _Named(limits.vast_claims),
    "annotations of 256 KiB": _Named(limits.full_annotations),
    "objects of 1.45 MB": _Named(limits.full_objects),
    "16 requests, the last of which matches no device": _Named(searches.hopeless_request),
    "one request more than devices": _Named(searches.one_device_too_few),
    "a selector of four nested loops": _Named(searches.nested_selector, WIRE),
    "matchAttribute on a unique attribute": _Named(searches.unique_attributes, grows=True),
    "a chain of 400 composite groups": _Named(searches.chained_groups, grows=True, groups=True),
    "composite groups in circles": _Named(searches.circular_groups, groups=True),
    "1,000 budgets over 8,000 pods": _Named(searches.many_budgets, hold_ms=250),
    "a group that searches for devices": _Named(searches.searching_group, groups=True),
    "a group with selectors of nested loops": _Named(searches.group_with_nested_selectors, WIRE, groups=True),
    "1,000 budgets and a group that preempts": _Named(searches.preempting_group, groups=True, hold_ms=250),
}


def corpus(size: int) -> list[FuzzCase]:
    """The named cases, with lists of about `size` entries."""
    return [named.case(name, size) for name, named in _CORPUS.items()]
