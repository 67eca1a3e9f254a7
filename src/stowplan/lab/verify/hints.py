"""Replays what is recorded of the queue: hints, events of updates, handlers of events, requeue decisions."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.decode import convert, convert_any
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.config import build, default_config
from stowplan.config import load as load_config
from stowplan.lab.verify.recording import Line, gates_of, read_lines
from stowplan.lab.verify.report import FactDifference, VerifyReport
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.framework.events import Action, Answer, ClusterEvent, Hint, HintMap, build_hint_map
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.cluster_events import UpdateEvents
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.requeue import worth_requeuing
from stowplan.scheduler.table.table import ClusterTable, load


class HintCase(dict[str, Any]):
    """A recorded case and the feature gates, with their release, that it was recorded under."""

    def __init__(self, fields: Mapping[str, Any], gates: FeatureGates) -> None:
        super().__init__(fields)
        self.gates = gates


_OURS: Final = "default-scheduler"


def replay(path: str | Path, report: VerifyReport) -> None:
    """Replay all cases of a recording into a report. Raises RecordingError."""
    for line in read_lines(Path(path)):
        replay_line(line, report)


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay the case of a line into a report. Raises RecordingError."""
    case = line.case()
    with line.case_errors():
        _KINDS[case["kind"]](HintCase(case, gates_of(case, line.release)), line.family, report)


# Hints


class _Setting:
    """The profile of a case, on a table with the objects that plugins look up."""

    def __init__(self, profile: ProfileSpec, gates: FeatureGates, objects: Iterable[Object] = ()) -> None:
        self.table = ClusterTable(gates.release)
        plugins = Framework(profile, self.table, in_tree_registry(), gates).plugins
        load(self.table, objects)
        self.hints: HintMap = build_hint_map(plugins.values(), gates)
        self._built = plugins.keys()

    def is_built(self, plugin: str) -> bool:
        return plugin in self._built


def _setting(case: HintCase) -> _Setting:
    config = case.get("config")
    gates = case.gates
    if config is None and not case.get("objects"):
        return _default_setting(gates)
    profile = _profile(b"" if config is None else msgspec.json.encode(config), gates)
    found = [convert_any(obj) for obj in case.get("objects", ())]
    return _Setting(profile, gates, [obj for obj in found if obj is not None])


@lru_cache(maxsize=64)
def _default_setting(gates: FeatureGates) -> _Setting:
    return _Setting(_profile(b"", gates), gates)


@lru_cache(maxsize=128)
def _profile(config: bytes, gates: FeatureGates) -> ProfileSpec:
    """The profile of a configuration; without one, the default profile."""
    return build(load_config(config, gates) if config else default_config(gates)).profiles[0]


def _replay_hint(case: HintCase, family: str, report: VerifyReport) -> None:
    """One fact per plugin that hears of the event."""
    setting = _setting(case)
    event = _event(case["event"])
    old, new = _object(case, "old"), _object(case, "new")
    pod = setting.table.info(convert(case["pod"], Pod))
    matching = setting.hints.matching(event)
    for plugin in sorted(case["hints"].keys() | matching.keys()):
        subject = f"hint {plugin}"
        if not setting.is_built(plugin):
            report.not_built(family, subject)
            continue
        expected = case["hints"].get(plugin)
        answers = [entry.ask(pod, old, new) for entry in matching.get(plugin, ())]
        _compare(report, family, subject, case, expected, _told(answers))


def _told(answers: list[Answer]) -> Any:
    """The answers of a plugin in the words of a recording; None: it was not asked."""
    if not answers:
        return None
    error = next((answer.error for answer in answers if answer.error is not None), None)
    if error is not None:
        return {"hint": Hint.QUEUE.value, "error": error}
    helps = any(answer.hint is Hint.QUEUE for answer in answers)
    return (Hint.QUEUE if helps else Hint.SKIP).value


def _replay_requeue(case: HintCase, family: str, report: VerifyReport) -> None:
    setting = _setting(case)
    event = _event(case["event"])
    queued = QueuedPod(setting.table.info(convert(case["pod"], Pod)), 0.0)
    queued.unschedulable_plugins = frozenset(case["unschedulablePlugins"])
    queued.pending_plugins = frozenset(case["pendingPlugins"])
    known = event.is_wildcard or all(setting.is_built(plugin) for plugin in queued.rejectors)
    if not known:
        report.not_built(family, case["kind"])
        return
    old, new = _object(case, "old"), _object(case, "new")
    strategy = worth_requeuing(setting.hints, queued, event, old, new)
    _compare(report, family, case["kind"], case, case["result"], strategy.value)


# Events


def _replay_pod_events(case: HintCase, family: str, report: VerifyReport) -> None:
    old, new = convert(case["old"], Pod), convert(case["new"], Pod)
    found = UpdateEvents(case.gates)
    for field, is_target in (("events", False), ("eventsAsTarget", True)):
        if field in case:
            events = found.of_pod(old, new, is_target=is_target)
            _compare(report, family, case["kind"], case, case[field], [_described(event) for event in events])


