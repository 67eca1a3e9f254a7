"""Which things choose which kinds of pods, kept while both come and go."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import Selector, compile_selector
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan.cluster.labelsets import KindRegistry, LabelPair, PodKind, Relation, needed_pairs

SELECTORS = [
    None,
    LabelSelector(),
    LabelSelector(match_labels={"app": "a"}),
    LabelSelector(match_labels={"app": "a", "tier": "x"}),
    *(
        LabelSelector(
            match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
        )
        for key, operator, values in (
            ("app", "In", ("a", "b")),
            ("app", "NotIn", ("a",)),
            ("tier", "Exists", ()),
            ("tier", "DoesNotExist", ()),
        )
    ),
]
LABELS = [{}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}, {"app": "c", "tier": "y"}]


class Choosing:
    """Chooses pods by labels, in namespaces whose label says so."""

    def __init__(self, selector: LabelSelector | None, wanted: str | None, said: dict[str, str]) -> None:
        self.selector: Selector = compile_selector(selector)
        self._wanted = wanted
        self._said = said

    def entry(self, kind: PodKind) -> "Choosing | None":
        if self._wanted is not None and self._said.get(kind.namespace) != self._wanted:
            return None
        return self if self.selector.matches(kind.labels) else None

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        return needed_pairs((self.selector,))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("kind"), st.sampled_from(["n1", "n2"]), st.integers(0, len(LABELS) - 1)),
        st.tuples(st.just("no kind"), st.just(""), st.integers(0, 9)),
        st.tuples(
            st.just("thing"), st.sampled_from(["prod", "test", ""]), st.integers(0, len(SELECTORS) - 1)
        ),
        st.tuples(st.just("no thing"), st.just(""), st.integers(0, 9)),
        st.tuples(st.just("label"), st.sampled_from(["prod", "test"]), st.integers(1, 2)),
    ),
    max_size=30,
)


@given(steps)
def test_every_kind_knows_the_things_that_choose_it(history: list[tuple[str, str, int]]) -> None:
    registry = KindRegistry()
    relation: Relation[Choosing] = Relation(registry, "matchers")
    said: dict[str, str] = {}
    kinds: list[PodKind] = []
    things: list[Choosing] = []
    for action, text, number in history:
        versions = [(kind, kind.version, set(map(id, kind.matchers))) for kind in kinds]
        if action == "kind":
            kinds.append(registry.kind(text, LABELS[number]))
        elif action == "no kind" and kinds:
            kinds.pop(number % len(kinds))
        elif action == "thing":
            thing = Choosing(SELECTORS[number], text or None, said)
            things.append(thing)
            chosen = relation.add(thing)
            assert {id(kind) for kind in chosen} >= {id(kind) for kind in kinds if thing.entry(kind)}
        elif action == "no thing" and things:
            relation.remove(things.pop(number % len(things)))
        elif action == "label":
            said[f"n{number}"] = text
            relation.revisit(f"n{number}")
        for kind in kinds:
            assert len(kind.matchers) == len({id(thing) for thing in kind.matchers})
            assert {id(thing) for thing in kind.matchers} == {id(t) for t in things if t.entry(kind)}
        for kind, version, before in versions:
            assert kind.version != version or before == set(map(id, kind.matchers))


def test_a_kind_that_is_gone_and_its_successor_have_different_versions() -> None:
    registry = KindRegistry()
    seen = set()
    for _ in range(10):
        kind = registry.kind("default", {"app": "a"})
        assert registry.kind("default", {"app": "a"}) is kind
        seen.add(kind.version)
        del kind
        gc.collect()
    assert len(seen) == 10


def test_labels_of_kinds_that_are_gone_are_forgotten() -> None:
    registry = KindRegistry()
    for number in range(5000):
        registry.kind("default", {"job": f"j{number}"})
    gc.collect()
    assert registry.all() == []
    registry.kind("default", {"job": "last"})
    assert len(registry._by_label) <= 1100
