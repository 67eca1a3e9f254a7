"""Reading recordings: plain, compressed, whole directories, and files that are none."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.main import stowplan

ZONE = {"kind": "zone-key", "node": {"metadata": {"name": "n"}}, "result": {"zone": ""}}
NODE = {"kind": "Node", "metadata": {"name": "n"}}
POD = {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "1"}}
HINT = {
    "name": "h",
    "kind": "hint",
    "pod": POD,
    "event": {"resource": "Node", "action": "UpdateNodeDeclaredFeature"},
    "old": NODE,
    "new": NODE,
    "hints": {"NodeDeclaredFeatures": "QueueSkip"},
}


def scenario(**fields: Any) -> dict[str, Any]:
    return {"name": "s", "config": None, "objects": [], "pods": [], "expected": [], **fields}


def attempt(**fields: Any) -> dict[str, Any]:
    return {
        "pod": "ns/p",
        "attempt": 1,
        "preFilter": {"code": "Success", "plugin": "", "reasons": [], "nodeNames": None, "skipped": []},
        "rejected": {},
        "feasible": [],
        "best": [],
        "assigned": None,
        "fitError": None,
        "preemption": None,
        **fields,
    }


def write(path: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(stowplan, ["verify", *map(str, arguments)])


def test_recordings_may_be_compressed_or_not_and_directories_are_gone_through(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ZONE, ZONE)
    write(tmp_path / "b.jsonl.gz", ZONE)
    write(tmp_path / "notes.txt", "not a recording")
    result = verify(tmp_path, "--json")
    assert result.exit_code == 0
    figures = {"compared": 3, "equal": 3, "different": 0, "notBuilt": 0}
    assert json.loads(result.stdout.splitlines()[-1])["families"] == {"primitives": {"zone-key": figures}}


def test_every_line_is_replayed_as_what_it_is(tmp_path: Path) -> None:
    config = {"kind": "config", "name": "c", "tag": "t", "document": "", "result": {"ok": False}}
    result = verify(write(tmp_path / "all.jsonl", ZONE, HINT, scenario(), config), "--json")
    assert result.exit_code == 1
    families = json.loads(result.stdout.splitlines()[-1])["families"]
    assert families.keys() == {"all", "primitives"}
    figures = {"compared": 1, "equal": 1, "different": 0, "notBuilt": 0}
    assert families["all"]["hint NodeDeclaredFeatures"] == figures
    assert families["all"]["verdict"]["compared"] == 1


def test_limit_says_how_many_differences_are_shown(tmp_path: Path) -> None:
    wrong = {**ZONE, "result": {"zone": "x"}}
    recording = write(tmp_path / "r.jsonl", wrong, wrong, wrong)
    assert "… and 1 more" in verify(recording, "--limit", "2").stdout
    assert "expected" not in verify(recording, "--limit", "0").stdout


def test_what_is_not_built_is_counted_by_subject_and_never_as_equal(tmp_path: Path) -> None:
    groups = {"batches": [1], "expected": {"cycles": [{}, {}], "pods": {"p": {}}}}
    result = verify(write(tmp_path / "r.jsonl", groups), "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["total"]["compared"] == 0
    counted = {name: figures["notBuilt"] for name, figures in summary["families"]["r"].items()}
    assert counted == {"cycles": 2, "pods": 1}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[1]", "line 2: Expected `object`, got `array`"),
        ("{}", "line 2: expected a field `kind` or one of batches, expression, expected"),
        ({"kind": "frob"}, "line 2: kind 'frob' is not known, expected one of backoff, config, "),
        ({"kind": "quantity", "result": {}}, "line 2: expected the field 'in'"),
        ({**ZONE, "node": 3}, "line 2: not a case of this kind: Node: "),
        ({"kind": "hint", "hints": None}, "line 2: expected the field 'event'"),
        ({**HINT, "pod": 3}, "line 2: not a case of this kind: Pod: "),
        ({**HINT, "config": {"kind": "X"}}, "line 2: not a case of this kind: "),
        (
            {**HINT, "event": {"resource": "Node", "action": "Explode"}},
            "line 2: not a case of this kind: action 'Explode' is not known, expected one of Add, ",
        ),
        ({"expression": "true", "expected": {}}, "line 2: expected the field 'device'"),
        ({"kind": "handler", "op": "add"}, "line 2: not a case of this kind: op 'add' "),
        (scenario(expected=[{"pod": "p"}]), "line 2: scenario: Object missing required field `attempt`"),
        (scenario(objects=[{**NODE, "spec": 1}]), "line 2: objects[0]: Node: Expected `object`, got `int`"),
        (scenario(pods=[{"spec": []}]), "line 2: pods[0]: Pod: Expected `object`, got `array`"),
        (scenario(config={"kind": "X"}), "line 2: config: "),
        (scenario(expected=[attempt()]), "line 2: expected names pod 'ns/p', which is not in pods"),
        (scenario(pods=[POD], expected=[attempt()]), "line 2: pod ns/p: no profile for scheduler ''"),
    ],
)
def test_a_bad_line_is_told_in_one_line_with_its_number(tmp_path: Path, line: object, complaint: str) -> None:
    recording = write(tmp_path / "bad.jsonl.gz", ZONE, line)
    result = verify(recording)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {recording}: {complaint}")
    assert result.stderr.count("\n") == 1


def test_outcomes_that_cannot_be_put_into_effect_are_told(tmp_path: Path) -> None:
    pod = {**POD, "spec": {"schedulerName": "default-scheduler"}}
    victims = {"code": "Success", "nominatedNode": "n", "victims": ["ns/x"], "message": ""}
    for outcome, complaint in (
        ({"assigned": "m"}, "pod ns/p: assigned to node 'm', which does not exist"),
        ({"preemption": victims}, "victim 'ns/x' is not running"),
    ):
        line = scenario(objects=[NODE], pods=[pod], expected=[attempt(**outcome)])
        result = verify(write(tmp_path / "bad.jsonl", line))
        assert result.exit_code == 2
        assert result.stderr.endswith(f"line 1: {complaint}\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty, expected JSON lines"),
        (b"\x1f\x8bjunk", "damaged after line 0: "),
        (gzip.compress(json.dumps(ZONE).encode() + b"\n" * 9000)[:-9], "damaged after line "),
    ],
)
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    recording = tmp_path / "damaged.jsonl.gz"
    recording.write_bytes(content)
    result = verify(recording)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {recording}: {complaint}")
    assert result.stderr.count("\n") == 1


def test_a_directory_without_recordings_is_told(tmp_path: Path) -> None:
    result = verify(tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path}: no recordings (*.jsonl, *.jsonl.gz) in this directory\n"
