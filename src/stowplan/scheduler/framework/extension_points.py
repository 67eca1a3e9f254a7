"""Calling plugins: `call_plugin` for every extension point, then the points after Score in their order.

An exception of a plugin fails the current pod and nothing else: it becomes a `PluginError` that names the
plugin, the extension point and, where there is one, the node. In a sample of the cycles every single call is
timed. Filter and Score, which run on all nodes at once, are called in runtime.py by way of a `PluginColumn`.
"""

import asyncio
import inspect
import linecache
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from stowplan.api.status import ApiError
from stowplan.runtime.logs.tracebacks import frames
from stowplan.scheduler.framework.budget import LongSearchError
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.instrument import Probe
from stowplan.scheduler.framework.interface import (
    ALL_ROWS,
    AllRows,
    ExtensionPoint,
    Plugin,
    PostFilterResult,
    PreFilterResult,
    StaleRows,
    Steps,
    Traits,
    Wait,
)
from stowplan.scheduler.framework.status import SKIP, SUCCESS, Code, PluginError, Status, error, unschedulable
from stowplan.scheduler.table.changes import NO_ROWS, Rows, merge_rows
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.view import NodeRows

if TYPE_CHECKING:
    from stowplan.scheduler.framework.reuse.equivalence_class import EquivalenceClass
    from stowplan.scheduler.framework.runtime import Framework

_SUCCESS: Final = Code.SUCCESS.label

_log: Final = logging.getLogger("stowplan.plugins")


def count_calls(
    probe: Probe,
    pod_class: "EquivalenceClass",
    point: str,
    names: tuple[str, ...],
    skipped: frozenset[str],
    times: int,
) -> None:
    """Count the plugins of a point that were asked, all but those that skip the pod; for all pods of a class
    they are the same."""
    kept = pod_class.asked.get(point)
    if kept is None or (kept[0] is not skipped and kept[0] != skipped):
        asked = tuple(name for name in names if name not in skipped)
        kept = pod_class.asked[point] = (skipped, probe.call_counter(point, asked))
    kept[1].times += times


def call_plugin(
    plugin: Plugin,
    point: str,
    method: Callable[..., Any],
    cycle: Cycle,
    *args: Any,
    node: str | None = None,
) -> Any:
    """Result of a plugin's `method(cycle, *args)` at an extension point. Raises PluginError."""
    watch = cycle.watch
    if watch is None:
        # The same as `guarded`, without another call: this is on the way of every pod, dozens of times.
        try:
            return method(cycle, *args)
        except (PluginError, LongSearchError, StopIteration):
            raise
        except Exception as cause:
            raise raised_error(plugin, point, cause, node) from cause
    began = watch.timer()
    label = Code.ERROR.label
    try:
        answer = guarded(plugin, point, method, cycle, *args, node=node)
        label = status_label(answer)
    finally:
        watch.plugin(plugin.name, point, label, watch.timer() - began)
    return answer


def guarded(
    plugin: Plugin, point: str, method: Callable[..., Any], *args: Any, node: str | None = None
) -> Any:
    """The same without a cycle, and never timed. Raises PluginError."""
    try:
        return method(*args)
    except (PluginError, LongSearchError, StopIteration):
        raise
    except Exception as cause:
        raise raised_error(plugin, point, cause, node) from cause


async def guarded_await(plugin: Plugin, point: str, answer: Awaitable[Any]) -> Any:
    """Result of a plugin's coroutine. Raises PluginError."""
    try:
        return await answer
    except PluginError:
        raise
    except Exception as cause:
        raise raised_error(plugin, point, cause) from cause


def raised_error(plugin: Plugin, point: str, cause: Exception, node: str | None = None) -> PluginError:
    """The error that stands for what a plugin raised: with file and line, and the node if there was one."""
    return plugin_error(plugin, point, describe_failure(plugin, cause, node), node)


