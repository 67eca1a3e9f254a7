"""The walk of `kubectl why` in docs/design.md is the one it takes, from the command to the text."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs import walks
from stowplan.cli.explain.explain import kubectl_why


def cluster() -> dict[str, Any]:
    """A node with room for less than the pod asks for."""

    def requests(cpu: str) -> dict[str, Any]:
        return {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}

    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n-1"},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }
    metadata = {"name": "web", "namespace": "default", "uid": "u1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": requests("6")}
    return {"apiVersion": "v1", "kind": "List", "items": [node, pod]}


def test_the_design_page_lists_the_walk_of_an_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps(cluster()))
    monkeypatch.setattr("sys.argv", ["kubectl-why", "--from", str(dump), "pod/web"])

    def traced() -> list[walks.Step]:
        tracer = walks.Tracer(
            first="kubectl_why",
            milestones=(
                "Explainer._evaluated",
                "Rejections._near_miss",
                "Explainer._preemption",
                "Changes._tried",
                "with_facts",
                "told_pod",
                "_show",
            ),
            last="render",
            packages=("cli.explain", "explain", "simulate.explaining"),
        )
        with tracer, pytest.raises(SystemExit) as ended:
            kubectl_why()
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("default/web is pending: ")
        return tracer.walk

    walks.check(traced, most_files=9, most_functions=30)
