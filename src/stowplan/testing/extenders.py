"""Extenders without sockets that follow simple rules: for tests, and for replaying recordings.

Decisions were recorded with five rule-sets, named by the last part of an extender's address. Every rule is
about the names of a node and a pod alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config.build import BuiltConfig
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.scheduler.extenders.interface import ConfiguredExtender, Filtered
from stowplan.scheduler.extenders.requests import ExtenderError, FindPod
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable

LEFT_OUT: Final = None
"""Result of a rule for a node that is left out of the answer without a reason."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How an extender answers: by the names of node and pod.

    One that `says_no` answers filter and bind with an error, the other verbs with nothing at all; one that is
    `broken` answers everything with HTTP status 500.
    """

    judge: Callable[[str, str], Status | None] = lambda node, pod: SUCCESS
    score: Callable[[str, str], int] = lambda node, pod: 0
    agrees: Callable[[str], bool] = lambda node: True
    says_no: bool = False
    broken: bool = False


def letters(text: str) -> int:
    """The sum of the bytes of a name, which the rules make their choices by."""
    return sum(text.encode())


def _judge_sum(node: str, pod: str) -> Status | None:
    total = letters(node) + letters(pod)
    if total % 7 == 0:
        return unresolvable("sum never")
    return unschedulable("sum rejects") if total % 3 == 0 else SUCCESS


def _judge_last(node: str, pod: str) -> Status | None:
    return unschedulable(f"last digit {node[-1]}") if node[-1] in "37" else SUCCESS


def _judge_silent(node: str, pod: str) -> Status | None:
    return LEFT_OUT if (letters(node) + letters(pod)) % 4 == 1 else SUCCESS


RULES: Final[Mapping[str, Rules]] = {
    "sum": Rules(
        judge=_judge_sum,
        score=lambda node, pod: (7 * letters(node) + letters(pod)) % 11,
        agrees=lambda node: letters(node) % 2 == 0,
    ),
    "last": Rules(judge=_judge_last, score=lambda node, pod: 10 if node[-1] in "02468" else 0),
    "silent": Rules(judge=_judge_silent, score=lambda node, pod: letters(node) % 4),
    "sayno": Rules(says_no=True),
    "broken": Rules(broken=True),
}

SAYS_NO: Final = "extender says no"


class RuleExtender(ConfiguredExtender):
    """An extender that follows rules. `bound` are the pods it has bound, with their nodes."""

    def __init__(self, config: ExtenderConfig, rules: Rules) -> None:
        super().__init__(config)
        self.rules = rules
        self.bound: list[tuple[Pod, str]] = []

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        if not self.is_filter:
            return Filtered([node.name for node in nodes])
        self._fail(self.config.filter_verb, says_no=self.rules.says_no)
        verdicts = {node.name: self.rules.judge(node.name, pod.name) for node in nodes}
        kept = [node for node in nodes if verdicts[node.name] is SUCCESS]
        return Filtered(
            [node.name for node in kept],
            _reasons(verdicts, Code.UNSCHEDULABLE),
            _reasons(verdicts, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            None if self.config.node_cache_capable else kept,
        )

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        if not self.is_prioritizer:
            return {node.name: 0 for node in nodes}
        self._fail(self.config.prioritize_verb)
        if self.rules.says_no:
            return {}
        return {node.name: self.rules.score(node.name, pod.name) for node in nodes}

    async def bind(self, pod: Pod, node: str) -> None:
        self._fail(self.config.bind_verb, says_no=self.rules.says_no)
        self.bound.append((pod, node))

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        self._fail(self.config.preempt_verb)
        if self.rules.says_no:
            return {}
        return {node: found for node, found in victims.items() if self.rules.agrees(node)}

    async def close(self) -> None:
        """Nothing to release."""

    def _fail(self, verb: str, *, says_no: bool = False) -> None:
        if self.rules.broken:
            raise ExtenderError(f"failed {verb} with extender at URL {self.url(verb)}, code 500")
        if says_no:
            raise ExtenderError(SAYS_NO)


def rule_extender(config: ExtenderConfig) -> RuleExtender:
    """The extender whose rules the last part of its address names."""
    name = config.url_prefix.rstrip("/").rpartition("/")[2]
    if name not in RULES:
        raise ValueError(f"extender {config.url_prefix!r}: expected an address ending in {', '.join(RULES)}")
    return RuleExtender(config, RULES[name])


def rule_extenders(built: BuiltConfig) -> list[RuleExtender]:
    """The extenders of a configuration in calling order, as rules."""
    return [rule_extender(config) for config in built.extenders]


def _reasons(verdicts: Mapping[str, Status | None], code: Code) -> dict[str, str]:
    return {
        node: verdict.message
        for node, verdict in verdicts.items()
        if verdict is not None and verdict.code is code
    }
