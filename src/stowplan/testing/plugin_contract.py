"""The contract of a plugin, checked in one cluster: before and after one change."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import msgspec
import numpy as np

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.contract import Signs
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import rejectors_of
from stowplan.scheduler.framework.events import (
    Answer,
    ClusterEvent,
    Hint,
    Registered,
    build_hint_map,
)
from stowplan.scheduler.framework.extension_points import rows_read
from stowplan.scheduler.framework.interface import (
    MAX_NODE_SCORE,
    AllRows,
    NoSchedulerError,
    PreFilterResult,
    Traits,
)
from stowplan.scheduler.framework.simulation import SimulatedRow, Simulations
from stowplan.scheduler.framework.status import SKIP_CLASS, SUCCESS, Code, PluginError, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.requeue import worth_requeuing
from stowplan.scheduler.queue.sub_queues import Strategy
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRows
from stowplan.testing.builders import builder_text
from stowplan.testing.plugin_answers import (
    Answers,
    CheckedPlugin,
    NotComparableError,
    PluginCheckError,
    SkippedError,
    describe_answer,
    is_bug,
    two_columns,
)
from stowplan.testing.plugin_lifecycle import LifecycleCheck
from stowplan.testing.plugin_scenarios import Change, Scenario, Subject, named
from stowplan.testing.reuse_machine import describe_usage

_RESERVATIONS = 24
"""Number of pods in a row that are reserved and unreserved."""


@dataclass
class Coverage:
    """Groups of checks that were completed in some scenario, and why the others were not."""

    compared: set[str] = field(default_factory=set)
    given_up: dict[str, str] = field(default_factory=dict)

    def never_compared(self) -> dict[str, str]:
        """The reason, by group of checks that was given up in every scenario."""
        return {what: why for what, why in self.given_up.items() if what not in self.compared}


class ContractCheck:
    """All checks of one scenario."""

    def __init__(
        self, subject: Subject, scenario: Scenario, coverage: Coverage, skip: Collection[str] = ()
    ) -> None:
        self.subject = subject
        self.skip = skip
        self.scenario = scenario
        self.coverage = coverage
        self._begin()
        self.traits = Traits(self.plugin.instance, trusted=self.plugin.trusted)
        self._about: tuple[Pod, ...] = ()

    def run(self) -> None:
        self._try("filter and score", self._check_answers)
        self._try("reserve", self._check_reserve)
        lifecycle = LifecycleCheck(self.subject, self.scenario, self._fail_point)
        before = self._snapshot()
        self._about = tuple(self.scenario.pods)
        self._try("queue sort", lifecycle.sort_order, self.plugin)
        self._try("post filter", lifecycle.post_filter)
        self._try("permit and binding", lifecycle.binding)
        self._nothing_was_changed(before)
        for change in self.scenario.changes:
            self._try("queueing hints", self._check_hints, change)
            self._begin()
            self._try("answers after a change", self._check_change, change)

    def _begin(self) -> None:
        """The cluster as it was at first, with a plugin that knows nothing of it yet."""
        self.table = self.scenario.table()
        instance = self.subject.framework(self.table).plugins[self.subject.name]
        self.plugin = CheckedPlugin(
            instance, self.subject.name in self.subject.registry.own, self._fail_asking
        )

    def _try(self, what: str, check: Callable[..., str | None], *args: Any) -> None:
        try:
            missing = check(*args)
        except SkippedError:
            self.coverage.compared.add(what)
        except NotComparableError as stopped:
            why = stopped.__cause__
            if why is not None and isinstance(why.__cause__, NoSchedulerError):
                why = why.__cause__
            self.coverage.given_up.setdefault(what, str(why))
        else:
            if missing:
                self.coverage.given_up.setdefault(what, missing)
            else:
                self.coverage.compared.add(what)

    def _check_answers(self) -> None:
        before = self._snapshot()
        first, second = (self._answers(pod) for pod in self.scenario.pods)
        self._about = tuple(self.scenario.pods)
        self._nothing_was_changed(before)
        for answers in (first, second):
            self._about = (answers.pod.pod,)
            for check in (
                self._same_is_said_again,
                self._filter_forms_agree,
                self._nominated_form_agrees,
                self._score_forms_agree,
                self._scores_are_in_range,
            ):
                with suppress(SkippedError):
                    check(answers)
        self._about = tuple(self.scenario.pods)
        with suppress(SkippedError):
            self._signature_is_complete(first, second)
        self._nothing_was_changed(before)

    def _answers(self, pod: Pod, memos: dict[str, Any] | None = None) -> Answers:
        self._about = (pod,)
        info = self.table.info(pod)
        return Answers(self.plugin, self.table, info, self._feasible(info), {} if memos is None else memos)

    def _feasible(self, info: PodInfo) -> BoolColumn:
        """The rows that the whole profile lets pass."""
        mask: BoolColumn = np.zeros(self.table.capacity, dtype=np.bool_)
        try:
            evaluation = self.subject.framework(self.table).run_filters(info)
        except PluginError as failure:
            if is_bug(failure, self.subject.name):
                self._fail("no-exceptions", failure.message, self.scenario.lines(info.pod))
            if failure.plugin == self.subject.name and ": expected " in failure.message:
                self._fail("valid-answers", failure.message, self.scenario.lines(info.pod))
            raise NotComparableError from failure
        mask[evaluation.feasible_rows] = True
        return mask

    # The forms of one rule

    def _same_is_said_again(self, answers: Answers) -> None:
        again = self._answers(answers.pod.pod)
        for what, one, other in (("filter", answers.codes, again.codes), ("score", answers.raw, again.raw)):
            for row in one:
                if one[row] != other.get(row):
                    said = {"at first": self._shown(answers, one[row], what)}
                    said["again"] = self._shown(again, other.get(row, 0), what)
                    problem = f"{what} of node {self.table.name_of(row)} is not the same when asked again"
                    self._fail_about("deterministic", problem, said)

    def _filter_forms_agree(self, answers: Answers) -> None:
        if not answers.is_filtered or not answers.codes:
            return
        for code in {code for code in answers.codes.values() if not isinstance(code, Status)}:
            answers.status(code)
        if not self.plugin.has("filter"):
            return
        reference = answers.codes
        backwards = answers.filter_rows(NodeRows(self.table, np.array(answers.rows[::-1], dtype=np.intp)))
        for row in answers.rows:
            alone = answers.filter_rows(NodeRows(self.table, np.array([row], dtype=np.intp)))
            said: dict[str, Any] = {
                "filter": reference[row],
                "filter, some rows": backwards[row],
                "filter, this row alone": alone[row],
            }
            if self.plugin.has("filter_row"):
                said["filter_row"] = self._whole("filter_row", answers.cycle, answers.pod, row)
            meant: dict[str, Any] = {form: answers.status(code) for form, code in said.items()}
            if self.plugin.has("filter_node"):
                meant["filter_node"] = answers.filter_node(row)
            if len(set(said.values())) > 1 or len({status.by("") for status in meant.values()}) > 1:
                shown = {form: describe_answer(status) for form, status in meant.items()}
                for form, code in said.items():
                    shown[form] += f" (code {code})"
                self._fail_forms("forms of filter differ", answers, row, shown)

    def _nominated_form_agrees(self, answers: Answers) -> None:
        """`filter_row_with_pods` against the table with the others on the row."""
        if not self.plugin.has("filter_row_with_pods") or not answers.is_filtered:
            return
        others = [self.table.info(pod) for pod in self.scenario.others]
        plugin = self.plugin.instance
        pre_filters = [plugin] if self.plugin.has("pre_filter") else []
        pairs = [(plugin, self.traits)]
        with Simulations(self.table, pre_filters, pairs, answers.cycle, answers.memos, {}) as simulations:
            for row in answers.rows:
                for beside in (others[:0], others):
                    code = self._whole("filter_row_with_pods", answers.cycle, answers.pod, row, beside)
                    said = answers.status(code).by("")
                    with SimulatedRow(self.table, row) as simulated:
                        for other in beside:
                            simulated.add_pod(other)
                        asked = self.plugin.guard("filter", simulations.ask, simulated, set())
                    expected = SUCCESS if asked is None else asked.by("")
                    if said != expected:
                        names = ", ".join(builder_text(other.pod) for other in beside) or "no other pod"
                        forms = {
                            "filter_row_with_pods": describe_answer(said),
                            "filter with them on the node": describe_answer(expected),
                        }
                        self._fail_forms(
                            f"filter_row_with_pods and filter differ beside {names}", answers, row, forms
                        )

    def _score_forms_agree(self, answers: Answers) -> None:
        if not answers.is_scored:
            return
        rows = answers.feasible_rows
        if self.plugin.has("score"):
            some_rows = answers.score_rows(NodeRows(self.table, np.array(answers.rows[::-1], dtype=np.intp)))
            for row in answers.rows:
                said = {"score": answers.raw[row], "score, some rows": some_rows[row]}
                if self.plugin.has("score_row"):
                    said["score_row"] = self._whole("score_row", answers.cycle, answers.pod, row)
                if self.plugin.has("score_node") and row in rows:
                    said["score_node"] = answers.score_node(row)
                if len(set(said.values())) > 1:
                    self._fail_forms("forms of score differ", answers, row, said)
        if self.plugin.has("normalize"):
            answers.normalize([])
            for row in rows:
                alone = answers.normalize([row])[row]
                if alone != answers.final[row]:
                    said = {"normalize, all rows": answers.final[row], "normalize, this row alone": alone}
                    self._fail_forms("normalize depends on which rows it is given", answers, row, said)

    def _scores_are_in_range(self, answers: Answers) -> None:
        for row, score in answers.final.items():
            if not 0 <= score <= MAX_NODE_SCORE:
                said = {"raw score": answers.raw[row]}
                if self.plugin.has("normalize"):
                    said |= {"lowest raw score": answers.extremes.low, "highest": answers.extremes.high}
                said["score"] = score
                self._fail_about("score-range", f"node {self.table.name_of(row)} gets score {score}", said)

    # Declarations

    def _signs_template(self) -> bool:
        return self.plugin.instance.contract.signs in (Signs.TEMPLATE, Signs.TEMPLATE_WITHOUT_LABELS)

    def _is_blind_to_labels(self) -> bool:
        return self.plugin.instance.contract.signs is Signs.TEMPLATE_WITHOUT_LABELS

    def _signature_is_complete(self, first: Answers, second: Answers) -> None:
        if not first.signed or not second.signed:
            return
        if first.signature != second.signature:
            if self._signs_template() and first.pod.template is second.pod.template:
                said = {answers.pod.name: answers.signature for answers in (first, second)}
                self._fail_about("signature", "pods of one template have two signatures (`signs`)", said)
            elif self._is_blind_to_labels() and first.pod.template.shape is second.pod.template.shape:
                said = {answers.pod.name: answers.signature for answers in (first, second)}
                self._fail_about(
                    "signature", "pods that differ in labels have two signatures (`signs`)", said
                )
            return
        self._pods_are_alike("filter", first, second, first.codes, second.codes)
        same_choice = np.array_equal(first.feasible, second.feasible)
        if self.traits.row_local or same_choice:
            self._pods_are_alike("score", first, second, first.raw, second.raw)
        if same_choice:
            self._pods_are_alike("normalize", first, second, first.final, second.final)
        for point, why in self._different_constants(first, second):
            said = {one.pod.name: describe_answer(getattr(one, point)) for one in (first, second)}
            problem = f"{point} differs for pods with equal signatures ({why})"
            self._fail_about("constant-answers", problem, said)

    def _pods_are_alike(
        self, what: str, first: Answers, second: Answers, one: Mapping[int, Any], other: Mapping[int, Any]
    ) -> None:
        for row in one.keys() & other.keys():
            if one[row] != other[row]:
                said = {
                    "signature of both": first.signature,
                    f"{what} for {first.pod.name}": self._shown(first, one[row], what),
                    f"{what} for {second.pod.name}": self._shown(second, other[row], what),
                }
                problem = (
                    f"{what} tells pods apart that have equal signatures, on node {self.table.name_of(row)}"
                )
                self._fail_about("signature", problem, said)

    def _check_change(self, change: Change) -> None:
        """After a change, rows that the runtime would not ask about again must have the answers they had."""
        table = self.table
        if change.own:
            return
        memos: dict[str, Any] = {}
        pod = self.scenario.pods[0]
        before = self._answers(pod, memos)
        if not before.signed:
            return
        node_position, usage_position = table.node_log.position, table.usage_log.position
        change.apply(table)
        now = self._answers(pod, memos)
        node_rows, usage_rows = table.node_log.since(node_position), table.usage_log.since(usage_position)
        if node_rows is None or usage_rows is None or before.signature != now.signature:
            return
        touched = _Touched(change, node_rows, usage_rows)
        self._constant_answers_stay(before, now, change)
        if before.is_filtered and now.is_filtered and before.codes and now.codes:
            stale = self._stale(touched, now, "stale_filter_rows", before.filter_state, now.filter_state)
            self._kept_answers_hold("filter", touched, stale, now, before.codes, now.codes, now.rows)
        if before.is_scored and now.is_scored:
            stale = self._stale(touched, now, "stale_score_rows", before.score_state, now.score_state)
            self._kept_answers_hold("score", touched, stale, now, before.raw, now.raw, now.feasible_rows)

    def _stale(
        self, touched: "_Touched", now: Answers, method: str, then_state: Any, now_state: Any
    ) -> set[int] | None:
        """The rows that the runtime would ask about again; None: all."""
        traits = self.traits
        if not len(touched.node_rows) and not traits.watches:
            return set()
        rows: set[int] = set(rows_read(traits, touched.node_rows, touched.usage_rows).tolist())
        if traits.row_local:
            return rows
        if not self.plugin.has(method):
            return None
        named = self.plugin.ask(method, now.cycle, now.pod, then_state, now_state)
        return None if isinstance(named, AllRows) else rows | set(named.tolist())

    def _kept_answers_hold(
        self,
        what: str,
        touched: "_Touched",
        stale: set[int] | None,
        now: Answers,
        before: Mapping[int, Any],
        after: Mapping[int, Any],
        counted: Iterable[int],
    ) -> None:
        if stale is None:
            return
        for row in counted:
            if row in stale or row not in before or before[row] == after[row]:
                continue
            name = self.table.name_of(row)
            itself = row in touched.all
            check = "reads" if itself and self.traits.row_local else "row-local"
            reads = self.plugin.instance.contract.reads
            if check == "reads":
                problem = f"{what} of node {name} changed with what is not in `reads` ({reads!r})"
            elif self.traits.row_local:
                problem = f"{what} of node {name} changed with another node, which is not in `reads_others`"
            else:
                problem = f"{what} of node {name} changed, and the plugin does not name it as stale"
            said = {
                f"{what} before": self._shown(now, before[row], what),
                f"{what} after": self._shown(now, after[row], what),
            }
            lines = self.scenario.lines(now.pod.pod, change=touched.change)
            self._fail(check, problem, [*lines, *two_columns(said)])

    def _constant_answers_stay(self, before: Answers, now: Answers, change: Change) -> None:
        for point, why in self._different_constants(before, now):
            then, later = (describe_answer(getattr(one, point)) for one in (before, now))
            said = {f"{point} before": then, f"{point} after": later}
            lines = [*self.scenario.lines(now.pod.pod, change=change), *two_columns(said)]
            self._fail("constant-answers", f"{point} changed with the cluster ({why})", lines)

    def _different_constants(self, one: Answers, other: Answers) -> Iterator[tuple[str, str]]:
        """Points where answers differ that are declared to be the same, and what declares it."""
        points = ["pre_filter"] if self.plugin.has("pre_filter") else []
        if self.plugin.has("pre_score") and one.feasible.any() and other.feasible.any():
            points.append("pre_score")
        for point in points:
            answers = [getattr(each, point) for each in (one, other)]
            constant = getattr(self.plugin.instance.contract, f"constant_{point}")
            if (constant or SKIP_CLASS in answers) and _kind(answers[0]) != _kind(answers[1]):
                yield point, f"constant_{point}" if constant else "SKIP_CLASS"

    # Forbidden effects of the plugin

    def _snapshot(self) -> dict[str, Any]:
        """All that a plugin is given, by name, encoded."""
        scenario, table = self.scenario, self.table
        objects: list[Object] = [*scenario.nodes, *scenario.running, *scenario.pods, *scenario.others]
        found: dict[str, Any] = {
            f"{type(obj).__name__} {obj.key}": msgspec.json.encode(obj) for obj in objects
        }
        found["the table"] = describe_usage(table)
        for column in ("valid", "unschedulable", "taint_set", "feature_set", "allowed_pods", "pod_count"):
            found[f"the table's column {column}"] = getattr(table, column).tobytes()
        return found

    def _nothing_was_changed(self, before: Mapping[str, Any]) -> None:
        now = self._snapshot()
        changed = [name for name in before if before[name] != now[name]]
        if changed:
            was = before[changed[0]]
            said = (
                {"before": was, "after": now[changed[0]]}
                if isinstance(was, bytes) and was[:1] == b"{"
                else {}
            )
            shown = {when: str(text.decode()) for when, text in said.items()}
            self._fail_about("no-mutation", f"{changed[0]} was changed", shown)

    # Reserve

    def _check_reserve(self) -> None:
        if not self.plugin.has("reserve"):
            return
        self._about = (self.scenario.pods[0],)
        before = self._snapshot()
        first = self._round("a")
        sizes = [self._sizes()]
        second = self._round("b")
        sizes.append(self._sizes())
        if first != second:
            self._fail_reserve("after all were given back, reserve answers differently", first, second)
        for name in sizes[0].keys() & sizes[1].keys():
            if sizes[1][name] - sizes[0][name] >= _RESERVATIONS:
                said = {"size after one round": sizes[0][name], "after two": sizes[1][name]}
                problem = f"`{name}` grows with every pod that is reserved and unreserved"
                self._fail_about("reserve-balance", problem, said)
        if self.plugin.has("unreserve"):
            for number in range(_RESERVATIONS):
                info = self._clone(f"stranger{number}")
                self.plugin.ask("unreserve", Cycle(self.table, info, {}), info, self.scenario.nodes[0].name)
            third = self._round("c")
            if first != third:
                problem = "after unreserve of pods that were not reserved, reserve answers differently"
                self._fail_reserve(problem, first, third)
        self._nothing_was_changed(before)

    def _round(self, prefix: str) -> list[str]:
        """Reserve for many pods, then give all back; what reserve said."""
        said, reserved = [], []
        node = self.scenario.nodes[0].name
        for number in range(_RESERVATIONS):
            info = self._clone(f"{prefix}{number}")
            cycle = Cycle(self.table, info, {})
            if self.plugin.has("pre_filter"):
                self.plugin.ask("pre_filter", cycle, info)
            answer = self.plugin.ask("reserve", cycle, info, node)
            if answer is not None and not isinstance(answer, Status):
                self.plugin.invalid("reserve", "a Status or None", answer)
            said.append("success" if answer is None else answer.code.label)
            reserved.append((cycle, info))
        if self.plugin.has("unreserve"):
            for cycle, info in reversed(reserved):
                self.plugin.ask("unreserve", cycle, info, node)
        return said

    def _clone(self, name: str) -> PodInfo:
        return self.table.info(named(self.scenario.pods[0], name))

    def _sizes(self) -> dict[str, int]:
        own = vars(self.plugin.instance)
        return {
            name: len(value)
            for name, value in own.items()
            if isinstance(value, dict | list | set | frozenset | tuple)
        }

    def _fail_reserve(self, problem: str, first: list[str], later: list[str]) -> NoReturn:
        number = next(n for n, (one, other) in enumerate(zip(first, later, strict=True)) if one != other)
        said = {"at first": first[number], "later": later[number]}
        self._fail_about("reserve-balance", f"{problem}, for pod {number + 1} in a row", said)

    # Hints

    def _check_hints(self, change: Change) -> None:
        """Check hints on a separate table, with this plugin as the only one that can reject."""
        table = self.scenario.table()
        pod = self.scenario.pods[0]
        self._about = (pod,)
        later = change.new if change.own else pod
        assert isinstance(later, Pod)
        fitted, rejectors = self._fits(table, pod)
        if fitted or self.subject.name not in rejectors:
            return
        change.apply(table)
        fits, _ = self._fits(table, later)
        if not fits or not change.events():
            return
        hints = build_hint_map(self.subject.framework(table, alone=True).plugins.values())
        queued = QueuedPod(table.info(later), 0.0)
        queued.unschedulable_plugins = frozenset((self.subject.name,))
        said: dict[str, Any] = {}

        def ask(entry: Registered, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Answer:
            hint = (
                Hint.QUEUE
                if entry.hint is None
                else self.plugin.guard("a hint", entry.hint, queued.pod, old, new)
            )
            if not isinstance(hint, Hint):
                self.plugin.invalid("a hint", "Hint.QUEUE or Hint.SKIP", hint)
            said[f"hint for {entry.event.label}"] = hint.value
            return Answer(hint)

        verdicts = [
            worth_requeuing(hints, queued, event, change.old, change.new, ask) for event in change.events()
        ]
        if all(verdict is Strategy.SKIP for verdict in verdicts):
            happened = ", ".join(event.label for event in change.events())
            said = said or {
                "registered events": ", ".join(entry.event.label for entry in hints.registered) or "none"
            }
            lines = [*self.scenario.lines(pod, change=change), *two_columns({"event": happened, **said})]
            self._fail("queueing-hints", "the pod was rejected, fits now, and is not requeued", lines)

    def _fits(self, table: ClusterTable, pod: Pod) -> tuple[bool, frozenset[str]]:
        """True if the plugin alone lets a pod run, and the plugins that reject it."""
        info = table.info(pod)
        gate = self.plugin.ask("pre_enqueue", info) if self.plugin.has("pre_enqueue") else None
        if isinstance(gate, Status) and not gate.is_success:
            return False, frozenset((self.subject.name,))
        try:
            evaluation = self.subject.framework(table, alone=True).run_filters(info)
        except PluginError as failure:
            raise NotComparableError from failure
        return bool(evaluation.feasible_count), rejectors_of(evaluation).unschedulable

    # Reports

    def _whole(self, method: str, *args: Any) -> int:
        answer = self.plugin.ask(method, *args)
        if not isinstance(answer, int | np.integer | np.bool_):
            self.plugin.invalid(method, "an int", answer)
        return int(answer)

    def _shown(self, answers: Answers, value: Any, what: str) -> str:
        return describe_answer(answers.status(value)) if what == "filter" else str(value)

    def _fail_forms(self, problem: str, answers: Answers, row: int, said: Mapping[str, Any]) -> NoReturn:
        self._about = (answers.pod.pod,)
        self._fail_about("forms-agree", f"{problem}, on node {self.table.name_of(row)}", said)

    def _fail_about(self, check: str, problem: str, said: Mapping[str, Any]) -> NoReturn:
        self._fail(check, problem, [*self.scenario.lines(*self._about), *two_columns(said)])

    def _fail_point(self, check: str, problem: str, said: Mapping[str, Any] | None = None) -> NoReturn:
        self._fail_about(check, problem, said or {})

    def _fail_asking(self, check: str, problem: str, details: Sequence[str] = ()) -> NoReturn:
        self._fail(check, problem, [*self.scenario.lines(*self._about), *details])

    def _fail(self, check: str, problem: str, details: Sequence[str]) -> NoReturn:
        if check in self.skip:
            raise SkippedError
        raise PluginCheckError(self.subject.name, check, problem, details)


@dataclass(frozen=True)
class _Touched:
    """Rows that a change touched: the node itself, or what it can hold and holds."""

    change: Change
    node_rows: Rows
    usage_rows: Rows

    @cached_property
    def all(self) -> frozenset[int]:
        return frozenset((*self.node_rows.tolist(), *self.usage_rows.tolist()))


def _kind(answer: Status | PreFilterResult | None) -> Any:
    """Part of an answer that counts when it is used for other pods as well."""
    if isinstance(answer, PreFilterResult):
        return answer.node_names
    return Code.SUCCESS if answer is None else answer.code
