"""Replays recorded primitives: quantities, selectors, tolerations, requests, ports, backoff, node order.

Each line of the recording is one case: a `kind`, its input fields, and the `result` that came out.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api import labels, quantity
from stowplan.api.decode import convert
from stowplan.api.meta import LabelSelector
from stowplan.api.node import Node, Taint
from stowplan.api.pod import (
    HostPort,
    NodeSelector,
    Pod,
    PreferredSchedulingTerm,
    Toleration,
    conflicts,
    declared_host_ports,
    host_port,
    host_ports,
)
from stowplan.api.rules import nodeselector, resources, taints
from stowplan.lab.verify.recording import Line, read_lines
from stowplan.lab.verify.report import FactDifference, VerifyReport
from stowplan.scheduler.node_sampler import nodes_to_find
from stowplan.scheduler.queue.sub_queues import Backoff
from stowplan.scheduler.table.nodetree import NodeTree, NodeTreeError, zone_key

FAMILY: Final = "primitives"

Case = Mapping[str, Any]
Result = dict[str, Any]

_MILLISECOND: Final = 1_000_000


def replay(path: str | Path, report: VerifyReport) -> None:
    """Replay all cases of a recording into a report. Raises RecordingError."""
    for line in read_lines(Path(path)):
        replay_line(line, report)


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay the case of a line into a report. Raises RecordingError."""
    case = line.case()
    with line.case_errors():
        difference = check(case)
        if difference is not None:
            difference = replace(difference, where=f"line {line.number}, {difference.where}")
        report.add(FAMILY, case["kind"], difference is None, difference)


def check(case: Case) -> FactDifference | None:
    """Work out one case again; None if the recorded result comes out."""
    expected, actual = case["result"], compute(case)
    if actual == expected:
        return None
    shown = {name: value for name, value in case.items() if name not in ("kind", "result")}
    return FactDifference(msgspec.json.encode(shown).decode(), *_unequal(expected, actual))


def compute(case: Case) -> Result:
    """The result of a case in the form it is recorded in."""
    return _KINDS[case["kind"]](case)


def _unequal(expected: Result, actual: Result) -> tuple[Result, Result]:
    """The two results without what is the same in both."""
    names = {name for name in (*expected, *actual) if expected.get(name) != actual.get(name)}
    return (
        {name: value for name, value in expected.items() if name in names},
        {name: value for name, value in actual.items() if name in names},
    )


def _quantity(case: Case) -> Result:
    result: Result = {}
    try:
        parsed = quantity.parse(case["in"])
        result = {
            "value": parsed.value(),
            "milliValue": parsed.milli_value(),
            "canonical": parsed.canonical(),
            "string": str(parsed),
            "format": parsed.format,
            "sign": parsed.sign,
        }
    except quantity.QuantityError as error:
        result["error"] = str(error)
    try:
        result["json"] = str(quantity.quantity_of(case["in"]))
    except quantity.QuantityError as error:
        result["json"] = {"error": str(error)}
    return result


def _quantity_arithmetic(case: Case) -> Result:
    left, right = quantity.parse(case["in"]), quantity.parse(case["in2"])
    return {"cmp": left.cmp(right), "add": str(left.add(right)), "sub": str(left.sub(right))}


def _label_selector(case: Case) -> Result:
    source = case["selector"]
    selector = None if source is None else msgspec.convert(source, LabelSelector)
    return _selection(lambda: labels.compile_selector(selector), case["labels"])


def _label_selector_text(case: Case) -> Result:
    return _selection(lambda: labels.parse_selector(case["in"]), case["labels"])


def _selection(compiled: Callable[[], labels.Selector], subject: Mapping[str, str]) -> Result:
    try:
        selector = compiled()
    except labels.SelectorError as error:
        return {"error": str(error)}
    return {"match": selector.matches(subject), "string": str(selector), "empty": selector.is_empty}


def _node_selector(case: Case) -> Result:
    selector = nodeselector.compile_node_selector(msgspec.convert(case["selector"], NodeSelector))
    node = convert(case["node"], Node)
    result: Result = {"match": selector.matches(node.metadata.labels, node.name)}
    return result | _present(
        error=selector.error_for(node.metadata.labels, node.name), parseError=selector.parse_error
    )


def _node_affinity(case: Case) -> Result:
    affinity = nodeselector.required_node_affinity(convert(case["pod"], Pod).spec)
    node = convert(case["node"], Node)
    result: Result = {"match": affinity.matches(node.metadata.labels, node.name)}
    return result | _present(error=affinity.error_for(node.metadata.labels, node.name))


def _preferred_terms(case: Case) -> Result:
    terms = msgspec.convert(case["preferred"], tuple[PreferredSchedulingTerm, ...])
    node = convert(case["node"], Node)
    try:
        preferred = nodeselector.compile_preferred(terms)
    except labels.SelectorError as error:
        return {"error": str(error)}
    return {"score": preferred.score(node.metadata.labels, node.name)}