def describe_failure(plugin: Plugin, cause: Exception, node: str | None = None) -> str:
    """A plugin's exception in one line, with the place in the plugin's file.

    The traceback goes to the log `stowplan.plugins` at level DEBUG, for those who ask for it.
    """
    if isinstance(cause, ApiError):
        return describe_exception(cause)
    _log.debug("plugin %s", plugin.name, exc_info=cause)
    file, line = _raised_at(plugin, cause)
    text = describe_exception(cause)
    if not str(cause):
        # An assert without a text says nothing: its condition does.
        text = f"{text.rstrip()} {linecache.getline(file, line).strip()}".rstrip(" :")
    place = f"{Path(file).name}:{line}"
    return f"{text} ({place})" if node is None else f"{text} ({place}, node {node})"


def _raised_at(plugin: Plugin, cause: Exception) -> tuple[str, int]:
    """File and line: the innermost line in the plugin's own file, or where it was raised."""
    passed = list(frames(cause.__traceback__))
    module = sys.modules.get(type(plugin).__module__)
    own = getattr(module, "__file__", None)
    file, line, _ = next((one for one in reversed(passed) if one[0] == own), passed[-1])
    return file, line


def plugin_error(plugin: Plugin, point: str, message: str, node: str | None = None) -> PluginError:
    """The error of a plugin at an extension point, in kube-scheduler's words."""
    name = plugin.name
    if point == "Filter":
        text = f'running "{name}" filter plugin: {message}'
    elif point == "PreBindPreFlight":
        text = f'running PreBindPreFlight "{name}": {message}'
    else:
        text = f'running {point} plugin "{name}": {message}'
    return PluginError(name, text, () if node is None else (node,))


def status_label(answer: object) -> str:
    """Label of an answer in metrics: that of its status, `Success` for an answer without one."""
    if isinstance(answer, Status):
        return answer.code.label
    if isinstance(answer, Wait):
        return Code.WAIT.label
    status = getattr(answer, "status", None)
    return status.code.label if isinstance(status, Status) else _SUCCESS


def describe_exception(cause: BaseException) -> str:
    """An exception in one line. An error of the API server is printed verbatim."""
    if isinstance(cause, ApiError):
        return str(cause)
    return f"{type(cause).__name__}: {' '.join(str(cause).split())}"


# PreFilter, which is also run in simulations


def ask_pre_filter(plugin: Plugin, cycle: Cycle) -> Status | PreFilterResult | None:
    """Result of a PreFilter plugin for the pod. Raises PluginError on an exception or an invalid value."""
    answer = call_plugin(plugin, "PreFilter", plugin.pre_filter, cycle, cycle.pod)
    if answer is None or isinstance(answer, Status):
        return answer
    return checked_pre_filter(plugin, answer)


def checked_pre_filter(plugin: Plugin, answer: object) -> PreFilterResult:
    """An answer that is no status: the nodes to look at. Raises PluginError if it is not that either."""
    if isinstance(answer, PreFilterResult):
        return answer
    got = type(answer).__name__
    raise plugin_error(plugin, "PreFilter", f"expected a Status, a PreFilterResult or None, got {got}")


def rows_read(traits: Traits, node_rows: Rows, usage_rows: Rows) -> Rows:
    """Of the touched rows, those where something a plugin reads was touched."""
    if not traits.reads_node:
        return usage_rows if traits.reads_usage else NO_ROWS
    return merge_rows(node_rows, usage_rows) if traits.reads_usage else node_rows


def merge_stale(one: Rows, other: StaleRows) -> StaleRows:
    return other if isinstance(other, AllRows) else merge_rows(one, other)


