"""A plugin's contract: declared, inherited, refused; docs/plugins.md lists every promise."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from stowplan.framework import Contract, Plugin, Reads, Signs
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.scheduler.framework.status import ProfileError
from stowplan.testing.plugin_answers import CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"


def rows() -> dict[str, tuple[str, str]]:
    """Default and check of every promise that the page lists."""
    table = re.findall(r"^\| `(\w+)(?:\(.*?\))?` \| (\S+) \| .* \| (\S+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (default.strip("`"), check.strip("`")) for name, default, check in table}


def test_the_page_lists_every_promise_with_its_default() -> None:
    listed = {name: default for name, (default, _) in rows().items()}
    defaults = {field.name: f"{field.default!s}" for field in fields(Contract)}
    defaults |= {"reads": "Reads.ANYTHING", "reads_others": "Reads.NOTHING", "signs": str(Contract().signs)}
    methods = {"passes_with_fewer": "False", "ignores_pods": "False", "always_enqueues": "False"}
    assert listed == defaults | methods | {"held_pods": "none"}
    assert all(hasattr(Plugin, name) for name in methods)


def test_the_checks_that_the_page_names_exist() -> None:
    assert {check for _, check in rows().values()} <= CHECKS.keys() | {"–"}


@pytest.mark.parametrize(
    ("attributes", "meant"),
    [
        ({"reads": Reads.NODE}, {"reads": Reads.NODE}),
        ({"row_local": False}, {"reads_others": Reads.ANYTHING}),
        ({"row_local": False, "depends_on_pods": False}, {"reads_others": Reads.NODE}),
        ({"signs_template": True}, {"signs": Signs.TEMPLATE}),
        ({"signs_template": True, "signs_labels": False}, {"signs": Signs.TEMPLATE_WITHOUT_LABELS}),
        ({"signs_volumes": True}, {"signs": Signs.VOLUMES}),
        ({"signs_node_name": True}, {"signs": Signs.NODE_NAME}),
        ({"needs": frozenset(["services"])}, {"needs": ("services",)}),
        ({"constant_normalize": True, "parallel_pre_bind": True},) * 2,
    ],
    ids=str,
)
def test_promises_may_still_be_class_attributes(attributes: dict[str, Any], meant: dict[str, Any]) -> None:
    with pytest.warns(DeprecationWarning, match=r"^Former: declare Contract\(\w+="):
        plugin: type[Plugin] = type("Former", (Plugin,), attributes)
    with pytest.warns(DeprecationWarning, match=r"^Derived: declare Contract\(.*can_fail=True"):
        derived: type[Plugin] = type("Derived", (plugin,), {"can_fail": True})
    assert plugin.contract == Contract(**meant)
    assert derived.contract == Contract(**meant, can_fail=True)


def test_a_contract_is_shown_as_it_is_written() -> None:
    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE, needs=("services",), can_fail=True)
    text = "Contract(reads=Reads.NODE, signs=Signs.TEMPLATE, needs=('services',), can_fail=True)"
    assert str(contract) == text
    assert eval(text) == contract
    assert str(Contract(reads_others=Reads.ANYTHING)) == "Contract(reads_others=Reads.ANYTHING)"


def test_a_plugin_with_its_own_order_has_to_promise_again_that_it_goes_by_priority() -> None:
    class ByPriority(Plugin):
        contract = Contract(sorts_by_priority=True)

        def sort_key(self, queued: Any) -> Any:
            return -queued.priority

    class ByName(ByPriority):
        def sort_key(self, queued: Any) -> Any:
            return queued.pod.name

    class Same(ByPriority):
        contract = replace(ByPriority.contract, can_fail=True)

    assert not ByName.contract.sorts_by_priority
    assert Same.contract.sorts_by_priority


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("contract = {'reads': 1}", "Price.contract: expected a Contract, got {'reads': 1}"),
        ("contract = Contract(reads='node')", "Contract: reads: expected Reads, got 'node'"),
        ("contract = Contract(needs='services')", "Contract: needs: expected tuple, got 'services'"),
        ("contract = Contract(row_local=False)", "unexpected keyword argument 'row_local'"),
    ],
)
def test_what_is_no_contract_is_refused_when_it_is_loaded(line: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "price.py"
    file.write_text(
        "from stowplan.framework import Contract, Plugin\n\n\n"
        f"class Price(Plugin):\n    {line}\n\n"
        "    def score_node(self, cycle, pod, node):\n        return 1\n"
    )
    with pytest.raises(ProfileError, match=re.escape(told)) as refused:
        load_plugin(f"{file}:Price")
    assert "\n" not in str(refused.value)
