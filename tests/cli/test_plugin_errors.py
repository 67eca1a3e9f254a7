"""A plugin that fails is one line with its file and line in every command, and a traceback on request."""

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
from stowplan.framework import Plugin

class Dear(Plugin):
    def {method}
        assert pod is None
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Dear}]}}}]
"""
CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: "4", pods: "9"}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("score_node(self, cycle, pod, node):", 'running Score plugin "Dear": '),
        ("filter_node(self, cycle, pod, node):", 'running "Dear" filter plugin: '),
        ("reserve(self, cycle, pod, node):", 'running Reserve plugin "Dear": '),
        ("pre_enqueue(self, pod):", 'running PreEnqueue plugin "Dear": '),
    ],
)
def test_a_failing_plugin_is_one_line_in_fit(tmp_path: Path, method: str, said: str) -> None:
    (tmp_path / "dear.py").write_text(PLUGIN.format(method=method))
    for name, text in (("config", CONFIG), ("cluster", CLUSTER), ("pod", POD)):
        (tmp_path / f"{name}.yaml").write_text(text)
    cluster = ["--from", "cluster.yaml", "--config", "config.yaml", "--plugin", "dear.py:Dear"]
    arguments = ["fit", "-f", "pod.yaml", *cluster]

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "stowplan", *options, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stderr + done.stdout

    plain = run()
    assert "Traceback" not in plain
    assert f"{said}AssertionError: assert pod is None (dear.py:6" in " ".join(plain.split())
    asked = run("--traceback")
    assert "Traceback (most recent call last)" in asked
    assert 'dear.py", line 6, in ' in asked
