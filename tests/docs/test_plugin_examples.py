"""The plugins shown in README.md and docs/plugins.md, loaded as files and set up by configurations."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.pages import PAGES, ROOT, blocks, write_files
from scheduler.live_scheduler import World, live
from stowplan.api.status import ApiError
from stowplan.config import ConfigError, load_file
from stowplan.explain.document.decision import Decision
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.testing import PluginCheckError, check_plugin, cluster, node, pod
from stowplan.testing.plugin_answers import CHECKS

PRICED = [page for page in PAGES if any(block.file == "price.py" for block in blocks(page))]
PLUGINS_PAGE = ROOT / "docs" / "plugins.md"

NODES = [node("cheap").labels(price="1"), node("dear").labels(price="3"), node("gold").labels(price="9")]
BUSY = [pod(f"old-{n}").on("cheap") for n in range(5)]


@pytest.fixture(params=PRICED, ids=lambda page: page.name)
def priced(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The files of a page that shows the plugin by node."""
    write_files(request.param, tmp_path)
    return tmp_path


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The files of the page that shows both plugins."""
    write_files(PLUGINS_PAGE, tmp_path)
    return tmp_path


def decide(folder: Path, **plugins: tuple[int, Mapping[str, float]]) -> Decision:
    """A decision with some of the plugins, given as weight and arguments."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": name, "weight": weight} for name, (weight, _) in plugins.items()]
            }
        },
        "pluginConfig": [{"name": name, "args": args} for name, (_, args) in plugins.items()],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    references = [f"{folder}/{name.lower()}.py:{name}" for name in plugins]
    c = cluster(nodes=NODES, pods=BUSY, config=json.dumps(config), plugins=references)
    return c.schedule(pod("p").requests(cpu="100m"))


def test_the_plugin_by_node_is_shown_in_the_readme_and_on_the_page_about_plugins() -> None:
    assert [page.name for page in PRICED] == ["README.md", "plugins.md"]


def test_the_weight_of_a_plugin_decides(examples: Path) -> None:
    args = ({"highest": 4.0}, {"most": 10})
    by_price = decide(examples, Price=(10, args[0]), Quiet=(1, args[1]))
    by_quiet = decide(examples, Price=(1, args[0]), Quiet=(10, args[1]))
    assert (by_price.node, by_quiet.node) == ("cheap", "dear")
    assert by_price.best[0].scores["Price"] == 10 * 75
    assert by_quiet.best[0].scores["Quiet"] == 10 * 100


def test_the_arguments_of_a_plugin_decide(priced: Path) -> None:
    reject = decide(priced, Price=(1, {"highest": 4.0}))
    accept = decide(priced, Price=(1, {"highest": 9.0}))
    assert [(r.plugin, r.reasons, r.examples) for r in reject.funnel] == [
        ("Price", ("node(s) cost too much",), ("gold",))
    ]
    assert accept.funnel == ()


def test_a_filter_by_column_has_its_reason(examples: Path) -> None:
    decision = decide(examples, Quiet=(1, {"most": 5}))
    assert [(r.plugin, r.reasons, r.examples) for r in decision.funnel] == [
        ("Quiet", ("node(s) were too busy",), ("cheap",))
    ]


def lines_of_code(file: Path) -> int:
    lines = file.read_text().splitlines()
    return len([line for line in lines if line.strip() and not line.startswith(("#", "from"))])


@pytest.mark.parametrize("name", ["price.py", "quiet.py"])
def test_they_take_ten_lines(examples: Path, name: str) -> None:
    assert lines_of_code(examples / name) <= 10


def test_reuse_and_no_reuse_come_to_the_same(examples: Path) -> None:
    def choices(reuse: bool) -> list[str | None]:
        c = cluster(
            nodes=NODES,
            pods=BUSY,
            config=examples / "scheduler.yaml",
            plugins=[str(examples / "price.py:Price"), str(examples / "quiet.py:Quiet")],
            reuse=reuse,
        )
        return [c.schedule(pod(f"p{n}").requests(cpu="100m")).node for n in range(16)]

    assert choices(reuse=True) == choices(reuse=False)
    assert {"cheap", "dear", None} == set(choices(reuse=True))


def test_the_report_of_a_failed_check_is_the_one_shown(tmp_path: Path) -> None:
    [shown] = [block.text for block in blocks(PLUGINS_PAGE) if block.text.startswith("Quiet fails the check")]
    write_files(PLUGINS_PAGE, tmp_path)
    file = tmp_path / "quiet.py"
    file.write_text(file.read_text().replace("Reads.USAGE", "Reads.NODE"))
    with pytest.raises(PluginCheckError) as found:
        check_plugin(f"{file}:Quiet", args={"most": 10}, nodes=[node("n")], pods=[pod("p")])
    assert f"{found.value}\n" == shown


def test_the_checks_shown_are_those_there_are() -> None:
    rows = PLUGINS_PAGE.read_text().split("| check | holds if |\n")[1].split("\n\n")[0].splitlines()
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == CHECKS.keys()


def test_typed_arguments_are_checked(tmp_path: Path) -> None:
    write_files(PLUGINS_PAGE, tmp_path)
    reference = f"{tmp_path}/team.py:Team"
    c = cluster(nodes=[node("a").labels(team="red"), node("b")], plugins=[reference])
    assert c.decide(pod("p").labels(team="red")).node == "a"
    assert c.decide(pod("p")).feasible == 2
    rejected = c.decide(pod("p").labels(team="blue"))
    assert rejected.message == "0/2 nodes are available: 2 node(s) belong to another team."
    text = (tmp_path / "scheduler.yaml").read_text().replace("Price", "Team").replace("highest", "lable")
    config = yaml.safe_load(text)
    profile = config["profiles"][0]
    profile["plugins"]["multiPoint"]["enabled"] = [{"name": "Team"}]
    with pytest.raises(
        ConfigError, match='initializing plugin "Team": args: unknown field "lable", expected label'
    ):
        cluster(config=config, plugins=[reference])


def test_a_reservation_takes_ten_lines_and_is_given_back_when_the_binding_fails(tmp_path: Path) -> None:
    write_files(PLUGINS_PAGE, tmp_path)
    licences = load_plugin(f"{tmp_path}/licences.py:Licences")

    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.answer("POST pods/p/binding", ApiError(403, "Forbidden", "not now"))
        await world.add_pod("p", metadata={"labels": {"licence": "yes"}})
        licences: Any = world.scheduler.context.profiles["default-scheduler"].framework.plugins["Licences"]
        assert (world.node_of("p"), licences.holders()) == ("", set())
        made = await world.add_pod("q", metadata={"labels": {"licence": "yes"}})
        assert (world.node_of("q"), licences.holders()) == ("n", {made["metadata"]["uid"]})

    live(story, config=load_file(tmp_path / "licences.yaml"), plugins=[licences])
    assert lines_of_code(tmp_path / "licences.py") <= 10
