"""The documentation site has every page; `make docs` builds it and follows all links."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from docs.pages import ROOT
from stowplan.api.releases import NEWEST
from stowplan.cli.main import stowplan
from stowplan.scheduler.metrics.catalogue import SCHEDULING
from stowplan.server.flags.table import GROUPS

SITE = ROOT / "site"


@pytest.fixture(scope="module")
def stage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_stage", SITE / "stage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def navigated(settings: Path) -> set[str]:
    nav = settings.read_text().split("\nnav:\n")[1]
    return set(re.findall(r"([\w./-]+\.md)$", nav, flags=re.MULTILINE))


def test_every_page_is_in_the_navigation_and_the_reference_has_every_command_flag_and_name(
    stage: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "STAGED", tmp_path / "site")
    stage.stage()
    written = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("*.md")}
    assert written == navigated(tmp_path / "mkdocs.yml")
    assert navigated(SITE / "mkdocs.yml") <= written
    commands = (tmp_path / "site/reference/commands.md").read_text()
    headings = set(re.findall(r"^## stowplan (\S+)$", commands, flags=re.MULTILINE))
    assert headings == set(stowplan.commands)
    flags = re.findall(r"^\| `--(\S+)` \|", (tmp_path / "site/reference/flags.md").read_text(), re.MULTILINE)
    assert flags == [flag.name for group in GROUPS for flag in group.flags]
    named = re.findall(
        r"^\| `([a-z_]+)`<br>", (tmp_path / "site/reference/metrics.md").read_text(), re.MULTILINE
    )
    assert set(named) >= {one.full_name for one in SCHEDULING.all if one.in_release(NEWEST) is not None}
    assert "::: stowplan.framework.Plugin\n" in (tmp_path / "site/reference/framework.md").read_text()
    assert "::: stowplan.testing.check_plugin\n" in (tmp_path / "site/reference/testing.md").read_text()


def test_the_first_page_leads_to_tasks_and_links_are_named_by_titles(
    stage: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "STAGED", tmp_path / "site")
    stage.stage()
    home = (tmp_path / "site/README.md").read_text()
    assert home.index(stage.TASKS["docs/up.md"][0]) < home.index("## Install")
    for page in stage.TASKS:
        assert (tmp_path / "site" / page).exists()
    up, shapes = ((tmp_path / "site/docs" / name).read_text() for name in ("up.md", "shapes.md"))
    assert f"[{shapes.splitlines()[0].removeprefix('# ')}](shapes.md)" in up
    by_file = re.compile(r"\[[\w./-]+\.md\]\(")
    assert [path.name for path in tmp_path.rglob("*.md") if by_file.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="https://example.com">elsewhere</a><script src="a.js"></script>', None),
        ('<script defer src="https://cdn.example/a.js"></script>', "loads https://cdn.example/a.js"),
        ('<link rel="stylesheet" href="https://fonts.example/f">', "loads https://fonts.example/f"),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(
    stage: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, html: str, problem: str | None
) -> None:
    monkeypatch.setattr(stage, "ROOT", tmp_path)
    monkeypatch.setattr(stage, "BUILT", tmp_path / "built")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "index.html").write_text(html)
    if problem is None:
        stage.check()
        return
    with pytest.raises(SystemExit) as ended:
        stage.check()
    assert str(ended.value) == f"index.html: {problem}"
