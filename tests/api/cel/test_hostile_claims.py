"""Hostile expressions in claims and classes: the attempt of one pod fails, and nothing else."""

import tracemalloc
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.cel.test_hostile_expressions import _ATOMS, _compound, nested
from effort import examples
from stowplan.api.cel.devices import Compiled, Match
from stowplan.api.cel.program import LIMIT_EXCEEDED
from stowplan.api.decode import convert
from stowplan.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.pod import PodResourceClaim
from stowplan.config import build, default_config
from stowplan.explain.explainers.pod import Explainer
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

DRIVER: Final = "d"
[PROFILE] = build(default_config()).profiles


def explained(expression: str, *, in_class: bool = False, nodes: int = 2) -> tuple[str, str]:
    """Message for a pod whose claim or class has an expression, and the explanation of it."""
    table = ClusterTable()
    selectors = [{"cel": {"expression": expression}}]
    asked: dict[str, Any] = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    if not in_class:
        asked["selectors"] = selectors
    table.put(
        convert(
            {"metadata": {"name": "any"}, "spec": {"selectors": selectors if in_class else []}}, DeviceClass
        )
    )
    attributes = {"s": {"string": "a100"}, "i": {"int": 4}, "v": {"version": "1.2.3"}, "b": {"bool": True}}
    for number in range(nodes):
        name = f"n{number}"
        table.put_node(node(name).obj())
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "g",
                    "attributes": {**attributes, "id": {"int": number}},
                    "capacity": {"c": {"value": "1Gi"}},
                }
            ],
        }
        table.put(convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))
    body = {
        "metadata": {"name": "c", "namespace": "default", "uid": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": asked}]}},
    }
    table.put(convert(body, ResourceClaim))
    entry = PodResourceClaim(name="c", resource_claim_name="c")
    info = table.info(pod("p").spec(resource_claims=(entry,)).obj())
    framework = Framework(PROFILE, table, in_tree_registry())
    try:
        framework.evaluate(info)
        told = ""
    except PluginError as error:
        told = error.message
    return told, Explainer(framework, "test").explain(info).message


@pytest.mark.parametrize(
    ("expression", "error", "in_class"),
    [
        ("(" * 300 + "true" + ")" * 300, "CEL compile error", True),
        ("device.", "CEL compile error", False),
        ("1", "CEL compile error", False),
        ('device.attributes["d"].nothing == 1', "CEL runtime error: no such key: nothing", True),
        ('device.attributes["d"].nothing == 1', "CEL runtime error: no such key: nothing", False),
        ("lists.range(9223372036854775807).size() > 0", LIMIT_EXCEEDED, False),
        ("cel.bind(x0, 'aaaaaaaaaa', " + nested("x40.size() > 0", "X + X", 40) + ")", LIMIT_EXCEEDED, True),
        ("'" + "a" * 5000 + "'.matches('(a*)*b') || device.driver.matches('((a|aa)+)+$')", "", False),
    ],
)
def test_a_hostile_expression_ends_with_the_error_of_its_kind(
    expression: str, error: str, in_class: bool
) -> None:
    tracemalloc.start()
    try:
        told, explanation = explained(expression, in_class=in_class)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error in told
    assert told in explanation
    if told:
        whose = "class any" if in_class else "claim default/c"
        assert f"{whose}: selector #0" in told
        assert ": CEL " in told
        assert "device d/n0/g" in explanation
    assert peak < 256 << 20


@settings(max_examples=examples(40), deadline=None)
@given(st.recursive(_ATOMS, _compound, max_leaves=8) | st.text(max_size=30), st.booleans())
def test_no_expression_raises_out_of_the_plugin(expression: str, in_class: bool) -> None:
    """Whatever is not a PluginError would end the test, as it would end a scheduler."""
    told, explanation = explained(expression, in_class=in_class, nodes=1)
    assert told == "" or "CEL" in told
    assert told in explanation


def test_an_expression_that_costs_too_much_is_tried_for_a_few_devices_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = 0
    match = Compiled.match

    def counting(self: Compiled, *args: Any) -> Match:
        nonlocal tried
        tried += 1
        return match(self, *args)

    monkeypatch.setattr(Compiled, "match", counting)
    told, _ = explained("lists.range(9223372036854775807).size() > 0", nodes=100)
    assert LIMIT_EXCEEDED in told
    assert tried <= 10
