"""`stowplan kubelets` and `stowplan controllers` against a server over HTTP."""

import asyncio
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.http.served_stores import client_of, serving
from stowplan.api.catalogue import DEPLOYMENTS, NODES, PODS
from stowplan.cli.hosts.components import _run_controllers as run_controllers
from stowplan.cli.hosts.components import _run_kubelets as run_kubelets
from stowplan.cli.main import stowplan
from stowplan.client.http import load_kubeconfig
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from waiting import eventually

DEPLOYMENT = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "main", "image": "registry.example/app:1"}],
            },
        },
    },
}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["kubelets"], "Missing option '--kubeconfig'"),
        (["controllers", "--kubeconfig", "nowhere"], "Error: nowhere: no such file or directory"),
        (["kubelets", "--kubeconfig", "nowhere"], "Error: nowhere: no such file or directory"),
        (
            ["kubelets", "--kubeconfig", "empty"],
            "Error: empty: expected a map with clusters, users and contexts",
        ),
        (
            ["kubelets", "--kubeconfig", "x", "--nodes", "-1"],
            "--nodes: expected a whole number of at least 0",
        ),
        (
            ["kubelets", "--kubeconfig", "x", "--nodes", "1", "--shapes", "empty"],
            "--nodes and --shapes exclude each other",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("")
    result = CliRunner().invoke(stowplan, arguments)
    assert result.exit_code in (1, 2)
    assert line in result.output
    assert "Traceback" not in result.output


def test_controllers_and_kubelets_bring_a_deployment_to_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (store, _, kubeconfig), client_of(kubeconfig) as client:
            server = load_kubeconfig(kubeconfig)
            settings = KubeletSettings(start_delay=0.05, start_jitter=0.0)
            tasks = [
                asyncio.create_task(run_controllers(server, random.Random(1))),
                asyncio.create_task(run_kubelets(server, [NodeShape(count=2)], settings, random.Random(2))),
            ]
            await client.create(DEPLOYMENTS, DEPLOYMENT)
            await eventually(
                lambda: [one["status"]["phase"] for one in store.list(PODS).items] == ["Running"] * 2
            )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert [one["metadata"]["name"] for one in store.list(NODES).items] == ["node-0", "node-1"]

    asyncio.run(run())
    output = capsys.readouterr()
    assert "kubelets of 2 nodes run on https://127.0.0.1:" in output.out
    assert "control loops run on https://127.0.0.1:" in output.out
    assert output.err == ""
