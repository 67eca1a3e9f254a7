"""`check_plugin`: the checks of our own plugins, for yours.

A plugin is put into random small clusters together with the default plugins. In each, every form of its rules
is called for every node, then something changes and it is called again (plugin_contract.py). After that it
lives through random histories in which reused results are compared with results from scratch
(reuse_machine.py). A failure is reported as the smallest cluster in which it occurs.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from stowplan.api.decode import Given
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.interface import (
    ExtensionPoint,
    NoSchedulerError,
    points_of,
)
from stowplan.scheduler.framework.status import PluginError
from stowplan.testing.builders import builder_text
from stowplan.testing.clusters import AnyPlugin, Config
from stowplan.testing.plugin_answers import CHECKS, PluginCheckError, describe_answer, is_bug
from stowplan.testing.plugin_contract import ContractCheck, Coverage
from stowplan.testing.plugin_report import CheckReport, report_of
from stowplan.testing.plugin_scenarios import (
    Nodes,
    Pods,
    Scenario,
    Subject,
    mixed,
    named_nodes,
    pod_templates,
    renamed,
    scenarios,
    subject_of,
)
from stowplan.testing.reuse_machine import ReuseMachine, indexes

PHASES: Final = (Phase.generate, Phase.shrink)
"""A counterexample is looked for and then made smaller."""

_NOTHING: Final[Mapping[str, str]] = {}


def check_plugin(
    plugin: AnyPlugin,
    *,
    args: Any = None,
    config: Config = None,
    examples: int = 50,
    seed: int | None = None,
    pods: Pods = None,
    nodes: Nodes = None,
    objects: Iterable[Given] = (),
    skip: Mapping[str, str] = _NOTHING,
    report: str | Path | None = None,
) -> CheckReport:
    """Check a plugin as we check our own. Raises PluginCheckError with the smallest counter-example.

    `plugin` is a class or a reference such as `module:Class`, `args` its arguments. It runs together with the
    default plugins, or as in `config` (see `cluster`). `pods` and `nodes` are builders to choose from, or
    hypothesis strategies of objects or builders: give those with the labels and annotations the plugin reads.
    Their names are replaced by unique ones. `objects` are other objects, the same in all clusters, custom
    resources as manifests. `skip` names checks that the plugin is known to fail, each with the reason.
    `examples` is the number of clusters, and of histories, to try; they are the same in every run, and others
    with another `seed`. Answers that could be compared in no cluster, because the plugin failed or needs a
    running scheduler, cause a warning, and so do checks that were skipped. `report` is a file for the result,
    also of a failure: HTML if its name ends so, otherwise Markdown.
    """
    _check_skipped(skip)
    subject = subject_of(plugin, args, config, objects)
    coverage = Coverage()
    some_pods = pod_templates(pods)
    some_nodes = named_nodes(nodes)
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
        phases=PHASES,
    )

    @effort
    @given(scenarios(some_pods, some_nodes, subject.objects))
    def in_clusters(scenario: Scenario) -> None:
        ContractCheck(subject, scenario, coverage, skip).run()

    machine = type(
        "PluginHistory",
        (_HistoryMachine,),
        {
            "subject": subject,
            "profiles": {"profile": subject.profile},
            "registry": subject.registry,
            "known": subject.known,
            "skip": skip,
            "pods": some_pods,
            "nodes": some_nodes,
        },
    )
    if seed is not None:
        in_clusters, machine = seeded(seed)(in_clusters), seeded(seed)(machine)

    def told(failure: PluginCheckError | None) -> CheckReport:
        given_up = coverage.never_compared()
        found = report_of(subject.cls, args, examples, skip, given_up, failure)
        if report is not None:
            found.write(Path(report))
        return found

    try:
        _reported(subject, in_clusters, skip)
        for name, reason in skip.items():
            warnings.warn(f"{subject.name}: the check {name} was skipped: {reason}", stacklevel=2)
        for what, why in coverage.never_compared().items():
            warnings.warn(f"{subject.name}: {what} could not be checked: {why}", stacklevel=2)
        if points_of(subject.cls) & _REUSED and "reuse" not in skip:
            _reported(subject, lambda: run_state_machine_as_test(machine, settings=effort), skip)
    except PluginCheckError as failure:
        told(failure)
        raise
    return told(None)


_REUSED = frozenset(
    (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
)


def _check_skipped(skip: Mapping[str, str]) -> None:
    for name, reason in skip.items():
        if name not in CHECKS:
            raise ValueError(f"skip: expected one of {', '.join(CHECKS)}, got {name!r}")
        if not reason.strip():
            raise ValueError(f"skip: expected a reason for {name!r}")


def _reported(subject: "Subject", run: Callable[[], None], skip: Mapping[str, str]) -> None:
    """Run a property; what it finds is raised without hypothesis' own account of it."""
    found: PluginCheckError
    try:
        run()
        return
    except PluginCheckError as failure:
        found = failure
        found.__notes__ = []
    except Flaky:
        if "deterministic" in skip:
            return
        found = PluginCheckError(
            subject.name,
            "deterministic",
            "a failure could not be repeated in the same cluster: expected a plugin "
            "to use no time, no state between pods and no randomness but `handle.rng`",
        )
    raise found.with_traceback(None) from None


# Histories


class _HistoryMachine(ReuseMachine):
    """The machine that our own plugins live through, with the plugin in its profile and smaller clusters."""

    subject: ClassVar[Subject]
    skip: ClassVar[Mapping[str, str]]
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
        for obj in self.subject.objects:
            self.world.put(obj)
        self._begin(templates, asked, nodes, more)

    @precondition(lambda self: self.world.nodes)
    @rule(
        index=indexes,
        other=st.runner().flatmap(lambda machine: machine.nodes),
        part=st.sampled_from(["labels", "annotations", "spec", "status"]),
    )
    def change_part_of_node(self, index: int, other: Node, part: str) -> None:
        node = self._node(index)
        self.world.put_node(mixed(node, renamed(other, node.name), part))

    def failed(self, error: PluginError, pod: Pod) -> dict[str, Any]:
        if is_bug(error, self.subject.name) and "no-exceptions" not in self.skip:
            self._report("no-exceptions", error.message, pod, [])
        if isinstance(error.__cause__, NoSchedulerError):
            # Which node it was called for first is no difference.
            return {"error": str(error.__cause__)}
        return super().failed(error, pod)

    def differs(self, profile: str, pod: Pod, kept: dict[str, Any], anew: dict[str, Any]) -> NoReturn:
        lines = [f"    {line}" for line in _differences(kept, anew)]
        problem = f"kept results differ from results from scratch, for pod {pod.name}"
        self._report("reuse", problem, pod, ["said:", *lines])

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


def _differences(kept: Any, anew: Any, where: str = "") -> Iterator[str]:
    """Differences, by subject."""
    if isinstance(kept, dict) and isinstance(anew, dict):
        for key in {**kept, **anew}:
            if kept.get(key) != anew.get(key):
                about = describe_answer(key)
                yield from _differences(kept.get(key), anew.get(key), f"{where}, {about}" if where else about)
    elif isinstance(kept, set | frozenset) and isinstance(anew, set | frozenset):
        yield f"{where}: only kept {sorted(kept - anew)}, only from scratch {sorted(anew - kept)}"
    else:
        then, now = ("nothing" if one is None else describe_answer(one) for one in (kept, anew))
        yield f"{where}: kept {then}, from scratch {now}"
