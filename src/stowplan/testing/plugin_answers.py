"""Asking a plugin: every form of its rules about one pod, with what it raises and returns checked."""

import sys
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np

from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.events import (
    HintError,
)
from stowplan.scheduler.framework.interface import (
    IGNORED,
    NoSchedulerError,
    Plugin,
    PreFilterResult,
    ScoreRange,
    Unsigned,
)
from stowplan.scheduler.framework.status import SUCCESS, Code, PluginError, Status
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRow, NodeRows
from stowplan.testing.reuse_machine import rows_by_name

CHECKS: Final[Mapping[str, str]] = {
    "no-exceptions": "no method raises",
    "valid-answers": "answers have the types and codes that the extension point asks for",
    "forms-agree": "filter, filter_row, filter_node and filter_row_with_pods agree; so do the forms of score",
    "score-range": "scores are 0 to 100, after normalize if there is one",
    "signature": "pods with equal signatures get equal answers",
    "reads": "an answer about a node changes only with what `reads` names of it",
    "row-local": "an answer about a node changes with other nodes only where the plugin says so",
    "constant-answers": "what is declared to depend on the signature alone does",
    "no-mutation": "nothing that the plugin is given is changed",
    "reserve-balance": "unreserve gives back what reserve took, and nothing else",
    "sort-order": "sort keys can be compared and stay the same",
    "queueing-hints": "a rejected pod that fits after an event is requeued by it",
    "reuse": "kept results equal results from scratch, through any history",
    "deterministic": "asked the same again, the plugin says the same again",
}
"""The checks, by name."""


class PluginCheckError(AssertionError):
    """A plugin does not keep to its contract. The text shows the smallest cluster where it does not."""

    def __init__(self, plugin: str, check: str, problem: str, details: Sequence[str] = ()) -> None:
        lines = [f"{plugin} fails the check {check!r}: {problem}", f"({CHECKS[check]})", *details]
        super().__init__("\n".join(lines))
        self.plugin = plugin
        self.check = check
        self.problem = problem


class NotComparableError(Exception):
    """The plugin, or another one, says that it failed: there is nothing to compare."""


class SkippedError(Exception):
    """A check failed that the caller skips."""


def is_bug(failure: PluginError, plugin: str) -> bool:
    """True if a plugin raised something, but for the lack of a running scheduler."""
    cause = failure.__cause__
    return failure.plugin == plugin and cause is not None and not isinstance(cause, NoSchedulerError)


@dataclass
class CheckedPlugin:
    """The plugin under check; its exceptions become findings."""

    instance: Plugin
    trusted: bool
    fail: Callable[..., NoReturn]

    def has(self, method: str) -> bool:
        return hasattr(self.instance, method)

    def ask(self, method: str, *args: Any) -> Any:
        return self.guard(method, getattr(self.instance, method, None), *args)

    def guard(self, what: str, ask: Any, *args: Any) -> Any:
        try:
            return ask(*args)
        except NotComparableError:
            raise
        except (PluginError, HintError) as failure:
            raise NotComparableError from failure
        except Exception as cause:
            if isinstance(cause, NoSchedulerError):
                raise NotComparableError from cause
            problem = f"{what} raised {type(cause).__name__}: {cause}"
            self.fail("no-exceptions", problem, ["raised in:", f"    {self._place(cause)}"])

    def _place(self, cause: Exception) -> str:
        """The last line of the plugin's own module that was reached."""
        frames = traceback.extract_tb(cause.__traceback__)
        own = [frame for frame in frames if frame.filename == self._file]
        last = own[-1] if own else frames[-1]
        return f"{last.filename}, line {last.lineno}: {last.line}"

    @cached_property
    def _file(self) -> str:
        module = sys.modules.get(type(self.instance).__module__)
        return getattr(module, "__file__", None) or ""

    def invalid(self, method: str, expected: str, got: object) -> NoReturn:
        self.fail("valid-answers", f"{method}: expected {expected}, got {type(got).__name__} {got!r:.80}")


