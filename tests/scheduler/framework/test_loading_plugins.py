"""Plugins from outside the tree are found by name, and refused with one clear line."""

import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.scheduler.framework.interface import ExtensionPoint, Handle, Plugin
from stowplan.scheduler.framework.profile import PluginUse, ProfileSpec
from stowplan.scheduler.framework.registry import (
    Registry,
    checked,
    installed_plugins,
    load_plugin,
    plugin_files,
)
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.plugins.registry import IN_TREE, in_tree_registry
from stowplan.scheduler.settings import Settings
from stowplan.simulate import Cluster as Simulated
from stowplan.testing import check_plugin, cluster, node, pod

GOOD = """
from stowplan.framework import Plugin
from stowplan.scheduler.framework.status import unschedulable

class Picky(Plugin):
    def filter_node(self, cycle, pod, node):
        return None if node.name == "b" else unschedulable("not b")

class Idle(Plugin):
    pass

class Hasty(Plugin):
    def filter_node(self, pod, node):
        return None

class Lavish(Plugin):
    def score_node(self, cycle, pod, node, *, price):
        return 1

class Roomy(Plugin):
    def score_node(self, *anything, price=3):
        return 1

class Waiting(Plugin):
    async def reserve(self, cycle, pod, node):
        return None

class Speechless(Plugin):
    def filter(self, cycle, pod, nodes):
        return nodes.pod_count > 3

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
    from stowplan.scheduler.plugins.nodename import NodeName

    assert load_plugin("stowplan.scheduler.plugins.nodename:NodeName") is NodeName


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("Picky", "expected module:Class or file.py:Class"),
        (":Picky", "expected module:Class or file.py:Class"),
        ("{file}:", "expected module:Class or file.py:Class"),
        ("{file}:Absent", "{file} has no Absent"),
        ("{file}:Idle", "has no method of any extension point"),
        ("{file}:Hasty", "filter_node(self, pod, node): expected filter_node(self, cycle, pod, node)"),
        ("{file}:Lavish", "score_node(self, cycle, pod, node, *, price): expected score_node(self, cycle, "),
        ("{file}:Waiting", "async def reserve: expected def, it cannot wait"),
        ("{file}:Speechless", "filter needs reason(self, cycle, pod, code)"),
        ("{file}:Stranger", "expected a subclass of stowplan.framework.Plugin"),
        ("{file}:number", "expected a subclass of stowplan.framework.Plugin"),
        ("/no/such/file.py:Picky", "cannot read /no/such/file.py"),
        ("no.such.module:Picky", "cannot import no.such.module: "),
        ("json:Absent", "json has no Absent"),
        ("{file}:Picky@sha256:0123", "{file} has sha256:{digest}"),
        ("{file}:Picky@sha256:", "{file} has sha256:{digest}"),
        ("json:Absent@sha256:{digest}", "expected a file before @sha256:, pip pins packages"),
    ],
)
def test_what_is_not_a_plugin_is_refused_in_one_line(written: Path, reference: str, message: str) -> None:
    values = {"{file}": str(written), "{digest}": sha256(GOOD.encode()).hexdigest()}
    for placeholder, value in values.items():
        reference, message = reference.replace(placeholder, value), message.replace(placeholder, value)
    with pytest.raises(ProfileError) as caught:
        load_plugin(reference)
    assert str(caught.value).startswith(f"plugin {reference!r}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Idle", "Hasty", "Waiting", "Speechless"])
def test_classes_are_checked_in_every_host(written: Path, name: str) -> None:
    sys.modules.pop("stowplan_plugin_mine", None)
    load_plugin(f"{written}:Picky")
    cls = getattr(sys.modules["stowplan_plugin_mine"], name)
    hosts: list[Callable[[], Any]] = [
        lambda: cluster(plugins=[cls]),
        lambda: Simulated(plugins=[cls]),
        lambda: Settings.of(plugins=[cls]),
        lambda: check_plugin(cls),
    ]
    for host in hosts:
        with pytest.raises(ProfileError, match=f"^plugin '{name}': "):
            host()


def test_a_method_may_take_more_than_it_is_called_with(written: Path) -> None:
    assert load_plugin(f"{written}:Roomy").name == "Roomy"


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_plugins_of_the_tree_have_the_signatures_that_others_must_have(name: str) -> None:
    assert checked(name, IN_TREE[name]) is IN_TREE[name]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def (", "SyntaxError: invalid syntax"),
        ("raise KeyError('price')", "KeyError: 'price'"),
        ("raise ValueError", "ValueError"),
        ("raise ValueError('one\\ntwo')", "ValueError: one"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_plugin(f"{path}:Any")
    assert f"cannot import {path}: {problem}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pinned_file_is_loaded_until_it_changes(written: Path) -> None:
    reference = f"{written}:Picky@sha256:{sha256(GOOD.encode()).hexdigest()}"
    assert load_plugin(reference).name == "Picky"
    assert plugin_files([reference]) == (str(written),)
    written.write_text(GOOD.replace("not b", "not c"))
    with pytest.raises(ProfileError, match=r"mine\.py has sha256:"):
        load_plugin(reference)


def test_a_file_that_changes_within_a_moment_is_loaded_anew(written: Path) -> None:
    """No bytecode is kept, which is looked up by time and size."""
    load_plugin(f"{written}:Picky")
    written.write_text(GOOD.replace("number = 7", "number = 8"))
    load_plugin(f"{written}:Picky")
    assert sys.modules["stowplan_plugin_mine"].number == 8
    assert [path.name for path in written.parent.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD, None),
        (
            "import absent",
            "cannot import offered: ModuleNotFoundError: No module named 'absent'",
        ),
        ("raise SystemExit(3)", "cannot import offered: SystemExit: 3"),
        ("Picky = 7", "expected a subclass of stowplan.framework.Plugin"),
    ],
)
def test_packages_offer_plugins_by_their_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str | None
) -> None:
    (tmp_path / "offered.py").write_text(text)
    info = tmp_path / "prices-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prices\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stowplan.plugins]\npicky = offered:Picky\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "offered", raising=False)
    if problem is None:
        assert [found.name for found in installed_plugins()] == ["Picky"]
        return
    with pytest.raises(ProfileError) as caught:
        installed_plugins()
    assert str(caught.value) == f"plugin 'offered:Picky of package prices': {problem}"


def test_two_plugins_of_one_name_are_refused(written: Path) -> None:
    class NodeName(Plugin):
        def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
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

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
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
        plugins={ExtensionPoint.FILTER: (PluginUse(plugin.name),)},
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
    assert str(caught.value) == 'initializing plugin "Price": args.limit: expected int, got str'


def test_a_plugin_that_cannot_be_made_is_refused_by_name() -> None:
    with pytest.raises(ProfileError) as caught:
        made(Fragile, None)
    assert str(caught.value) == "initializing plugin \"Fragile\": KeyError: 'price'"
