"""A recording as a scenario: the cluster as it was at the beginning, and the pods that came since.

Pods arrive when they did and run as long as they did, wherever they are placed now. So configurations can be
compared on what happened (`stowplan simulate day.rec --config new.yaml`).
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.meta import AnyObject, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.explain.layout import plural
from stowplan.scheduler.recording.files import EntryKind, RecordingError, Session, sessions
from stowplan.scheduler.recording.objects import changes
from stowplan.simulate.scenario.model import Lifetime, Scenario, Workload
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.traces import TracePod

_GAP: Final = 0.5
"""Seconds without an event after which a cluster that is recorded from outside has been listed."""
_FIRST_SECONDS: Final = 30.0
"""Listing takes no longer than this."""
_BEFORE: Final = (EntryKind.EVENT, EntryKind.STATE, EntryKind.STATE_COMPLETE, EntryKind.WALL_CLOCK)
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class _Seen:
    """A pod that came during the recording, as it came."""

    pod: Pod
    arrived: float
    bound: float | None = None
    ended: float | None = None

    @property
    def lifetime(self) -> float | None:
        return None if self.bound is None or self.ended is None else max(self.ended - self.bound, 0.0)


def recorded_scenario(path: Path, duration: float | None = None) -> Scenario:
    """The scenario of a recording. Raises SnapshotError."""
    try:
        session = max(sessions(path), key=_size)
        return _scenario(path, session, duration)
    except RecordingError as error:
        raise SnapshotError(str(error)) from None


def _size(session: Session) -> int:
    return sum(segment.path.stat().st_size for segment in session.segments)


def _scenario(path: Path, session: Session, duration: float | None) -> Scenario:
    begins = _beginning(session)
    at_first: dict[tuple[type[Object], str], Object] = {}
    seen: dict[str, _Seen] = {}
    nodes = 0
    time = begins
    for time, obj, gone in changes(session):
        place = (type(obj), obj.key)
        if isinstance(obj, AnyObject):
            continue
        if time <= begins:
            if gone:
                at_first.pop(place, None)
            else:
                at_first[place] = obj
        elif isinstance(obj, Pod):
            if place not in at_first or at_first[place].metadata.uid != obj.metadata.uid:
                _follow(seen, obj, time - begins, gone)
        else:
            nodes += isinstance(obj, Node) and (gone or place not in at_first)
    if not at_first:
        raise SnapshotError(f"{path}: expected nodes: nothing was recorded")
    fixed = [one for one in seen.values() if one.pod.spec.node_name]
    workload = _workloads([one for one in seen.values() if not one.pod.spec.node_name])
    if not workload:
        raise SnapshotError(f"{path}: expected pods that come to be scheduled, found none")
    length = max(time - begins, 1.0) if duration is None else duration
    came = plural(sum(len(one.trace) for one in workload), "pod")
    notes = [f"{path}: {came} that came during the recording"]
    if fixed:
        notes.append(f"{plural(len(fixed), 'pod')} that came with a node (daemons, static pods) are left out")
    if nodes:
        notes.append(f"nodes stay as they were at the beginning; {plural(nodes, 'node event')} left out")
    objects = list(at_first.values())
    return Scenario(
        path.stem, length, 0, max(length / 288, 1.0), [], objects, workload, notes=notes, admitted=True
    )


def _beginning(session: Session) -> float:
    """When everything that existed had been listed: scheduling begins, or it is quiet for a moment."""
    if session.header.seed is not None:
        ticks = session.header.ticks
        for entry in session.entries():
            ticks += entry.ticks
            if entry.kind not in _BEFORE:
                return session.header.wall + ticks / 1e6
    last = session.header.wall
    for change in changes(session):
        if change.time - last > _GAP or change.time - session.header.wall > _FIRST_SECONDS:
            break
        last = change.time
    return last


def _follow(seen: dict[str, _Seen], pod: Pod, time: float, gone: bool) -> None:
    uid = pod.metadata.uid
    known = seen.get(uid)
    if gone:
        if known is not None:
            known.ended = time
        return
    if known is None:
        known = seen[uid] = _Seen(pod, time)
    if pod.spec.node_name and known.bound is None:
        known.bound = time


def _workloads(pods: list[_Seen]) -> list[Workload]:
    """Pods that are alike are one workload."""
    groups: dict[bytes, list[_Seen]] = defaultdict(list)
    templates: dict[bytes, dict[str, Any]] = {}
    for one in pods:
        template = _template(one.pod)
        key = msgspec.msgpack.encode(template, order="deterministic")
        templates[key] = template
        groups[key].append(one)
    names: dict[str, int] = defaultdict(int)
    found = []
    for key, group in groups.items():
        first = group[0].pod
        owner = next((one for one in first.metadata.owner_references if one.controller), None)
        name = _UNFIT.sub("-", (owner.name if owner else first.name).lower()).strip("-")[:40] or "pod"
        names[name] += 1
        if names[name] > 1:
            name = f"{name}-{names[name]}"
        trace = [TracePod(one.arrived, "", None, (), (), one.lifetime) for one in group]
        has_controller = owner is not None
        found.append(Workload(name, first.namespace, templates[key], has_controller, None, Lifetime(), trace))
    return found


def _template(pod: Pod) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(pod)
    spec = {name: value for name, value in document["spec"].items() if name not in ("nodeName", "hostname")}
    own = document["metadata"]
    metadata = {"namespace": pod.namespace, "labels": own.get("labels") or {}}
    if own.get("annotations"):
        metadata["annotations"] = own["annotations"]
    spec.setdefault("schedulerName", "default-scheduler")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
