"""Answers by the code of the commands: documents, from bodies of questions and the objects of a cluster.

This runs in a forked copy of the scheduler's process (`host`): nothing has to be undone or done in steps.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Final, TypeVar

import msgspec

from stowplan.api.meta import Object
from stowplan.api.status import ApiError
from stowplan.config import ConfigError, LoadedConfig, default_config
from stowplan.config.legacy import load_any
from stowplan.explain.commands import patch_of_template
from stowplan.explain.document.cluster import NodesDocument
from stowplan.explain.document.pod import Change as PodChange
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.tried import TriedDocument, TryLimits
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.report import Bar, Funnel, Report, Table, Text
from stowplan.explain.report.page import render
from stowplan.explain.web.nodes import nodes_document
from stowplan.explain.web.questions import Asked
from stowplan.explain.web.redaction import redacted
from stowplan.gocompat.yamltext import to_yaml
from stowplan.localcluster.store.strategicpatch import merge_rules, strategic_merge
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.settings import Settings
from stowplan.simulate.changes import Change
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.contents import NoSuchObjectError
from stowplan.simulate.creation.groups import groups_in_use
from stowplan.simulate.creation.manifests import Manifests
from stowplan.simulate.creation.workloads import RESOURCES
from stowplan.simulate.explaining import Evaluation, pods_of_manifests
from stowplan.simulate.fit import fit, fit_max
from stowplan.simulate.fit import report_of as fit_report
from stowplan.simulate.questions.bodies import (
    BODIES,
    MANIFESTS,
    Body,
    BodyError,
    CompareBody,
    ExplainBody,
    FitBody,
    ProfileChange,
    WhatIfBody,
    manifests_of,
    mistakes_in_manifests,
    read_body,
    text_of,
)
from stowplan.simulate.questions.commands import command_of, deciding
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.sources import documents_of_text
from stowplan.simulate.whatif import reconfigured, what_if
from stowplan.simulate.whatif import report_of as whatif_report

T = TypeVar("T")
SOURCE: Final = "a copy of the running scheduler's cluster"
_FIT: Final = "NodeResourcesFit"
_RATIO: Final = "RequestedToCapacityRatio"
_NAMING: Final = ("scale", "delete", "priority")
"""Changes that name workloads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that answers are made from. `hidden` are the namespaces that the viewer may not see."""

    settings: Settings
    objects: Callable[[], Iterable[Object]]
    reads: ObjectReads
    now: float
    hidden: frozenset[str] = frozenset()
    limits: TryLimits = field(default_factory=TryLimits)


class Outcome(msgspec.Struct, frozen=True):
    """First line of what the copy returns: the status, and the namespaces that the answer is about.

    Only a viewer who may see these is given the rest, the document.
    """

    code: int
    namespaces: tuple[str, ...] = ()


@dataclass(slots=True)
class _Answer:
    """Parts of an answer, as they come."""

    summary: str = ""
    result: Mapping[str, Any] | None = None
    pods: Sequence[PodDocument] = ()
    edits: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    report: Report | None = None
    before: NodesDocument | None = None
    after: NodesDocument | None = None
    new: str = ""
    """The other configuration of a comparison."""


def answer(facts: Facts, asked: Asked) -> bytes:
    """The outcome as a line, then the document or a Status, as JSON."""
    namespaces: tuple[str, ...] = ()
    try:
        body = read_body(asked.body, asked.media, BODIES[asked.question])
        manifests = _manifests(body)
        namespaces = _namespaces(body, manifests)
        document: Any = _answered(facts, asked.question, body, manifests)
        code = 200
    except SnapshotError as error:
        code, document = 400, _mistake(error)
    except ApiError as error:
        code, document = error.code, error.status()
    head = msgspec.json.encode(Outcome(code, namespaces))
    return head + b"\n" + msgspec.json.encode(document)


def _mistake(error: SnapshotError) -> Mapping[str, object]:
    """A mistake in a body, with its field."""
    field_of = error.field if isinstance(error, BodyError) else ""
    message = " ".join(str(error).split())
    causes = [{"field": field_of, "message": message.removeprefix(f"{field_of}: ")}] if field_of else []
    return ApiError(400, "BadRequest", message, {"causes": causes} if causes else {}).status()


def _manifests(body: Body) -> Manifests | None:
    if isinstance(body, FitBody | ExplainBody):
        return manifests_of(body.manifests, body.namespace, pods=True)
    if isinstance(body, WhatIfBody) and body.manifests is not None:
        return manifests_of(body.manifests, body.namespace, pods=False)
    return None


def _namespaces(body: Body, manifests: Manifests | None) -> tuple[str, ...]:
    """The namespaces about which an answer or a mistake tells something."""
    found = set()
    if isinstance(body, WhatIfBody) and any(name in one.fields for one in body.changes for name in _NAMING):
        found.add(body.namespace)
    if manifests is not None:
        found |= {one.namespace for one in manifests.workloads}
        found |= {one.namespace for one in manifests.objects if one.namespace}
    return tuple(sorted(found))


def _answered(facts: Facts, question: str, body: Body, manifests: Manifests | None) -> TriedDocument:
    cluster = Cluster(facts.objects(), settings=facts.settings, seed=body.seed, source=SOURCE)
    found = _Answer()
    if body.nodes:
        found.before = nodes_document(cluster.table)
    match body:
        case FitBody():
            _fit(cluster, body, manifests or Manifests(), found)
        case WhatIfBody():
            _what_if(cluster, body, manifests, found)
        case CompareBody():
            _compare(cluster, facts, body, found)
        case ExplainBody():
            _explain(cluster, facts, body, manifests or Manifests(), found)
    found.notes += _notes(facts, cluster, manifests)
    hidden = facts.hidden
    report = redacted(found.report, hidden) if body.report else None
    return TriedDocument(
        question=question,
        summary=redacted(found.summary, hidden),
        command=command_of(body, facts.settings, found.new),
        result=redacted(found.result, hidden),
        pods=tuple(redacted(one, hidden) for one in found.pods),
        edits=tuple(found.edits),
        notes=tuple(found.notes),
        before=found.before,
        after=found.after,
        report="" if report is None else render(report),
        seconds=round(process_time(), 3),
        limits=facts.limits,
    )


def _notes(facts: Facts, cluster: Cluster, manifests: Manifests | None) -> Iterator[str]:
    """Gaps of an answer: what was not read, is not called, or is ignored by the configuration."""
    yield from facts.reads.unread.values()
    yield from manifests.notes if manifests is not None else ()
    if facts.settings.config.extenders:
        yield "extenders are not called"
    groups = groups_in_use((), manifests)
    if groups.built_in and not facts.settings.gates.built_in_pod_groups:
        yield "the feature gate GenericWorkload is off: PodGroups are ignored"
    if groups.coscheduling and not facts.settings.gates.coscheduling:
        yield "no profile has the plugin Coscheduling: PodGroups of scheduler-plugins are ignored"


# By question


def _fit(cluster: Cluster, body: FitBody, manifests: Manifests, found: _Answer) -> None:
    if body.max and (body.replicas is not None or body.preempt):
        other = "preempt" if body.preempt else "replicas"
        raise BodyError("max", f"counts replicas that fit without evictions: expected no {other}")
    if body.max and (len(manifests.workloads) > 1 or manifests.workloads[0].kind == "DaemonSet"):
        raise BodyError("max", "expected one workload with replicas in manifests")

    def look(placed: Cluster) -> None:
        found.after = nodes_document(placed.table) if body.nodes else None

    with mistakes_in_manifests(body.manifests):
        if body.pending_first:
            cluster.schedule()
        if body.max:
            result = fit_max(cluster, manifests, manifests.workloads[0], source=SOURCE)
        else:
            result = fit(
                cluster, manifests, replicas=body.replicas, preempt=body.preempt, source=SOURCE, look=look
            )
    found.report = fit_report(result, at_most=body.max)
    found.summary, found.result = found.report.summary, found.report.data


def _what_if(cluster: Cluster, body: WhatIfBody, manifests: Manifests | None, found: _Answer) -> None:
    making = ""

    def changes() -> Iterator[Change]:
        nonlocal making
        for number, change in enumerate(body.changes):
            making = f"changes[{number}]"
            yield change
        making = MANIFESTS

    def look(changed: Cluster) -> None:
        found.after = nodes_document(changed.table) if body.nodes else None

    try:
        result = what_if(cluster, changes(), body.namespace, applied=manifests, look=look)
    except BodyError:
        raise
    except (SnapshotError, NoSuchObjectError) as error:
        raise BodyError(making, str(error)) from None
    titles = [str(next(iter(one.fields))).replace("_", " ") for one in body.changes]
    report = whatif_report(result, ", ".join([*titles, *(["apply"] if manifests is not None else [])]))
    found.report, found.summary, found.result = report, report.summary, report.data


def _compare(cluster: Cluster, facts: Facts, body: CompareBody, found: _Answer) -> None:
    found.new = _configuration(facts.settings, body)
    base, where = facts.settings, "config" if body.config is not None else "profiles"
    try:
        loaded = load_any(found.new, base.gates)
        if loaded.config.extenders:
            raise BodyError(where, "extenders: expected none: they are not called")
        settings = _settings_of(loaded, base)
    except (ConfigError, ProfileError) as error:
        raise BodyError(where, " ".join(part.strip() for part in str(error).splitlines())) from None

    def look(changed: Cluster) -> None:
        found.after = nodes_document(changed.table) if body.nodes else None

    result = reconfigured(cluster, settings, body.seed, look=look)
    report = whatif_report(result, "another configuration")
    found.report, found.summary, found.result = report, report.summary, report.data


def _settings_of(loaded: LoadedConfig, base: Settings) -> Settings:
    """Settings with the plugins that the scheduler has."""
    known = base.registry
    plugins = [cls for name in known.added if (cls := known.get(name)) is not None]
    return Settings.of(loaded, plugins)


def _configuration(settings: Settings, body: CompareBody) -> str:
    """The other configuration as text: the given one, or the present one with other weights or strategies."""
    if body.config is not None:
        return body.config if isinstance(body.config, str) else to_yaml(body.config)
    document = deciding(settings.config.config)
    profiles = {one["schedulerName"]: one for one in document["profiles"]}
    for name, change in body.profiles.items():
        if name not in profiles:
            raise BodyError(f"profiles.{name}", f"expected one of {', '.join(profiles)}")
        _reweigh(profiles[name], change.weights, f"profiles.{name}.weights")
        if change.strategy:
            _restrategize(profiles[name], change.strategy, f"profiles.{name}.strategy")
    default = deciding(default_config(settings.gates).config)
    if deciding(settings.config.config) == default:
        # Defaults are filled in again: what is copied to a shell has just the difference.
        changed = [_difference(profiles[name], change) for name, change in body.profiles.items()]
        document = {**default, "profiles": changed}
    return to_yaml(document)


def _reweigh(profile: Mapping[str, Any], weights: Mapping[str, int], where: str) -> None:
    enabled = [one for point in profile["plugins"].values() for one in point.get("enabled") or ()]
    scored = {one["name"] for one in enabled if one.get("weight")}
    for plugin, weight in weights.items():
        if plugin not in scored:
            raise BodyError(f"{where}.{plugin}", f"expected one of {', '.join(sorted(scored))}")
        for one in enabled:
            if one["name"] == plugin and one.get("weight"):
                one["weight"] = weight


def _restrategize(profile: Mapping[str, Any], strategy: str, where: str) -> None:
    args = _args_of_fit(profile)
    if args is None:
        raise BodyError(where, f"the profile has no plugin {_FIT}")
    scoring = args["scoringStrategy"]
    scoring["type"] = strategy
    if strategy != _RATIO:
        scoring.pop("requestedToCapacityRatio", None)
    elif "requestedToCapacityRatio" not in scoring:
        shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
        scoring["requestedToCapacityRatio"] = {"shape": shape}


def _args_of_fit(profile: Mapping[str, Any]) -> Any:
    return next((one["args"] for one in profile["pluginConfig"] if one["name"] == _FIT), None)


def _difference(profile: Mapping[str, Any], change: ProfileChange) -> Mapping[str, Any]:
    """The parts of a default profile that were changed."""
    found: dict[str, Any] = {"schedulerName": profile["schedulerName"]}
    if change.strategy:
        found["pluginConfig"] = [{"name": _FIT, "args": _args_of_fit(profile)}]
    if change.weights:
        enabled = [{"name": name, "weight": weight} for name, weight in change.weights.items()]
        found["plugins"] = {"multiPoint": {"enabled": enabled}}
    return found


def _explain(cluster: Cluster, facts: Facts, body: ExplainBody, manifests: Manifests, found: _Answer) -> None:
    with mistakes_in_manifests(body.manifests):
        pods = pods_of_manifests(cluster, manifests, MANIFESTS)
    evaluation = Evaluation(cluster, facts.reads, facts.now)
    found.pods = [_at_once(evaluation.new(pod)) for pod in pods]
    found.edits = _edits(body, found.pods)
    found.summary = " ".join(f"{one.headline}." for one in found.pods)
    parts = [part for one in found.pods for part in _parts(one)]
    found.report = Report(f"explain: {', '.join(one.pod for one in found.pods)}", found.summary, parts, {})


def _edits(body: ExplainBody, pods: Sequence[PodDocument]) -> Sequence[str]:
    """The manifests with each change of their only pod or workload."""
    objects = [one for _, one in documents_of_text(MANIFESTS, text_of(body.manifests))]
    places = [place for place, one in enumerate(objects) if one["kind"] in RESOURCES]
    if len(places) != 1:
        return ()
    [place], [pod] = places, pods
    kind = objects[place]["kind"]
    rules = merge_rules(RESOURCES[kind])

    def edited(change: PodChange) -> str:
        if change.patch is None or change.claim:
            return ""
        patched = strategic_merge(objects[place], patch_of_template(kind, change.patch), rules)
        return "---\n".join(map(to_yaml, (*objects[:place], patched, *objects[place + 1 :])))

    return [edited(change) for change in pod.changes]


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: everything was read before."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("expected nothing to wait for")


def _parts(one: PodDocument) -> Iterator[Any]:
    """An explanation as parts of a report."""
    if one.cause:
        yield Text(one.cause, title=one.pod)
    if one.funnel:
        steps = [Bar(line.plugin, float(line.nodes), line.reason) for line in one.funnel]
        yield Funnel(one.nodes, steps, title="nodes ruled out")
    if one.changes:
        rows = [(change.text, change.outcome) for change in one.changes]
        yield Table(["change", "then"], rows, title="changes that would help")
