"""`check_plugin`: what we hold our own plugins to, for yours.

A plugin is put into random small clusters beside the default plugins. In each, every form of its rules is
asked about every node, then something changes and it is asked again (`_Trial`); after that it lives through
random histories in which what is reused is compared with what is found from scratch (`_HistoryMachine`).
What fails is reported as the smallest cluster in which it does.
"""

import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NoReturn

import msgspec
import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow, NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.evaluation import rejectors_of
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Answer,
    ClusterEvent,
    Hint,
    HintError,
    Registered,
    build_hint_map,
)
from stowplan.framework.interface import (
    MAX_NODE_SCORE,
    AllRows,
    Extremes,
    Plugin,
    Point,
    PreFilterResult,
    Traits,
    Unsigned,
    points_of,
)
from stowplan.framework.plugin_call import rows_read
from stowplan.framework.profile import PluginUse, ProfileSpec, resolve_plugins
from stowplan.framework.registry import Registry, checked, load_plugin
from stowplan.framework.runtime import Framework
from stowplan.framework.score_results import IGNORED
from stowplan.framework.simulation import SimulatedRow, Simulations
from stowplan.framework.status import SKIP_CLASS, SUCCESS, Code, PluginError, Status
from stowplan.plugins.registry import IN_TREE_POINTS, default_plugins, in_tree_registry
from stowplan.queue.cluster_events import node_events, pod_events
from stowplan.queue.queued_pod import QueuedPod
from stowplan.queue.requeue import worth_requeuing
from stowplan.queue.sub_queues import Strategy
from stowplan.testing import cluster_strategies as some
from stowplan.testing.builders import HOSTNAME, NodeBuilder, PodBuilder, builder_text
from stowplan.testing.clusters import AnyNode, AnyPlugin, AnyPod, Config, profiles_of
from stowplan.testing.reuse_machine import ReuseMachine, describe_usage, difference, indexes, rows_by_name

CHECKS: Final[Mapping[str, str]] = {
    "no-exceptions": "no method raises",
    "valid-answers": "answers have the types and codes that the extension point asks for",
    "forms-agree": "filter, filter_row, filter_node and filter_beside say the same; so do the forms of score",
    "score-range": "scores are 0 to 100, after normalize if there is one",
    "signature": "pods with equal signatures get equal answers",
    "reads": "an answer about a node changes only with what `reads` names of it",
    "row-local": "an answer about a node changes with other nodes only where the plugin says so",
    "constant-answers": "what is declared to depend on the signature alone does",
    "no-mutation": "nothing that the plugin is given is changed",
    "reserve-balance": "unreserve gives back what reserve took, and nothing else",
    "queueing-hints": "a rejected pod that fits after an event is requeued by it",
    "reuse": "kept results equal results from scratch, through any history",
    "deterministic": "asked the same again, the plugin says the same again",
}
"""The checks, by name."""

Pods = st.SearchStrategy[Any] | Iterable[AnyPod] | None
Nodes = st.SearchStrategy[Any] | Iterable[AnyNode] | None

_RESERVATIONS = 24
"""How many pods in a row are reserved and unreserved."""


class PluginCheckError(AssertionError):
    """A plugin does not keep to its contract. The text shows the smallest cluster where it does not."""

    def __init__(self, plugin: str, check: str, problem: str, details: Sequence[str] = ()) -> None:
        lines = [f"{plugin} fails the check {check!r} ({CHECKS[check]}): {problem}", *details]
        super().__init__("\n".join(lines))
        self.plugin = plugin
        self.check = check
        self.problem = problem


def check_plugin(
    plugin: AnyPlugin,
    *,
    args: Any = None,
    config: Config = None,
    examples: int = 50,
    seed: int | None = None,
    pods: Pods = None,
    nodes: Nodes = None,
) -> None:
    """Check a plugin as we check our own. Raises PluginCheckError with the smallest counter-example.

    `plugin` is a class or a reference such as `module:Class`, `args` its arguments. It runs beside the
    default plugins, or as `config` (see `cluster`) says. `pods` and `nodes` are builders to choose from, or
    hypothesis strategies of objects or builders: give those with the labels and annotations the plugin looks
    at. Names are of no account, every object gets one of its own. `examples` is how many clusters, and how
    many histories, are tried; they are the same in every run, and others with another `seed`.
    """
    subject = _subject(plugin, args, config)
    some_pods = _templates(pods)
    some_nodes = _named_nodes(nodes)
    effort = settings(
        max_examples=examples,
        stateful_step_count=15,
        derandomize=seed is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
    )

    @effort
    @given(_scenarios(some_pods, some_nodes))
    def in_clusters(scenario: _Scenario) -> None:
        _Trial(subject, scenario).run()

    machine = type(
        "PluginHistory",
        (_HistoryMachine,),
        {
            "subject": subject,
            "profiles": {"profile": subject.profile},
            "registry": subject.registry,
            "pods": some_pods,
            "nodes": some_nodes,
        },
    )
    if seed is not None:
        in_clusters, machine = seeded(seed)(in_clusters), seeded(seed)(machine)
    _reported(subject, in_clusters)
    if points_of(subject.cls) & _REUSED:
        _reported(subject, lambda: run_state_machine_as_test(machine, settings=effort))