def _replay_node_events(case: HintCase, family: str, report: VerifyReport) -> None:
    events = UpdateEvents(case.gates).of_node(convert(case["old"], Node), convert(case["new"], Node))
    _compare(report, family, case["kind"], case, case["events"], [_described(event) for event in events])


def _event(recorded: Mapping[str, str]) -> ClusterEvent:
    return ClusterEvent(recorded["resource"], Action.named(recorded["action"]))


def _described(event: ClusterEvent) -> dict[str, str]:
    return {"resource": str(event.resource), "action": event.action.label}


# Handlers


def _replay_handler(case: HintCase, family: str, report: VerifyReport) -> None:
    assumed = {pod.metadata.uid: pod for pod in (convert(each, Pod) for each in case.get("assumed", ()))}
    queue = _RecordingQueue()
    handlers = EventHandlers(_AssumedPods(assumed), queue, (_OURS,), WaitingPods(), gates=case.gates)
    _handle(handlers, case["op"], _object(case, "old"), _object(case, "new"))
    _compare(report, family, case["kind"], case, case["calls"], queue.calls)


def _handle(handlers: EventHandlers, op: str, old: Object | None, new: Object | None) -> None:
    match op, old, new:
        case "add", _, Node():
            handlers.add_node(new)
        case "add", _, Pod():
            handlers.add_pod(new)
        case "add", _, GroupObject():
            handlers.add_group(new)
        case "update", Node(), Node():
            handlers.update_node(old, new)
        case "update", Pod(), Pod():
            handlers.update_pod(old, new)
        case "update", GroupObject(), GroupObject():
            handlers.update_group(old, new)
        case "delete" | "delete-unknown", GroupObject(), _:
            handlers.delete_group(old)
        case "delete" | "delete-unknown", Node(), _:
            handlers.delete_node(old)
        case "delete", Pod(), _:
            handlers.delete_pod(old)
        case "delete-unknown", Pod(), _:
            handlers.delete_pod_of_unknown_state(old)
        case _:
            raise ValueError(f"op {op!r} with these objects is not known")


class _AssumedPods:
    """A cache that knows assumed pods and nothing else: recordings say nothing of the others."""

    def __init__(self, assumed: Mapping[str, Pod]) -> None:
        self._assumed = assumed

    def assumed_pod(self, pod: Pod) -> Pod | None:
        return self._assumed.get(pod.metadata.uid)

    def remove_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def root_of(self, group: GroupObject) -> str | None:
        return group.group_key

    def _not_recorded(self, obj: object) -> None:
        """Nothing is compared."""

    put_node = remove_node = put_pod = put_pods = remove_pod = put = remove = skip = _not_recorded
    put_unscheduled = remove_unscheduled = _not_recorded


class _RecordingQueue:
    """A queue that notes the calls to it, in the words of a recording."""

    has_waiting_or_in_flight = True
    """Every event is recorded separately."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def add(self, pod: Pod) -> None:
        self.calls.append({"call": "Add", "pod": pod.key})

    def update(self, old: Pod, new: Pod) -> None:
        self.calls.append({"call": "Update", "pod": new.key})

    def delete(self, pod: Pod) -> None:
        self.calls.append({"call": "Delete", "pod": pod.key})

    def add_group(self, group: GroupObject) -> None:
        self._group("Add", group)

    def update_group(self, group: GroupObject) -> None:
        self._group("Update", group)

    def delete_group(self, group: GroupObject, root: str | None) -> None:
        self._group("Delete", group)

    def _group(self, what: str, group: GroupObject) -> None:
        kind = group.kind
        self.calls.append({"call": f"{what}{kind}", f"{kind[0].lower()}{kind[1:]}": group.key})

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        at_most_priority: int | None = None,
    ) -> None:
        told: dict[str, Any] = {
            "call": "MoveAll",
            "event": _described(event),
            "old": old and old.key,
            "new": new and new.key,
        }
        if isinstance(old, Pod):
            told["oldNodeName"] = old.spec.node_name
        if at_most_priority is not None:
            told["onlyPodsWithPriorityAtMost"] = at_most_priority
        self.calls.append(told)


def _object(case: HintCase, side: str) -> Object | None:
    return convert_any(case[side]) if case.get(side) else None


def _compare(
    report: VerifyReport, family: str, subject: str, case: HintCase, expected: Any, actual: Any
) -> None:
    report.add(family, subject, expected == actual, FactDifference(case["name"], expected, actual))


_KINDS: Final[dict[str, Callable[[HintCase, str, VerifyReport], None]]] = {
    "hint": _replay_hint,
    "requeue": _replay_requeue,
    "pod-events": _replay_pod_events,
    "node-events": _replay_node_events,
    "handler": _replay_handler,
}

KINDS: Final = frozenset(_KINDS)
"""The kinds of cases that can be replayed."""
