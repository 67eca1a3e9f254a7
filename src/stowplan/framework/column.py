"""What is kept of one plugin at one extension point for a class of pods."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import ALL_ROWS, AllRows, Plugin, StaleRows, Traits
from stowplan.framework.probe import Probe
from stowplan.framework.rows import merge_stale, rows_read
from stowplan.framework.status import Code

_SUCCESS = Code.SUCCESS.label


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

    def error(self, message: str, node: str | None = None) -> PluginError:
        """The error that ends the attempt, by the plugin's name."""
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

    def call(self, ask: Callable[..., Any], cycle: Cycle, *about: Any, node: str | None = None) -> Any:
        """Ask the plugin. Whatever it raises fails this attempt, under its name, and nothing else."""
        try:
            return ask(cycle, cycle.pod, *about)
        except PluginError:
            raise
        except Exception as cause:
            raise self.raised(cause, node) from cause

    def raised(self, cause: Exception, node: str | None = None) -> PluginError:
        """The error that stands for whatever the plugin raised."""
        return self.error(f"{type(cause).__name__}: {cause}", node)

    def judge(self, ask: Callable[..., Any], cycle: Cycle, *about: Any, node: str | None = None) -> Any:
        """Ask the plugin about nodes, one or many; in a sampled attempt that is timed."""
        watch = cycle.watch
        if watch is None:
            return self.call(ask, cycle, *about, node=node)
        began = watch.timer()
        answer = self.call(ask, cycle, *about, node=node)
        watch.plugin(self.plugin.name, self.point, _SUCCESS, watch.timer() - began)
        return answer

    def timed(self, ask: Callable[..., int], watch: Probe) -> Callable[..., int]:
        """The same question, with a watch on how long each answer takes."""

        def timed(*about: Any) -> int:
            began = watch.timer()
            answer = ask(*about)
            watch.plugin(self.plugin.name, self.point, _SUCCESS, watch.timer() - began)
            return answer

        return timed

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
