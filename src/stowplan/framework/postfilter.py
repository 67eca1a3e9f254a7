"""PostFilter: when no node can take a pod, plugins may make room for a later attempt.

A search that may take long is written as a generator: each `yield` in `post_filter` is a point where the
scheduler may let others run (the table stays as it is), and what it returns is the result.
"""

from collections.abc import Generator, Iterable, Mapping
from types import GeneratorType
from typing import Any, NamedTuple

from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Code, Status, error, unschedulable


class Victims(NamedTuple):
    """Pods that would have to go from a node, the most important first.

    `violations` counts those that a disruption budget protects.
    """

    pods: tuple[Pod, ...]
    violations: int


_NO_CANDIDATES: Mapping[str, Victims] = {}


class PostFilterResult(NamedTuple):
    """What came of trying to make room.

    `nominated_node` is the node the pod is promised, "" to take an earlier promise back, None to leave it as
    it is. `victims` are the pods that go. A plugin with nothing to say about either returns its status alone.
    `candidates` are the nodes there were to choose from and `ties` those as good as the chosen one, itself
    among them.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    candidates: Mapping[str, Victims] = _NO_CANDIDATES
    ties: tuple[str, ...] = ()


class PostFilterRound:
    """What PostFilter plugins said so far, and what it amounts to.

    One that succeeds, fails, or says that nothing will help ends the round. Otherwise their reasons add up,
    under the name of the first, and the last word about the nomination holds.
    """

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._rejector = ""
        self._nominated_node: str | None = None

    def take(self, plugin: Plugin, result: PostFilterResult) -> PostFilterResult | None:
        """Take in a plugin's answer; returns what the round came to if that ends it."""
        status = result.status
        if status.is_success:
            return result
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return result._replace(status=status.by(plugin.name))
        if not status.code.is_rejection:
            return PostFilterResult(error(status.message).by(plugin.name))
        if result.nominated_node is not None:
            self._nominated_node = result.nominated_node
        self._reasons += status.reasons
        self._rejector = self._rejector or plugin.name
        return None

    def end(self) -> PostFilterResult:
        """What the round came to when nobody ended it."""
        return PostFilterResult(unschedulable(*self._reasons).by(self._rejector), self._nominated_node)


Steps = Generator[None, None, PostFilterResult]
"""A search that can be interrupted between its steps; what it returns is the result."""


def run_post_filters(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo) -> PostFilterResult:
    """Ask PostFilter plugins in order what they can do for a pod that fits nowhere. Raises PluginError."""
    return run_to_end(post_filter_steps(plugins, cycle, pod))


def post_filter_steps(plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo) -> Steps:
    """The same in steps: others may run in between, as long as the table does not change."""
    asked = PostFilterRound()
    for plugin in plugins:
        answer = yield from ask_post_filter(plugin, cycle, pod)
        result = asked.take(plugin, answer)
        if result is not None:
            return result
    return asked.end()


def run_to_end(steps: Steps) -> PostFilterResult:
    """The result of a search without any interruption."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: PostFilterResult = end.value
            return result


def ask_post_filter(plugin: Plugin, cycle: Cycle, pod: PodInfo) -> Steps:
    """One plugin's answer, in as many steps as the plugin takes. Raises PluginError."""
    watch = cycle.watch
    began = 0.0 if watch is None else watch.timer()
    try:
        answer: Any = plugin.post_filter(cycle, pod)  # type: ignore[attr-defined]
        if isinstance(answer, GeneratorType):
            answer = yield from answer
    except PluginError:
        raise
    except Exception as cause:
        raise _failure(plugin, f"{type(cause).__name__}: {cause}") from cause
    if isinstance(answer, Status):
        answer = PostFilterResult(answer)
    if isinstance(answer, PostFilterResult):
        if watch is not None:
            watch.plugin(plugin.name, "PostFilter", answer.status.code.label, watch.timer() - began)
        return answer
    raise _failure(plugin, f"expected a Status or a PostFilterResult, got {type(answer).__name__}")


def _failure(plugin: Plugin, message: str) -> PluginError:
    return PluginError(plugin.name, f'running PostFilter plugin "{plugin.name}": {message}')
