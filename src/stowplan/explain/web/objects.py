"""Objects as the API server has them, read for one viewer: YAML and events."""

from typing import Any, Final

from stowplan.api.catalogue import EVENTS, Resource
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
