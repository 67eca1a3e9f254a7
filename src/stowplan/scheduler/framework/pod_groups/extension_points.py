"""Running the extension points of groups: PlacementGenerate, -Feasible and -Score, and PodGroupPostFilter."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stowplan.scheduler.framework.extension_points import guarded
from stowplan.scheduler.framework.instrument import Probe
from stowplan.scheduler.framework.interface import MAX_NODE_SCORE, ExtensionPoint, Plugin, Scores
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupSteps,
    Placement,
    PlacementCycle,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    ScheduleGroup,
)
from stowplan.scheduler.framework.status import SUCCESS, Code, PluginError, Status, error, unschedulable

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime import Framework

NO_PLACEMENTS: Final = "no feasible placements found"


class PlacementScores(NamedTuple):
    """The scores of placements, times weight, by plugin, and their totals."""

    by_plugin: Mapping[str, Scores]
    totals: Scores


class GroupPoints:
    """The plugins of a profile that have a say about groups. An error of a plugin is a status, not raised."""

    def __init__(self, framework: "Framework") -> None:
        self._probe: Probe | None = framework.probe
        self._generators = _having(framework, ExtensionPoint.PLACEMENT_GENERATE, "generate_placements")
        self._feasible: Sequence[Any] = [
            plugin for plugin in framework.plugins.values() if hasattr(plugin, "placement_feasible")
        ]
        self.is_trusted = framework.trusts(plugin.name for plugin in self._feasible)
        """True if PlacementFeasible depends on the numbers alone, and more members never make it worse."""
        self.goes_by_numbers = self.is_trusted and framework.trusts(one.name for one in self._generators)
        """True if placements, too, depend only on the nodes and the topology key of the group."""
        self.scores = _having(
            framework, ExtensionPoint.PLACEMENT_SCORE, "score_placements", "score_placement"
        )
        self._weights = {
            use.name: use.weight for use in framework.profile.plugins[ExtensionPoint.PLACEMENT_SCORE]
        }
        self._post_filters = _having(framework, ExtensionPoint.POD_GROUP_POST_FILTER, "pod_group_post_filter")

    def generate(
        self, cycle: GroupCycle, group: PodGroupInfo, parent: Placement
    ) -> Status | Sequence[Placement]:
        """The placements to try a group in; without a plugin, the one it is given."""
        with self._timed("PlacementGenerate") as outcome:
            if not self._generators:
                return [Placement("", parent.rows)]
            plugin = self._generators[0]
            with self._timed_plugin(plugin, "PlacementGenerate", outcome):
                answer = self._generated(plugin, cycle, group, parent)
                outcome.status = answer if isinstance(answer, Status) else SUCCESS
            return answer

    def _generated(
        self, plugin: Any, cycle: GroupCycle, group: PodGroupInfo, parent: Placement
    ) -> Status | Sequence[Placement]:
        try:
            answer = guarded(
                plugin,
                "PlacementGenerate",
                plugin.generate_placements,
                cycle,
                group,
                Placement("", parent.rows),
            )
        except PluginError as failure:
            return error(failure.message).by(plugin.name)
        if isinstance(answer, Status):
            return answer.by(plugin.name)
        placements = list(answer)
        if not all(isinstance(placement, Placement) for placement in placements):
            return error(f'plugin "{plugin.name}": expected a Status or Placements').by(plugin.name)
        return placements or unschedulable(NO_PLACEMENTS).by(plugin.name)

    def feasible(self, cycle: PlacementCycle, group: PodGroupInfo, progress: Progress) -> Status:
        """Feasibility of the group: success, WAIT, a rejection or an error."""
        probe = self._probe
        began = 0.0 if probe is None else probe.timer()
        status = SUCCESS
        for plugin in self._feasible:
            try:
                answer = guarded(
                    plugin, "PlacementFeasible", plugin.placement_feasible, cycle, group, progress
                )
            except PluginError as failure:
                status = error(f"running PlacementFeasible plugin: {failure.message}").by(plugin.name)
                break
            if answer is None or answer.code is Code.SUCCESS:
                continue
            status = _feasibility(plugin, answer)
            if status.code is not Code.WAIT:
                break
        if probe is not None:
            probe.took["PlacementFeasible", status.code.label](probe.timer() - began)
        return status

    def score(
        self, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments]
    ) -> Status | PlacementScores:
        """Score placements; an error if a plugin fails."""
        with self._timed("PlacementScore") as outcome:
            try:
                return self._score(cycle, group, placements)
            except PluginError as failure:
                outcome.status = error(failure.message).by(failure.plugin)
                return outcome.status

    def _score(
        self, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments]
    ) -> PlacementScores:
        raw = {plugin.name: _raw_scores(plugin, cycle, group, placements) for plugin in self.scores}
        for plugin in self.scores:
            if hasattr(plugin, "normalize_placement_scores"):
                raw[plugin.name] = self._normalized(plugin, cycle, group, raw[plugin.name])
        for name, scores in raw.items():
            _check_range(name, scores)
        weighted = {name: scores * self._weights[name] for name, scores in raw.items()}
        return PlacementScores(weighted, sum(weighted.values(), np.zeros(len(placements), dtype=np.int64)))

    def _normalized(self, plugin: Any, cycle: GroupCycle, group: PodGroupInfo, scores: Scores) -> Scores:
        point = "PlacementScoreExtensionNormalize"
        with self._timed_plugin(plugin, point, _Outcome()):
            try:
                answer = guarded(
                    plugin, point, plugin.normalize_placement_scores, cycle, group, scores.copy()
                )
                return _checked_scores(plugin, answer, len(scores))
            except PluginError as failure:
                raise PluginError(
                    plugin.name,
                    "running NormalizePlacementScore on PlacementScore plugins: "
                    f'plugin "{plugin.name}" failed with: {failure.message}',
                ) from failure

    def post_filter_steps(
        self, cycle: GroupCycle, group: PodGroupInfo, schedule: ScheduleGroup
    ) -> GroupSteps:
        """Ask PodGroupPostFilter plugins in order what they can do for a group that found no place.

        Success and "nothing will help" end it; otherwise reasons add up.
        """
        writes: tuple[Any, ...] = ()
        reasons: list[str] = []
        rejector = ""
        preemption = None
        for plugin in self._post_filters:
            result = yield from _ask_post_filter(plugin, cycle, group, schedule)
            writes += result.writes
            status = result.status
            if status.is_success:
                return result._replace(writes=writes)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result._replace(status=status.by(plugin.name), writes=writes)
            if status.code is not Code.UNSCHEDULABLE:
                message = f'error in "{plugin.name}" PodGroupPostFilter plugins: {status.message}'
                return PodGroupPostFilterResult(error(message).by(plugin.name))
            reasons += status.reasons
            rejector = rejector or plugin.name
            preemption = result.preemption or preemption
        said = unschedulable(*reasons).by(rejector)
        return PodGroupPostFilterResult(said, writes=writes, preemption=preemption)

    # How long it took

    @contextmanager
    def _timed(self, point: str) -> "Iterator[_Outcome]":
        outcome = _Outcome()
        probe = self._probe
        began = 0.0 if probe is None else probe.timer()
        yield outcome
        if probe is not None:
            probe.took[point, outcome.status.code.label](probe.timer() - began)

    @contextmanager
    def _timed_plugin(self, plugin: Plugin, point: str, outcome: "_Outcome") -> Iterator[None]:
        probe = self._probe
        began = 0.0 if probe is None else probe.timer()
        yield
        if probe is not None:
            probe.plugin(plugin.name, point, outcome.status.code.label, probe.timer() - began)


class _Outcome:
    """Outcome of a call, for metrics."""

    status: Status = SUCCESS


def _having(framework: "Framework", point: ExtensionPoint, *methods: str) -> Sequence[Any]:
    """The plugins of a point that have its method; a profile may name others, and they have no say."""
    return [plugin for plugin in framework.at(point) if any(hasattr(plugin, method) for method in methods)]


def _feasibility(plugin: Plugin, answer: Status) -> Status:
    """Status for an answer that is not a success."""
    if answer.code in (Code.WAIT, Code.UNSCHEDULABLE):
        return answer.by(plugin.name)
    if answer.code is Code.ERROR:
        return error(f"running PlacementFeasible plugin: {answer.message}").by(plugin.name)
    return error(f"unexpected status from PlacementFeasible plugin: {answer.code.label}").by(plugin.name)


def _raw_scores(
    plugin: Any, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments]
) -> Scores:
    """A plugin's scores of placements. Raises PluginError."""
    try:
        if hasattr(plugin, "score_placements"):
            answer = guarded(plugin, "PlacementScore", plugin.score_placements, cycle, group, placements)
            return _checked_scores(plugin, answer, len(placements))
        scores = []
        for placement in placements:
            inner = placement.cycle or PlacementCycle(cycle, placement.placement)
            score = guarded(plugin, "PlacementScore", plugin.score_placement, inner, group, placement)
            if not isinstance(score, int | np.integer):
                raise PluginError(plugin.name, f"expected an int, got {type(score).__name__}")
            scores.append(int(score))
        return np.array(scores, dtype=np.int64)
    except PluginError as failure:
        message = f'running PlacementScore plugins: plugin "{plugin.name}" failed with: {failure.message}'
        raise PluginError(plugin.name, message) from failure


