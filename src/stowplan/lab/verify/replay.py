"""Recorded scenarios and their replay: the same cluster, the same pods in the same order, attempt by attempt.

A scenario is a cluster, pods to place in order, and the result of each. The same types hold stowplan's result
of an attempt, so that the two can be compared. After each attempt the recorded outcome is applied, regardless
of the result here: one difference does not cause others after it, and pods that need a missing plugin still
stand where they should.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import takewhile
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.api.decode import DecodeError, decode, decode_any
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.releases import Release
from stowplan.api.releases import release as release_of
from stowplan.config import BuiltConfig, build, default_config, load
from stowplan.lab.verify.devices import ClaimFacts, ReplayServices, reserve_and_pre_bind
from stowplan.lab.verify.recording import FIRST_RELEASE
from stowplan.runtime.logs import Logger
from stowplan.scheduler.cycle.post_filter import post_filter_with_extenders
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.driver import asked, write_all
from stowplan.scheduler.extenders import ExtenderError
from stowplan.scheduler.framework.decision import fit_error
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import Lifecycle, run_post_filters
from stowplan.scheduler.framework.interface import ExtensionPoint, PostFilterResult, Victims
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, NotBuiltError, PluginError
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table import table
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing.extenders import rule_extenders


@cache
def recorded_gates(release: Release) -> FeatureGates:
    """The gates of recordings: they were made with every pod evaluated on its own."""
    return FeatureGates({"OpportunisticBatching": False}, release)


_START = datetime(2025, 6, 1, tzinfo=UTC)
"""When the pod of the first attempt starts to run; each later attempt is a second later."""

NULL = msgspec.Raw(b"null")


class ScenarioError(ValueError):
    """A scenario that contradicts itself."""


class _Recorded(msgspec.Struct, rename="camel"):
    """Base of the parts of a recording."""


class PreFilter(_Recorded):
    """All PreFilter plugins together; `node_names` are the only nodes they ask for, if they ask for some."""

    code: str
    plugin: str
    reasons: list[str]
    node_names: list[str] | None
    skipped: list[str]


class ReplayVerdict(_Recorded):
    """Why a node was rejected, and by whom."""

    code: str
    plugin: str
    reasons: list[str]


class RecordedCandidate(_Recorded):
    """Pods that would have to go for the pod to fit on a node."""

    victims: list[str]
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")


class RecordedPreemption(_Recorded):
    """Result of the PostFilter plugins."""

    code: str
    nominated_node: str | None
    victims: list[str]
    message: str
    candidates: dict[str, RecordedCandidate] | None = None
    ties: list[str] | None = None


class ReplayAttempt(_Recorded, kw_only=True):
    """One attempt to place a pod. An `error` means that a plugin failed and the attempt was given up.

    From `reserve_failure` on it is about reserving and about devices.
    """

    pod: str
    attempt: int
    pre_filter: PreFilter
    via_nominated_node: bool = False
    rejected: dict[str, ReplayVerdict]
    feasible: list[str]
    skipped_score: list[str] | None = None
    scores: dict[str, dict[str, int]] | None = None
    total: dict[str, int] | None = None
    best: list[str]
    assigned: str | None
    fit_error: str | None
    error: str | None = None
    crash: str | None = None
    """The recorded scheduler ended itself here: there is no answer to compare with."""
    error_nodes: list[str] = []
    preemption: RecordedPreemption | None
    reserve_failure: Any = None
    pre_bind_failure: Any = None
    claims: Any = None
    claim_status: Any = None
    node_allocations: Any = None
    extended_requests: Any = None
    extended_mappings: Any = None
    deallocated: Any = None


class RecordedScenario(_Recorded, kw_only=True):
    """Objects of the cluster and pods are kept as text until they are needed."""

    name: str
    config: msgspec.Raw = NULL
    objects: list[msgspec.Raw]
    pods: list[msgspec.Raw]
    expected: list[ReplayAttempt]
    prebind: bool = False
    kubernetes_version: str | None = None

    def cluster(self) -> list[Object]:
        """The objects that exist at the start. Raises DecodeError."""
        found = [_object(f"objects[{index}]", raw) for index, raw in enumerate(self.objects)]
        return [obj for obj in found if obj is not None]

    def pending(self) -> list[Pod]:
        """The pods to place, in order. Raises DecodeError."""
        return [_pod(f"pods[{index}]", raw) for index, raw in enumerate(self.pods)]

    @property
    def release(self) -> Release:
        """The release it was recorded from. Raises UnknownReleaseError."""
        version = self.kubernetes_version
        return FIRST_RELEASE if version is None else release_of(version)

    @property
    def has_extenders(self) -> bool:
        return self.config != NULL and bool(msgspec.json.decode(self.config, type=_Config).extenders)


class _Config(_Recorded):
    extenders: list[msgspec.Raw] = []


_scenarios = msgspec.json.Decoder(RecordedScenario)


def decode_scenario(data: bytes) -> RecordedScenario:
    """Read a line of a recording. Raises DecodeError."""
    try:
        return _scenarios.decode(data)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"scenario: {error}") from None


def _object(where: str, raw: msgspec.Raw) -> Object | None:
    with _located(where):
        return decode_any(bytes(raw))


def _pod(where: str, raw: msgspec.Raw) -> Pod:
    with _located(where):
        return decode(bytes(raw), Pod)


@contextmanager
def _located(where: str) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of one attempt here.

    `attempt` is None where the pod needs a plugin that is not built (`missing`). With an attempt, `missing`
    names the first PostFilter plugin that is not built: then the message ends before its part, and
    `message_alone` is the message without the text of any PostFilter plugin.
    """

    attempt: ReplayAttempt | None
    missing: str | None = None
    message_alone: str | None = None


