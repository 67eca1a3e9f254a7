"""Cases that make a scheduler search: devices without end, groups of groups, budgets over many pods.

The objects are small; the search space is not. kube-scheduler gives an attempt ten seconds for devices and
continues with the next pod.
"""

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.lab.fuzz.cases import FuzzStep, pod
from stowplan.lab.fuzz.corpus_limits import DRIVER
from stowplan.lab.fuzz.extremes import NAMESPACES, Json

_FUZZ: Final = NAMESPACES[0]
_CLASS: Final = "fuzz"
_FULL: Final = 1_000
"""From this size on cases are as large as they were when a scheduler stood still."""

MOST_DEVICES: Final = 128
"""Devices of one ResourceSlice."""


def _device_class() -> FuzzStep:
    return FuzzStep("create", catalogue.DEVICE_CLASSES, {"metadata": {"name": _CLASS}, "spec": {}})


def _slice(pool: str, devices: list[Json], *, number: int = 0, count: int = 1, **where: Any) -> FuzzStep:
    body: Json = {
        "metadata": {"name": f"{pool}-{number}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
            "devices": devices,
            **where,
        },
    }
    return FuzzStep("create", catalogue.RESOURCE_SLICES, body)


def _request(name: str, *selectors: str, **exactly: Any) -> Json:
    chosen = [{"cel": {"expression": text}} for text in selectors]
    # With its defaults written out: a case that goes over the wire meets no API server that sets them.
    asked = {"allocationMode": "ExactCount", "count": 1, "deviceClassName": _CLASS, "selectors": chosen}
    return {"name": name, "exactly": {**asked, **exactly}}


def _claim(
    name: str, requests: list[Json], field: str, group: str | None = None, **devices: Any
) -> Iterable[FuzzStep]:
    """A claim, and a pod that needs it, perhaps a member of a group."""
    body: Json = {
        "metadata": {"name": name, "namespace": _FUZZ},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    yield FuzzStep("create", catalogue.RESOURCE_CLAIMS, body, field)
    spec: Json = {} if group is None else {"schedulingGroup": {"podGroupName": group}}
    using = pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}], **spec)
    yield FuzzStep("create", catalogue.PODS, using)


def _nodes(size: int) -> list[str]:
    return [f"node-{number}" for number in range(10)]


def hopeless_request(size: int) -> Iterable[FuzzStep]:
    """A claim with many requests, of which the last matches no device: every order of the others is tried."""
    many = 16 if size >= _FULL else 8
    yield _device_class()
    for name in _nodes(size):
        yield _slice(name, [{"name": f"d{number}"} for number in range(many)], nodeName=name)
    requests = [_request(f"r{number}") for number in range(many - 1)]
    requests.append(_request("none", 'device.driver == "nobody"'))
    yield from _claim("hopeless", requests, "spec.devices.requests (the last matches nothing)")


def one_device_too_few(size: int) -> Iterable[FuzzStep]:
    """As many requests as a claim may have, one more than devices: nothing fits, and nothing says so."""
    many = 16 if size >= _FULL else 9
    yield _device_class()
    for name in _nodes(size):
        yield _slice(name, [{"name": f"d{number}"} for number in range(many - 1)], nodeName=name)
    requests = [_request(f"r{number}") for number in range(many)]
    yield from _claim("too-many", requests, "spec.devices.requests (one more than devices)")


def nested_selector(size: int) -> Iterable[FuzzStep]:
    """A selector of four nested loops, as long as its cost may be, for devices of which no two are equal."""
    yield from _serial_devices(size)
    yield from _claim("nested", [_request("r", _nested_loops(size))], "selectors[].cel (four nested loops)")


def _serial_devices(size: int) -> Iterable[FuzzStep]:
    """Eight devices a node, of which no two are equal."""
    yield _device_class()
    for name in _nodes(size):
        devices = [
            {"name": f"d{number}", "attributes": {"serial": {"string": f"{name}-{number}"}}}
            for number in range(8)
        ]
        yield _slice(name, devices, nodeName=name)


def _nested_loops(size: int) -> str:
    """A selector that no device matches, and that costs as much as it may."""
    many = 20 if size >= _FULL else 10
    numbers = f"[{','.join(map(str, range(many)))}]"
    text = "a < 99"
    for variable in "dcba":
        text = f"{numbers}.all({variable}, {text})"
    return f'{text} && device.attributes["{DRIVER}"].serial == ""'


def unique_attributes(size: int) -> Iterable[FuzzStep]:
    """Two requests for devices with one value of an attribute that every device has another value of."""
    slices, devices = max(1, min(20, size // 500)), min(size, MOST_DEVICES)
    yield _device_class()
    for number in range(slices):
        offered = [
            {"name": f"d{number}-{one}", "attributes": {"serial": {"string": f"{number}-{one}"}}}
            for one in range(devices)
        ]
        yield _slice("fabric", offered, number=number, count=slices, allNodes=True)
    constraint = {"requests": ["r0", "r1"], "matchAttribute": f"{DRIVER}/serial"}
    yield from _claim(
        "same",
        [_request("r0"), _request("r1")],
        "constraints[].matchAttribute (unique)",
        constraints=[constraint],
    )


# Groups


def _gang(size: int, priority: Json | None = None) -> FuzzStep:
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}, **(priority or {})}
    body: Json = {"metadata": {"name": "gang", "namespace": _FUZZ}, "spec": spec}
    return FuzzStep("create", catalogue.POD_GROUPS, body, "spec.schedulingPolicy")


