"""The bodies of requests to extenders: which keys they have, and the objects in them as JSON text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.extenders.wireforms import node_form, pod_form
from stowplan.framework.postfilter import Victims

RawPod = Callable[[Pod], Json | None]
RawNode = Callable[[Node], Json | None]
"""Gives an object with all its fields; None if it is not known, then the typed one has to do."""

_SPARE = 1000


class WireObjects:
    """Pods and nodes as JSON text.

    A typed object has only the fields that decide about scheduling, while an extender may look at any, so the
    host can supply whole objects. The text of a node is kept as long as the node is the same object: it
    is sent for every pod.
    """

    def __init__(self, raw_pod: RawPod | None = None, raw_node: RawNode | None = None) -> None:
        self._raw_pod = raw_pod
        self._raw_node = raw_node
        self._nodes: dict[str, tuple[Node, msgspec.Raw]] = {}

    def pod(self, pod: Pod) -> msgspec.Raw:
        raw = self._raw_pod(pod) if self._raw_pod is not None else None
        return _text(pod_form(msgspec.to_builtins(pod) if raw is None else raw))

    def nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        if len(self._nodes) > 2 * len(nodes) + _SPARE:
            self._nodes.clear()
        return [self._node(node) for node in nodes]

    def remember(self, node: Node, text: msgspec.Raw) -> None:
        """Keep the text of a node that an extender gave back changed, for the extenders after it."""
        self._nodes[node.name] = node, text.copy()

    def _node(self, node: Node) -> msgspec.Raw:
        known = self._nodes.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        raw = self._raw_node(node) if self._raw_node is not None else None
        text = _text(node_form(msgspec.to_builtins(node) if raw is None else raw))
        self._nodes[node.name] = node, text
        return text


def nodes_body(pod: Pod, nodes: Sequence[Node], objects: WireObjects, *, names_only: bool) -> Json:
    """What is sent to filter and to prioritize: nodes as objects or as names, null for the other."""
    body: Json = {"Pod": objects.pod(pod), "Nodes": None, "NodeNames": None}
    if names_only:
        body["NodeNames"] = [node.name for node in nodes]
    else:
        body["Nodes"] = {"metadata": {}, "items": objects.nodes(nodes) or None}
    return body


def victims_body(pod: Pod, victims: Mapping[str, Victims], objects: WireObjects, *, names_only: bool) -> Json:
    """What is sent to preempt: victims as objects or as uids, null for the other."""
    body: Json = {"Pod": objects.pod(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}

    def told(victim: Pod) -> Any:
        return {"UID": victim.metadata.uid} if names_only else objects.pod(victim)

    body["NodeNameToMetaVictims" if names_only else "NodeNameToVictims"] = {
        node: {"Pods": [told(victim) for victim in found.pods], "NumPDBViolations": found.violations}
        for node, found in sorted(victims.items())
    }
    return body


def binding_body(pod: Pod, node: str) -> Json:
    """What is sent to bind."""
    meta = pod.metadata
    return {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}


def _text(data: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(data))
