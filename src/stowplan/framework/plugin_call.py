"""Calling a plugin: every extension point goes through `call_plugin`.

What a plugin raises fails the pod at hand and nothing else: it becomes a `PluginError` that names the
plugin, the extension point and, where there is one, the node. In a sample of the cycles every single call
is timed.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from stowplan.api.status import ApiError
from stowplan.framework.interface import Plugin, PreFilterResult, Wait
from stowplan.framework.status import Code, PluginError, Status

if TYPE_CHECKING:
    from stowplan.framework.cycle_state import Cycle
    from stowplan.framework.protocols import PreFilterPlugin

_SUCCESS: Final = Code.SUCCESS.label


class Tally(Protocol):
    """Counts how often a bundle of plugins was called; `times` is to be added to."""

    times: int


class Probe(Protocol):
    """What watches a profile. Everything here is on the way of every pod, so it has to be cheap."""

    timer: Callable[[], float]
    """Seconds that pass."""

    @property
    def took(self) -> Mapping[tuple[str, str], Callable[[float], None]]:
        """Who takes the seconds that an extension point took, by point and status, as metrics name them:
        `PreFilter`, `Success`. Whatever is asked for is there."""
        ...

    def begins(self) -> bool:
        """A scheduling cycle begins. Returns whether every single plugin is to be timed in it."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was called at a point, in a cycle that is a sample."""
        ...

    def tally(self, point: str, plugins: tuple[str, ...]) -> Tally:
        """Where to count how often these plugins are called at a point, once per node where they are called
        for nodes."""
        ...


def call_plugin(
    plugin: Plugin,
    point: str,
    method: Callable[..., Any],
    cycle: "Cycle",
    *args: Any,
    node: str | None = None,
) -> Any:
    """What a plugin answers at an extension point to `method(cycle, *args)`. Raises PluginError."""
    watch = cycle.watch
    if watch is None:
        return guarded(plugin, point, method, cycle, *args, node=node)
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
    except (PluginError, StopIteration):
        raise
    except Exception as cause:
        raise plugin_error(plugin, point, describe_exception(cause), node) from cause


async def guarded_await(plugin: Plugin, point: str, answer: Awaitable[Any]) -> Any:
    """What a plugin's coroutine comes to. Raises PluginError."""
    try:
        return await answer
    except PluginError:
        raise
    except Exception as cause:
        raise plugin_error(plugin, point, describe_exception(cause)) from cause


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
    """What metrics call an answer: that of its status, `Success` for an answer without one."""
    if isinstance(answer, Status):
        return answer.code.label
    if isinstance(answer, Wait):
        return Code.WAIT.label
    status = getattr(answer, "status", None)
    return status.code.label if isinstance(status, Status) else _SUCCESS


def describe_exception(cause: BaseException) -> str:
    """An exception in one line. An error of the API server is told as it is."""
    return str(cause) if isinstance(cause, ApiError) else f"{type(cause).__name__}: {cause}"


# PreFilter, which is also run in simulations


def ask_pre_filter(plugin: Plugin, cycle: "Cycle") -> Status | PreFilterResult | None:
    """What a PreFilter plugin says of the pod. Raises PluginError if it fails or answers nonsense."""
    method = cast("PreFilterPlugin", plugin).pre_filter
    answer = call_plugin(plugin, "PreFilter", method, cycle, cycle.pod)
    if answer is None or isinstance(answer, Status | PreFilterResult):
        return answer
    found = type(answer).__name__
    raise plugin_error(plugin, "PreFilter", f"expected a Status, a PreFilterResult or None, got {found}")
