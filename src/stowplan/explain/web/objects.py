"""Objects as the API server has them, read for one viewer: YAML and events."""

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.catalogue import EVENTS, PODS, Resource
from stowplan.api.rules.amounts import shown_amount
from stowplan.api.status import ApiError
from stowplan.api.writes import Event
from stowplan.client import Client
from stowplan.explain.document.objects import EventLine, EventsDocument, ObjectDocument
from stowplan.explain.layers.reads import ObjectReads
from stowplan.gocompat.yamltext import to_yaml
from stowplan.scheduler.table.podinfo import PodInfo

MOST_EVENTS: Final = 50


async def object_document(
    client: Client, reads: ObjectReads, resource: Resource, namespace: str, name: str, info: PodInfo | None
) -> ObjectDocument | None:
    """The object; None if there is none. `info` has the sums of a pod's requests."""
    try:
        found = await client.get(resource, namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    events = await events_document(reads, resource, namespace, name)
    amounts = {} if info is None else info.template.accounted.amounts()
    return ObjectDocument(
        kind=resource.kind,
        name=f"{namespace}/{name}" if namespace else name,
        yaml=to_yaml(
            {"apiVersion": resource.api_version, "kind": resource.kind, **found, "metadata": metadata}
        ),
        manifest=to_yaml(manifest_of(found)) if resource is PODS else "",
        requests={key: shown_amount(key, amount) for key, amount in amounts.items()},
        owner=_owner(metadata),
        events=events.items,
        incomplete=events.incomplete,
    )


async def events_document(
    reads: ObjectReads, resource: Resource, namespace: str, name: str
) -> EventsDocument:
    """The events about an object. Those about nodes are in the namespace `default`."""
    events = await reads.list(EVENTS, Event, namespace or "default", regarding__name=name)
    about = [one for one in events if one.regarding.kind in ("", resource.kind)]
    latest = sorted(about, key=lambda one: one.time, reverse=True)[:MOST_EVENTS]
    lines = (EventLine(one.time, one.type, one.reason, one.note, one.component, one.times) for one in latest)
    return EventsDocument(
        tuple(lines), tuple(text for plural, text in reads.unread.items() if plural == EVENTS.plural)
    )


def _owner(metadata: dict[str, Any]) -> str:
    """The controller; of the ReplicaSet of a pod the Deployment, by the hash in its name."""
    owners = metadata.get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None:
        return ""
    end = f"-{(metadata.get('labels') or {}).get('pod-template-hash', '')}"
    if owner["kind"] == "ReplicaSet" and len(end) > 1 and owner["name"].endswith(end):
        return f"deployment/{owner['name'].removesuffix(end)}"
    return f"{owner['kind'].lower()}/{owner['name']}"


# Manifests

_SPEC: Final = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER: Final[dict[str, tuple[Any, ...]]] = {
    "imagePullPolicy": ("Always", "IfNotPresent"),
    "resources": ({},),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
}
"""Defaults that the API server fills in."""
_ASSIGNED: Final = ("nodeName", "priority", "hostname")
_TOKEN: Final = "kube-api-access-"
"""Begin of the name of the volume that the service account is mounted from."""
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def manifest_of(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as somebody would write it: without status, its node, and defaults of the API server."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    kept = {
        name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata
    }
    annotations = {name: value for name, value in kept.pop("annotations", {}).items() if name != _ANNOTATION}
    if annotations:
        kept["annotations"] = annotations
    written = {
        name: value
        for name, value in spec.items()
        if name not in _ASSIGNED and (name not in _SPEC or _SPEC[name] != value)
    }
    written["volumes"] = _without_token(spec.get("volumes") or ())
    written["tolerations"] = [one for one in spec.get("tolerations") or () if not _is_default(one)]
    for field in ("containers", "initContainers"):
        written[field] = [_container(one) for one in spec.get(field) or ()]
    found = {name: value for name, value in written.items() if value != []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": found}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in container.items() if value not in _CONTAINER.get(name, ())}
    mounts = _without_token(found.pop("volumeMounts", ()))
    return {**found, "volumeMounts": mounts} if mounts else found


def _without_token(named: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in named if not str(one.get("name", "")).startswith(_TOKEN)]


def _is_default(toleration: dict[str, Any]) -> bool:
    """True for a toleration that the API server adds to each pod."""
    return toleration.get("key") in _TOLERATED and toleration.get("tolerationSeconds") == 300