_REUSED = frozenset((Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE))


def _reported(subject: "_Subject", run: Callable[[], None]) -> None:
    """Run a property; what it finds is raised without hypothesis' own account of it."""
    found: PluginCheckError
    try:
        run()
        return
    except PluginCheckError as failure:
        found = failure
        found.__notes__ = []
    except Flaky:
        found = PluginCheckError(
            subject.name,
            "deterministic",
            "a failure could not be repeated in the same cluster: expected a plugin "
            "to use no time, no state between pods and no randomness but `handle.rng`",
        )
    raise found.with_traceback(None) from None


# What is checked, and where


@dataclass(frozen=True)
class _Subject:
    """The plugin and the profiles it is run in: beside the others, and alone."""

    cls: type[Plugin]
    profile: ProfileSpec
    alone: ProfileSpec
    registry: Registry

    @property
    def name(self) -> str:
        return self.cls.name

    def framework(self, table: ClusterTable, *, alone: bool = False) -> Framework:
        return Framework(self.alone if alone else self.profile, table, self.registry, reuse=False)


def _subject(plugin: AnyPlugin, args: Any, config: Config) -> _Subject:
    cls = load_plugin(plugin) if isinstance(plugin, str) else checked(getattr(plugin, "__name__", ""), plugin)
    registry = in_tree_registry()
    if cls.name not in registry.own:
        registry = registry.with_plugins([cls])
    implements = {**IN_TREE_POINTS, **registry.offered}
    if config is None:
        others = [use for use in default_plugins() if use.name != cls.name]
        usual = [use for use in default_plugins() if use.name == cls.name]
        uses = [*others, *(usual or [PluginUse(cls.name, 1)])]
        profile = ProfileSpec(
            "default-scheduler", plugins=resolve_plugins("default-scheduler", {}, uses, implements)
        )
    else:
        profile = _profile_with(cls.name, profiles_of(config, registry))
    if args is not None:
        profile = _with_args(profile, {**profile.args, cls.name: args})
    needed = ["DefaultBinder"]
    if Point.QUEUE_SORT not in points_of(cls):
        needed.append("PrioritySort")
    names = dict.fromkeys((*needed, cls.name))
    plugins = resolve_plugins("alone", {}, [PluginUse(name, 1) for name in names], implements)
    return _Subject(cls, profile, ProfileSpec("alone", plugins=plugins, args=profile.args), registry)


def _profile_with(name: str, profiles: Sequence[ProfileSpec]) -> ProfileSpec:
    for profile in profiles:
        if any(use.name == name for uses in profile.plugins.values() for use in uses):
            return profile
    raise ValueError(f"config: expected a profile that enables plugin {name}")


def _with_args(profile: ProfileSpec, args: Mapping[str, Any]) -> ProfileSpec:
    return ProfileSpec(profile.scheduler_name, plugins=profile.plugins, args=args)


def _templates(given: Pods) -> st.SearchStrategy[Pod]:
    """Pods without a name and a node."""
    if given is None:
        return some.pods()
    return _chosen(given, "pods").map(_template)


def _template(given: AnyPod) -> Pod:
    pod = given.obj() if isinstance(given, PodBuilder) else given
    return deepcopy(replace(pod, spec=replace(pod.spec, node_name="")))


def _named_nodes(given: Nodes) -> st.SearchStrategy[Node]:
    """Nodes with one of a few names, so that one comes in the place of another."""
    if given is None:
        return some.any_node
    return st.builds(_renamed, _chosen(given, "nodes"), some.node_names)


def _renamed(given: AnyNode, name: str) -> Node:
    node = deepcopy(given.obj() if isinstance(given, NodeBuilder) else given)
    labels = dict(node.metadata.labels)
    if labels.get(HOSTNAME) == node.name:
        labels[HOSTNAME] = name
    return replace(node, metadata=replace(node.metadata, name=name, labels=labels))


def _chosen(given: Any, what: str) -> st.SearchStrategy[Any]:
    if isinstance(given, st.SearchStrategy):
        return given
    choices = list(given)
    if not choices:
        raise ValueError(f"{what}: expected a strategy or at least one builder")
    return st.sampled_from(choices)


