"""Workflows and templates for GitHub: they call what exists here, and need no secret."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from stowplan.cli.main import stowplan

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def steps(workflow: Path) -> Iterator[Any]:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        assert job["timeout-minutes"], workflow
        yield from job["steps"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_calls_targets_and_commands_that_exist(workflow: Path) -> None:
    called = 0
    for step in steps(workflow):
        line = step.get("run", "")
        if line.startswith("make "):
            words = [word for word in shlex.split(line)[1:] if "=" not in word and word != ".venv/.ready"]
            assert set(words) <= TARGETS, line
            called += 1
        elif line.startswith(".venv/bin/stowplan "):
            name, *rest = re.sub(r"\$\(\(.*?\)\)", "1", line).split()[1:]
            command: click.Command = stowplan.commands[name]
            while isinstance(command, click.Group):
                command = command.commands[rest.pop(0)]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= known, line
            called += 1
    assert called


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_says_what_it_may_and_uses_no_secret(workflow: Path) -> None:
    text = workflow.read_text()
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"].keys() == {"contents"}


INPUTS = {
    "actions/checkout": {"fetch-depth", "ref", "repository", "path"},
    "actions/setup-python": {"python-version", "cache", "architecture"},
    "actions/upload-artifact": {"name", "path", "if-no-files-found", "retention-days"},
    "actions/download-artifact": {"name", "path", "pattern", "merge-multiple"},
}
"""The actions that are used, with the inputs that they know."""


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_an_action_has_a_version_and_gets_inputs_that_it_knows(workflow: Path) -> None:
    for step in steps(workflow):
        assert step.keys() <= {"name", "run", "uses", "with", "env", "working-directory"}
        assert ("run" in step) is not ("uses" in step)
        if "uses" in step:
            name, _, version = step["uses"].partition("@")
            assert re.fullmatch(r"v\d+", version), step
            assert set(step.get("with", ())) <= INPUTS[name], step


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_job_needs_jobs_that_exist_and_python_comes_before_make(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    for job in jobs.values():
        assert job.get("needs", next(iter(jobs))) in jobs
        texts = [step.get("uses") or step["run"] for step in job["steps"]]
        make = next(at for at, text in enumerate(texts) if text.startswith("make "))
        before = " ".join(texts[:make])
        assert "actions/checkout" in before
        assert "actions/setup-python" in before or "python3-venv" in before


def test_every_python_that_is_declared_is_tried() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r"Python :: (3\.\d+)", project)
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yaml").read_text())["jobs"]
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == declared


def test_issue_templates_have_names() -> None:
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"):
        head = yaml.safe_load(file.read_text().split("---")[1])
        assert head.keys() >= {"name", "about"}, file
