"""Plugins from outside the tree are found by name, and refused with one clear line."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.framework.interface import Handle, Plugin, Point
from stowplan.framework.profile import PluginUse, ProfileSpec
from stowplan.framework.registry import Registry, load_plugin
from stowplan.framework.status import ProfileError
from stowplan.plugins.registry import in_tree_registry
from stowplan.testing import cluster, node, pod

GOOD = """
from stowplan.framework import Plugin
from stowplan.framework.status import unschedulable

class Picky(Plugin):
    def filter_node(self, cycle, pod, node):
        return None if node.name == "b" else unschedulable("not b")

class Idle(Plugin):
    pass

class Stranger:
    def filter_node(self, cycle, pod, node):
        return None

number = 7
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def test_a_plugin_from_a_file_takes_part(written: Path) -> None:
    world = cluster(nodes=[node("a"), node("b")], plugins=[f"{written}:Picky"])
    assert world.schedule(pod("p")).node == "b"


def test_a_plugin_from_a_module_is_the_class_itself() -> None:
    from stowplan.plugins.nodename import NodeName

    assert load_plugin("stowplan.plugins.nodename:NodeName") is NodeName


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("Picky", "expected module:Class or file.py:Class"),
        (":Picky", "expected module:Class or file.py:Class"),
        ("{file}:", "expected module:Class or file.py:Class"),
        ("{file}:Absent", "{file} has no Absent"),
        ("{file}:Idle", "has no method of any extension point"),
        ("{file}:Stranger", "expected a subclass of stowplan.framework.Plugin"),
        ("{file}:number", "expected a subclass of stowplan.framework.Plugin"),
        ("/no/such/file.py:Picky", "cannot read /no/such/file.py"),
        ("no.such.module:Picky", "cannot import no.such.module: "),
        ("json:Absent", "json has no Absent"),
    ],
)
def test_what_is_not_a_plugin_is_refused_in_one_line(written: Path, reference: str, message: str) -> None:
    reference, message = (text.replace("{file}", str(written)) for text in (reference, message))
    with pytest.raises(ProfileError) as caught:
        load_plugin(reference)
    assert str(caught.value).startswith(f"plugin {reference!r}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def (", "SyntaxError: invalid syntax"),
        ("raise KeyError('price')", "KeyError: 'price'"),
        ("raise ValueError", "ValueError"),
        ("raise ValueError('one\\ntwo')", "ValueError: one"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_plugin(f"{path}:Any")
    assert f"cannot import {path}: {problem}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_plugins_of_one_name_are_refused(written: Path) -> None:
    class NodeName(Plugin):
        def filter(self, cycle: Any, pod: Any, nodes: Any) -> None:
            return None

    with pytest.raises(ProfileError, match="a plugin named NodeName already exists"):
        in_tree_registry().add(NodeName)
    with pytest.raises(ProfileError, match="a plugin named Picky already exists"):
        cluster(plugins=[f"{written}:Picky", f"{written}:Picky"])


class PriceArgs(msgspec.Struct, frozen=True):
    limit: int = 10
    currency: str = "EUR"


class Price(Plugin):
    args_type = PriceArgs

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> None:
        return None


class Plain(Price):
    args_type = None  # type: ignore[assignment]


class Fragile(Plain):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        raise KeyError("price")


def made(plugin: type[Plugin], args: Any) -> Plugin:
    registry = Registry({plugin.name: plugin})
    profile = ProfileSpec(
        "default-scheduler",
        plugins={Point.FILTER: (PluginUse(plugin.name),)},
        args={} if args is None else {plugin.name: args},
    )
    world = cluster()
    (framework,) = world.frameworks.values()
    handle = next(iter(framework.plugins.values())).handle
    return registry.instantiate(profile, handle)[plugin.name]


@pytest.mark.parametrize(
    ("plugin", "written", "expected"),
    [
        (Price, None, PriceArgs()),
        (Price, {"limit": 3}, PriceArgs(limit=3)),
        (Price, PriceArgs(limit=4), PriceArgs(limit=4)),
        (Plain, {"anything": [1]}, {"anything": [1]}),
        (Plain, None, None),
    ],
)
def test_arguments_become_what_the_plugin_asks_for(plugin: type[Plugin], written: Any, expected: Any) -> None:
    assert made(plugin, written).args == expected


def test_arguments_of_the_wrong_kind_are_refused_by_field() -> None:
    with pytest.raises(ProfileError) as caught:
        made(Price, {"limit": "high"})
    assert str(caught.value) == 'initializing plugin "Price": args: Expected `int`, got `str` - at `$.limit`'


def test_a_plugin_that_cannot_be_made_is_refused_by_name() -> None:
    with pytest.raises(ProfileError) as caught:
        made(Fragile, None)
    assert str(caught.value) == "initializing plugin \"Fragile\": KeyError: 'price'"
