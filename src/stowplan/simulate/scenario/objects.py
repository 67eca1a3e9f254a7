"""Objects of a run: nodes of groups, pods of workloads and traces."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.api.releases import DEFAULT
from stowplan.api.requests import Json
from stowplan.api.rules.taints import tolerates
from stowplan.localcluster.kubelets.config import NamedNode
from stowplan.localcluster.kubelets.nodes import node_object
from stowplan.simulate.scenario.model import NodeGroup, amounts_of
from stowplan.simulate.snapshot.traces import TracePod

EVICTED_AFTER: Final = 300
"""Seconds that a pod without a toleration of its own stays on such a node (DefaultTolerationSeconds)."""

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_ADDRESSES: Final = 60_000


def node_body(group: NodeGroup, name: str, number: int, within: int, now: float) -> Json:
    """A node as it registers."""
    made = node_object(NamedNode(name, number % _ADDRESSES, within, group.shape), f"v{DEFAULT.version}", now)
    return {"apiVersion": "v1", "kind": "Node", **made}


def body_of(template: Json, pod: TracePod) -> Json:
    """The template with what a trace says of one pod, but for annotations."""
    metadata, spec = {**template["metadata"]}, {**template["spec"]}
    if pod.namespace:
        metadata["namespace"] = pod.namespace
    if pod.priority is not None:
        spec["priority"] = pod.priority
    if pod.requests:
        first, *others = spec["containers"]
        own: Mapping[str, Any] = (first.get("resources") or {}).get("requests") or {}
        spec["containers"] = [{**first, "resources": amounts_of({**own, **dict(pod.requests)})}, *others]
    return {**template, "metadata": metadata, "spec": spec}


def annotated(body: Json, annotations: Iterable[tuple[str, str]]) -> Json:
    """A body with more annotations."""
    own = body["metadata"]
    return {
        **body,
        "metadata": {**own, "annotations": {**(own.get("annotations") or {}), **dict(annotations)}},
    }


def tolerated_for(pod: Json) -> float | None:
    """Seconds that a pod stays on an unreachable node, None for ever."""
    taint = Taint(key=UNREACHABLE, effect="NoExecute")
    given = msgspec.convert(pod["spec"].get("tolerations") or (), tuple[Toleration, ...])
    matching = [one for one in given if tolerates(one, taint)]
    if not matching:
        return EVICTED_AFTER
    limits = [one.toleration_seconds for one in matching if one.toleration_seconds is not None]
    return max(min(limits), 0) if limits else None
