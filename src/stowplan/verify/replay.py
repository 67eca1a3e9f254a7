"""Replays a recorded scenario: the same cluster, the same pods in the same order, attempt by attempt.

After each attempt the recorded outcome is put into effect, whatever came out here. So one difference does not
bring others after it, and pods that need something not built yet still stand where they should.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from random import Random

from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.cluster import table
from stowplan.cluster.podinfo import PodInfo
from stowplan.config import BuiltConfig, build, default_config, load
from stowplan.extenders import ExtenderError
from stowplan.framework.errors import NotBuiltError, PluginError
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.fiterror import fit_error
from stowplan.framework.framework import Framework
from stowplan.framework.gates import FeatureGates
from stowplan.framework.lifecycle import Lifecycle
from stowplan.framework.points import Point
from stowplan.framework.postfilter import PostFilterResult, Victims, run_post_filters
from stowplan.framework.registry import Registry
from stowplan.framework.status import Code
from stowplan.logs import Journal
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.preemption import post_filter_with_extenders
from stowplan.scheduler.scheduling_cycle import NodeFinder, ScheduleResult
from stowplan.testing.extenders import rule_extenders
from stowplan.verify.scenario import Attempt, Candidate, Preemption, PreFilter, Scenario, Verdict

GATES = FeatureGates({"OpportunisticBatching": False})
"""Recordings were made with every pod evaluated on its own."""

_START = datetime(2025, 6, 1, tzinfo=UTC)
"""When the pod of the first attempt starts to run; each later attempt is a second later."""


class ScenarioError(ValueError):
    """A scenario that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of one attempt here.

    `attempt` is None where the pod needs a plugin that is not built (`missing`). With an attempt, `missing`
    names the first PostFilter plugin that is not built: then the message ends before what it would say, and
    `message_alone` is the message without the words of any PostFilter plugin.
    """

    attempt: Attempt | None
    missing: str | None = None
    message_alone: str | None = None


class Replay:
    """One scenario: the table, a framework per profile, the pods and the nodes promised to them."""

    def __init__(self, scenario: Scenario, registry: Registry | None = None) -> None:
        self._table = table.ClusterTable()
        table.load(self._table, scenario.cluster())
        registry = registry or in_tree_registry()
        built = _built(bytes(scenario.config))
        self._frameworks = {
            profile.scheduler_name: Framework(profile, self._table, registry, GATES)
            for profile in built.profiles
        }
        self._extenders = rule_extenders(built)
        self._finder = NodeFinder(NodeSampler(self._table), self._extenders, Random(0), Journal())
        self._pods = {pod.key: self._table.info(pod) for pod in scenario.pending()}
        self._running = {info.key: info.uid for info in self._table.pods.values()}
        self._evaluated: tuple[str, Evaluation] | None = None
        self._at_work = ""
        self._reserved: dict[str, list[Object]] = {}
        self._promised = {
            key: info.pod.status.nominated_node_name
            for key, info in self._pods.items()
            if info.pod.status.nominated_node_name
        }

    # One attempt

    def attempt(self, expected: Attempt) -> Replayed:
        """Try to place the pod of a recorded attempt."""
        framework = self._framework(self._pod(expected.pod))
        try:
            return self._told(expected, framework, self._find(expected.pod))
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
        promised = self._promised.get(key)
        nominated_row = None if promised is None else self._table.row_of(promised)
        self._evaluated = None
        self._recall(info.spec.scheduler_name)
        framework, nominations = self._framework(info), self._nominations()
        if self._extenders:
            found = asyncio.run(self._finder.find_with_extenders(framework, info, nominations, nominated_row))
        else:
            found = self._finder.find(framework, info, nominations, nominated_row)
        self._evaluated = key, found.evaluation
        return found

    def _recall(self, profile: str) -> None:
        """kube-scheduler's profiles do not know which volumes the others reserved; those of stowplan do."""
        if profile != self._at_work:
            reserved = self._table.storage.exchange_assumed(self._reserved.pop(profile, ()))
            self._reserved[self._at_work] = reserved
            self._at_work = profile

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
        for key, node in self._promised.items():
            row = self._table.row_of(node)
            if row is not None:
                nominations[row].append(self._pods[key])
        return nominations

    def _told(self, expected: Attempt, framework: Framework, found: ScheduleResult) -> Replayed:
        """What was found, in the words of a recording."""
        evaluation = found.evaluation
        names = self._names(evaluation.feasible_rows.tolist())
        best = sorted(self._names(found.best_rows().tolist())) if names else []
        attempt = Attempt(
            pod=expected.pod,
            attempt=expected.attempt,
            pre_filter=_pre_filter(evaluation, framework.profile.names(Point.PRE_FILTER)),
            via_nominated_node=evaluation.only_row is not None,
            rejected=self._rejected(evaluation),
            feasible=sorted(names),
            best=best,
            assigned=best[0] if best else None,
            fit_error=None,
            preemption=None,
        )
        if evaluation.scored:
            self._tell_scores(attempt, found)
        return Replayed(attempt) if names else self._tell_failure(attempt, framework, evaluation)

    def _rejected(self, evaluation: Evaluation) -> dict[str, Verdict]:
        if evaluation.rejected_outright is not None or evaluation.only_row is not None:
            return {}
        rejected: dict[str, Verdict] = {}
        for status, rows in evaluation.rejections().items():
            verdict = Verdict(code=status.code.label, plugin=status.plugin, reasons=list(status.reasons))
            rejected |= dict.fromkeys(self._names(rows.tolist()), verdict)
        return rejected

    def _tell_scores(self, attempt: Attempt, found: ScheduleResult) -> None:
        rows = found.evaluation.feasible_rows
        names = self._names(rows.tolist())
        attempt.skipped_score = sorted(found.evaluation.cycle.skipped_score)
        attempt.scores = {
            plugin: dict(zip(names, scores, strict=True)) for plugin, scores in found.scores(rows).items()
        }
        for given in found.extender_scores:
            attempt.scores[given.extender] = dict(given.scores)
        attempt.total = dict(zip(names, found.all_totals(rows), strict=True))

    def _tell_failure(self, attempt: Attempt, framework: Framework, evaluation: Evaluation) -> Replayed:
        """The message, and what the PostFilter plugins do, as far as they are built."""
        wanted = framework.profile.names(Point.POST_FILTER)
        if not self._table.node_count or not wanted:
            attempt.fit_error = fit_error(evaluation)
            return Replayed(attempt)
        built = list(takewhile(framework.plugins.__contains__, wanted))
        plugins = [framework.plugins[name] for name in built]
        cycle, pod = evaluation.cycle, evaluation.cycle.pod
        if self._extenders:
            result = asyncio.run(post_filter_with_extenders(plugins, cycle, pod, self._extenders))
        else:
            result = run_post_filters(plugins, cycle, pod)
        attempt.fit_error = fit_error(evaluation, result.status.message)
        if len(built) == len(wanted) or result.status.code is not Code.UNSCHEDULABLE:
            attempt.preemption = _preemption(result)
            return Replayed(attempt)
        return Replayed(attempt, wanted[len(built)], fit_error(evaluation))

    def _names(self, rows: list[int]) -> list[str]:
        return [self._table.name_of(row) for row in rows]

    # What follows from it

    def settle(self, outcome: Attempt, position: int) -> None:
        """Put a recorded outcome into effect; `position` is that of the attempt in the scenario."""
        key = outcome.pod
        if outcome.assigned is not None:
            self._bind(self._pod(key), outcome.assigned, position)
        elif outcome.error is not None:
            self._promise(key, "")
        elif outcome.preemption is not None:
            self._make_room(self._pod(key), outcome.preemption)

    def _bind(self, info: PodInfo, node: str, position: int) -> None:
        """The pod is assumed on the node, then runs there."""
        if self._table.row_of(node) is None:
            raise ScenarioError(f"pod {info.key}: assigned to node {node!r}, which does not exist")
        if info.uid in self._table.pods:
            raise ScenarioError(f"pod {info.key}: assigned twice, or its uid is that of a running pod")
        started = (_START + timedelta(seconds=position)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._promised.pop(info.key, None)
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
        """What the pod needs beside room is taken; recordings end there, nothing of it is ever bound."""
        if self._evaluated is None or self._evaluated[0] != info.key:
            return
        Lifecycle(self._framework(info)).reserve(self._evaluated[1].cycle, info, node)

    def _make_room(self, info: PodInfo, outcome: Preemption) -> None:
        node = outcome.nominated_node
        if node is None:
            return
        victims = [self._remove(key) for key in outcome.victims]
        if node and not all(victim.is_terminating for victim in victims):
            self._withdraw(node, info.priority)
        self._promise(info.key, node)

    def _remove(self, key: str) -> Pod:
        uid = self._running.pop(key, None)
        if uid is None:
            raise ScenarioError(f"victim {key!r} is not running")
        return self._table.remove_pod(uid).pod

    def _withdraw(self, node: str, priority: int) -> None:
        """Less important pods lose the promise of a node that a more important one gets."""
        for key, promised in list(self._promised.items()):
            if promised == node and self._pods[key].priority < priority:
                self._promise(key, "")

    def _promise(self, key: str, node: str) -> None:
        """Promise a pod a node, or with "" take the promise back; its status says so too."""
        info = self._pods[key]
        info.pod = replace(info.pod, status=replace(info.pod.status, nominated_node_name=node))
        if node:
            self._promised[key] = node
        else:
            self._promised.pop(key, None)


@lru_cache(maxsize=64)
def _built(config: bytes) -> BuiltConfig:
    """A configuration document, ready for use; without one, the default. Raises ConfigError."""
    return build(default_config(GATES) if config == b"null" else load(config, GATES))


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


def _preemption(result: PostFilterResult) -> Preemption:
    """Among equally good nodes the recordings took the first by name; here chance decided."""
    node, victims = result.nominated_node, result.victims
    if result.ties:
        node = min(result.ties)
        victims = result.candidates[node].pods
    return Preemption(
        code=result.status.code.label,
        nominated_node=node,
        victims=sorted(pod.key for pod in victims),
        message=result.status.message,
        candidates={name: _candidate(found) for name, found in result.candidates.items()} or None,
        ties=sorted(result.ties) if len(result.ties) > 1 else None,
    )


def _candidate(found: Victims) -> Candidate:
    return Candidate(victims=[pod.key for pod in found.pods], num_pdb_violations=found.violations)


def _failed(expected: Attempt, message: str, nodes: Iterable[str] = ()) -> Attempt:
    return Attempt(
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