@dataclass(frozen=True)
class _Change:
    """One object before and after; with `own` it is the pod that waits to be scheduled."""

    old: Node | Pod | None
    new: Node | Pod | None
    own: bool = False

    def apply(self, table: ClusterTable) -> None:
        match self.old, self.new:
            case _ if self.own:
                pass
            case _, Node() as node:
                table.put_node(node)
            case _, Pod() as pod:
                table.put_pod(pod)
            case Node() as node, None:
                table.remove_node(node.name)
            case Pod() as pod, None:
                table.remove_pod(pod.metadata.uid)

    def events(self) -> list[ClusterEvent]:
        match self.old, self.new:
            case Node() as old, Node() as new:
                return node_events(old, new)
            case Pod() as old, Pod() as new:
                return pod_events(old, new)
            case None, Node():
                return [NODE_ADD]
            case Node(), None:
                return [NODE_DELETE]
            case None, Pod():
                return [ASSIGNED_POD_ADD]
        return [ASSIGNED_POD_DELETE]

    def text(self) -> str:
        if self.old is None:
            assert self.new is not None
            return f"{builder_text(self.new)} is added"
        gone = builder_text(self.old)
        return f"{gone} is removed" if self.new is None else f"{gone} becomes {builder_text(self.new)}"


@dataclass(frozen=True)
class _Scenario:
    """A cluster, two pods to schedule that may be alike, others that may be nominated, and a change."""

    nodes: list[Node]
    running: list[Pod]
    pods: list[Pod]
    others: list[Pod]
    change: _Change

    def table(self) -> ClusterTable:
        """The cluster, with a row whose node is gone."""
        table = ClusterTable()
        for node in self.nodes:
            table.put_node(node)
        table.put_node(_renamed(self.nodes[0], "gone"))
        for pod in self.running:
            table.put_pod(pod)
        table.remove_node("gone")
        return table

    def lines(self, *pods: Pod, change: bool = False) -> list[str]:
        """The cluster in builders."""
        found = ["nodes:", *_indented(self.nodes)]
        if self.running:
            found += ["running pods:", *_indented(self.running)]
        if pods:
            found += ["pod to schedule:" if len(pods) == 1 else "pods to schedule:", *_indented(pods)]
        if change:
            found += ["then:", f"    {self.change.text()}"]
        return found


def _indented(objects: Iterable[Node | Pod]) -> list[str]:
    return [f"    {builder_text(obj)}" for obj in objects]


@st.composite
def _scenarios(draw: st.DrawFn, pods: st.SearchStrategy[Pod], nodes: st.SearchStrategy[Node]) -> _Scenario:
    made = draw(st.lists(nodes, min_size=1, max_size=4, unique_by=lambda node: node.name))
    names = st.sampled_from([node.name for node in made])
    running = [_named(pod, f"r{n}", draw(names)) for n, pod in enumerate(draw(st.lists(pods, max_size=4)))]
    first, second = draw(pods), draw(pods)
    parts = draw(st.sampled_from(["nothing", "labels", "annotations", "metadata", "spec", "all"]))
    pending = [_named(first, "p1"), _named(_mixed(first, second, parts), "p2")]
    others = [_named(pod, f"o{n}") for n, pod in enumerate(draw(st.lists(pods, min_size=1, max_size=2)))]
    change = draw(_changes(made, running, pending[0], pods, nodes))
    return deepcopy(_Scenario(made, running, pending, others, change))


@st.composite
def _changes(
    draw: st.DrawFn,
    made: list[Node],
    running: list[Pod],
    pending: Pod,
    pods: st.SearchStrategy[Pod],
    nodes: st.SearchStrategy[Node],
) -> _Change:
    kinds = ["node changes", "node comes", "pod comes", "pod itself changes"]
    kinds += ["pod goes", "pod changes"] if running else []
    taken = {pod.spec.node_name for pod in running}
    empty = [node for node in made if node.name not in taken]
    kinds += ["node goes"] if empty and len(made) > 1 else []
    part = draw(st.sampled_from(["labels", "annotations", "spec", "status", "all"]))
    match draw(st.sampled_from(kinds)):
        case "node changes":
            old = draw(st.sampled_from(made))
            return _Change(old, _mixed(old, _renamed(draw(nodes), old.name), part))
        case "node comes":
            return _Change(None, _renamed(draw(nodes), "new"))
        case "node goes":
            return _Change(draw(st.sampled_from(empty)), None)
        case "pod comes":
            return _Change(None, _named(draw(pods), "new", draw(st.sampled_from(made)).name))
        case "pod goes":
            return _Change(draw(st.sampled_from(running)), None)
        case "pod changes":
            before = draw(st.sampled_from(running))
            return _Change(
                before, _mixed(before, draw(pods), draw(st.sampled_from(["labels", "annotations"])))
            )
    return _Change(
        pending, _mixed(pending, draw(pods), draw(st.sampled_from(["labels", "annotations"]))), own=True
    )


def _named(template: Pod, name: str, node: str = "") -> Pod:
    meta = replace(template.metadata, name=name, uid=f"uid-{name}")
    return replace(template, metadata=meta, spec=replace(template.spec, node_name=node))