class PluginColumn:
    """The part that filters and scores have in common: asking the plugin, and knowing which rows are stale.

    `state` is what the plugin had found when its kept answers were computed, so that it can say which rows
    changed since. `stale_rows` are those it named last, because of what it had `found` by then.
    """

    __slots__ = ("active", "found", "plugin", "reusable", "stale_rows", "state", "traits")

    point: ClassVar[str]
    """The extension point, as metrics name it."""

    def __init__(self, plugin: Plugin, traits: Traits, reusable: bool) -> None:
        self.plugin = plugin
        self.traits = traits
        self.reusable = reusable
        self.active = False
        self.state: Any = None
        self.found: Any = None
        self.stale_rows: Rows = NO_ROWS

    def basis(self, cycle: Cycle) -> Any:
        """Data that the plugin's answers of this attempt depend on, besides the rows themselves."""
        raise LookupError(self.plugin.name)

    def named_stale(self, cycle: Cycle, now: Any) -> StaleRows:
        """The rows that the plugin itself says have changed."""
        raise LookupError(self.plugin.name)

    def stale(self, cycle: Cycle, now: Any, node_rows: Rows, usage_rows: Rows) -> StaleRows:
        """The rows whose answer may differ from the one kept."""
        if not self.active or not self.reusable:
            return ALL_ROWS
        rows = rows_read(self.traits, node_rows, usage_rows)
        return rows if self.traits.row_local else merge_stale(rows, self.named_stale(cycle, now))

    def find_stale(self, cycle: Cycle) -> bool:
        """Have the plugin name the rows that changed with others; False if it cannot say."""
        self.found = self.basis(cycle)
        stale = self.named_stale(cycle, self.found)
        if isinstance(stale, AllRows):
            return False
        self.stale_rows = stale
        return True

    def call(self, method: Callable[..., Any], cycle: Cycle, *args: Any, node: str | None = None) -> Any:
        """Call a method of the plugin that is not timed. Raises PluginError."""
        return guarded(self.plugin, self.point, method, cycle, cycle.pod, *args, node=node)

    def timed(self, method: Callable[..., int]) -> Callable[..., int]:
        """A method for single rows that goes through `call_plugin`, for a cycle that is a sample."""
        return partial(call_plugin, self.plugin, self.point, method)

    def raised(self, cause: Exception, node: str | None = None) -> PluginError:
        """The error that stands for what the plugin raised."""
        return raised_error(self.plugin, self.point, cause, node)

    def error(self, message: str, node: str | None = None) -> PluginError:
        """The error that ends the cycle."""
        return plugin_error(self.plugin, self.point, message, node)

    def by_column(self, method: Callable[..., Any], cycle: Cycle, nodes: NodeRows, what: str) -> Any:
        """Result of a method for some rows as an array of integers, or None. Raises PluginError."""
        asked = nodes if self.traits.trusted else nodes.living()
        answer = call_plugin(self.plugin, self.point, method, cycle, cycle.pod, asked)
        if answer is None:
            return None
        column = self.checked(answer, asked.count, what)
        return column if asked is nodes else nodes.fill(column)

    def checked(self, answer: Any, count: int, what: str) -> Any:
        """An answer by column, refused unless it is an array of `count` integers."""
        if not isinstance(answer, np.ndarray) or answer.shape != (count,):
            raise self.error(f"expected an array of {count} {what}, got {describe(answer)}")
        if answer.dtype.kind not in "iub":
            raise self.error(f"expected integer {what}, got {answer.dtype}")
        return answer


def describe(value: object) -> str:
    """A short description of a wrong value."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"{type(value).__name__} {value!r}"[:80]


# PostFilter


class PostFilterRound:
    """Combined result of PostFilter plugins so far.

    A plugin that succeeds, fails, or returns that nothing will help ends the round. Otherwise their reasons
    add up, under the name of the first, and the last nomination holds.
    """

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._rejector = ""
        self._nominated_node: str | None = None
        self._writes: tuple[Callable[[], Awaitable[Status | None]], ...] = ()

    def take(self, plugin: Plugin, result: PostFilterResult) -> PostFilterResult | None:
        """Add a plugin's answer; returns the result of the round if that ends it."""
        status = result.status
        self._writes += result.writes
        if status.is_success:
            return result._replace(writes=self._writes)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return result._replace(status=status.by(plugin.name), writes=self._writes)
        if not status.code.is_rejection:
            return PostFilterResult(error(status.message).by(plugin.name))
        if result.nominated_node is not None:
            self._nominated_node = result.nominated_node
        self._reasons += status.reasons
        self._rejector = self._rejector or plugin.name
        return None

    def end(self) -> PostFilterResult:
        """Result of the round if no plugin ended it."""
        status = unschedulable(*self._reasons).by(self._rejector)
        return PostFilterResult(status, self._nominated_node, writes=self._writes)


def run_post_filters(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo) -> PostFilterResult:
    """Ask PostFilter plugins in order what they can do for a pod that fits nowhere. Raises PluginError."""
    return run_to_end(post_filter_steps(plugins, cycle, pod))


