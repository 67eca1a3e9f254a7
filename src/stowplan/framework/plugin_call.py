"""Calling a plugin: every extension point goes through `call_plugin`; filters and scores by way of a column.

What a plugin raises fails the pod at hand and nothing else: it becomes a `PluginError` that names the plugin,
the extension point and, where there is one, the node. In a sample of the cycles every single call is timed.
"""

import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from stowplan.api.status import ApiError
from stowplan.cluster.changes import NO_ROWS, Rows, merge_rows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import ALL_ROWS, AllRows, Plugin, PreFilterResult, StaleRows, Traits, Wait
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
        # The same as `guarded`, without another call: this is on the way of every pod, dozens of times.
        try:
            return method(cycle, *args)
        except (PluginError, StopIteration):
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
    except (PluginError, StopIteration):
        raise
    except Exception as cause:
        raise raised_error(plugin, point, cause, node) from cause


async def guarded_await(plugin: Plugin, point: str, answer: Awaitable[Any]) -> Any:
    """What a plugin's coroutine comes to. Raises PluginError."""
    try:
        return await answer
    except PluginError:
        raise
    except Exception as cause:
        raise raised_error(plugin, point, cause) from cause


def raised_error(plugin: Plugin, point: str, cause: Exception, node: str | None = None) -> PluginError:
    """The error that stands for what a plugin raised: with file and line, and the node if there was one."""
    message = describe_exception(cause)
    if not isinstance(cause, ApiError):
        place = _raised_at(plugin, cause)
        message += f" ({place})" if node is None else f" ({place}, node {node})"
    return plugin_error(plugin, point, message, node)


def _raised_at(plugin: Plugin, cause: Exception) -> str:
    """`file.py:12`: the innermost line in the plugin's own file, or where it was raised."""
    frames = traceback.extract_tb(cause.__traceback__)
    module = sys.modules.get(type(plugin).__module__)
    own = getattr(module, "__file__", None)
    frame = next((one for one in reversed(frames) if one.filename == own), frames[-1])
    return f"{Path(frame.filename).name}:{frame.lineno}"


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


_PRE_FILTER_ANSWERS = (Status, PreFilterResult)


def ask_pre_filter(plugin: Plugin, cycle: "Cycle") -> Status | PreFilterResult | None:
    """What a PreFilter plugin says of the pod. Raises PluginError if it fails or answers nonsense."""
    asked: PreFilterPlugin = plugin  # type: ignore[assignment]
    answer = call_plugin(plugin, "PreFilter", asked.pre_filter, cycle, cycle.pod)
    if answer is None or isinstance(answer, _PRE_FILTER_ANSWERS):
        found: Status | PreFilterResult | None = answer
        return found
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
        """What the plugin's answers of this attempt rest on, beside the rows themselves."""
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

    def judge(self, method: Callable[..., Any], cycle: Cycle, *args: Any, node: str | None = None) -> Any:
        """Ask the plugin about nodes, one or many; timed in a cycle that is a sample. Raises PluginError."""
        return call_plugin(self.plugin, self.point, method, cycle, cycle.pod, *args, node=node)

    def row_method(self, method: Callable[..., int], cycle: Cycle) -> Callable[..., int]:
        """A method for single rows, to be called many times: with timing if the cycle is a sample."""
        if cycle.watch is None:
            return method
        return partial(call_plugin, self.plugin, self.point, method)

    def raised(self, cause: Exception, node: str | None = None) -> PluginError:
        """The error that stands for what the plugin raised."""
        return raised_error(self.plugin, self.point, cause, node)

    def error(self, message: str, node: str | None = None) -> PluginError:
        """The error that ends the cycle."""
        return plugin_error(self.plugin, self.point, message, node)

    def checked(self, answer: Any, count: int, what: str) -> Any:
        """An answer by column, refused unless it is an array of so many whole numbers."""
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