def _present(**values: Any) -> Result:
    return {name: value for name, value in values.items() if value is not None}


def _tolerations(case: Case) -> Result:
    tolerations = msgspec.convert(case["tolerations"], tuple[Toleration, ...])
    tainted = msgspec.convert(case["taints"], tuple[Taint, ...])
    first = taints.untolerated(tainted, tolerations)
    return {
        "matrix": [[taints.tolerates(toleration, taint) for taint in tainted] for toleration in tolerations],
        "tolerated": [taints.tolerated(taint, tolerations) for taint in tainted],
        "firstUntolerated": first and {"key": first.key, "value": first.value, "effect": first.effect},
    }


def _pod_requests(case: Case) -> Result:
    pod = convert(case["pod"], Pod)
    counted = resources.accounted_requests(pod)
    return {
        "milliCPU": counted.milli_cpu,
        "memory": counted.memory,
        "ephemeralStorage": counted.ephemeral_storage,
        "scalars": dict(counted.scalars),
        "nonZeroMilliCPU": counted.non_zero_milli_cpu,
        "nonZeroMemory": counted.non_zero_memory,
        "nodeInfoRequested": {"milliCPU": counted.milli_cpu, "memory": counted.memory},
        "nodeInfoNonZero": {"milliCPU": counted.non_zero_milli_cpu, "memory": counted.non_zero_memory},
        "requests": _as_text(resources.pod_requests(pod)),
        "requestsIgnoringStatus": _as_text(resources.pod_requests(pod, use_status=False)),
        "limits": _as_text(resources.pod_limits(pod)),
    }


def _as_text(amounts: resources.Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _host_ports(case: Case) -> Result:
    used = {port for entry in case["used"] if (port := _host_port(entry))}
    wanted = [_host_port(entry) for entry in case["want"]]
    clashes = [port is not None and conflicts([port], used) for port in wanted]
    return {"conflicts": clashes, "size": len(used)}


def _host_port(entry: Mapping[str, Any]) -> HostPort | None:
    return host_port(entry["protocol"], entry["ip"], entry["port"])


def _host_ports_of_pods(case: Case) -> Result:
    used = [port for pod in case["pods"] for port in host_ports(convert(pod, Pod))]
    pod = convert(case["pod"], Pod)
    return {
        "fits": not conflicts(host_ports(pod), used),
        "hostPorts": [
            {"ip": port.host_ip, "protocol": port.protocol, "port": port.host_port}
            for port in declared_host_ports(pod)
        ],
    }


def _nodes_to_find(case: Case) -> Result:
    return {"nodes": nodes_to_find(case["n"], case["profilePercentage"], case["globalPercentage"])}


def _backoff(case: Case) -> Result:
    backoff = Backoff(case["initialMs"] * _MILLISECOND, case["maxMs"] * _MILLISECOND)
    unschedulable, errors = case["unschedulableCount"], case["consecutiveErrors"]
    duration = backoff.duration(errors or unschedulable)
    expiration = backoff.expiration(case["timestampMs"] * _MILLISECOND, unschedulable, errors)
    return {
        "durationMs": duration // _MILLISECOND,
        "durationNs": duration,
        "expirationMs": None if expiration is None else expiration // _MILLISECOND,
    }


def _node_tree(case: Case) -> Result:
    tree = NodeTree(convert(node, Node) for node in case["nodes"])
    lists, errors = [tree.names()], [""]
    for operation in case["ops"]:
        errors.append(_change(tree, operation))
        lists.append(tree.names())
    return {"lists": lists, "errors": errors}


def _change(tree: NodeTree, operation: Mapping[str, Any]) -> str:
    """Apply one operation; the error it ends with, if any."""
    old, new = (convert(operation.get(side) or {}, Node) for side in ("old", "new"))
    try:
        if operation["op"] == "add":
            tree.add(new)
        elif operation["op"] == "update":
            tree.update(old, new)
        else:
            tree.remove(old)
    except NodeTreeError as error:
        return str(error)
    return ""


def _zone_key(case: Case) -> Result:
    return {"zone": zone_key(convert(case["node"], Node))}


_KINDS: Final[dict[str, Callable[[Case], Result]]] = {
    "quantity": _quantity,
    "quantity-arith": _quantity_arithmetic,
    "label-selector": _label_selector,
    "label-selector-string": _label_selector_text,
    "node-selector": _node_selector,
    "node-affinity": _node_affinity,
    "preferred-terms": _preferred_terms,
    "tolerations": _tolerations,
    "pod-requests": _pod_requests,
    "host-ports": _host_ports,
    "host-ports-pods": _host_ports_of_pods,
    "num-feasible": _nodes_to_find,
    "backoff": _backoff,
    "node-tree": _node_tree,
    "zone-key": _zone_key,
}

KINDS: Final = frozenset(_KINDS)
"""The kinds of cases that can be replayed."""