def post_filter_steps(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo) -> Steps:
    """The same in steps: others may run in between, as long as the table does not change."""
    asked = PostFilterRound()
    for plugin in plugins:
        answer = yield from ask_post_filter(plugin, cycle, pod)
        result = asked.take(plugin, answer)
        if result is not None:
            return result
    return asked.end()


def run_to_end(steps: Steps) -> PostFilterResult:
    """The result of a search without any interruption."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: PostFilterResult = end.value
            return result


def ask_post_filter(plugin: Plugin, cycle: Cycle, pod: PodInfo) -> Steps:
    """One plugin's answer, in as many steps as the plugin takes. Raises PluginError."""
    watch = cycle.watch
    began = 0.0 if watch is None else watch.timer()
    answer: Any = guarded(plugin, "PostFilter", plugin.post_filter, cycle, pod)
    while isinstance(answer, GeneratorType):
        try:
            guarded(plugin, "PostFilter", next, answer)
        except StopIteration as end:
            answer = end.value
        else:
            yield
    if isinstance(answer, Status):
        answer = PostFilterResult(answer)
    if not isinstance(answer, PostFilterResult):
        found = type(answer).__name__
        raise plugin_error(plugin, "PostFilter", f"expected a Status or a PostFilterResult, got {found}")
    if watch is not None:
        watch.plugin(plugin.name, "PostFilter", status_label(answer), watch.timer() - began)
    return answer


Waits = Mapping[str, float]
"""How long plugins want a pod to wait at Permit, in seconds by plugin."""

NO_WAITS: Final[Waits] = {}

_WAIT: Final = Status(Code.WAIT, ("one or more plugins asked to wait and no plugin rejected pod",))


