"""All stories against one server, several at a time, and what differs from the recording."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from localcluster.apiserver.stories.normal import comparable
from localcluster.apiserver.stories.play import Json, Player, Server, Story, numbered, stories
from releases import EMULATE_1_36

DIFFERENCES: Final = Path(__file__).parents[1] / "recorded_differences.yaml"
UNEXPLAINED: Final = "unexplained: "
_AT_ONCE: Final = 8
_ALONE: Final = ("crd", "discovery", "kubectl-info", "not-found", "not-found-2", "methods")
"""Stories that change or show what the server serves; they are played one after the other."""

_HEADING: Final = """\
# Answers that differ from those of kube-apiserver 1.36.4 (tests/observed/apiserver), by story and step,
# with the reason.
# The list is brought up to date, and the reasons kept, by
# `PYTHONPATH=src:tests python -m localcluster.apiserver.stories --write`.
"""

Differences = dict[str, dict[str, str]]
"""By story and step."""


@contextmanager
def running_server() -> Iterator[Server]:
    """`stowplan apiserver` in a separate process."""
    with tempfile.TemporaryDirectory(prefix="stowplan-stories-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        options = ["--kubeconfig-out", str(kubeconfig), EMULATE_1_36]
        command = [sys.executable, "-m", "stowplan", "apiserver", *options]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            while not process.stdout.readline().startswith(b"export KUBECONFIG"):
                assert process.poll() is None, (Path(folder) / "log").read_text()
            config = yaml.safe_load(kubeconfig.read_text())
            token = config["users"][0]["user"]["token"]
            yield Server(
                config["clusters"][0]["cluster"]["server"], token, kubeconfig, Path(folder) / "cache"
            )
        finally:
            process.terminate()
            process.wait(10)


def differences(chosen: str = "") -> Differences:
    """The first difference of every answer that differs, of all stories or of those whose name has a text."""
    found = [story for story in stories() if chosen in story.name]
    alone = [story for story in found if story.name in _ALONE]
    others = [story for story in found if story.name not in _ALONE]
    with running_server() as server:
        results = {story.name: _differences_of(server, story) for story in alone}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            played = pool.map(lambda story: _differences_of(server, story), others)
            results.update(zip((story.name for story in others), played, strict=True))
    return {name: steps for name, steps in sorted(results.items()) if steps}


def _differences_of(server: Server, story: Story) -> dict[str, str]:
    answers = Player(server, story).play()
    result: dict[str, str] = {}
    for number, step in numbered(story.steps):
        expected, got = comparable(step["response"]), comparable(answers[number])
        difference = next(_differing(expected, got, ""), None)
        if difference is not None:
            result[number] = difference
    return result


def _differing(expected: Any, got: Any, path: str) -> Iterator[str]:
    """Differences, as `path: expected != got`."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted(expected.keys() | got.keys()):
            below = f"{path}.{key}" if path else key
            if key not in expected or key not in got:
                yield f"{below}: {_short(expected, key)} != {_short(got, key)}"
            else:
                yield from _differing(expected[key], got[key], below)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for number, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _differing(one, other, f"{path}[{number}]")
    elif expected != got or type(expected) is not type(got):
        yield f"{path}: {str(expected)[:150]} != {str(got)[:150]}"


def _short(data: Mapping[str, Any], key: str) -> str:
    return str(data[key])[:150] if key in data else "absent"


def listed_differences() -> Differences:
    """The differences that are known, with their reasons."""
    found: Json = yaml.safe_load(DIFFERENCES.read_text()) if DIFFERENCES.exists() else {}
    return {story: {str(step): reason for step, reason in steps.items()} for story, steps in found.items()}


def write_differences(found: Differences) -> None:
    """Bring the list up to date. Every addition needs a reason."""
    known = listed_differences()
    new = {
        story: {
            step: known.get(story, {}).get(step, UNEXPLAINED + difference)
            for step, difference in steps.items()
        }
        for story, steps in found.items()
    }
    text = yaml.safe_dump(new, sort_keys=False, allow_unicode=True, width=120) if new else "{}\n"
    DIFFERENCES.write_text(_HEADING + text)
