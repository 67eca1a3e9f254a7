"""Arguments of plugins are types: for mypy, for whoever writes a configuration, and for `config show`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from mypy import api as mypy

from config.documents import HEADER
from stowplan.api.fielderrors import ConfigError
from stowplan.cli.config import config_group
from stowplan.framework import Cycle, NodeRow, Plugin, PodInfo, Status, unschedulable
from stowplan.scheduler.framework.plugin_args import decode_args
from stowplan.scheduler.framework.status import ProfileError
from stowplan.testing import cluster, node, pod

ROOT = Path(__file__).parents[3]

MISTAKES = """
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stowplan.framework import (
    Cycle, EventRegistration, NodeRow, NodeRows, Plugin, PodInfo, Status, Wait, unschedulable
)

@dataclass
class PriceArgs:
    highest: float = 4

class Price(Plugin[PriceArgs]):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        if float(node.labels.get("price", 0)) > self.args.highst:  # attr-defined
            return unschedulable("node(s) cost too much")
        return None

    def score_node(self, cycle: Cycle, node: NodeRow) -> int:  # override
        return round(self.args.highest)

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> int:  # override
        return 3

class Right(Plugin[PriceArgs]):
    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> npt.NDArray[np.bool_]:
        return nodes.allocatable("cpu") > self.args.highest

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable("too large")

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Wait:
        return Wait(3)

    def reserve(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> None:  # override
        return None

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        return [3]  # list-item

class Untyped(Plugin):
    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return int(self.args["highest"])
"""


def test_mypy_finds_misspelt_arguments_and_wrong_signatures(tmp_path: Path) -> None:
    """No plugin has to name the protocols for this."""
    (tmp_path / "plugins.py").write_text(MISTAKES)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / 'src'}\n")
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    said, _, _ = mypy.run([*options, "--hide-error-context", str(tmp_path / "plugins.py")])
    found = {
        (int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]"))
        for line in said.splitlines()
        if ": error: " in line
    }
    expected = {
        (number, line.rpartition("# ")[2])
        for number, line in enumerate(MISTAKES.splitlines(), start=1)
        if "  # " in line
    }
    assert found == expected, said


@dataclass
class Limits:
    cpu: int = 8
    memory: str = "1Gi"


@dataclass
class PriceArgs:
    highest: float
    mode: Literal["Least", "Most"] = "Least"
    limits: Limits = field(default_factory=Limits)
    pools: list[Limits] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.highest < 0:
            raise ValueError(f"highest: Invalid value: {self.highest}: must not be negative")


class Price(Plugin[PriceArgs]):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        dear = float(node.labels.get("price", 0)) > self.args.highest
        return unschedulable("node(s) cost too much") if dear else None


def config(args: Any) -> dict[str, Any]:
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "Price"}]}},
        "pluginConfig": [] if args is None else [{"name": "Price", "args": args}],
    }
    return {**yaml.safe_load(HEADER), "profiles": [profile]}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"highest": "dear"}, "args.highest: expected float, got str"),
        ({}, "args.highest: required"),
        (None, "args.highest: required"),
        ({"highest": 4, "mode": "Lest"}, "args.mode: invalid enum value 'Lest'"),
        ({"highest": 4, "limits": {"cpu": "x"}}, "args.limits.cpu: expected int, got str"),
        ({"highest": 4, "pools": [{}, {"cpu": 1.5}]}, "args.pools[1].cpu: expected int, got float"),
        (
            {"highst": 4, "highest": 4},
            'args: unknown field "highst", expected highest, mode, limits or pools',
        ),
        (
            {"highest": 4, "pools": [{}, {"cpus": 1}]},
            'args.pools[1]: unknown field "cpus", expected cpu or memory',
        ),
        ({"highest": -1}, "highest: Invalid value: -1.0: must not be negative"),
        ([1], "args: expected object, got array"),
    ],
)
def test_wrong_arguments_are_refused_with_the_field(args: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        cluster(config=config(args), plugins=[Price])
    where = "initializing profiles: creating profile for scheduler name default-scheduler"
    assert str(refusal.value) == f'{where}: initializing plugin "Price": {problem}'


def test_arguments_may_name_their_kind_as_those_of_in_tree_plugins_do() -> None:
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "PriceArgs", "highest": 2}
    c = cluster([node("a").labels(price="3")], config=config(args), plugins=[Price])
    assert "1 node(s) cost too much" in c.schedule(pod("p")).message


def test_config_show_has_the_defaults(tmp_path: Path) -> None:
    plugin = "from scheduler.framework.test_typed_plugins import Price as Price\n"
    (tmp_path / "price.py").write_text(plugin)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config({"highest": 4})))
    options = ["--plugin", f"{tmp_path / 'price.py'}:Price"]
    result = CliRunner().invoke(config_group, ["show", str(tmp_path / "config.yaml"), *options])
    shown = yaml.safe_load(result.stdout.partition("Completed configuration\n\n")[2])
    [args] = [one["args"] for one in shown["profiles"][0]["pluginConfig"] if one["name"] == "Price"]
    assert args == {"highest": 4, "mode": "Least", "limits": {"cpu": 8, "memory": "1Gi"}, "pools": []}
    again = cluster(config=config(args), plugins=[Price])
    assert again.frameworks["default-scheduler"].plugins["Price"].args == PriceArgs(4)


class Struct(msgspec.Struct, rename="camel"):
    max_price: int = 3


A = TypeVar("A")


class Costs(Plugin[A]):
    """A base of plugins that leaves the type of the arguments to them."""

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 1


class Dear(Costs[Struct]):
    pass


class Dearer(Dear):
    pass


@pytest.mark.parametrize(("cls", "expected"), [(Costs, None), (Dear, Struct), (Dearer, Struct)])
def test_a_base_class_may_leave_the_type_open(cls: type[Plugin], expected: type[Any] | None) -> None:
    assert cls.args_type is expected


def test_what_is_no_type_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Odd: expected Plugin\[A dataclass or Struct\]"):
        exec("class Odd(Plugin['PriceArgs']): pass", {"Plugin": Plugin})


def test_a_struct_may_rename_its_fields() -> None:
    assert decode_args("P", Struct, {"maxPrice": 4}) == Struct(4)
    with pytest.raises(ProfileError, match='args: unknown field "max_price", expected maxPrice'):
        decode_args("P", Struct, {"max_price": 4})
