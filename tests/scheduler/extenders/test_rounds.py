"""Several extenders in turn, without sockets: order, failures that may be ignored, verdicts."""

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config import build, load
from stowplan.config.types import API_VERSION, KIND, ExtenderManagedResource
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.extenders.http import extenders_for
from stowplan.scheduler.extenders.interface import ConfiguredExtender, Extender, Filtered
from stowplan.scheduler.extenders.requests import ExtenderError, ExtenderScores, FindPod
from stowplan.scheduler.extenders.rounds import bind_round, filter_round, preempt_round, prioritize_round
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import unresolvable, unschedulable
from stowplan.testing import node, pod
from stowplan.testing.extenders import rule_extenders

POD = pod("p").obj()
A, B, C = (node(name).obj() for name in "abc")
NODES = [A, B, C]
DOWN = ExtenderError("down")
VICTIMS = {name: Victims((pod(f"on-{name}").obj(),), 0) for name in "cab"}


class Fake(ConfiguredExtender):
    """Answers as told, and notes what it was asked."""

    def __init__(self, name: str, **script: Any) -> None:
        fields = {key: script.pop(key) for key in list(script) if key in ExtenderConfig.__struct_fields__}
        verbs = {f"{verb}_verb": verb for verb in script}
        super().__init__(ExtenderConfig(**{"url_prefix": name, "weight": 1, **verbs, **fields}))
        self._script = script
        self.asked: list[Any] = []

    def _answer(self, verb: str, asked: Any) -> Any:
        self.asked.append(asked)
        answer = self._script[verb]
        if isinstance(answer, ExtenderError):
            raise answer
        return answer

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        if not self.is_filter:
            return Filtered([node.name for node in nodes])
        answer: Filtered = self._answer("filter", list(nodes))
        return answer

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        if not self.is_prioritizer:
            return {node.name: 0 for node in nodes}
        answer: Mapping[str, int] = self._answer("prioritize", [node.name for node in nodes])
        return answer

    async def bind(self, pod: Pod, node: str) -> None:
        self._answer("bind", node)

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        answer: Mapping[str, Victims] = self._answer("preempt", dict(victims))
        return answer

    async def close(self) -> None:
        self.asked.clear()


def done(work: Awaitable[Any]) -> Any:
    async def main(clock: VirtualClock) -> Any:
        return await work

    return run(main)


def filtered(*extenders: Extender, **options: Any) -> Any:
    return done(filter_round(extenders, POD, NODES, **options))


def test_each_extender_is_asked_about_what_the_ones_before_it_kept() -> None:
    first = Fake("1", filter=Filtered(["c", "a"], {"b": "no b"}))
    second = Fake("2", filter=Filtered(["a"], {}, {"c": "never c"}))
    result = filtered(first, second)
    assert second.asked == [[C, A]]
    assert result.kept == ("a",)
    assert result.verdicts == {"b": unschedulable("no b"), "c": unresolvable("never c")}
    assert {verdict.plugin for verdict in result.verdicts.values()} == {""}


def test_nobody_is_asked_about_no_nodes() -> None:
    second = Fake("2", filter=DOWN)
    result = filtered(Fake("1", filter=Filtered([])), second)
    assert second.asked == []
    assert result.kept == ()


def test_nodes_left_out_without_a_word_cannot_be_helped() -> None:
    result = filtered(Fake("1", filter=Filtered(["b"])))
    assert result.verdicts == {"a": unresolvable(), "c": unresolvable()}
    chosen = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")
    assert filtered(Fake("1", filter=Filtered(["b"])), left_out=chosen).verdicts == {"a": chosen, "c": chosen}


def test_a_node_that_can_fail_both_ways_is_unresolvable() -> None:
    result = filtered(Fake("1", filter=Filtered(["b", "c"], {"a": "x"}, {"a": "y"})))
    assert result.verdicts == {"a": unresolvable("y")}


