"""`stowplan lab conformance` with a made-up e2e.test: tests that pass, fail, are skipped, hang and crash."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.lab.conformance import (
    E2eTests,
    Excuses,
    Outcome,
    SuiteError,
    TestResult,
    report_of,
    run_all,
    table_of,
)

BINARY = '''#!{python}
"""Takes the options of Ginkgo that are used, and has six tests."""
import json, re, ssl, sys, time, urllib.request

TESTS = {{
    "[sig-apps] Job should pass (1+1) [Conformance]": "passed",
    "[sig-apps] Job should fail [Conformance]": "failed",
    "[sig-apps] Job should be skipped [Conformance]": "skipped",
    "[sig-node] Pod should hang [Conformance]": "hang",
    "[sig-node] Pod should crash [Conformance]": "crash",
    "[sig-node] Pod should run alone [Serial] [Conformance]": "alone",
}}
options = dict((one.lstrip("-") + "=").split("=", 1) for one in sys.argv[1:])
options = {{key: value[:-1] for key, value in options.items()}}
focus, skip = options["ginkgo.focus"], options.get("ginkgo.skip")
specs = []
for name, ending in TESTS.items():
    group, _, text = name.partition(" ")
    spec = {{"LeafNodeType": "It", "ContainerHierarchyTexts": [group], "LeafNodeText": text}}
    chosen = re.search(focus, "suite " + name) and not (skip and re.search(skip, name))
    spec["State"] = "skipped"
    if chosen and "ginkgo.dry-run" in options:
        spec["State"] = "passed"
    elif chosen:
        if ending == "hang":
            time.sleep(600)
        if ending == "crash":
            sys.exit("panic: something is wrong")
        with open(options["kubeconfig"]) as file:
            assert "server" in file.read()
        spec["State"] = "passed" if ending in ("passed", "alone") else ending
        if ending == "failed":
            spec["Failure"] = {{"Message": "expected 1\\n\\n  got 2 | 3"}}
        if ending == "skipped":
            spec["Failure"] = {{"Message": "not today"}}
    specs.append(spec)
with open(options["ginkgo.json-report"], "w") as file:
    json.dump([{{"SpecReports": specs}}], file)
'''


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "e2e.test"
    path.write_text(BINARY.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_every_test_ends_whatever_it_does(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stowplan.lab.conformance.suite._GRACE", 0.0)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("server")
    tests = E2eTests(binary, kubeconfig, timeout=3.0)
    order: list[str] = []

    async def everything() -> list[TestResult]:
        names = await tests.names(r"\[Conformance\]", "nothing")
        return await run_all(tests, names, processes=5, told=lambda one: order.append(one.name))

    found = asyncio.run(everything())
    assert [(one.name.partition(" should ")[2].split()[0], one.outcome, one.message) for one in found] == [
        ("pass", Outcome.PASSED, ""),
        ("fail", Outcome.FAILED, "expected 1 got 2 | 3"),
        ("be", Outcome.SKIPPED, "not today"),
        ("hang", Outcome.UNFINISHED, "killed after 3 s"),
        ("crash", Outcome.UNFINISHED, "panic: something is wrong"),
        ("run", Outcome.PASSED, ""),
    ]
    assert order[-1].endswith("should run alone [Serial] [Conformance]")
    excuses = Excuses({"should hang": "a process hangs"})
    table, _, details = "\n".join(report_of(found, excuses)).partition("\n\n")
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["[sig-apps]", "1", "1", "0", "0", "1"],
        ["[sig-node]", "1", "0", "1", "1", "0"],
        ["all", "2", "1", "1", "1", "1"],
    ]
    assert "failed: [sig-apps] Job should fail [Conformance]\n  expected 1 got 2 | 3" in details
    assert "hang" not in details
    assert "| [sig-node] Pod should hang [Conformance] | cannot pass here: a process hangs |" in table_of(
        found, excuses
    )
    assert "| [sig-apps] Job should fail [Conformance] | failed: expected 1 got 2 \\| 3 |" in table_of(
        found, excuses
    )


def test_the_command_runs_tests_against_a_cluster(binary: Path, tmp_path: Path) -> None:
    words = ["lab", "conformance", "--e2e-test", str(binary), "--focus", "should (pass|run)", "--json"]
    markdown = tmp_path / "table.md"
    done = CliRunner().invoke(stowplan, [*words, "--markdown", str(markdown)])
    assert done.exit_code == 0, done.output
    assert [one["outcome"] for one in json.loads(done.stdout)] == ["passed", "passed"]
    assert len(markdown.read_text().splitlines()) == 4
    done = CliRunner().invoke(stowplan, [*words[:-2], "should (pass|fail)"])
    assert done.exit_code == 1
    assert "failed: [sig-apps] Job should fail [Conformance]" in done.stdout


def test_a_binary_that_is_none_and_a_focus_without_tests_are_one_line(binary: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        stowplan, ["lab", "conformance", "--e2e-test", str(binary), "--focus", "nothing at all"]
    )
    assert done.exit_code == 1
    assert "--focus: expected a regular expression that matches a test" in done.output
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho no such option")
    other.chmod(0o755)
    with pytest.raises(SuiteError, match=r"expected an e2e\.test binary of Kubernetes: no such option"):
        asyncio.run(E2eTests(other).names("", ""))
    other.chmod(0o644)
    with pytest.raises(SuiteError, match="Permission denied"):
        asyncio.run(E2eTests(other).names("", ""))


def test_our_excuses_name_a_reason_each() -> None:
    assert Excuses.ours().reason_for("[sig-apps] Deployment should work") == ""
