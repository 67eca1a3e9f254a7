"""docs/gangs.md: its story, told on a live `stowplan up`, step by step."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from docs.pages import ROOT, blocks
from localcluster.up.clusters import up
from waiting import until

PAGE, EXAMPLES = ROOT / "docs" / "gangs.md", ROOT / "examples" / "gangs"
KUBECTL = shutil.which("kubectl")
STOWPLAN = [sys.executable, "-c", "from stowplan.cli.main import main; main()"]
Run = Callable[[str], str]


def runner(kubeconfig: Path, home: Path) -> Run:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), "NO_COLOR": "1"}

    def run(command: str) -> str:
        first, *rest = shlex.split(command)
        words = [KUBECTL or "", *rest] if first == "kubectl" else [*STOWPLAN, *rest]
        done = subprocess.run(
            words, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


def steps() -> list[tuple[str, str]]:
    """The commands of the story, each with what it is shown to print."""
    found: list[tuple[str, str]] = []
    for block in blocks(PAGE):
        if block.language == "text" and block.text.startswith("$ "):
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output.rstrip("\n")))
    return found


def racks_of(run: Run, job: str) -> set[str]:
    """The racks that the pods of a Job are in."""
    pods = json.loads(run(f"kubectl get pods -l job-name={job} -o json"))["items"]
    return {pod["spec"].get("nodeName", "")[:1] for pod in pods}


def same_names(text: str) -> str:
    """A text in which random parts of names are replaced."""
    return re.sub(r"training-[a-z0-9]{5}\b", "training-xxxxx", text)


def test_every_manifest_of_the_gangs_is_used() -> None:
    text = PAGE.read_text()
    assert all(path.name in text for path in EXAMPLES.iterdir())


def test_the_story_of_the_gangs_goes_as_it_is_told(tmp_path: Path) -> None:
    assert KUBECTL is not None, "kubectl is not installed; `make test` installs it"
    at_once = tmp_path / "pretend.yaml"
    at_once.write_text("pods: [{startSeconds: 0, stopSeconds: 0}]")
    options = ["--gangs", "--shapes", str(EXAMPLES / "nodes.yaml"), "--pretend", str(at_once), "--no-page"]
    with up(tmp_path, *options) as cluster:
        run = runner(cluster.kubeconfig, tmp_path)
        for command, shown in steps():
            if "wait" in command:
                until(lambda: "sweep" in run("kubectl get podgroups"), pause=0.2)
            if "get podgroup training" in command:
                until(lambda: "Unschedulable" in run("kubectl get podgroup training"), pause=0.2)
            if "-l job-name=urgent" in command:
                until(lambda: racks_of(run, "urgent") == {"b"}, pause=0.2)
            printed = run(command)
            first = shown.splitlines()[0].split()
            if "explain" in command:
                assert same_names(printed.strip()) == same_names(shown.strip())
            elif "wait" in command:
                assert "condition met" in printed
            elif "events" in command:
                assert printed.count("Preempted by podgroup") == 32
            else:
                assert printed.split()[: len(first)] == first or shown in printed, command
        assert cluster.errors == ""