def test_what_is_kept_has_no_verdict_until_it_is_left_out() -> None:
    both = Fake("1", filter=Filtered(["a", "b", "c"], {"a": "hm"}))
    assert filtered(both).verdicts == {}
    assert filtered(both, Fake("2", filter=Filtered(["b", "c"]))).verdicts == {"a": unschedulable("hm")}


def test_verdicts_on_nodes_that_were_not_asked_about_are_passed_on() -> None:
    result = filtered(Fake("1", filter=Filtered(["a", "b", "c"], {"z": "full"})))
    assert result.verdicts == {"z": unschedulable("full")}


def test_a_failure_ends_the_attempt() -> None:
    with pytest.raises(ExtenderError, match=r"^down$"):
        filtered(Fake("1", filter=Filtered(["a"])), Fake("2", filter=DOWN))


def test_a_failure_of_an_ignorable_extender_changes_nothing() -> None:
    result = filtered(Fake("1", filter=DOWN, ignorable=True), Fake("2", filter=Filtered(["a", "b"])))
    assert result.kept == ("a", "b")
    assert result.verdicts == {"c": unresolvable()}
    assert result.ignored == [("1", DOWN)]


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_node_it_was_not_asked_about_cannot_be_kept(ignorable: bool) -> None:
    wrong = Fake("http://x", filter=Filtered(["a", "z"], {"b": "no"}), ignorable=ignorable)
    text = 'extender "http://x" claims a filtered node "z" which is not found in the input node list'
    if ignorable:
        result = filtered(wrong)
        assert (result.kept, result.verdicts) == (("a", "b", "c"), {})
        assert [(name, str(error)) for name, error in result.ignored] == [("http://x", text)]
    else:
        with pytest.raises(ExtenderError) as caught:
            filtered(wrong)
        assert str(caught.value) == text


def test_objects_that_came_back_are_what_is_passed_on() -> None:
    changed = node("a").labels(seen="yes").obj()
    whole = Fake("1", filter=Filtered(["a", "b"], nodes=[changed, B]))
    names = Fake("2", filter=Filtered(["a"]))
    result = filtered(whole, names)
    assert names.asked == [[changed, B]]
    assert result.fresh == {"a": changed}
    assert filtered(names).fresh == {}


def test_a_node_that_comes_back_twice_is_one() -> None:
    assert filtered(Fake("1", filter=Filtered(["b", "a", "b"]))).kept == ("b", "a")


def test_only_who_is_interested_is_asked() -> None:
    gpu = (ExtenderManagedResource(name="example.com/gpu"),)
    for round_of in (filter_round, prioritize_round):
        picky = Fake("1", filter=DOWN, prioritize=DOWN, managed_resources=gpu)
        assert done(round_of([picky], POD, NODES)).ignored in ((), [])
        assert picky.asked == []
    wanting = pod("p").requests({"example.com/gpu": 1}).obj()
    limited = pod("p").limits({"example.com/gpu": 1}).obj()
    assert not picky.is_interested(POD)
    assert picky.is_interested(wanting)
    assert picky.is_interested(limited)
    assert picky.is_interested(pod("p").init_container({"example.com/gpu": 1}).obj())


def test_scores_are_weighted_and_shown_by_extender() -> None:
    extenders = [
        Fake("1", prioritize={"a": 10, "b": 3, "z": 9}, weight=2),
        Fake("2", prioritize=DOWN),
        Fake("3", prioritize={}),
        Fake("4", weight=7),
    ]
    result = done(prioritize_round(extenders, POD, NODES))
    assert result.scores == (
        ExtenderScores("1", {"a": 200, "b": 60}),
        ExtenderScores("4", {"a": 0, "b": 0, "c": 0}),
    )
    assert result.ignored == [("2", DOWN)]


def test_scores_out_of_all_proportion_wrap_around_as_they_do_in_kubernetes() -> None:
    result = done(prioritize_round([Fake("1", prioritize={"a": 2**62})], POD, [A]))
    assert result.scores == (ExtenderScores("1", {"a": -(2**63)}),)