class Lifecycle:
    """The Reserve, Permit, PreBind, Bind and PostBind plugins of a profile.

    A plugin that raises has failed; the cycle ends with an error that names it. Nothing is raised here: every
    method returns a status.

    Most pods have neither volumes nor claims, and most plugins do nothing for them between Score and Bind
    (`idle_for_plain_pods`): these are not called. A point where no plugin has anything to do takes no time,
    and is counted so. In cycles where every single plugin is timed all of them are called.
    """

    def __init__(self, framework: "Framework") -> None:
        self._framework = framework
        self._probe = framework.probe
        self._reserve = self._having(ExtensionPoint.RESERVE, "reserve")
        self._unreserve = list(reversed(self._having(ExtensionPoint.RESERVE, "unreserve")))
        self._permit = self._having(ExtensionPoint.PERMIT, "permit")
        self._pre_bind = self._having(ExtensionPoint.PRE_BIND, "pre_bind")
        self._bind = [
            (plugin, inspect.iscoroutinefunction(plugin.bind))
            for plugin in self._having(ExtensionPoint.BIND, "bind")
        ]
        self._post_bind = self._having(ExtensionPoint.POST_BIND, "post_bind")
        self._reserve_plain = [plugin for plugin in self._reserve if not plugin.contract.idle_for_plain_pods]
        self._holds_plain = bool(self._permit or self._reserve_plain)
        self._prepares_plain = not all(plugin.contract.idle_for_plain_pods for plugin in self._pre_bind)
        self.tells_of_bindings = bool(self._post_bind)
        """True if some plugin has a PostBind method."""

    def _having(self, point: ExtensionPoint, method: str) -> list[Any]:
        """The plugins of a point that have its method; a profile may name others, and they have no say."""
        return [plugin for plugin in self._framework.at(point) if hasattr(plugin, method)]

    # In the scheduling cycle

    def run_reserve_and_permit(self, cycle: Cycle, pod: PodInfo, node: str) -> tuple[Status, Waits]:
        """Reserve, then Permit: what the first says that is against it, else what `permit` does."""
        if cycle.watch is None and not self._holds_plain and pod.template.is_plain:
            if self._probe is not None:
                took = self._probe.took
                took["Reserve", "Success"](0.0)
                took["Permit", "Success"](0.0)
            return SUCCESS, NO_WAITS
        status = self.reserve(cycle, pod, node)
        return self.permit(cycle, pod, node) if status.is_success else (status, NO_WAITS)

    def reserves_nothing(self, plain: bool) -> bool:
        """True if Reserve plugins have nothing to do for a pod; `plain`: it has neither disks nor devices."""
        return not self._reserve or (plain and not self._reserve_plain)

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Run Reserve plugins up to the first one that rejects the pod."""
        began = self._begin()
        status = SUCCESS
        plain = cycle.watch is None and pod.template.is_plain
        for plugin in self._reserve_plain if plain else self._reserve:
            status = _status(plugin, "Reserve", plugin.reserve, cycle, pod, node)
            if not status.is_success:
                break
        self._end("Reserve", status, began)
        return status

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> list[str]:
        """Run `unreserve` of every Reserve plugin in reverse order; returns what went wrong."""
        if cycle.watch is None and pod.template.is_plain and not self._reserve_plain:
            if self._probe is not None:
                self._probe.took["Unreserve", "Success"](0.0)
            return []
        began = self._begin()
        problems = []
        for plugin in self._unreserve:
            try:
                call_plugin(plugin, "Unreserve", plugin.unreserve, cycle, pod, node)
            except PluginError as failure:
                problems.append(failure.message)
        self._end("Unreserve", SUCCESS, began)
        return problems

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> tuple[Status, Waits]:
        """Run Permit plugins: success, a rejection, or WAIT with how long for whom."""
        began = self._begin()
        waits: dict[str, float] = {}
        status = SUCCESS
        for plugin in self._permit:
            try:
                answer = call_plugin(plugin, "Permit", plugin.permit, cycle, pod, node)
                if isinstance(answer, Wait):
                    waits[plugin.name] = answer.seconds
                    continue
                status = checked_status(plugin, "Permit", answer)
            except PluginError as failure:
                status = error(failure.message)
            if not status.is_success:
                break
        else:
            status = _WAIT if waits else SUCCESS
        self._end("Permit", status, began)
        return status, waits

    # In the binding cycle

    def pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> tuple[Status, Sequence[Plugin]]:
        """Which PreBind plugins have work to do: success and those plugins, SKIP if none has, or an error."""
        if not self._pre_bind:
            return SKIP, ()
        if cycle.watch is None and not self._prepares_plain and pod.template.is_plain:
            if self._probe is not None:
                self._probe.took["PreBindPreFlight", "Skip"](0.0)
            return SKIP, ()
        began = self._begin()
        busy: list[Plugin] = []
        status = SKIP
        for plugin in self._pre_bind:
            ask: Callable[..., Any] | None = getattr(plugin, "pre_bind_pre_flight", None)
            answer = SUCCESS if ask is None else _pre_flight(plugin, ask, cycle, pod, node)
            if answer.is_success:
                busy.append(plugin)
                status = SUCCESS
            elif answer.code is not Code.SKIP:
                status = answer
                break
        self._end("PreBindPreFlight", status, began)
        return status, busy

    async def pre_bind(self, plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Run PreBind plugins; neighbours that allow it run side by side."""
        began = self._begin()
        status = SUCCESS
        for parallel, group in groupby(plugins, key=lambda plugin: plugin.contract.parallel_pre_bind):
            run = _side_by_side if parallel else _one_by_one
            status = await run(group, cycle, pod, node)
            if not status.is_success:
                break
        self._end("PreBind", status, began)
        return status

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Have the first plugin that does not skip the pod bind it.

        Every pod that is bound comes along here, so a coroutine in a cycle that is no sample is awaited
        directly instead of through `_awaited`.
        """
        probe = self._probe
        began = 0.0 if probe is None else probe.timer()
        status = SKIP
        for plugin, is_coroutine in self._bind:
            if is_coroutine and cycle.watch is None:
                try:
                    answer = await plugin.bind(cycle, pod, node)
                except Exception as cause:  # noqa: BLE001 - it becomes the pod's error, as in `call_plugin`
                    status = error(raised_error(plugin, "Bind", cause).message)
                else:
                    status = SUCCESS if answer is None else checked_status(plugin, "Bind", answer)
            else:
                status = await _awaited(plugin, "Bind", plugin.bind, cycle, pod, node)
            if status.code is not Code.SKIP:
                break
        if probe is not None:
            probe.took["Bind", status.code.label](probe.timer() - began)
        return status

    async def post_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> list[str]:
        """Tell plugins that the pod is bound. Returns what went wrong; it changes nothing any more."""
        if not self._post_bind:
            return []
        began = self._begin()
        problems = []
        for plugin in self._post_bind:
            status = await _awaited(plugin, "PostBind", plugin.post_bind, cycle, pod, node)
            if not status.is_success:
                problems.append(status.message)
        self._end("PostBind", SUCCESS, began)
        return problems

    # How long it took

    def _begin(self) -> float:
        return 0.0 if self._probe is None else self._probe.timer()

    def _end(self, point: str, status: Status, began: float) -> None:
        probe = self._probe
        if probe is not None:
            probe.took[point, status.code.label](probe.timer() - began)


def checked_status(plugin: Plugin, point: str, answer: object) -> Status:
    """The status an answer amounts to: none is success, a rejection is the plugin's, an error says where."""
    if answer is None:
        return SUCCESS
    if not isinstance(answer, Status):
        found = type(answer).__name__
        return error(plugin_error(plugin, point, f"expected a Status or None, got {found}").message)
    if answer.is_success or answer.code is Code.SKIP:
        return answer
    if answer.code.is_rejection:
        return answer.by(plugin.name)
    return error(plugin_error(plugin, point, answer.message).message)


