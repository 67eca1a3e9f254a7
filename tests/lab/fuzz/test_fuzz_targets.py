"""Parsers fed with arbitrary bytes: nothing but documented errors, and the results of other libraries."""

from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from effort import examples
from stowplan.cli.lab import fuzz_targets
from stowplan.cli.main import stowplan
from stowplan.lab.fuzz.targets import TARGETS, FuzzTarget, Violation, mutation
from stowplan.lab.fuzz.targets.mutation import IN_TIME, LINEAR, NO_ESCAPE, TargetRun, campaign, mutate, tried

MUTATED = 150


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_holds_whatever_it_is_fed(name: str) -> None:
    findings = mutate(TARGETS[name], Random(name), examples(MUTATED))
    assert not findings, "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name, target in TARGETS.items() for data in target.failed_once]
)
def test_inputs_that_failed_once_hold(name: str, data: bytes) -> None:
    assert tried(TARGETS[name], data)[1] is None


def test_seeds_are_inputs_that_parsers_understand() -> None:
    """Most of them are accepted: otherwise mutations would never get beyond the first error."""
    for target in TARGETS.values():
        outcomes = [tried(target, seed)[0] for seed in target.seeds]
        accepted = [outcome for outcome in outcomes if "Error" not in outcome.split(":")[0]]
        assert len(accepted) >= len(outcomes) / 2, (target.name, outcomes)


def _outcomes(data: bytes) -> str:
    if b"\xff" in data:
        raise Violation("a rule", "broken")
    if len(data) > 20:
        raise KeyError(len(data))
    return str(len(data))


BROKEN = FuzzTarget("broken", "breaks rules", _outcomes, (b"a", b"b\xff"))


def test_what_breaks_a_rule_is_found_once_and_named() -> None:
    findings = mutate(BROKEN, Random(1), 2000)
    assert {finding.rule for finding in findings} == {"a rule", NO_ESCAPE}
    assert len(findings) == 2
    escaped = next(finding for finding in findings if finding.rule == NO_ESCAPE)
    assert str(escaped).startswith("broken: only documented errors are raised: KeyError: ")
    assert len(escaped.data) > 20


@pytest.mark.parametrize(("power", "rules"), [(1, []), (2, [LINEAR])])
def test_cost_that_grows_faster_than_the_input_is_found(
    monkeypatch: pytest.MonkeyPatch, power: int, rules: list[str]
) -> None:
    spent = [0.0]

    def check(data: bytes) -> str:
        spent[0] += (len(data) / 1000) ** power / 10
        return ""

    monkeypatch.setattr("stowplan.lab.fuzz.targets.mutation.time.process_time", lambda: spent[0])
    run = TargetRun(FuzzTarget("growing", "", check, (b"abc",)))
    mutation._check_growth(run, b"abc", Random(1))
    assert [finding.rule for finding in run.findings] == rules


def test_an_input_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(data: bytes) -> str:
        while data:
            pass
        return ""

    monkeypatch.setattr(mutation, "CPU_LIMIT", 0.05)
    findings = mutate(FuzzTarget("endless", "", check, (b"x",)), Random(1), 1)
    assert [finding.rule for finding in findings] == [IN_TIME]


def test_the_same_seed_feeds_the_same_inputs() -> None:
    fed: list[list[bytes]] = []

    def check(data: bytes) -> str:
        fed[-1].append(data)
        return ""

    for _ in range(2):
        fed.append([])
        mutate(FuzzTarget("seen", "", check, (b"abc",)), Random(5), 50)
    assert fed[0] == fed[1]
    assert len(set(fed[0])) > 20


# The command


@pytest.fixture
def only_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command knows one target, has no coverage tool, and runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzz_targets, "TARGETS", {"broken": BROKEN})
    monkeypatch.setattr(fuzz_targets, "is_installed", lambda module: False)
    short = lambda target, seconds, rng, show: campaign(target, 0.05, rng, show)  # noqa: E731
    monkeypatch.setattr(fuzz_targets, "campaign", short)
    return tmp_path


def test_the_command_lists_targets_with_their_oracles() -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", "--targets"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(TARGETS)
    assert "compared with" in done.output


def test_a_finding_is_written_to_a_file_that_shows_it_again(only_broken: Path) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", "--target", "broken", "--seconds", "1"])
    assert done.exit_code == 1
    assert "broken: a rule: broken" in done.output
    assert done.output.splitlines()[-1].endswith(" findings")
    again = CliRunner().invoke(stowplan, ["lab", "fuzz", "--target", "broken", "--input", "finding-broken-1"])
    assert again.exit_code == 1
    assert again.output.startswith("broken: ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--target", "nobody"], "--target: expected one of all, broken; got 'nobody'"),
        (
            ["--target", "broken", "--seconds", "0"],
            "--seconds: expected a whole number of at least 1, got '0'",
        ),
        (["--openapi", "all"], "--openapi: needs schemathesis: pip install 'stowplan[fuzz]'"),
    ],
)
def test_bad_options_of_targets_are_refused_in_one_line(
    only_broken: Path, arguments: list[str], problem: str
) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", *arguments])
    assert (done.exit_code, done.output) == (1, f"Error: {problem}\n")