def _mixed(one: Any, other: Any, parts: str) -> Any:
    """An object with some parts of another."""
    if parts in ("labels", "annotations"):
        changes: dict[str, Any] = {parts: getattr(other.metadata, parts)}
        return replace(one, metadata=replace(one.metadata, **changes))
    if parts == "metadata":
        labels, annotations = other.metadata.labels, other.metadata.annotations
        return replace(one, metadata=replace(one.metadata, labels=labels, annotations=annotations))
    if parts == "all":
        return replace(_mixed(one, other, "metadata"), spec=other.spec, status=other.status)
    return one if parts == "nothing" else replace(one, **{parts: getattr(other, parts)})


# One plugin's answers about one pod


class _UndecidedError(Exception):
    """The plugin, or another one, says that it failed: there is nothing to compare."""


@dataclass
class _Voice:
    """The plugin under check; whatever it raises becomes a finding."""

    plugin: Plugin
    fail: Callable[..., NoReturn]

    def has(self, method: str) -> bool:
        return hasattr(self.plugin, method)

    def ask(self, method: str, *args: Any) -> Any:
        return self.guard(method, getattr(self.plugin, method, None), *args)

    def guard(self, what: str, ask: Any, *args: Any) -> Any:
        try:
            return ask(*args)
        except (PluginError, HintError) as failure:
            raise _UndecidedError from failure
        except Exception as cause:
            if self.plugin.handle.services is None and str(cause) == "this needs a running scheduler":
                raise _UndecidedError from cause
            *_, place = traceback.extract_tb(cause.__traceback__)
            where = f"{place.filename}, line {place.lineno}: {place.line}"
            self.fail("no-exceptions", f"{what} raised {type(cause).__name__}: {cause}", [where])

    def invalid(self, method: str, expected: str, got: object) -> NoReturn:
        self.fail("valid-answers", f"{method}: expected {expected}, got {type(got).__name__} {got!r:.80}")


@dataclass
class _Answers:
    """What the plugin says of a pod over a table as it is now.

    `codes` are the filter's by row: numbers of a filter by column, statuses of one by node. `feasible` is
    what the whole profile lets pass, `raw` and `final` are scores by row. The states are what the plugin
    is asked with which rows changed since.
    """

    voice: _Voice
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
        plugin = self.voice.plugin
        self.filter_state = self.cycle.read(plugin)
        self.score_state = self.cycle.read_score(plugin)
        if self.raw and self.voice.has("score_basis"):
            self.score_state = self.voice.ask("score_basis", self.cycle, self.pod)

    def _signature(self) -> Hashable | Unsigned:
        signature: Hashable = self.voice.ask("sign", self.pod)
        self.voice.guard("hash() of what sign returned", hash, signature)
        return signature

    @property
    def signed(self) -> bool:
        return not isinstance(self.signature, Unsigned)

    # Filter

    def _pre_filter(self) -> Status | PreFilterResult | None:
        if not self.voice.has("pre_filter"):
            return None
        answer = self.voice.ask("pre_filter", self.cycle, self.pod)
        if answer is not None and not isinstance(answer, Status | PreFilterResult):
            self.voice.invalid("pre_filter", "a Status, a PreFilterResult or None", answer)
        return answer

    @property
    def is_filtered(self) -> bool:
        """Whether the plugin's filter is asked about this pod."""
        said = self.pre_filter
        return not isinstance(said, Status) or said.is_success

    def _codes(self) -> dict[int, int | Status]:
        if not self.is_filtered:
            return {}
        if self.voice.has("filter"):
            return dict(self.filter_rows(self.table.all_rows()))
        if self.voice.has("filter_node"):
            return {row: self.filter_node(row) for row in self.rows}
        return {}

    def filter_rows(self, nodes: NodeRows) -> dict[int, int]:
        """What `filter` says of some rows, without those whose node is gone."""
        answer = self.voice.ask("filter", self.cycle, self.pod, nodes)
        return self._by_row("filter", answer, nodes)

    def filter_node(self, row: int) -> Status:
        answer = self.voice.ask("filter_node", self.cycle, self.pod, NodeRow(self.table, row))
        if answer is None:
            return SUCCESS
        if not isinstance(answer, Status):
            self.voice.invalid("filter_node", "a Status or None", answer)
        if not answer.is_success and not answer.code.is_rejection and answer.code is not Code.ERROR:
            self.voice.invalid("filter_node", "success or a rejection", answer)
        return SUCCESS if answer.is_success else answer

    def status(self, code: int | Status) -> Status:
        """What a code of `filter` means."""
        if isinstance(code, Status):
            return code
        if not code:
            return SUCCESS
        answer = self.voice.ask("reason", self.cycle, self.pod, code)
        if not isinstance(answer, Status) or not (
            answer.code.is_rejection if code > 0 else answer.code is Code.ERROR
        ):
            self.voice.invalid(f"reason of code {code}", "a rejection" if code > 0 else "an error", answer)
        return answer

    # Score

    def _pre_score(self) -> Status | None:
        if not self.voice.has("pre_score") or not self.feasible.any():
            return None
        answer = self.voice.ask("pre_score", self.cycle, self.pod)
        if answer is not None and not isinstance(answer, Status):
            self.voice.invalid("pre_score", "a Status or None", answer)
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
        if self.voice.has("score"):
            return self.score_rows(self.table.all_rows())
        if self.voice.has("score_node"):
            return {row: self.score_node(row) for row in self.feasible_rows}
        return {}

    def score_rows(self, nodes: NodeRows) -> dict[int, int]:
        answer = self.voice.ask("score", self.cycle, self.pod, nodes)
        return self._by_row("score", answer, nodes)

    def score_node(self, row: int) -> int:
        answer = self.voice.ask("score_node", self.cycle, self.pod, NodeRow(self.table, row))
        if not isinstance(answer, int | np.integer):
            self.voice.invalid("score_node", "an int", answer)
        return int(answer)

    @cached_property
    def extremes(self) -> Extremes:
        scored = [self.raw[row] for row in self.feasible_rows if self.raw[row] != IGNORED]
        return Extremes(min(scored), max(scored)) if scored else Extremes(0, 0)

    def _final(self) -> dict[int, int]:
        if not self.raw:
            return {}
        rows = self.feasible_rows
        if not self.voice.has("normalize"):
            return {row: self.raw[row] for row in rows}
        return self.normalize(rows)

    def normalize(self, rows: list[int]) -> dict[int, int]:
        given = np.array([self.raw[row] for row in rows], dtype=np.int64)
        answer = self.voice.ask("normalize", self.cycle, self.pod, given, self.extremes)
        if (
            not isinstance(answer, np.ndarray)
            or answer.shape != (len(rows),)
            or answer.dtype.kind not in "iub"
        ):
            self.voice.invalid("normalize", f"an array of {len(rows)} integers", answer)
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
            self.voice.invalid(method, f"an array of {nodes.count} integers or None", answer)
        else:
            found = dict(zip(numbers, map(int, answer.tolist()), strict=True))
        return {row: value for row, value in found.items() if self.table.valid[row]}


