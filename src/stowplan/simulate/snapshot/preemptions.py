"""Evictors of pods, from the events that schedulers write about their victims."""

import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient

_NOTE: Final = re.compile(r"Preempted by (?:a )?pod (?P<uid>\S+) on node (?P<node>\S+)")


class Preempted(NamedTuple):
    """That a pod was evicted from a node for another one, which is known by its uid."""

    by: str
    node: str
    time: str


async def last_preemption(client: HttpClient, namespace: str, name: str) -> Preempted | None:
    """The last time that a pod of this name was evicted by a scheduler, if events still tell."""
    fields = f"involvedObject.name={name},reason=Preempted"
    query = urlencode({"fieldSelector": fields})
    try:
        found = await client.get_path(f"/api/v1/namespaces/{quote(namespace, safe='')}/events?{query}")
    except ApiError:
        return None
    events = sorted((event for event in found.get("items") or () if isinstance(event, dict)), key=_time)
    for event in reversed(events):
        matched = _NOTE.search(str(event.get("message") or event.get("note") or ""))
        if matched is not None:
            return Preempted(matched["uid"], matched["node"], _time(event))
    return None


def _time(event: dict[str, Any]) -> str:
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(event.get("eventTime") or event.get("lastTimestamp") or created or "")
