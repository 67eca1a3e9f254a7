"""What commands load: a person waits for it, so who only asks does not load what answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CLUSTER = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, uid: u}
spec: {containers: [{name: main, image: web}]}
"""

_LOADED = """
import json, sys
from stowplan.cli.main import stowplan
try:
    stowplan(json.loads(sys.argv[1]))
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

SERVERS = ("stowplan.embedded", "stowplan.up", "stowplan.testing", "hypothesis")
SCHEDULING = ("stowplan.scheduler.scheduler", "stowplan.metrics", "prometheus_client", "aiohttp")
ENGINE = ("numpy", "stowplan.framework", "stowplan.cluster", "stowplan.plugins", "stowplan.config")


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it is over."""
    command = [sys.executable, "-c", _LOADED, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (["--help"], (*SERVERS, *SCHEDULING, *ENGINE, "stowplan.cli.bench", "stowplan.cli.up")),
        (["explain", "--help"], (*SERVERS, *SCHEDULING, *ENGINE)),
        (["explain", "--from", "CLUSTER", "web"], (*SERVERS, *SCHEDULING)),
        (["pending", "--from", "CLUSTER"], (*SERVERS, *SCHEDULING)),
        (["shadow", "--help"], SERVERS),
        (["top", "--help"], (*SERVERS, *SCHEDULING)),
    ],
)
def test_commands_do_not_load_what_they_do_not_use(
    arguments: list[str], never: tuple[str, ...], tmp_path: Path
) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(CLUSTER)
    found = loaded(*(str(dump) if part == "CLUSTER" else part for part in arguments))
    assert not {name for name in found for one in never if name == one or name.startswith(f"{one}.")}
