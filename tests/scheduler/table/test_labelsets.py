"""Which things select which label sets of pods, kept while both come and go."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import Selector, compile_selector
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan.scheduler.table.labelsets import LabelPair, LabelSet, LabelSets, SelectorIndex, needed_pairs

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

    def entry(self, label_set: LabelSet) -> "Choosing | None":
        if self._wanted is not None and self._said.get(label_set.namespace) != self._wanted:
            return None
        return self if self.selector.matches(label_set.labels) else None

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        return needed_pairs((self.selector,))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("label_set"), st.sampled_from(["n1", "n2"]), st.integers(0, len(LABELS) - 1)),
        st.tuples(st.just("no label set"), st.just(""), st.integers(0, 9)),
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
    registry = LabelSets()
    index: SelectorIndex[Choosing] = SelectorIndex(registry, "matchers")
    said: dict[str, str] = {}
    label_sets: list[LabelSet] = []
    selectors: list[Choosing] = []
    for action, text, number in history:
        versions = [
            (label_set, label_set.version, set(map(id, label_set.matchers))) for label_set in label_sets
        ]
        if action == "label_set":
            label_sets.append(registry.of(text, LABELS[number]))
        elif action == "no label set" and label_sets:
            label_sets.pop(number % len(label_sets))
        elif action == "thing":
            selector = Choosing(SELECTORS[number], text or None, said)
            selectors.append(selector)
            selected = index.add(selector)
            assert {id(label_set) for label_set in selected} >= {
                id(label_set) for label_set in label_sets if selector.entry(label_set)
            }
        elif action == "no thing" and selectors:
            index.remove(selectors.pop(number % len(selectors)))
        elif action == "label":
            said[f"n{number}"] = text
            index.revisit(f"n{number}")
        for label_set in label_sets:
            assert len(label_set.matchers) == len({id(selector) for selector in label_set.matchers})
            assert {id(selector) for selector in label_set.matchers} == {
                id(t) for t in selectors if t.entry(label_set)
            }
        for label_set, version, before in versions:
            assert label_set.version != version or before == set(map(id, label_set.matchers))


def test_a_kind_that_is_gone_and_its_successor_have_different_versions() -> None:
    registry = LabelSets()
    seen = set()
    for _ in range(10):
        label_set = registry.of("default", {"app": "a"})
        assert registry.of("default", {"app": "a"}) is label_set
        seen.add(label_set.version)
        del label_set
        gc.collect()
    assert len(seen) == 10


def test_labels_of_kinds_that_are_gone_are_forgotten() -> None:
    registry = LabelSets()
    for number in range(5000):
        registry.of("default", {"job": f"j{number}"})
    gc.collect()
    assert registry.all() == []
    registry.of("default", {"job": "last"})
    assert len(registry._by_label) <= 1100