def _status(plugin: Plugin, point: str, method: Callable[..., Any], cycle: Cycle, *args: Any) -> Status:
    """The status of a plugin at a point; what it raises is an error."""
    try:
        return checked_status(plugin, point, call_plugin(plugin, point, method, cycle, *args))
    except PluginError as failure:
        return error(failure.message)


async def _awaited(
    plugin: Plugin, point: str, method: Callable[..., Any], cycle: Cycle, pod: PodInfo, node: str
) -> Status:
    """The same for a plugin whose answer may have to be awaited."""
    watch = cycle.watch
    began = 0.0 if watch is None else watch.timer()
    try:
        answer = guarded(plugin, point, method, cycle, pod, node)
        if isinstance(answer, CoroutineType) or inspect.isawaitable(answer):
            answer = await guarded_await(plugin, point, answer)
        status = checked_status(plugin, point, answer)
    except PluginError as failure:
        status = error(failure.message)
    if watch is not None:
        watch.plugin(plugin.name, point, status.code.label, watch.timer() - began)
    return status


def _pre_flight(plugin: Plugin, ask: Callable[..., Any], cycle: Cycle, pod: PodInfo, node: str) -> Status:
    try:
        answer = call_plugin(plugin, "PreBindPreFlight", ask, cycle, pod, node)
    except PluginError as failure:
        return error(failure.message)
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status) and answer.code in (Code.SUCCESS, Code.SKIP):
        return SUCCESS if answer.is_success else SKIP
    if isinstance(answer, Status) and answer.code is Code.ERROR:
        return error(plugin_error(plugin, "PreBindPreFlight", answer.message).message)
    found = answer.code.label if isinstance(answer, Status) else type(answer).__name__
    return error(
        f'PreBindPreFlight {plugin.name} returned "{found}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )


async def _pre_bind(plugin: Any, cycle: Cycle, pod: PodInfo, node: str) -> Status:
    """Run one plugin. A message given on cancellation (`task.cancel(why)`) becomes the error."""
    try:
        status = await _awaited(plugin, "PreBind", plugin.pre_bind, cycle, pod, node)
    except asyncio.CancelledError as cancelled:
        if not cancelled.args:
            raise
        return error(f'running PreBind plugin "{plugin.name}": {cancelled.args[0]}')
    return SUCCESS if status.code is Code.SKIP else status


async def _one_by_one(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo, node: str) -> Status:
    for plugin in plugins:
        status = await _pre_bind(plugin, cycle, pod, node)
        if not status.is_success:
            return status
    return SUCCESS


async def _side_by_side(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo, node: str) -> Status:
    """Run all at the same time; the first failure ends the others."""
    tasks = [asyncio.ensure_future(_pre_bind(plugin, cycle, pod, node)) for plugin in plugins]
    try:
        for done in asyncio.as_completed(tasks):
            status = await done
            if not status.is_success:
                return status
        return SUCCESS
    finally:
        for task in tasks:
            task.cancel()
