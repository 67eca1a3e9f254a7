"""docs/sets.md: its commands on a live `stowplan up --with`, with the output that is shown."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.pages import ROOT, blocks
from localcluster.up.clusters import up
from waiting import until

PAGE, EXAMPLES = ROOT / "docs" / "sets.md", ROOT / "examples" / "sets"
KUBECTL = shutil.which("kubectl") or ""
STOWPLAN = [sys.executable, "-c", "from stowplan.cli.main import main; main()"]


def steps() -> Iterator[tuple[str, str]]:
    """The commands, each with the output that is shown."""
    for block in blocks(PAGE):
        if block.language == "text" and block.text.startswith("$ "):
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output.strip()


def test_every_manifest_is_used() -> None:
    text = PAGE.read_text()
    assert all(path.name in text for path in EXAMPLES.iterdir())


def test_sets_are_made_and_explained_as_the_page_shows(tmp_path: Path) -> None:
    assert KUBECTL, "kubectl is not installed; `make test` installs it"
    at_once = tmp_path / "pretend.yaml"
    at_once.write_text("pods: [{startSeconds: 0, stopSeconds: 0}]")
    options = ["--nodes", "9", "--with", "jobset,lws", "--pretend", str(at_once), "--no-page"]
    with up(tmp_path, *options) as cluster:
        environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(tmp_path),
            "NO_COLOR": "1",
        }

        def run(*words: str) -> str:
            done = subprocess.run(
                words, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
            return done.stdout.strip()

        def names(prefix: str) -> list[str]:
            pods = json.loads(run(KUBECTL, "get", "pods", "-o", "json"))["items"]
            return [one["metadata"]["name"] for one in pods if one["metadata"]["name"].startswith(prefix)]

        def named(argument: str) -> str:
            """A pod by the part of its name that is not random."""
            if not argument.endswith("-xxxxx"):
                return argument
            prefix = argument.removeprefix("pod/").removesuffix("xxxxx")
            until(lambda: names(prefix), pause=0.2)
            return f"pod/{names(prefix)[0]}"

        def check(words: list[str], shown: str) -> None:
            if words[:2] == ["kubectl", "apply"]:
                assert run(KUBECTL, *words[1:]) == shown
            elif words[0] == "kubectl":
                until(lambda: run(KUBECTL, *words[1:]) == shown, pause=0.2)
            else:
                assert shown in run(*STOWPLAN, *map(named, words[1:]))

        for command, shown in steps():
            check(shlex.split(command), shown)