# One cluster


class _Trial:
    """All checks of one scenario."""

    def __init__(self, subject: _Subject, scenario: _Scenario) -> None:
        self.subject = subject
        self.scenario = scenario
        self.table = scenario.table()
        self.voice = _Voice(subject.framework(self.table).plugins[subject.name], self._fail_asking)
        self.traits = Traits(self.voice.plugin)
        self._about: tuple[Pod, ...] = ()

    def run(self) -> None:
        for check in (self._check_answers, self._check_change, self._check_hints, self._check_reserve):
            try:
                check()
            except _UndecidedError:
                continue

    def _check_answers(self) -> None:
        before = self._snapshot()
        first, second = (self._answers(pod) for pod in self.scenario.pods)
        for answers in (first, second):
            self._about = (answers.pod.pod,)
            self._filter_forms_agree(answers)
            self._nominated_form_agrees(answers)
            self._score_forms_agree(answers)
            self._scores_are_in_range(answers)
        self._about = tuple(self.scenario.pods)
        self._signature_is_complete(first, second)
        self._nothing_was_changed(before)

    def _answers(self, pod: Pod, memos: dict[str, Any] | None = None) -> _Answers:
        self._about = (pod,)
        info = self.table.info(pod)
        return _Answers(self.voice, self.table, info, self._feasible(info), {} if memos is None else memos)

    def _feasible(self, info: PodInfo) -> BoolColumn:
        """The rows that the whole profile lets pass."""
        mask: BoolColumn = np.zeros(self.table.capacity, dtype=np.bool_)
        try:
            evaluation = self.subject.framework(self.table).run_filters(info)
        except PluginError as failure:
            if failure.plugin == self.subject.name and failure.__cause__ is not None:
                self._fail("no-exceptions", failure.message, self.scenario.lines(info.pod))
            if failure.plugin == self.subject.name and ": expected " in failure.message:
                self._fail("valid-answers", failure.message, self.scenario.lines(info.pod))
            raise _UndecidedError from failure
        mask[evaluation.feasible_rows] = True
        return mask

    # The forms of one rule

    def _filter_forms_agree(self, answers: _Answers) -> None:
        if not answers.is_filtered or not answers.codes:
            return
        for code in {code for code in answers.codes.values() if not isinstance(code, Status)}:
            answers.status(code)
        if not self.voice.has("filter"):
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
            if self.voice.has("filter_row"):
                said["filter_row"] = self._whole("filter_row", answers.cycle, answers.pod, row)
            meant: dict[str, Any] = {form: answers.status(code) for form, code in said.items()}
            if self.voice.has("filter_node"):
                meant["filter_node"] = answers.filter_node(row)
            if len(set(said.values())) > 1 or len({status.by("") for status in meant.values()}) > 1:
                shown = {
                    form: f"{_said(status)} (code {said.get(form, '-')})" for form, status in meant.items()
                }
                self._fail_forms("forms of filter differ", answers, row, shown)

    def _nominated_form_agrees(self, answers: _Answers) -> None:
        """`filter_beside` against the table with the others on the row."""
        if not self.voice.has("filter_beside") or not answers.is_filtered:
            return
        others = [self.table.info(pod) for pod in self.scenario.others]
        plugin = self.voice.plugin
        pre_filters = [plugin] if self.voice.has("pre_filter") else []
        pairs = [(plugin, self.traits)]
        with Simulations(self.table, pre_filters, pairs, answers.cycle, answers.memos, {}) as trials:
            for row in answers.rows:
                for beside in (others[:0], others):
                    code = self._whole("filter_beside", answers.cycle, answers.pod, row, beside)
                    said = answers.status(code).by("")
                    with SimulatedRow(self.table, row) as as_if:
                        for other in beside:
                            as_if.invite(other)
                        asked = self.voice.guard("filter", trials.ask, as_if, set())
                    expected = SUCCESS if asked is None else asked.by("")
                    if said != expected:
                        names = ", ".join(builder_text(other.pod) for other in beside) or "no other pod"
                        forms = {
                            "filter_beside": _said(said),
                            "filter with them on the node": _said(expected),
                        }
                        self._fail_forms(
                            f"filter_beside and filter differ beside {names}", answers, row, forms
                        )

    def _score_forms_agree(self, answers: _Answers) -> None:
        if not answers.is_scored:
            return
        rows = answers.feasible_rows
        if self.voice.has("score"):
            some_rows = answers.score_rows(NodeRows(self.table, np.array(answers.rows[::-1], dtype=np.intp)))
            for row in answers.rows:
                said = {"score": answers.raw[row], "score, some rows": some_rows[row]}
                if self.voice.has("score_row"):
                    said["score_row"] = self._whole("score_row", answers.cycle, answers.pod, row)
                if self.voice.has("score_node") and row in rows:
                    said["score_node"] = answers.score_node(row)
                if len(set(said.values())) > 1:
                    self._fail_forms("forms of score differ", answers, row, said)
        if self.voice.has("normalize"):
            for row in rows:
                alone = answers.normalize([row])[row]
                if alone != answers.final[row]:
                    said = {"normalize, all rows": answers.final[row], "normalize, this row alone": alone}
                    self._fail_forms("normalize depends on which rows it is given", answers, row, said)

    def _scores_are_in_range(self, answers: _Answers) -> None:
        for row, score in answers.final.items():
            if not 0 <= score <= MAX_NODE_SCORE:
                said = {"raw score": answers.raw[row]}
                if self.voice.has("normalize"):
                    said |= {"lowest raw score": answers.extremes.low, "highest": answers.extremes.high}
                said["score"] = score
                problem = f"node {self.table.name_of(row)} gets score {score}"
                self._fail("score-range", problem, [*self.scenario.lines(answers.pod.pod), *_table_of(said)])

    # What is declared

    def _signature_is_complete(self, first: _Answers, second: _Answers) -> None:
        if not first.signed or not second.signed:
            return
        if first.signature != second.signature:
            if self.voice.plugin.signs_template and first.pod.template is second.pod.template:
                said = {answers.pod.name: answers.signature for answers in (first, second)}
                self._fail_about(
                    "signature", "pods of one template have two signatures (`signs_template`)", said
                )
            return
        self._pods_are_alike("filter", first, second, first.codes, second.codes)
        same_choice = np.array_equal(first.feasible, second.feasible)
        if self.traits.row_local or same_choice:
            self._pods_are_alike("score", first, second, first.raw, second.raw)
        if same_choice:
            self._pods_are_alike("normalize", first, second, first.final, second.final)
        for point, declared in (("pre_filter", "constant_pre_filter"), ("pre_score", "constant_pre_score")):
            answers = [getattr(one, point) for one in (first, second)]
            constant = getattr(self.voice.plugin, declared)
            if (constant or SKIP_CLASS in answers) and _kind(answers[0]) != _kind(answers[1]):
                said = {
                    one.pod.name: _said(answer) for one, answer in zip((first, second), answers, strict=True)
                }
                why = declared if constant else "SKIP_CLASS"
                problem = f"{point} differs for pods with equal signatures ({why})"
                self._fail_about("constant-answers", problem, said)

    def _pods_are_alike(
        self, what: str, first: _Answers, second: _Answers, one: Mapping[int, Any], other: Mapping[int, Any]
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

    def _check_change(self) -> None:
        """After a change, rows that the runtime would not ask about again must have the answers they had."""
        change, table = self.scenario.change, self.table
        if change.own:
            return
        memos: dict[str, Any] = {}
        pod = self.scenario.pods[0]
        before = self._answers(pod, memos)
        if not before.signed:
            change.apply(table)
            return
        node_position, usage_position = table.node_log.position, table.usage_log.position
        change.apply(table)
        now = self._answers(pod, memos)
        node_rows, usage_rows = table.node_log.since(node_position), table.usage_log.since(usage_position)
        if node_rows is None or usage_rows is None or before.signature != now.signature:
            return
        touched = _Touched(node_rows, usage_rows)
        self._constant_answers_stay(before, now)
        if before.is_filtered and now.is_filtered and before.codes and now.codes:
            stale = self._stale(touched, now, "stale_filter_rows", before.filter_state, now.filter_state)
            self._kept_answers_hold("filter", touched, stale, now, before.codes, now.codes, now.rows)
        if before.is_scored and now.is_scored:
            stale = self._stale(touched, now, "stale_score_rows", before.score_state, now.score_state)
            self._kept_answers_hold("score", touched, stale, now, before.raw, now.raw, now.feasible_rows)

    def _stale(
        self, touched: "_Touched", now: _Answers, method: str, then_state: Any, now_state: Any
    ) -> set[int] | None:
        """The rows that the runtime would ask about again; None: all."""
        traits = self.traits
        if not len(touched.node_rows) and not traits.watches:
            return set()
        rows: set[int] = set(rows_read(traits, touched.node_rows, touched.usage_rows).tolist())
        if traits.row_local:
            return rows
        if not self.voice.has(method):
            return None
        named = self.voice.ask(method, now.cycle, now.pod, then_state, now_state)
        return None if isinstance(named, AllRows) else rows | set(named.tolist())

    def _kept_answers_hold(
        self,
        what: str,
        touched: "_Touched",
        stale: set[int] | None,
        now: _Answers,
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
            if check == "reads":
                problem = (
                    f"{what} of node {name} changed with what is not in `reads = {self.voice.plugin.reads!r}`"
                )
            elif self.traits.row_local:
                problem = f"{what} of node {name} changed with another node, and `row_local` is true"
            else:
                problem = f"{what} of node {name} changed, and the plugin does not name it as stale"
            said = {
                f"{what} before": self._shown(now, before[row], what),
                f"{what} after": self._shown(now, after[row], what),
            }
            self._fail(check, problem, [*self.scenario.lines(now.pod.pod, change=True), *_table_of(said)])

    def _constant_answers_stay(self, before: _Answers, now: _Answers) -> None:
        for point, declared in (("pre_filter", "constant_pre_filter"), ("pre_score", "constant_pre_score")):
            then, later = getattr(before, point), getattr(now, point)
            if not self.voice.has(point) or (
                point == "pre_score" and not (before.feasible.any() and now.feasible.any())
            ):
                continue
            if (getattr(self.voice.plugin, declared) or then is SKIP_CLASS) and _kind(then) != _kind(later):
                said = {f"{point} before": _said(then), f"{point} after": _said(later)}
                why = declared if getattr(self.voice.plugin, declared) else "SKIP_CLASS"
                lines = [*self.scenario.lines(now.pod.pod, change=True), *_table_of(said)]
                self._fail("constant-answers", f"{point} changed with the cluster ({why})", lines)

    # What the plugin may not do

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
        if not self.voice.has("reserve"):
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
        if self.voice.has("unreserve"):
            for number in range(_RESERVATIONS):
                info = self._clone(f"stranger{number}")
                self.voice.ask("unreserve", Cycle(self.table, info, {}), info, self.scenario.nodes[0].name)
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
            if self.voice.has("pre_filter"):
                self.voice.ask("pre_filter", cycle, info)
            answer = self.voice.ask("reserve", cycle, info, node)
            if answer is not None and not isinstance(answer, Status):
                self.voice.invalid("reserve", "a Status or None", answer)
            said.append("success" if answer is None else answer.code.label)
            reserved.append((cycle, info))
        if self.voice.has("unreserve"):
            for cycle, info in reversed(reserved):
                self.voice.ask("unreserve", cycle, info, node)
        return said

    def _clone(self, name: str) -> PodInfo:
        return self.table.info(_named(self.scenario.pods[0], name))

    def _sizes(self) -> dict[str, int]:
        own = vars(self.voice.plugin)
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

    def _check_hints(self) -> None:
        """On a table of its own, with this plugin as the only one that can reject."""
        change = self.scenario.change
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
                else self.voice.guard("a hint", entry.hint, queued.pod, old, new)
            )
            if not isinstance(hint, Hint):
                self.voice.invalid("a hint", "Hint.QUEUE or Hint.SKIP", hint)
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
            lines = [*self.scenario.lines(pod, change=True), *_table_of({"event": happened, **said})]
            self._fail("queueing-hints", "the pod was rejected, fits now, and is not requeued", lines)

    def _fits(self, table: ClusterTable, pod: Pod) -> tuple[bool, frozenset[str]]:
        """Whether the plugin alone lets a pod run, and who is against it."""
        info = table.info(pod)
        gate = self.voice.ask("pre_enqueue", info) if self.voice.has("pre_enqueue") else None
        if isinstance(gate, Status) and not gate.is_success:
            return False, frozenset((self.subject.name,))
        try:
            evaluation = self.subject.framework(table, alone=True).run_filters(info)
        except PluginError as failure:
            raise _UndecidedError from failure
        return bool(evaluation.feasible_count), rejectors_of(evaluation).unschedulable

    # Reports

    def _whole(self, method: str, *args: Any) -> int:
        answer = self.voice.ask(method, *args)
        if not isinstance(answer, int | np.integer | np.bool_):
            self.voice.invalid(method, "an int", answer)
        return int(answer)

    def _shown(self, answers: _Answers, value: Any, what: str) -> str:
        return _said(answers.status(value)) if what == "filter" else str(value)

    def _fail_forms(self, problem: str, answers: _Answers, row: int, said: Mapping[str, Any]) -> NoReturn:
        lines = self.scenario.lines(answers.pod.pod)
        self._fail("forms-agree", f"{problem}, on node {self.table.name_of(row)}", [*lines, *_table_of(said)])

    def _fail_about(self, check: str, problem: str, said: Mapping[str, Any]) -> NoReturn:
        self._fail(check, problem, [*self.scenario.lines(*self._about), *_table_of(said)])

    def _fail_asking(self, check: str, problem: str, details: Sequence[str] = ()) -> NoReturn:
        self._fail(check, problem, [*self.scenario.lines(*self._about), *details])

    def _fail(self, check: str, problem: str, details: Sequence[str]) -> NoReturn:
        raise PluginCheckError(self.subject.name, check, problem, details)


@dataclass(frozen=True)
class _Touched:
    """Rows that a change touched: the node itself, or what it can hold and holds."""

    node_rows: Rows
    usage_rows: Rows

    @cached_property
    def all(self) -> frozenset[int]:
        return frozenset((*self.node_rows.tolist(), *self.usage_rows.tolist()))


def _kind(answer: Status | PreFilterResult | None) -> Any:
    """What of an answer counts when it is given for other pods as well."""
    if isinstance(answer, PreFilterResult):
        return answer.node_names
    return Code.SUCCESS if answer is None else answer.code


def _said(answer: object) -> str:
    if answer is None or (isinstance(answer, Status) and answer.is_success):
        return "passes"
    if isinstance(answer, Status):
        return f"{answer.code.label}: {answer.message}" if answer.reasons else answer.code.label
    return str(answer)


def _table_of(said: Mapping[str, Any]) -> list[str]:
    """What was said, in two columns."""
    width = max(map(len, said), default=0)
    return ["said:", *(f"    {form:<{width}}  {answer}" for form, answer in said.items())] if said else []


# Histories


class _HistoryMachine(ReuseMachine):
    """The machine that our own plugins live through, with the plugin in its profile and smaller clusters."""

    subject: ClassVar[_Subject]
    asked_profiles = ("profile",)

    @initialize(
        templates=st.runner().flatmap(lambda machine: st.lists(machine.pods, min_size=1, max_size=2)),
        asked=st.lists(
            st.tuples(st.just("profile"), st.integers(0, 1), st.sampled_from([1, 1, 2])),
            min_size=1,
            max_size=2,
        ),
        nodes=st.runner().flatmap(lambda machine: st.lists(machine.nodes, min_size=2, max_size=4)),
        more=st.sampled_from([0, 0, 0, 20]),
    )
    def begin(
        self, templates: list[Pod], asked: list[tuple[str, int, int]], nodes: list[Node], more: int
    ) -> None:
        self._begin(templates, asked, nodes, more)

    @precondition(lambda self: self.world.nodes)
    @rule(
        index=indexes,
        other=st.runner().flatmap(lambda machine: machine.nodes),
        part=st.sampled_from(["labels", "annotations", "spec", "status"]),
    )
    def change_part_of_node(self, index: int, other: Node, part: str) -> None:
        node = self._node(index)
        self.world.put_node(_mixed(node, _renamed(other, node.name), part))

    def failed(self, error: PluginError, pod: Pod) -> dict[str, Any]:
        if error.plugin == self.subject.name and error.__cause__ is not None:
            self._report("no-exceptions", error.message, pod, [])
        return super().failed(error, pod)

    def differs(self, profile: str, pod: Pod, kept: dict[str, Any], anew: dict[str, Any]) -> NoReturn:
        said = [f"    {part}" for part in difference(kept, anew).split("; ")]
        self._report("reuse", f"kept results differ for pod {pod.name}", pod, ["said:", *said])

    def _report(self, check: str, problem: str, pod: Pod, details: list[str]) -> NoReturn:
        lines = ["history:", *self._history(), "pod to schedule, each time:", f"    {builder_text(pod)}"]
        if self.nominated:
            lines += ["nominated pods:"]
            lines += [
                f"    {builder_text(one)} to {name}" for name, pods in self.nominated.items() for one in pods
            ]
        if self.own_nomination is not None:
            lines.append(f"the pod itself is nominated to {self.own_nomination}")
        raise PluginCheckError(self.subject.name, check, problem, [*lines, *details])

    def _history(self) -> Iterator[str]:
        for verb, obj in self.world.history:
            text = builder_text(obj) if isinstance(obj, Node | Pod) else f"{type(obj).__name__} {obj.key}"
            yield f"    {verb} {text}"
