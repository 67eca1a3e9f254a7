"""Commands of containers that say how long they run and how they exit, and pods that follow them."""

from typing import Any

import pytest

from stowplan.localcluster.kubelets.commands import FOR_EVER, run_of
from stowplan.localcluster.kubelets.config import KubeletSettings
from stowplan.localcluster.kubelets.pretend import Pretend, pod_behaviour, pretend_of

ODD = """
  if [ $(expr ${I} % 2) -ne 0 ]; then
    exit 1
  else
    sleep 7
  fi
"""
INDEX = {"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['index']"}}}

RUNS: list[tuple[dict[str, Any], tuple[float, int] | None]] = [
    ({"command": ["sleep", "60"]}, (60, 0)),
    ({"command": ["/bin/sleep", "1m", "30s"]}, (90, 0)),
    ({"args": ["sleep", "infinity"]}, (FOR_EVER, 0)),
    ({"command": ["sleep", "soon"]}, None),
    ({"command": ["sh", "-c", "exit 3"]}, (0, 3)),
    ({"command": ["/bin/sh", "-c"], "args": ["echo one; sleep 2 && exit 1; sleep 100"]}, (2, 1)),
    ({"command": ["bash", "-ec", "set -x\n# nothing\nsleep 5\n"]}, (5, 0)),
    ({"command": ["sh", "-c", "exit $CODE"]}, None),
    ({"command": ["sh", "-c", "while true; do sleep 1; done"]}, None),
    ({"command": ["sh", "-c", "serve --port 80"]}, None),
    ({"command": ["sh", "-c", "echo 'open"]}, None),
    ({"command": ["sh", "-c", "echo 'one; two'; exit 4"]}, (0, 4)),
    ({"command": ["sh", "-c", "sleep 1 & exit 4"]}, None),
    ({"command": ["sh", "-c", ODD], "env": [INDEX]}, (0, 1)),
    ({"command": ["sh", "-c", ODD], "env": [{"name": "I", "value": "2"}]}, (7, 0)),
    ({"command": ["sh", "-c", ODD]}, None),
    ({"command": ["sh", "-c", "if [ -r file ]; then exit 1; fi"]}, None),
    ({"command": ["sh", "-c", "if [[ a == b ]]; then exit 1; fi; sleep 2"]}, (2, 0)),
    ({"command": ["sh", "-c", "if [ 1 -lt 2 ]; then sleep 3"]}, None),
    ({"command": ["sh", "script.sh"]}, None),
    ({"command": ["true"]}, (0, 0)),
    ({"command": ["false"]}, (0, 1)),
    ({"args": ["pause"]}, (FOR_EVER, 0)),
    ({"image": "registry.k8s.io/pause:3.10@sha256:00"}, (FOR_EVER, 0)),
    ({"image": "registry.example:5000/app"}, None),
    ({"command": ["nginx"]}, None),
]


def pod(container: dict[str, Any], **annotations: str) -> dict[str, Any]:
    named = {f"pretend.stowplan.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": "p", "annotations": {"index": "3", **named}},
        "spec": {"containers": [container]},
    }


@pytest.mark.parametrize(("container", "expected"), RUNS, ids=str)
def test_the_run_that_a_command_means(container: dict[str, Any], expected: tuple[float, int] | None) -> None:
    assert run_of(pod(container)) == expected


def test_pods_follow_their_commands_only_if_that_is_turned_on_and_below_rules_and_annotations() -> None:
    default, sleeper = KubeletSettings().pod_behaviour, pod({"command": ["sleep", "60"]})
    assert pod_behaviour(sleeper, Pretend(), default)[0] == default
    following = pretend_of({"followCommands": True})
    found = pod_behaviour(sleeper, following, default)[0]
    assert (found.run.low, found.exit_code, found.ends) == (60, 0, True)
    ruled = pretend_of({"followCommands": True, "pods": [{"runSeconds": 7}]})
    assert pod_behaviour(sleeper, ruled, default)[0].run.low == 7
    annotated = pod({"command": ["false"]}, exit_code="9")
    assert pod_behaviour(annotated, following, default)[0].exit_code == 9
