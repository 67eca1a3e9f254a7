"""docs/devices.md: its story, told with kubectl on a live `stowplan up`, step by step."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.pages import ROOT, blocks
from localcluster.up.clusters import up
from waiting import until

PAGE, EXAMPLES = ROOT / "docs" / "devices.md", ROOT / "examples" / "devices"
KUBECTL = shutil.which("kubectl")
GATE = "DRADeviceTaintRules=true"
Run = Callable[[str], str]


def runner(kubeconfig: Path, home: Path) -> Run:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def run(command: str) -> str:
        words = [KUBECTL or "", *shlex.split(command)[1:]]
        done = subprocess.run(
            words, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


def steps() -> list[tuple[str, list[str]]]:
    """The kubectl commands of the page, each with the lines that it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(PAGE):
        for line in block.text.splitlines() if block.language == "text" else ():
            if line.startswith("$ kubectl "):
                found.append((line.removeprefix("$ "), []))
            elif line:
                found[-1][1].append(line)
    return found


def allocated(run: Run, app: str) -> list[list[dict[str, Any]]]:
    """The devices of every claim of an app."""
    claims: list[dict[str, Any]] = json.loads(run("kubectl get resourceclaims -A -o json"))["items"]
    return [
        claim["status"]["allocation"]["devices"]["results"]
        for claim in claims
        if any(one["name"].startswith(app) for one in claim.get("status", {}).get("reservedFor", ()))
    ]


def uses_broken_gpu(run: Run) -> bool:
    used = [(one["pool"], one["device"]) for results in allocated(run, "training") for one in results]
    return ("train-0", "gpu-0") in used


def test_every_manifest_is_used() -> None:
    text = PAGE.read_text()
    assert all(f"{path.name}" in text for path in EXAMPLES.iterdir())


def test_the_story_goes_as_it_is_told(tmp_path: Path) -> None:
    assert KUBECTL is not None, "kubectl is not installed; `make test` installs it"
    at_once = tmp_path / "pretend.yaml"
    at_once.write_text("pods: [{startSeconds: 0, stopSeconds: 0}]")
    options = ["--shapes", str(EXAMPLES / "nodes.yaml"), "--pretend", str(at_once), "--feature-gates", GATE]
    with up(tmp_path, *options, "--no-page") as cluster:
        run = runner(cluster.kubeconfig, tmp_path)
        for command, shown in steps():
            if "get events" in command:
                until(lambda: "pod/training" in run("kubectl get events"), pause=0.2)
            printed = run(command)
            for line in shown[:1]:
                assert printed.split()[: len(line.split())] == line.split() or "jsonpath" in command, command
            if "get resourceslices" in command:
                names = [line.split()[0] for line in printed.splitlines()]
                assert names == [line.split()[0] for line in shown]
            if "status.conditions[0].message" in command:
                assert printed.strip() == shown[0]
            if "extendedResourceClaimStatus" in command:
                assert printed.startswith("classic-extended-resources-")
        check_devices(run)
        assert cluster.errors == ""


def check_devices(run: Run) -> None:
    """The allocations on the page, after all of it."""
    until(lambda: len(allocated(run, "training")) == 3 and not uses_broken_gpu(run), pause=0.2)
    for results in allocated(run, "training"):
        groups = {int(one["device"].removeprefix("gpu-")) // 4 for one in results}
        assert (len(results), len(groups), len({one["pool"] for one in results})) == (2, 1, 1)
    used = sorted(one["device"] for [one] in allocated(run, "inference"))
    assert used == [f"gpu-0-1g-5gb-{number}" for number in range(4)]
    shares = [one for [one] in allocated(run, "notebooks")]
    assert sorted(one["device"] for one in shares) == ["shared-0", "shared-0", "shared-1"]
    assert len({one["shareID"] for one in shares}) == 3
    [seen] = allocated(run, "monitor")
    assert [one["device"] for one in seen if one["adminAccess"]] == [f"gpu-{number}" for number in range(8)]
