"""Putting a pod on a node: what a Binding does to its pod."""

from typing import Any, Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.fielderrors import not_supported, required
from stowplan.api.meta import ObjectMeta
from stowplan.api.requests import Json
from stowplan.api.writes import Binding
from stowplan.embedded.store.conditions import pod_condition, with_condition
from stowplan.embedded.store.objects import Body, owned_object
from stowplan.embedded.store.preconditions import check_uid, check_version
from stowplan.gocompat.quoting import quote

BINDINGS: Final = Resource("", "v1", "bindings", "Binding")

TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels a pod gets from the node it is bound to."""

_SCHEDULED: Final = pod_condition("PodScheduled", "True", "")
"""The condition a bound pod has, but for its time."""


def read(body: Body, name: str) -> tuple[ObjectMeta, str]:
    """The metadata of a binding of the pod `name`, and the node it names.

    Raises `ApiError`: 400 if it is no Binding or one of another pod, 422 if it names no node.
    """
    kind: Any
    node: Any
    if isinstance(body, Binding):
        meta, named = body.metadata, body.metadata.name or name
        kind, node = body.target.kind, body.target.name
    else:
        binding = owned_object(BINDINGS, body)
        meta, named = msgspec.convert(binding["metadata"], ObjectMeta), binding["metadata"].get("name", name)
        given = binding.get("target")
        given = given if isinstance(given, dict) else {}
        kind, node = given.get("kind"), given.get("name")
    if kind not in (None, "", "Node"):
        wrong = not_supported("target.kind", str(kind), ["Node", "<empty>"])
        raise status.invalid(PODS, name, [wrong])
    if not node or not isinstance(node, str):
        raise status.invalid(PODS, name, [required("target.name")])
    if named != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    return meta, node


def bound(pod: Json, given: ObjectMeta, target: str, node: Json | None, stamp: str) -> Json:
    """The pod on its node (None if there is no such node). Raises `ApiError` 409 if it cannot go there.

    `given` is the metadata of the binding. The metadata of what comes back is shared with nobody.
    """
    _check_bindable(pod, given)
    metadata = {**pod["metadata"]}
    labels = {**(metadata.get("labels") or {}), **given.labels}
    if node is not None:
        of_node = node["metadata"].get("labels") or {}
        for label in TOPOLOGY_LABELS:
            if label in of_node:
                labels[label] = of_node[label]
    if labels:
        metadata["labels"] = labels
    if given.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **given.annotations}
    new_status: dict[str, Any] = with_condition(pod, {**_SCHEDULED, "lastTransitionTime": stamp})
    new_status.pop("nominatedNodeName", None)
    spec = {**pod.get("spec", {}), "nodeName": target}
    return {**pod, "metadata": metadata, "spec": spec, "status": new_status}


def _check_bindable(pod: Json, given: ObjectMeta) -> None:
    metadata, spec = pod["metadata"], pod.get("spec", {})
    name = metadata["name"]
    if given.uid != metadata["uid"]:
        check_uid(PODS, pod, given.uid)
    if given.resource_version:
        check_version(PODS, pod, given.resource_version)
    if "deletionTimestamp" in metadata:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {quote(str(spec['nodeName']))}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise status.conflict(PODS, name, why, subresource="binding")