def searching_group(size: int) -> Iterable[FuzzStep]:
    """A gang whose members each need one device more than a node has: nothing fits, and nothing says so."""
    many = 16 if size >= _FULL else 9
    yield _device_class()
    for name in _nodes(size):
        yield _slice(name, [{"name": f"d{number}"} for number in range(many - 1)], nodeName=name)
    yield _gang(4)
    requests = [_request(f"r{number}") for number in range(many)]
    for member in range(4):
        yield from _claim(f"member-{member}", requests, "spec.devices.requests (of a group)", "gang")


def group_with_nested_selectors(size: int) -> Iterable[FuzzStep]:
    """A gang whose members have selectors of four nested loops, no two of them the same."""
    yield from _serial_devices(size)
    yield _gang(4)
    text = _nested_loops(size)
    for member in range(4):
        one = _request("r", f"{text} && {member} == {member}")
        yield from _claim(f"member-{member}", [one], "selectors[].cel (of a group)", "gang")


def _workload() -> Json:
    return {"workloadName": "w", "templateName": "t"}


def _group(name: str, parent: str | None, *, composite: bool) -> FuzzStep:
    """A group whose gang is complete with one member or one group."""
    gang = {"minGroupCount": 1} if composite else {"minCount": 1}
    spec: Json = {"schedulingPolicy": {"gang": gang}}
    if composite or parent:
        spec["workloadRef"] = _workload()
    if parent:
        spec["parentCompositePodGroupName"] = parent
    resource = catalogue.COMPOSITE_POD_GROUPS if composite else catalogue.POD_GROUPS
    return FuzzStep(
        "create", resource, {"metadata": {"name": name, "namespace": _FUZZ}, "spec": spec}, "spec"
    )


def chained_groups(size: int) -> Iterable[FuzzStep]:
    """A chain of composite groups, one in the other, with a group of two pods at the end."""
    levels = min(4 * size, 400)
    for level in range(levels):
        yield _group(f"level-{level}", f"level-{level - 1}" if level else None, composite=True)
    yield _group("leaf", f"level-{levels - 1}", composite=False)
    for number in range(2):
        yield FuzzStep(
            "create", catalogue.PODS, pod(f"member-{number}", schedulingGroup={"podGroupName": "leaf"})
        )


def circular_groups(size: int) -> Iterable[FuzzStep]:
    """Composite groups in circles, a chain that ends in one, and a chain that becomes one."""
    rings, length = (3, 400) if size >= _FULL else (2, 100)
    for ring in range(rings):
        for level in range(length):
            parent = f"ring-{ring}-{(level + 1) % length}"
            yield _group(f"ring-{ring}-{level}", parent, composite=True)
        yield _group(f"leaf-{ring}", f"ring-{ring}-0", composite=False)
        member = pod(f"ring-member-{ring}", schedulingGroup={"podGroupName": f"leaf-{ring}"})
        yield FuzzStep("create", catalogue.PODS, member)
    yield _group("itself", "itself", composite=True)
    yield from chained_groups(size)
    yield FuzzStep("wait")
    last = f"level-{min(4 * size, 400) - 1}"
    yield _group("level-0", last, composite=True)._replace(verb="recreate")


# Budgets


def many_budgets(size: int) -> Iterable[FuzzStep]:
    """Pods with labels that no two share fill the nodes, and one pod preempts.

    The budgets select by labels that pods do not have, so each has to be looked at for every pod.
    """
    yield from _guarded_pods(size)
    yield _preemptor("preemptor", size)


def preempting_group(size: int) -> Iterable[FuzzStep]:
    """The same with 3,000 pods, and a gang preempts on eight of ten nodes."""
    yield from _guarded_pods(size, 3_000)
    yield _gang(8, {"priorityClassName": "highest"})
    for member in range(8):
        yield _preemptor(f"member-{member}", size, schedulingGroup={"podGroupName": "gang"})


def _guarded_pods(size: int, most: int = 8_000) -> Iterable[FuzzStep]:
    budgets, pods = min(5 * size, 1_000), min(12 * size, most)
    for number in range(budgets):
        selector = {"matchExpressions": [{"key": f"label-{number}", "operator": "DoesNotExist"}]}
        body: Json = {
            "metadata": {"name": f"budget-{number}", "namespace": _FUZZ},
            "spec": {"selector": selector, "maxUnavailable": 1},
        }
        yield FuzzStep("create", catalogue.POD_DISRUPTION_BUDGETS, body, "spec.selector")
    resources = {"requests": {"cpu": "14"}}
    for number in range(pods):
        running = pod(
            f"running-{number}",
            nodeName=f"node-{number % 10}",
            priorityClassName="lowest",
            containers=[
                {"name": "c", "image": "i", "resources": resources if number < 10 else {}},
            ],
        )
        running["metadata"]["labels"] = {"app": f"app-{number}", f"l{number}": "x"}
        yield FuzzStep("create", catalogue.PODS, running, "metadata.labels")
    yield FuzzStep("wait")


def _preemptor(name: str, size: int, **spec: Any) -> FuzzStep:
    wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": _nodes(size)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    preemptor = pod(
        name,
        priorityClassName="highest",
        affinity=affinity,
        containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "15"}}}],
        **spec,
    )
    return FuzzStep("create", catalogue.PODS, preemptor, "spec.priorityClassName")
