"""docs/api.md: the example of a question is answered as shown, and every field of a body is named."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from docs.pages import ROOT, blocks
from localcluster.up.clusters import up
from stowplan.simulate.questions.bodies import BODIES, ProfileChange
from stowplan.simulate.questions.host import ForkedQuestions

PAGE = ROOT / "docs" / "api.md"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  nodeName: node-0
  containers: [{name: main, image: app, resources: {requests: {cpu: "2"}}}]
"""


def picked(found: Any, shown: Any) -> Any:
    """The fields of an answer that are shown."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return {name: picked(found.get(name), value) for name, value in shown.items()}
    return found


def test_the_question_shown_is_answered_as_shown(tmp_path: Path) -> None:
    [command] = [one.text for one in blocks(PAGE) if one.text.startswith("$ kubectl create --raw")]
    [shown] = [json.loads(one.text) for one in blocks(PAGE) if one.text.startswith('{"summary"')]
    manifest = tmp_path / "first.yaml"
    manifest.write_text(POD)
    with up(tmp_path, "--nodes", "3", "--load", str(manifest)) as running:
        done = subprocess.run(
            command.removeprefix("$ ").replace("kubectl", f"kubectl --kubeconfig {running.kubeconfig}", 1),
            shell=True,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert picked(json.loads(done.stdout), shown) == shown


def test_every_field_of_a_body_is_named() -> None:
    text = PAGE.read_text()
    bodies: list[type[msgspec.Struct]] = [*BODIES.values(), ProfileChange]
    for cls in bodies:
        for field in msgspec.structs.fields(cls):
            assert f"`{field.encode_name}`" in text or f"`{field.encode_name}: true`" in text, field.name


def test_the_limits_are_those_shown() -> None:
    limits = ForkedQuestions().limits
    assert f"| {limits.seconds:g} s | 504 |" in PAGE.read_text()
    assert f"| {limits.memory >> 10} GiB of memory" in PAGE.read_text()
