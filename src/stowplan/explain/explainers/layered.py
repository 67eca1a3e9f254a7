"""The document of a pod with the layers around the decision: what it needs before, and its start after."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.catalogue import EVENTS
from stowplan.api.pod import Pod
from stowplan.config.types import Extender
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.elsewhere import with_gate_change
from stowplan.explain.layers.gaps import gaps_of
from stowplan.explain.layers.late import Events, EventsOfOne, late_events
from stowplan.explain.layers.missing import missing_objects
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.starting import late_stages, may_be_stopped
from stowplan.explain.states import PENDING, PLACED
from stowplan.scheduler.table.table import ClusterTable

_NOTHING: Final[Mapping[str, Any]] = {}


async def with_layers(
    found: PodDocument,
    pod: Pod,
    table: ClusterTable,
    reads: ObjectReads,
    now: float | None,
    *,
    extenders: Sequence[Extender] = (),
    unread: Mapping[str, str] = _NOTHING,
    without_plugins: Mapping[str, Sequence[str]] = _NOTHING,
    events: Events | None = None,
) -> PodDocument:
    """The document with what was read about the layers, and what was not. Its sentences are still to be made.

    `unread` has by resource why the table lacks its objects, `without_plugins` by profile the plugins that
    are not installed. `events` are those of many pods if others are looked at, too.
    """
    if found.state == PLACED:
        late = await late_events(pod, table, events or EventsOfOne(reads))
        stages = late_stages(pod, found.node or "", table, now, late.of_pod, late.of_claims, unread)
        found = replace(found, stages=stages)
    elif found.state == PENDING and pod.spec.resource_claims and not found.near_misses:
        found = replace(found, stages=(), missing=await missing_objects(pod, reads))
    else:
        found = replace(found, stages=())
    incomplete = [*gaps_of(found, pod, unread, extenders, without_plugins.get(_profile(found), ()))]
    if found.state == PLACED and may_be_stopped(pod) and EVENTS.plural in reads.unread and now is not None:
        incomplete.append(reads.unread[EVENTS.plural])
    return with_gate_change(replace(found, incomplete=tuple(incomplete)))


def _profile(found: PodDocument) -> str:
    return "" if found.decider is None else found.decider.profile or ""
