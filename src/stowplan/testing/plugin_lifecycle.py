"""The extension points around filters and scores, called in one cluster: queue order, PostFilter, binding.

They are called as a scheduler does, with the services that `cluster()` has: a clock, waiting pods, events. A
plugin that needs an API server is not checked here.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from stowplan.runtime.clock import VirtualTimeError
from stowplan.runtime.clock import run as run_virtual
from stowplan.scheduler.framework.interface import PostFilterResult, Wait
from stowplan.scheduler.framework.status import Code, PluginError, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing.clusters import Cluster, cluster
from stowplan.testing.plugin_answers import CheckedPlugin, NotComparableError
from stowplan.testing.plugin_scenarios import Scenario, Subject

_BINDING = ("permit", "pre_bind_pre_flight", "pre_bind", "bind", "post_bind")


class LifecycleCheck:
    """One scenario. `fail` reports a problem: check, problem, and the answers that show it."""

    def __init__(self, subject: Subject, scenario: Scenario, fail: Callable[..., NoReturn]) -> None:
        self._subject = subject
        self._scenario = scenario
        self._fail = fail
        self._cluster: Cluster | None = None

    def sort_order(self, plugin: CheckedPlugin) -> None:
        """Keys of `sort_key` can be compared, stay the same, and keep what the contract promises."""
        if not plugin.has("sort_key"):
            return
        table = self._scenario.table()
        pods = [*self._scenario.pods, *self._scenario.others]
        queued = [QueuedPod(table.info(pod), float(number)) for number, pod in enumerate(pods)]
        keys = [plugin.ask("sort_key", one) for one in queued]
        for one, key in zip(queued, keys, strict=True):
            again = plugin.ask("sort_key", one)
            if again != key:
                self._fail("sort-order", f"sort_key of pod {one.pod.name} is not the same when asked again")
        for first in range(len(keys)):
            for second in range(first + 1, len(keys)):
                names = f"{queued[first].pod.name} and {queued[second].pod.name}"
                try:
                    before, after = keys[first] < keys[second], keys[second] < keys[first]
                except TypeError as cause:
                    self._fail("sort-order", f"sort keys of {names} cannot be compared: {cause}")
                if before and after:
                    self._fail("sort-order", f"of {names} each comes before the other")
        if plugin.instance.contract.sorts_by_priority:
            order = sorted(range(len(keys)), key=lambda place: keys[place])
            expected = sorted(order, key=lambda place: (-queued[place].priority, queued[place].timestamp))
            if order != expected:
                said = {queued[place].pod.name: keys[place] for place in expected}
                self._fail("sort-order", "the order is not by priority (`sorts_by_priority`)", said)

    def post_filter(self) -> str:
        """The node that PostFilter returns for a pod that fits nowhere exists in the cluster.

        Returns why it was not called, "" if it was or the plugin has none.
        """
        missing = "every pod fits" if hasattr(self._subject.cls, "post_filter") else ""
        for info, plugin in self._asked("post_filter"):
            c = self._made()
            evaluation = self._evaluated(c, info)
            if evaluation.feasible_count:
                continue
            answer = plugin.ask("post_filter", evaluation.cycle, info)
            if inspect.isgenerator(answer):
                answer = plugin.guard("post_filter", _run_to_end, answer)
            if not isinstance(answer, Status | PostFilterResult):
                plugin.invalid("post_filter", "a Status or a PostFilterResult", answer)
            missing = ""
            if isinstance(answer, Status):
                continue
            node = answer.nominated_node
            if node and c.table.row_of(node) is None:
                self._fail("valid-answers", f"post_filter: expected a node of the cluster, got {node!r}")
            gone = [victim.key for victim in answer.victims if victim.metadata.uid not in c.table.pods]
            if gone:
                self._fail("valid-answers", f"post_filter: victim {gone[0]} is no pod on a node")
        return missing

    def binding(self) -> str:
        """Permit and the binding cycle of a pod on a node that it fits on. Returns why none was called."""
        missing = "no pod fits" if any(hasattr(self._subject.cls, method) for method in _BINDING) else ""
        for info, plugin in self._asked(*_BINDING):
            c = self._made()
            evaluation = self._evaluated(c, info)
            if not evaluation.feasible_count:
                continue
            node = c.table.name_of(int(np.asarray(evaluation.feasible_rows)[0]))
            for method in _BINDING:
                if plugin.has(method):
                    self._answer(plugin, method, evaluation.cycle, info, node)
            missing = ""
        return missing

    def _answer(self, plugin: CheckedPlugin, method: str, *args: Any) -> None:
        answer = plugin.ask(method, *args)
        if inspect.isawaitable(answer):
            answer = plugin.guard(method, _awaited, answer)
        if method == "permit" and isinstance(answer, Wait):
            if not isinstance(answer.seconds, int | float) or answer.seconds < 0:
                plugin.invalid(method, "Wait with seconds of at least 0", answer)
            return
        expected = "None" if method == "post_bind" else "a Status or None"
        if method == "permit":
            expected = "a Status, Wait or None"
        if answer is not None and (method == "post_bind" or not isinstance(answer, Status)):
            plugin.invalid(method, expected, answer)
        allowed = (Code.SUCCESS, Code.SKIP, Code.ERROR)
        if method == "pre_bind_pre_flight" and answer is not None and answer.code not in allowed:
            plugin.invalid(method, "success, SKIP or an error", answer)

    def _asked(self, *methods: str) -> Iterator[tuple[PodInfo, CheckedPlugin]]:
        """The pods of the scenario, with the plugin of the cluster; none if it has no such method."""
        if not any(hasattr(self._subject.cls, method) for method in methods):
            return
        c = self._made()
        [framework] = c.frameworks.values()
        trusted = self._subject.name in self._subject.registry.own
        plugin = CheckedPlugin(framework.plugins[self._subject.name], trusted, self._failed)
        for pod in self._scenario.pods:
            yield c.table.info(pod), plugin

    def _failed(self, check: str, problem: str, details: Any = ()) -> NoReturn:
        self._fail(check, problem)

    def _made(self) -> Cluster:
        if self._cluster is None:
            subject, scenario = self._subject, self._scenario
            outside = [] if subject.name in subject.registry.own else [subject.cls]
            objects = [*scenario.objects, *scenario.nodes, *scenario.running]
            self._cluster = cluster(objects=objects, config=subject.profile, plugins=outside)
        return self._cluster

    def _evaluated(self, c: Cluster, info: PodInfo) -> Any:
        [framework] = c.frameworks.values()
        try:
            return framework.evaluate(info)
        except PluginError as failure:
            raise NotComparableError from failure


def _run_to_end(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _awaited(answer: Any) -> Any:
    """Result of a coroutine in virtual time: nothing waits, and what needs a network is not checked."""

    async def main(clock: object) -> Any:
        return await answer

    try:
        return run_virtual(main)
    except VirtualTimeError as cause:
        raise NotComparableError from cause
