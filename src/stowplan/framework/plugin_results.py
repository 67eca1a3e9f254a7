"""What filters and scores have in common: calling the plugin, and knowing which kept results are stale."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import ALL_ROWS, AllRows, Plugin, StaleRows, Traits
from stowplan.framework.plugin_call import call_plugin, describe_exception, guarded, plugin_error
from stowplan.framework.status import PluginError


def rows_read(traits: Traits, node_rows: Rows, usage_rows: Rows) -> Rows:
    """Of the touched rows, those where something a plugin reads was touched."""
    if not traits.reads_node:
        return usage_rows if traits.reads_usage else NO_ROWS
    return merge_rows(node_rows, usage_rows) if traits.reads_usage else node_rows


def merge_rows(one: Rows, other: Rows) -> Rows:
    if not len(one) or one is other:
        return other
    if not len(other):
        return one
    if len(one) + len(other) <= 64:
        return np.array(sorted({*one.tolist(), *other.tolist()}), dtype=np.intp)
    mask = np.zeros(max(int(one.max()), int(other.max())) + 1, dtype=np.bool_)
    mask[one] = True
    mask[other] = True
    return np.flatnonzero(mask)


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

    def raised(self, cause: Exception) -> PluginError:
        """The error that stands for what the plugin raised."""
        return self.error(describe_exception(cause))

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
