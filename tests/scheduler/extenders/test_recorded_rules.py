"""Decisions recorded with extenders that follow rules: the same rules give the same results, round by round.

The recording shows the nodes that were sent to extenders: those they rejected and those that were feasible in
the end.
"""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.extenders.servers import config
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config import build, load
from stowplan.lab.verify.replay import RecordedScenario, ReplayAttempt, ReplayVerdict, decode_scenario
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.rounds import LEFT_OUT, filter_round, preempt_round, prioritize_round
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import Status, unresolvable
from stowplan.testing import node, pod
from stowplan.testing.extenders import RuleExtender, rule_extender, rule_extenders

GOLDEN = Path(__file__).parents[2] / "golden" / "extenders.jsonl.gz"
BY_PRE_FILTER = "node(s) didn't satisfy plugin(s)"

Case = tuple[RecordedScenario, list[RuleExtender], ReplayAttempt, Pod, dict[str, Node]]


def attempts() -> Iterator[Case]:
    """Every attempt that came as far as the extenders."""
    with gzip.open(GOLDEN) as lines:
        for line in lines:
            scenario = decode_scenario(line)
            extenders = rule_extenders(build(load(bytes(scenario.config))))
            pods = {pod.key: pod for pod in scenario.pending()}
            nodes = {obj.name: obj for obj in scenario.cluster() if isinstance(obj, Node)}
            for attempt in scenario.expected:
                if attempt.pre_filter.code == "Success":
                    yield scenario, extenders, attempt, pods[attempt.pod], nodes


def asked_about(attempt: ReplayAttempt, nodes: dict[str, Node]) -> list[Node]:
    if attempt.via_nominated_node:
        return [nodes[name] for name in attempt.feasible]
    allowed = attempt.pre_filter.node_names
    return [
        node
        for name, node in nodes.items()
        if (allowed is None or name in allowed)
        and (name not in attempt.rejected or not attempt.rejected[name].plugin)
    ]


def verdict(status: Status) -> ReplayVerdict:
    return ReplayVerdict(status.code.label, status.plugin, list(status.reasons))


def test_the_same_nodes_are_kept_and_the_others_rejected_for_the_same_reasons() -> None:
    seen: Counter[str] = Counter()

    async def main(clock: VirtualClock) -> None:
        for scenario, extenders, attempt, waiting, nodes in attempts():
            asked = asked_about(attempt, nodes)
            where = f"{scenario.name} {attempt.pod} {attempt.attempt}"
            absent = [
                v for v in attempt.rejected.values() if v.reasons and v.reasons[0].startswith(BY_PRE_FILTER)
            ]
            left_out = unresolvable(*absent[0].reasons) if absent else LEFT_OUT
            if attempt.error is not None:
                seen["error"] += 1
                with pytest.raises(ExtenderError) as caught:
                    await filter_round(extenders, waiting, asked, left_out)
                assert str(caught.value) == attempt.error, where
                continue
            result = await filter_round(extenders, waiting, asked, left_out)
            by_extenders = {
                node.name: attempt.rejected[node.name] for node in asked if node.name in attempt.rejected
            }
            assert {name: verdict(status) for name, status in result.verdicts.items()} == by_extenders, where
            assert sorted(result.kept) == sorted(attempt.feasible), where
            seen["nodes"] += len(asked)
            seen["rejected"] += len(by_extenders)

    run(main)
    assert seen["error"] == 25
    assert seen["rejected"] >= 465


def test_the_same_scores_are_added() -> None:
    seen: Counter[str] = Counter()

    async def main(clock: VirtualClock) -> None:
        for scenario, extenders, attempt, waiting, nodes in attempts():
            if attempt.scores is None:
                continue
            feasible = [nodes[name] for name in attempt.feasible]
            result = await prioritize_round(extenders, waiting, feasible)
            ours = {each.extender: dict(each.scores) for each in result.scores}
            theirs = {name: scores for name, scores in attempt.scores.items() if name.startswith("http://")}
            assert ours == theirs, f"{scenario.name} {attempt.pod} {attempt.attempt}"
            seen["scores"] += sum(map(len, theirs.values()))

    run(main)
    assert seen["scores"] == 1345


def test_the_same_candidates_for_preemption_are_left() -> None:
    seen: Counter[str] = Counter()
    victims = Victims((pod("victim").obj(),), 0)

    async def main(clock: VirtualClock) -> None:
        for _, extenders, attempt, waiting, nodes in attempts():
            preemption = attempt.preemption
            if preemption is None:
                continue
            for name in preemption.candidates or {}:
                result = await preempt_round(extenders, waiting, {name: victims}, lambda node, uid: None)
                assert list(result.candidates) == [name]
                seen["candidate"] += 1
            if "failed preempt" in preemption.message:
                everywhere = dict.fromkeys(nodes, victims)
                with pytest.raises(ExtenderError) as caught:
                    await preempt_round(extenders, waiting, everywhere, lambda node, uid: None)
                assert preemption.message == f"preemption: {caught.value}"
                seen["error"] += 1

    run(main)
    assert seen["candidate"] == 124
    assert seen["error"] == 3


def test_an_address_without_rules_is_named() -> None:
    with pytest.raises(ValueError, match="'http://x/other': expected an address ending in sum, last, "):
        rule_extender(config("http://x/other"))


def test_a_rule_extender_remembers_what_it_bound() -> None:
    async def main(clock: VirtualClock) -> None:
        waiting = pod("p").obj()
        willing = rule_extender(config("http://x/sum"))
        await willing.bind(waiting, node("a").obj().name)
        assert willing.bound == [(waiting, "a")]
        for name, problem in (("sayno", "extender says no"), ("broken", "failed bind .*, code 500")):
            with pytest.raises(ExtenderError, match=problem):
                await rule_extender(config(f"http://x/{name}")).bind(waiting, "a")

    run(main)