def test_the_first_interested_binder_binds() -> None:
    gpu = (ExtenderManagedResource(name="example.com/gpu"),)
    first, second = Fake("2", bind=None), Fake("3", bind=None)
    extenders = [Fake("0", filter=DOWN), Fake("1", bind=DOWN, managed_resources=gpu), first, second]
    assert done(bind_round(extenders, POD, "a")).binder == "2"
    assert (first.asked, second.asked) == (["a"], [])
    assert done(bind_round(extenders[:2], POD, "a")).binder is None


def test_when_a_binder_fails_only_an_ignorable_one_is_passed_over() -> None:
    with pytest.raises(ExtenderError, match=r"^down$"):
        done(bind_round([Fake("1", bind=DOWN), Fake("2", bind=None)], POD, "a"))
    result = done(bind_round([Fake("1", bind=DOWN, ignorable=True), Fake("2", bind=None)], POD, "a"))
    assert (result.binder, result.ignored) == ("2", [("1", DOWN)])


def preempted(*extenders: Extender) -> Any:
    return done(preempt_round(extenders, POD, VICTIMS, lambda node, uid: None))


def test_candidates_are_what_all_extenders_agree_to() -> None:
    first = Fake("1", preempt={name: VICTIMS[name] for name in "ac"})
    second = Fake("2", preempt={"c": VICTIMS["c"], "a": VICTIMS["b"]})
    result = preempted(first, Fake("no preemption", filter=DOWN), second)
    assert first.asked == [VICTIMS]
    assert second.asked == [{name: VICTIMS[name] for name in "ac"}]
    assert list(result.candidates.items()) == [("c", VICTIMS["c"]), ("a", VICTIMS["b"])]


def test_after_an_empty_answer_nobody_else_is_asked() -> None:
    second = Fake("2", preempt=DOWN)
    assert preempted(Fake("1", preempt={}), second).candidates == {}
    assert second.asked == []


def test_a_candidate_without_victims_is_an_error_unless_ignorable() -> None:
    answer = {**VICTIMS, "a": Victims((), 0)}
    with pytest.raises(ExtenderError, match=r'^expected at least one victim pod on node "a"$'):
        preempted(Fake("1", preempt=answer))
    result = preempted(Fake("1", preempt=answer, ignorable=True))
    assert list(result.candidates) == ["c", "b"]
    assert [name for name, _ in result.ignored] == ["1"]


def test_a_failing_preemption_is_ignored_only_where_allowed() -> None:
    with pytest.raises(ExtenderError, match=r"^down$"):
        preempted(Fake("1", preempt=DOWN))
    assert preempted(Fake("1", preempt=DOWN, ignorable=True)).candidates == VICTIMS


def test_extenders_are_made_in_calling_order() -> None:
    text = """
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    extenders:
    - {urlPrefix: http://x/sum, ignorable: true, filterVerb: f}
    - {urlPrefix: http://x/last, filterVerb: f}
    - {urlPrefix: http://x/silent, ignorable: true}
    - {urlPrefix: http://x/broken}
    """
    built = build(load(text))
    expected = ["http://x/last", "http://x/broken", "http://x/sum", "http://x/silent"]
    assert [extender.name for extender in extenders_for(built)] == expected
    assert [extender.name for extender in rule_extenders(built)] == expected
    assert [extender.is_filter for extender in extenders_for(built)] == [True, False, True, False]


def test_every_kind_of_extender_is_one() -> None:
    """The type checker has the last word; here only that all of them can be put in one list."""
    document = {"apiVersion": API_VERSION, "kind": KIND, "extenders": [{"urlPrefix": "http://x/sum"}]}
    built = build(load(json.dumps(document)))
    everyone: list[Extender] = [*extenders_for(built), *rule_extenders(built), Fake("x")]
    assert [extender.name for extender in everyone] == ["http://x/sum", "http://x/sum", "x"]
