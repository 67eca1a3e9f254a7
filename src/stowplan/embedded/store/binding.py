"""Putting a pod on a node: what a Binding does to its pod."""

from typing import Any, Final

from stowplan.api import status
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.fielderrors import not_supported, quote, required
from stowplan.api.meta import ObjectMeta
from stowplan.api.requests import Json
from stowplan.api.writes import Binding
from stowplan.embedded.store.conditions import pod_condition, with_condition
from stowplan.embedded.store.objects import Body, labels_of, owned_object
from stowplan.embedded.store.preconditions import check_uid, check_version

BINDINGS: Final = Resource("", "v1", "bindings", "Binding")

TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels a pod gets from the node it is bound to."""


def read(body: Body, name: str) -> tuple[Json, str]:
    """The metadata of a binding of the pod `name`, and the node it names.

    Raises `ApiError`: 400 if it is no Binding, 422 if it names no node.
    """
    if isinstance(body, Binding):
        return _given(body.metadata), _target_of({"kind": body.target.kind, "name": body.target.name}, name)
    binding = owned_object(BINDINGS, body)
    return binding["metadata"], _target_of(binding.get("target"), name)


def _given(meta: ObjectMeta) -> Json:
    """What a typed binding says that matters to its pod."""
    given: Json = {"name": meta.name} if meta.name else {}
    if meta.uid:
        given["uid"] = meta.uid
    if meta.resource_version:
        given["resourceVersion"] = meta.resource_version
    if meta.labels:
        given["labels"] = meta.labels
    if meta.annotations:
        given["annotations"] = meta.annotations
    return given


def _target_of(target: Any, name: str) -> str:
    """The node that a binding names."""
    target = target if isinstance(target, dict) else {}
    if target.get("kind") not in (None, "", "Node"):
        wrong = not_supported("target.kind", str(target["kind"]), ["Node", "<empty>"])
        raise status.invalid(PODS, name, [wrong])
    node = target.get("name")
    if not node or not isinstance(node, str):
        raise status.invalid(PODS, name, [required("target.name")])
    return node


def bound(pod: Json, given: Json, target: str, node: Json | None, stamp: str) -> Json:
    """The pod on its node (None if there is no such node). Raises `ApiError` 409 if it cannot go there.

    `given` is the metadata of the binding.
    """
    _check_bindable(pod, given)
    metadata = {**pod["metadata"]}
    labels = {**given.get("labels", {}), **_topology(node)}
    if labels:
        metadata["labels"] = {**labels_of(pod), **labels}
    if given.get("annotations"):
        metadata["annotations"] = {**metadata.get("annotations", {}), **given["annotations"]}
    new_status: dict[str, Any] = with_condition(pod, pod_condition("PodScheduled", "True", stamp))
    new_status.pop("nominatedNodeName", None)
    spec = {**pod.get("spec", {}), "nodeName": target}
    return {**pod, "metadata": metadata, "spec": spec, "status": new_status}


def _check_bindable(pod: Json, given: Json) -> None:
    metadata, spec = pod["metadata"], pod.get("spec", {})
    name = metadata["name"]
    check_uid(PODS, pod, given.get("uid"))
    check_version(PODS, pod, given.get("resourceVersion"))
    if "deletionTimestamp" in metadata:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {quote(str(spec['nodeName']))}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise status.conflict(PODS, name, why, subresource="binding")


def _topology(node: Json | None) -> dict[str, str]:
    labels = {} if node is None else labels_of(node)
    return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}