def _check_range(plugin: str, scores: Scores) -> None:
    for score in scores.tolist():
        if not 0 <= score <= MAX_NODE_SCORE:
            raise PluginError(
                plugin,
                f'applying score defaultWeights on PlacementScore plugins: plugin "{plugin}" returns an '
                f"invalid score {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
            )


def _checked_scores(plugin: Plugin, answer: object, count: int) -> Scores:
    if not isinstance(answer, np.ndarray) or answer.shape != (count,) or answer.dtype.kind not in "iub":
        raise PluginError(plugin.name, f"expected an array of {count} whole numbers")
    return answer.astype(np.int64)


def _ask_post_filter(
    plugin: Any, cycle: GroupCycle, group: PodGroupInfo, schedule: ScheduleGroup
) -> GroupSteps:
    """One plugin's answer, in as many steps as the plugin takes."""
    point = "PodGroupPostFilter"
    try:
        answer: Any = guarded(plugin, point, plugin.pod_group_post_filter, cycle, group, schedule)
        step: Callable[[], Any] | None = None
        while isinstance(answer, GeneratorType):
            step = step or partial(answer.send, None)
            try:
                wanted = guarded(plugin, point, step)
            except StopIteration as end:
                answer = end.value
                continue
            try:
                step = partial(answer.send, (yield wanted))
            except BaseException as failure:  # noqa: BLE001 - it is the plugin that waits for this
                step = partial(answer.throw, failure)
    except PluginError as failure:
        return PodGroupPostFilterResult(error(failure.message))
    if isinstance(answer, Status):
        answer = PodGroupPostFilterResult(answer)
    if not isinstance(answer, PodGroupPostFilterResult):
        found = type(answer).__name__
        return PodGroupPostFilterResult(
            error(f"expected a Status or a PodGroupPostFilterResult, got {found}")
        )
    return answer
