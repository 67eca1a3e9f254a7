"""`stowplan apiserver` and `stowplan bench apiserver` as commands."""

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stowplan.cli.lab.bench import bench
from stowplan.cli.main import stowplan

COMMAND = [sys.executable, "-c", "from stowplan.cli.main import main; main()", "apiserver"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_ends_when_told(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "config"
    with subprocess.Popen(
        [*COMMAND, "--kubeconfig-out", str(out), "--token", "abc"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on https://127.0.0.1:")
        assert process.stdout.readline() == f"export KUBECONFIG={out}\n"
        assert stat.S_IMODE(os.stat(out).st_mode) == 0o600
        config: Any = yaml.safe_load(out.read_text())
        assert config["users"][0]["user"] == {"token": "abc"}
        process.send_signal(number)
        assert process.stdout.read() == "stopping\n"
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "70000"], "--port"),
        (["--token", "a b"], "expected printable characters without blanks"),
        (["--bind", "203.0.113.7"], "Error: "),
        (["--kubeconfig-out", "/nowhere/at/all/config"], "No such file or directory"),
        (["--feature-gates", "NoSuchGate=true"], "unrecognized feature gate: NoSuchGate"),
        (["--feature-gates", "DRADerivedAttributes=true", "--emulated-version=1.36"], "DRADerivedAttributes"),
    ],
)
def test_mistakes_are_told_in_a_line(words: list[str], said: str) -> None:
    result = CliRunner().invoke(stowplan, ["apiserver", *words])
    assert result.exit_code in (1, 2)
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("gates", "groups", "lists", "noted"),
    [
        ([], True, False, ""),
        (["--feature-gates=DRAListTypeAttributes=true"], True, True, ""),
        (["--feature-gates=GenericWorkload=false"], False, False, ""),
        (["--feature-gates=AllAlpha=false", "--feature-gates=GenericWorkload=true"], True, False, ""),
        (
            ["--feature-gates=SchedulerAsyncAPICalls=true"],
            True,
            False,
            "note: feature gate SchedulerAsyncAPICalls has no effect: the API server does not use it\n",
        ),
    ],
)
def test_feature_gates_decide_which_kinds_it_serves_and_which_fields_it_takes(
    gates: list[str], groups: bool, lists: bool, noted: str, tmp_path: Path
) -> None:
    command = [*COMMAND, "--insecure-http", "--token=abc", f"--kubeconfig-out={tmp_path / 'config'}", *gates]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split("//")[1].strip()

        def code_of(method: str, path: str, body: str = "") -> int:
            connection = http.client.HTTPConnection(address)
            headers = {"Authorization": "Bearer abc", "Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            return connection.getresponse().status

        assert code_of("GET", "/apis/scheduling.k8s.io/v1beta1/podgroups") == (200 if groups else 404)
        slices = "/apis/resource.k8s.io/v1/resourceslices"
        assert code_of("POST", slices, json.dumps(LISTED)) == (201 if lists else 422)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == noted


LISTED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "x"},
    "spec": {
        "driver": "gpu.example.com",
        "allNodes": True,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a", "attributes": {"ports": {"ints": [1, 2]}}}],
    },
}


def test_the_bench_ends_with_one_line_of_json() -> None:
    words = ["apiserver", "--pods", "30", "--watchers", "3", "--connections", "4", "--json"]
    result = CliRunner().invoke(bench, words)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["watched_events"] == 3 * 2 * 30
    assert figures["creates_per_s"] > 0
    assert figures["binds_per_s"] > 0