class ScenarioReplay:
    """One scenario: the table, a framework per profile, the pending pods and their nominated nodes."""

    def __init__(
        self, scenario: RecordedScenario, registry: Registry | None = None, gates: FeatureGates | None = None
    ) -> None:
        """`gates` replay a scenario as another release than the one it was recorded from."""
        gates = recorded_gates(scenario.release) if gates is None else gates
        self._table = table.ClusterTable(gates.release)
        table.load(self._table, scenario.cluster())
        registry = registry or in_tree_registry()
        built = _built(bytes(scenario.config), gates)
        self._services = ReplayServices(self._table) if scenario.prebind else None
        self._in_detail = not any(attempt.claims is not None for attempt in scenario.expected)
        self._frameworks = {
            profile.scheduler_name: Framework(profile, self._table, registry, gates, services=self._services)
            for profile in built.profiles
        }
        self._extenders = rule_extenders(built)
        self._finder = NodeFinder(NodeSampler(self._table), Random(0), Logger())
        self._pods = {pod.key: self._table.info(pod) for pod in scenario.pending()}
        self._running = {info.key: info.uid for info in self._table.pods.values()}
        self._evaluated: tuple[str, Evaluation] | None = None
        self._active_profile = ""
        self._reserved: dict[str, list[Object]] = {}
        self._nominated = {
            key: info.pod.status.nominated_node_name
            for key, info in self._pods.items()
            if info.pod.status.nominated_node_name
        }

    # One attempt

    def attempt(self, expected: ReplayAttempt) -> Replayed:
        """Try to place the pod of a recorded attempt."""
        framework = self._framework(self._pod(expected.pod))
        try:
            return self._result(expected, framework, self._find(expected.pod))
        except NotBuiltError as error:
            return Replayed(None, error.plugin)
        except PluginError as error:
            return Replayed(_failed(expected, error.message, error.nodes))
        except ExtenderError as error:
            return Replayed(_failed(expected, str(error)))

    def evaluate(self, key: str) -> Evaluation:
        """Filter and score the nodes for a pending pod as things stand now.

        Raises PluginError, ExtenderError.
        """
        return self._find(key).evaluation

    def _find(self, key: str) -> ScheduleResult:
        info = self._pod(key)
        nominated = self._nominated.get(key)
        nominated_row = None if nominated is None else self._table.row_of(nominated)
        self._evaluated = None
        self._switch_profile(info.spec.scheduler_name)
        framework, nominations = self._framework(info), self._nominations()
        if self._extenders:
            found = asyncio.run(
                asked(
                    self._finder.find_with_extenders(framework, info, nominations, nominated_row),
                    self._extenders,
                )
            )
        else:
            found = self._finder.find(framework, info, nominations, nominated_row)
        self._evaluated = key, found.evaluation
        return found

    def _switch_profile(self, profile: str) -> None:
        """kube-scheduler's profiles do not know which volumes the others reserved; those of stowplan do."""
        if profile != self._active_profile:
            reserved = self._table.storage.exchange_assumed(self._reserved.pop(profile, ()))
            self._reserved[self._active_profile] = reserved
            self._active_profile = profile

    def _framework(self, info: PodInfo) -> Framework:
        name = info.spec.scheduler_name
        if name not in self._frameworks:
            raise ScenarioError(f"pod {info.key}: no profile for scheduler {name!r}")
        return self._frameworks[name]

    def _pod(self, key: str) -> PodInfo:
        if key not in self._pods:
            raise ScenarioError(f"expected names pod {key!r}, which is not in pods")
        return self._pods[key]

    def _nominations(self) -> dict[int, list[PodInfo]]:
        nominations: dict[int, list[PodInfo]] = defaultdict(list)
        for key, node in self._nominated.items():
            row = self._table.row_of(node)
            if row is not None:
                nominations[row].append(self._pods[key])
        return nominations

    def _result(self, expected: ReplayAttempt, framework: Framework, found: ScheduleResult) -> Replayed:
        """Result in the form of a recording."""
        evaluation = found.evaluation
        names = self._names(evaluation.feasible_rows.tolist())
        best = sorted(self._names(found.best_rows().tolist())) if names else []
        attempt = ReplayAttempt(
            pod=expected.pod,
            attempt=expected.attempt,
            pre_filter=_pre_filter(evaluation, framework.profile.names(ExtensionPoint.PRE_FILTER)),
            via_nominated_node=evaluation.only_row is not None,
            rejected=self._rejected(evaluation),
            feasible=sorted(names),
            best=best,
            assigned=best[0] if best else None,
            fit_error=None,
            preemption=None,
        )
        if evaluation.scored:
            self._add_scores(attempt, found)
        if not names:
            return self._add_failure(attempt, expected, framework, evaluation)
        if self._services is not None:
            self._add_claims(attempt, expected, framework, evaluation)
        return Replayed(attempt)

    def _add_claims(
        self, attempt: ReplayAttempt, expected: ReplayAttempt, framework: Framework, evaluation: Evaluation
    ) -> None:
        """Reserve and PreBind on the node of the recording, and what became of the pod's claims."""
        cycle = evaluation.cycle
        node = (expected.best or attempt.best)[0]
        facts = ClaimFacts(framework, cycle, self._table)
        if self._in_detail:
            attempt.node_allocations = facts.by_node(attempt.feasible)
        status = asyncio.run(reserve_and_pre_bind(framework, cycle, cycle.pod, node))
        if not status.is_success:
            attempt.assigned = None
            attempt.pre_bind_failure = {
                "code": status.code.label,
                "plugin": status.plugin,
                "reasons": list(status.reasons),
            }
        if self._in_detail:
            attempt.claim_status = facts.statuses()
            if status.is_success:
                attempt.extended_requests, attempt.extended_mappings = facts.extended(node)
        else:
            attempt.claims = facts.devices()

    def _rejected(self, evaluation: Evaluation) -> dict[str, ReplayVerdict]:
        if evaluation.rejected_outright is not None or evaluation.only_row is not None:
            return {}
        rejected: dict[str, ReplayVerdict] = {}
        for status, rows in evaluation.rejections().items():
            verdict = ReplayVerdict(
                code=status.code.label, plugin=status.plugin, reasons=list(status.reasons)
            )
            rejected |= dict.fromkeys(self._names(rows.tolist()), verdict)
        return rejected

    def _add_scores(self, attempt: ReplayAttempt, found: ScheduleResult) -> None:
        rows = found.evaluation.feasible_rows
        names = self._names(rows.tolist())
        attempt.skipped_score = sorted(found.evaluation.cycle.skipped_score)
        attempt.scores = {
            plugin: dict(zip(names, scores, strict=True)) for plugin, scores in found.scores(rows).items()
        }
        for given in found.extender_scores:
            attempt.scores[given.extender] = dict(given.scores)
        attempt.total = dict(zip(names, found.all_totals(rows), strict=True))

    def _add_failure(
        self, attempt: ReplayAttempt, expected: ReplayAttempt, framework: Framework, evaluation: Evaluation
    ) -> Replayed:
        """The message, and what the PostFilter plugins do, as far as they are built."""
        wanted = framework.profile.names(ExtensionPoint.POST_FILTER)
        if not self._table.node_count or not wanted:
            attempt.fit_error = fit_error(evaluation)
            return Replayed(attempt)
        built = list(takewhile(framework.plugins.__contains__, wanted))
        plugins = [framework.plugins[name] for name in built]
        cycle, pod = evaluation.cycle, evaluation.cycle.pod
        if self._extenders:
            result = asyncio.run(asked(post_filter_with_extenders(plugins, cycle, pod), self._extenders))
        elif self._services is not None:
            result = run_post_filters(plugins, cycle, pod)
            against = asyncio.run(write_all(result.writes))
            if against is not None:
                result = PostFilterResult(against, write_failed=True)
            freed, self._services.client.deallocated = self._services.client.deallocated, []
            if self._in_detail:
                attempt.deallocated = freed or None
        else:
            result = run_post_filters(plugins, cycle, pod)
        result = _as_recorded(result, expected)
        attempt.fit_error = fit_error(evaluation, result.status.message)
        if len(built) == len(wanted) or result.status.code is not Code.UNSCHEDULABLE:
            attempt.preemption = _preemption(result)
            return Replayed(attempt)
        return Replayed(attempt, wanted[len(built)], fit_error(evaluation))

    def _names(self, rows: list[int]) -> list[str]:
        return [self._table.name_of(row) for row in rows]

    # Its outcome

    def settle(self, outcome: ReplayAttempt, position: int) -> None:
        """Put a recorded outcome into effect; `position` is that of the attempt in the scenario."""
        key = outcome.pod
        if outcome.assigned is not None:
            self._bind(self._pod(key), outcome.assigned, position)
        elif outcome.error is not None or outcome.pre_bind_failure is not None:
            self._nominate(key, "")
        elif outcome.preemption is not None:
            self._preempt(self._pod(key), outcome.preemption)

    def _bind(self, info: PodInfo, node: str, position: int) -> None:
        """The pod is assumed on the node, then runs there."""
        if self._table.row_of(node) is None:
            raise ScenarioError(f"pod {info.key}: assigned to node {node!r}, which does not exist")
        if info.uid in self._table.pods:
            raise ScenarioError(f"pod {info.key}: assigned twice, or its uid is that of a running pod")
        started = (_START + timedelta(seconds=position)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._nominated.pop(info.key, None)
        pod = info.pod
        running = replace(
            pod,
            spec=replace(pod.spec, node_name=node),
            status=replace(pod.status, phase="Running", start_time=started),
        )
        self._reserve(info, node)
        self._table.assume(info, node)
        self._table.confirm(running)
        self._running[info.key] = info.uid

    def _reserve(self, info: PodInfo, node: str) -> None:
        """Take the pod's resources besides room; recordings end there, the pod is never bound."""
        if self._evaluated is None or self._evaluated[0] != info.key or self._services is not None:
            return
        Lifecycle(self._framework(info)).reserve(self._evaluated[1].cycle, info, node)

    def _preempt(self, info: PodInfo, outcome: RecordedPreemption) -> None:
        node = outcome.nominated_node
        if node is None:
            return
        victims = [self._remove(key) for key in outcome.victims]
        if node and not all(victim.is_terminating for victim in victims):
            self._clear_nominations(node, info.priority)
        self._nominate(info.key, node)

    def _remove(self, key: str) -> Pod:
        uid = self._running.pop(key, None)
        if uid is None:
            raise ScenarioError(f"victim {key!r} is not running")
        return self._table.remove_pod(uid).pod

    def _clear_nominations(self, node: str, priority: int) -> None:
        """Pods of lower priority lose the nomination of a node that one of higher priority gets."""
        for key, nominated in list(self._nominated.items()):
            if nominated == node and self._pods[key].priority < priority:
                self._nominate(key, "")

    def _nominate(self, key: str, node: str) -> None:
        """Nominate a node for a pod, or with "" clear its nomination, in its status too."""
        info = self._pods[key]
        info.pod = replace(info.pod, status=replace(info.pod.status, nominated_node_name=node))
        if node:
            self._nominated[key] = node
        else:
            self._nominated.pop(key, None)


@lru_cache(maxsize=64)
def _built(config: bytes, gates: FeatureGates) -> BuiltConfig:
    """A configuration document, ready for use; without one, the default. Raises ConfigError."""
    return build(default_config(gates) if config == b"null" else load(config, gates))


def _pre_filter(evaluation: Evaluation, order: Sequence[str]) -> PreFilter:
    """A plugin that rules a pod out for good ends the phase: who comes after it is not asked."""
    found = evaluation.pre_filtering
    status = found.status
    names = found.node_names
    skipped = evaluation.cycle.skipped
    if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        skipped = skipped.intersection(takewhile(lambda name: name != status.plugin, order))
    return PreFilter(
        code=Code.SUCCESS.label if status is None else status.code.label,
        plugin="" if status is None else status.plugin,
        reasons=[] if status is None else list(status.reasons),
        node_names=None if names is None else sorted(names),
        skipped=sorted(skipped),
    )


def _as_recorded(result: PostFilterResult, expected: ReplayAttempt) -> PostFilterResult:
    """A message that names one of several nodes as good as each other names the one of the recording."""
    recorded = None if expected.preemption is None else expected.preemption.nominated_node
    if not recorded or not result.nominated_node or recorded not in result.ties:
        return result
    named, meant = f" on node {result.nominated_node},", f" on node {recorded},"
    reasons = tuple(reason.replace(named, meant) for reason in result.status.reasons)
    return result._replace(status=result.status._replace(reasons=reasons))


def _preemption(result: PostFilterResult) -> RecordedPreemption:
    """Among equally good nodes the recordings took the first by name; here chance decided."""
    node, victims = result.nominated_node, result.victims
    if result.ties:
        node = min(result.ties)
        victims = result.candidates[node].pods
    return RecordedPreemption(
        code=result.status.code.label,
        nominated_node=node,
        victims=sorted(pod.key for pod in victims),
        message=result.status.message,
        candidates={name: _candidate(found) for name, found in result.candidates.items()} or None,
        ties=sorted(result.ties) if len(result.ties) > 1 else None,
    )


def _candidate(found: Victims) -> RecordedCandidate:
    return RecordedCandidate(victims=[pod.key for pod in found.pods], num_pdb_violations=found.violations)


def _failed(expected: ReplayAttempt, message: str, nodes: Iterable[str] = ()) -> ReplayAttempt:
    return ReplayAttempt(
        pod=expected.pod,
        attempt=expected.attempt,
        pre_filter=expected.pre_filter,
        rejected={},
        feasible=[],
        best=[],
        assigned=None,
        fit_error=None,
        error=message,
        error_nodes=sorted(nodes),
        preemption=None,
    )
