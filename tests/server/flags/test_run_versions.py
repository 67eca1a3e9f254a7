"""Command lines with gates and versions, as the binaries of 1.36.4 and 1.37.0-rc.1 answered them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from server.flags.commands import call

MASTER = "--master=http://127.0.0.1:1"
RECORDED = Path(__file__).parents[2] / "golden-1.37" / "gates.json.gz"
CASES: dict[str, dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))["commandLine"]
NEWEST = "1.37.0-rc.1"


def _words(text: str) -> list[str]:
    """The words of a text; lists in it have no order."""
    return sorted(text.replace("[", " ").replace("]", " ").replace(",", " ").split())


@pytest.mark.parametrize("line", CASES)
def test_command_lines_are_answered_as_recorded(line: str) -> None:
    emulates = "--emulated-version" in line
    recorded = CASES[line][NEWEST]
    called = call(MASTER, *line.split(), *(() if emulates else ("--emulated-version=1.37",)))
    if recorded["result"] == "ok":
        assert called.code == 0, called.stderr
        warnings = [said.strip('"') for said in called.messages if "alpha features" in said]
        assert [_words(said) for said in warnings] == [_words(said) for said in recorded.get("warnings", ())]
        return
    expected = recorded["result"].replace("1.37.0-rc.1", "1.37.0")
    assert called.code == 1
    said = called.messages[-1].removeprefix('"command failed" err="').removesuffix('"').replace('\\"', '"')
    assert _words(said) == _words(expected)


def test_the_configuration_is_written_as_1_37_does(tmp_path: Path) -> None:
    recorded = json.loads(gzip.decompress(RECORDED.with_name("metrics.json.gz").read_bytes()))
    written = tmp_path / "written.yaml"
    called = call(MASTER, "--secure-port=0", "--emulated-version=1.37", f"--write-config-to={written}")
    assert called.code == 0
    assert written.read_text() == recorded["writeConfig"]["default"]


def test_the_release_reaches_options_log_and_version() -> None:
    options = call(MASTER, "--emulated-version=1.36", "--min-compatibility-version=1.34").options
    assert (options.gates.release.name, str(options.gates.release.compatible)) == ("1.36", "1.34")
    assert options.version.startswith("v1.36.4+stowplan.")
    assert call(MASTER, "--emulated-version=1.37").options.version.startswith("v1.37.0+stowplan.")
    assert call(MASTER, "--emulated-version=1.37", "--show-hidden-metrics-for-version=1.36").code == 0
