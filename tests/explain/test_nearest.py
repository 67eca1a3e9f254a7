"""The shortfalls computed for many nodes at once equal those of each node."""

from typing import Any

import numpy as np
import pytest

from explain.test_volumes import node, pod
from stowplan.api.decode import convert_any
from stowplan.config.build import default_profile
from stowplan.explain.explainers.pod import Explainer
from stowplan.scheduler.framework.explanation import ShortfallPlugin, ShortfallSizesPlugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load


def engine(count: int) -> Framework:
    """Nodes of which each has a little less room than the one before, and one label of three."""
    table = ClusterTable()
    for number in range(count):
        document = node(f"n-{number:02}", "zone-a")
        document["metadata"]["labels"][f"label-{number % 3}"] = "yes"
        obj = convert_any(document)
        running = pod(f"on-{number}", on=f"n-{number:02}")
        running["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{100 + 37 * number % 900}m"}}
        load(table, [one for one in (obj, convert_any(running)) if one is not None])
    return Framework(default_profile(), table, in_tree_registry())


@pytest.mark.parametrize(
    ("plugin", "spec", "cpu"),
    [
        ("NodeResourcesFit", {}, "7950m"),
        ("NodeAffinity", {"nodeSelector": {"label-1": "yes", "label-2": "yes"}}, "1m"),
    ],
)
def test_the_nearest_are_the_nearest_of_all(plugin: str, spec: dict[str, Any], cpu: str) -> None:
    framework = engine(20)
    wanting = pod("wanting", **spec)
    wanting["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    info = framework.table.info(convert_any(wanting))  # type: ignore[arg-type]
    explainer = Explainer(framework, "a test")
    all_of_them = explainer.explain(info)
    some = explainer.explain(info, nearest=5)
    assert {miss.plugin for miss in all_of_them.near_misses} == {plugin}
    assert some.near_miss_count == all_of_them.near_miss_count == 20
    assert [miss.size for miss in some.near_misses] == [miss.size for miss in all_of_them.near_misses[:5]]
    assert some.changes[0] == all_of_them.changes[0]

    rows = np.arange(20)
    asked = framework.plugins[plugin]
    assert isinstance(asked, ShortfallSizesPlugin)
    assert isinstance(asked, ShortfallPlugin)
    cycle = framework.evaluate(info).cycle
    said = [asked.shortfall(cycle, info, row) for row in rows.tolist()]
    assert asked.shortfall_sizes(cycle, info, rows).tolist() == [one.size for one in said if one is not None]
