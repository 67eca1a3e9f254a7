"""From the choice of a node to the binding: Reserve, Permit, PreBind, Bind and PostBind of one profile."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import CoroutineType
from typing import Any, Final

from stowplan.api.status import ApiError
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.framework import Framework
from stowplan.framework.plugin import Plugin, Wait
from stowplan.framework.points import Point
from stowplan.framework.status import SKIP, SUCCESS, Code, Status, error

Waits = Mapping[str, float]
"""How long plugins want a pod to wait at Permit, in seconds by plugin."""

NO_WAITS: Final[Waits] = {}

_WAIT: Final = Status(Code.WAIT, ("one or more plugins asked to wait and no plugin rejected pod",))


class Lifecycle:
    """The plugins of a profile that act on a decision, run in order with what each answer means.

    A plugin that raises has failed; the attempt ends with an error that names it. Answers are never raised
    here: every method returns a status.

    Most pods come with no volumes, and most profiles do nothing for them between Score and Bind. That is
    found out once, here: a point where nobody is to be asked takes no time, and is counted so. In attempts
    where every single plugin is timed all of them are asked.
    """

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._probe = framework.probe
        self._reserve = self._having(Point.RESERVE, "reserve")
        self._unreserve = list(reversed(self._having(Point.RESERVE, "unreserve")))
        self._permit = self._having(Point.PERMIT, "permit")
        self._pre_bind = self._having(Point.PRE_BIND, "pre_bind")
        self._bind = [
            (plugin, inspect.iscoroutinefunction(plugin.bind)) for plugin in self._having(Point.BIND, "bind")
        ]
        self._post_bind = self._having(Point.POST_BIND, "post_bind")
        self._holds_plain = bool(self._permit) or not _all_idle(self._reserve)
        self._prepares_plain = not _all_idle(self._pre_bind)
        self.tells_of_bindings = bool(self._post_bind)
        """Whether anybody wants to be told that a pod is bound."""

    def _having(self, point: Point, method: str) -> list[Any]:
        """The plugins of a point that have its method; a profile may name others, and they have no say."""
        return [plugin for plugin in self._framework.at(point) if hasattr(plugin, method)]

    # In the scheduling cycle

    def hold(self, cycle: Cycle, pod: PodInfo, node: str) -> tuple[Status, Waits]:
        """Reserve, then Permit: what the first says that is against it, else what `permit` does."""
        if cycle.watch is None and not self._holds_plain and not pod.template.volumes:
            if self._probe is not None:
                took = self._probe.took
                took["Reserve", "Success"](0.0)
                took["Permit", "Success"](0.0)
            return SUCCESS, NO_WAITS
        status = self.reserve(cycle, pod, node)
        return self.permit(cycle, pod, node) if status.is_success else (status, NO_WAITS)

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Have plugins take what the pod needs; the first that will not ends it."""
        began = self._begin()
        status = SUCCESS
        for plugin in self._reserve:
            status = _status("Reserve", plugin, plugin.reserve, cycle, pod, node)
            if not status.is_success:
                break
        self._end("Reserve", status, began)
        return status

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> list[str]:
        """Have plugins give back what they took, last first; returns what went wrong."""
        began = self._begin()
        problems = []
        for plugin in self._unreserve:
            try:
                asked = _asked_at(cycle)
                plugin.unreserve(cycle, pod, node)
                _tell(cycle, plugin, "Unreserve", SUCCESS, asked)
            except Exception as cause:  # noqa: BLE001 - the others have to give back theirs all the same
                problems.append(f'running Unreserve plugin "{plugin.name}": {_told(cause)}')
        self._end("Unreserve", SUCCESS, began)
        return problems

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> tuple[Status, Waits]:
        """Ask plugins for leave to bind: success, a rejection, or WAIT with how long for whom."""
        began = self._begin()
        waits: dict[str, float] = {}
        status = SUCCESS
        for plugin in self._permit:
            asked = _asked_at(cycle)
            answer = _answer(plugin.permit, cycle, pod, node)
            if isinstance(answer, Wait):
                waits[plugin.name] = answer.seconds
                _tell(cycle, plugin, "Permit", _WAIT, asked)
                continue
            status = _judge("Permit", plugin, answer)
            _tell(cycle, plugin, "Permit", status, asked)
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
        if cycle.watch is None and not self._prepares_plain and not pod.template.volumes:
            if self._probe is not None:
                self._probe.took["PreBindPreFlight", "Skip"](0.0)
            return SKIP, ()
        began = self._begin()
        busy: list[Plugin] = []
        status = SKIP
        for plugin in self._pre_bind:
            ask: Callable[..., Any] | None = getattr(plugin, "pre_bind_pre_flight", None)
            asked = _asked_at(cycle)
            answer = SUCCESS if ask is None else _pre_flight(plugin, ask, cycle, pod, node)
            _tell(cycle, plugin, "PreBindPreFlight", answer, asked)
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
        for parallel, group in groupby(plugins, key=lambda plugin: plugin.parallel_pre_bind):
            run = _side_by_side if parallel else _one_by_one
            status = await run(group, cycle, pod, node)
            if not status.is_success:
                break
        self._end("PreBind", status, began)
        return status

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Have the first plugin that does not skip the pod bind it.

        Every pod that is bound comes along here. So plugins whose answers are always waited for, as nearly
        all are, are not put through `_waited_for`.
        """
        probe = self._probe
        began = 0.0 if probe is None else probe.timer()
        status = SKIP
        for plugin, is_waited_for in self._bind:
            if is_waited_for and cycle.watch is None:
                try:
                    answer = await plugin.bind(cycle, pod, node)
                except Exception as cause:  # noqa: BLE001 - see _answer
                    answer = error(_told(cause))
                status = SUCCESS if answer is None else _judge("Bind", plugin, answer)
            else:
                status = await _waited_for("Bind", plugin, plugin.bind, cycle, pod, node)
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
            status = await _waited_for("PostBind", plugin, plugin.post_bind, cycle, pod, node)
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


def _all_idle(plugins: Iterable[Plugin]) -> bool:
    """Whether none of these does anything for pods without volumes."""
    return all(plugin.idle_without_volumes for plugin in plugins)


def _answer(method: Callable[..., Any], *args: Any) -> Any:
    """What a plugin says; what it raises becomes an error status."""
    try:
        return method(*args)
    except Exception as cause:  # noqa: BLE001 - a plugin that fails must not take the scheduler along
        return _failed(cause)


def _failed(cause: Exception) -> Status:
    return error(str(cause) if isinstance(cause, PluginError) else _told(cause))


def _asked_at(cycle: Cycle) -> float:
    """When a plugin is asked, in an attempt that is a sample."""
    return 0.0 if cycle.watch is None else cycle.watch.timer()


def _tell(cycle: Cycle, plugin: Plugin, point: str, status: Status, asked: float) -> None:
    """How long a plugin took, if the attempt is a sample."""
    if cycle.watch is not None:
        cycle.watch.plugin(plugin.name, point, status.code.label, cycle.watch.timer() - asked)


def _status(point: str, plugin: Plugin, method: Callable[..., Any], cycle: Cycle, *args: Any) -> Status:
    asked = _asked_at(cycle)
    status = _judge(point, plugin, _answer(method, cycle, *args))
    _tell(cycle, plugin, point, status, asked)
    return status


async def _waited_for(
    point: str, plugin: Plugin, method: Callable[..., Any], cycle: Cycle, pod: PodInfo, node: str
) -> Status:
    """What a plugin says that may have to be waited for."""
    watch = cycle.watch
    asked = 0.0 if watch is None else watch.timer()
    try:
        answer = method(cycle, pod, node)
    except Exception as cause:  # noqa: BLE001 - see _answer
        answer = _failed(cause)
    if isinstance(answer, CoroutineType) or inspect.isawaitable(answer):
        try:
            answer = await answer
        except Exception as cause:  # noqa: BLE001 - see _answer
            answer = error(_told(cause))
    status = _judge(point, plugin, answer)
    _tell(cycle, plugin, point, status, asked)
    return status


def _judge(point: str, plugin: Plugin, said: object) -> Status:
    """The status an answer amounts to: none is success, an error says where it happened."""
    if said is None:
        return SUCCESS
    answer = (
        said if isinstance(said, Status) else error(f"expected a Status or None, got {type(said).__name__}")
    )
    if answer.is_success or answer.code is Code.SKIP:
        return answer
    if answer.code.is_rejection:
        return answer.by(plugin.name)
    return error(f'running {point} plugin "{plugin.name}": {answer.message}')


def _pre_flight(plugin: Plugin, ask: Callable[..., Any], *args: Any) -> Status:
    answer = _answer(ask, *args)
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status) and answer.code in (Code.SUCCESS, Code.SKIP):
        return SUCCESS if answer.is_success else SKIP
    if isinstance(answer, Status) and answer.code is Code.ERROR:
        return error(f'running PreBindPreFlight "{plugin.name}": {answer.message}')
    said = answer.code.label if isinstance(answer, Status) else type(answer).__name__
    return error(
        f'PreBindPreFlight {plugin.name} returned "{said}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )


async def _pre_bind(plugin: Any, cycle: Cycle, pod: PodInfo, node: str) -> Status:
    """Run one plugin. Who cancels it and says why (`task.cancel(why)`) gets that as what went wrong."""
    try:
        status = await _waited_for("PreBind", plugin, plugin.pre_bind, cycle, pod, node)
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


def _told(cause: BaseException) -> str:
    """An exception in one line. What an API server said is said as it is."""
    return str(cause) if isinstance(cause, ApiError) else f"{type(cause).__name__}: {cause}"