@dataclass
class Answers:
    """Answers of the plugin for a pod over the current table.

    `codes` are the filter's by row: numbers of a filter by column, statuses of one by node. `feasible` are
    the rows that the whole profile lets pass, `raw` and `final` are scores by row. The states are those
    passed to the plugin to get the rows that changed since.
    """

    plugin: CheckedPlugin
    table: ClusterTable
    pod: PodInfo
    feasible: BoolColumn
    memos: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cycle = Cycle(self.table, self.pod, self.memos)
        self.cycle.feasible = self.feasible
        self.cycle.feasible_count = int(np.count_nonzero(self.feasible))
        self.rows = [row for row, _ in rows_by_name(self.table)]
        self.signature = self._signature()
        self.pre_filter = self._pre_filter()
        self.codes: dict[int, int | Status] = self._codes()
        self.pre_score = self._pre_score()
        self.raw: dict[int, int] = self._raw()
        self.final: dict[int, int] = self._final()
        plugin = self.plugin.instance
        self.filter_state = self.cycle.read(plugin)
        self.score_state = self.cycle.read_score(plugin)
        if self.raw and self.plugin.has("score_basis"):
            self.score_state = self.plugin.ask("score_basis", self.cycle, self.pod)

    def _signature(self) -> Hashable | Unsigned:
        signature: Hashable = self.plugin.ask("sign", self.pod)
        self.plugin.guard("hash() of what sign returned", hash, signature)
        return signature

    @property
    def signed(self) -> bool:
        return not isinstance(self.signature, Unsigned)

    # Filter

    def _pre_filter(self) -> Status | PreFilterResult | None:
        if not self.plugin.has("pre_filter"):
            return None
        answer = self.plugin.ask("pre_filter", self.cycle, self.pod)
        if answer is not None and not isinstance(answer, Status | PreFilterResult):
            self.plugin.invalid("pre_filter", "a Status, a PreFilterResult or None", answer)
        return answer

    @property
    def is_filtered(self) -> bool:
        """True if the plugin's filter runs for this pod."""
        said = self.pre_filter
        return not isinstance(said, Status) or said.is_success

    def _codes(self) -> dict[int, int | Status]:
        if not self.is_filtered:
            return {}
        if self.plugin.has("filter"):
            return dict(self.filter_rows(self._all_rows()))
        if self.plugin.has("filter_node"):
            return {row: self.filter_node(row) for row in self.rows}
        return {}

    def _all_rows(self) -> NodeRows:
        """The rows that the plugin gets in a scheduler."""
        nodes = self.table.all_rows()
        return nodes if self.plugin.trusted else nodes.living()

    def filter_rows(self, nodes: NodeRows) -> dict[int, int]:
        """Results of `filter` for some rows, without those whose node is gone."""
        answer = self.plugin.ask("filter", self.cycle, self.pod, nodes)
        return self._by_row("filter", answer, nodes)

    def filter_node(self, row: int) -> Status:
        answer = self.plugin.ask("filter_node", self.cycle, self.pod, NodeRow(self.table, row))
        if answer is None:
            return SUCCESS
        if not isinstance(answer, Status):
            self.plugin.invalid("filter_node", "a Status or None", answer)
        if not answer.is_success and not answer.code.is_rejection and answer.code is not Code.ERROR:
            self.plugin.invalid("filter_node", "success or a rejection", answer)
        return SUCCESS if answer.is_success else answer

    def status(self, code: int | Status) -> Status:
        """Status of a code of `filter`."""
        if isinstance(code, Status):
            return code
        if not code:
            return SUCCESS
        answer = self.plugin.ask("reason", self.cycle, self.pod, code)
        if not isinstance(answer, Status) or not (
            answer.code.is_rejection if code > 0 else answer.code is Code.ERROR
        ):
            self.plugin.invalid(f"reason of code {code}", "a rejection" if code > 0 else "an error", answer)
        return answer

    # Score

    def _pre_score(self) -> Status | None:
        if not self.plugin.has("pre_score") or not self.feasible.any():
            return None
        answer = self.plugin.ask("pre_score", self.cycle, self.pod)
        if answer is not None and not isinstance(answer, Status):
            self.plugin.invalid("pre_score", "a Status or None", answer)
        return answer

    @property
    def feasible_rows(self) -> list[int]:
        rows: list[int] = np.flatnonzero(self.feasible).tolist()
        return rows

    @property
    def is_scored(self) -> bool:
        return bool(self.raw)

    def _raw(self) -> dict[int, int]:
        if not self.feasible.any() or (self.pre_score is not None and not self.pre_score.is_success):
            return {}
        if self.plugin.has("score"):
            return self.score_rows(self._all_rows())
        if self.plugin.has("score_node"):
            return {row: self.score_node(row) for row in self.feasible_rows}
        return {}

    def score_rows(self, nodes: NodeRows) -> dict[int, int]:
        answer = self.plugin.ask("score", self.cycle, self.pod, nodes)
        return self._by_row("score", answer, nodes)

    def score_node(self, row: int) -> int:
        answer = self.plugin.ask("score_node", self.cycle, self.pod, NodeRow(self.table, row))
        if not isinstance(answer, int | np.integer):
            self.plugin.invalid("score_node", "an int", answer)
        return int(answer)

    @cached_property
    def extremes(self) -> ScoreRange:
        scored = [self.raw[row] for row in self.feasible_rows if self.raw[row] != IGNORED]
        return ScoreRange(min(scored), max(scored)) if scored else ScoreRange(0, 0)

    def _final(self) -> dict[int, int]:
        if not self.raw:
            return {}
        rows = self.feasible_rows
        if not self.plugin.has("normalize"):
            return {row: self.raw[row] for row in rows}
        return self.normalize(rows)

    def normalize(self, rows: list[int]) -> dict[int, int]:
        given = np.array([self.raw[row] for row in rows], dtype=np.int64)
        answer = self.plugin.ask("normalize", self.cycle, self.pod, given, self.extremes)
        if (
            not isinstance(answer, np.ndarray)
            or answer.shape != (len(rows),)
            or answer.dtype.kind not in "iub"
        ):
            self.plugin.invalid("normalize", f"an array of {len(rows)} integers", answer)
        return dict(zip(rows, answer.tolist(), strict=True))

    def _by_row(self, method: str, answer: Any, nodes: NodeRows) -> dict[int, int]:
        numbers = range(nodes.count) if isinstance(nodes.rows, slice) else nodes.rows.tolist()
        if answer is None:
            found = dict.fromkeys(numbers, 0)
        elif (
            not isinstance(answer, np.ndarray)
            or answer.shape != (nodes.count,)
            or answer.dtype.kind not in "iub"
        ):
            self.plugin.invalid(method, f"an array of {nodes.count} integers or None", answer)
        else:
            found = dict(zip(numbers, map(int, answer.tolist()), strict=True))
        return {row: value for row, value in found.items() if self.table.valid[row]}


def describe_answer(answer: object) -> str:
    if answer is None or (isinstance(answer, Status) and answer.is_success):
        return "passes"
    if isinstance(answer, Status):
        return f"{answer.code.label}: {answer.message}" if answer.reasons else answer.code.label
    return str(answer)


def two_columns(said: Mapping[str, Any]) -> list[str]:
    """Answers in two columns."""
    width = max(map(len, said), default=0)
    return ["said:", *(f"    {form:<{width}}  {answer}" for form, answer in said.items())] if said else []
