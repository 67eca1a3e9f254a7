"""Explanations of pods whose devices take long to find: they end within a budget and say that they did."""

import pytest

from explain.test_device_explanations import asked, claim, device_class, explained, gpu, node, slice_of
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers import pod as explainer
from stowplan.scheduler.plugins.dynamicresources.explanation import explanations
from stowplan.scheduler.plugins.dynamicresources.explanation.explanations import CUT

SHORT = 0.0001
"""A hundred steps of a search."""

TIMED_OUT = 'running "DynamicResources" filter plugin: node n: timed out trying to allocate devices'


def explained_slowly() -> PodDocument:
    """Of eight devices four at once, where their counter allows three: every choice of three is tried."""
    draws = [{"counterSet": "all", "counters": {"slots": {"value": "1"}}}]
    devices = [gpu(f"g{number}", consumesCounters=draws) for number in range(8)]
    counters = [{"name": "all", "counters": {"slots": {"value": "3"}}}]
    return explained(
        [
            node("n"),
            device_class(),
            slice_of("n", devices, slices=2),
            slice_of("n", slices=2, sharedCounters=counters),
            claim("c", *(asked(f"r{number}") for number in range(4))),
        ]
    )


def test_a_search_beyond_the_budget_of_explanations_is_told_as_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explainer, "EXPLAINING", SHORT)
    found = explained_slowly()
    assert found.message == TIMED_OUT
    assert not found.near_misses


def test_a_diagnosis_beyond_its_budget_says_that_it_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = explained_slowly().near_misses
    monkeypatch.setattr(explanations, "PATIENCE", SHORT)
    (cut,) = explained_slowly().near_misses
    assert "counters do not allow" in str(whole)
    assert CUT in str(cut)
