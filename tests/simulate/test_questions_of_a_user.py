"""Questions as a user asks them: of a running cluster and of its snapshot, compared with doing it."""

from pathlib import Path

import pytest
import yaml

from simulate.embedded import embedded
from stowplan.api.requests import Json
from stowplan.localcluster.kubelets import NodeShape


def deployment(replicas: int, **spec: object) -> Json:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


BARE = {"name": "main", "image": "x"}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits"},
    "spec": {"limits": [{"type": "Container", "default": {"cpu": "3"}}]},
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team"},
    "spec": {"hard": {"requests.cpu": "30"}},
}
GVISOR = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "gvisor"},
    "handler": "runsc",
    "overhead": {"podFixed": {"cpu": "2"}},
}


@pytest.mark.parametrize(
    ("there", "app", "runs", "said"),
    [
        (
            [LIMITS],
            deployment(200, containers=[BARE]),
            20,
            "20 of 200 replicas of deployment/web fit, limited by cpu.",
        ),
        (
            [LIMITS, QUOTA],
            deployment(200, containers=[BARE]),
            10,
            "10 of 200 are created: quota team, requests.cpu: 30 of 30 used.",
        ),
        (
            [GVISOR],
            deployment(
                100,
                runtimeClassName="gvisor",
                containers=[{**BARE, "resources": {"requests": {"cpu": "500m"}}}],
            ),
            30,
            "30 of 100 replicas of deployment/web fit, limited by cpu.",
        ),
    ],
    ids=["limit range", "quota", "overhead"],
)
def test_fit_says_how_many_run(there: list[Json], app: Json, runs: int, said: str, tmp_path: Path) -> None:
    manifest, snapshot = tmp_path / "app.yaml", tmp_path / "cluster.snap"
    manifest.write_text(yaml.safe_dump(app))
    with embedded(NodeShape(count=10, cpu="8")) as world:
        world.create(*there)
        world.pass_time(5)
        live = world.command("fit", "-f", manifest)
        written = world.command("snapshot", "-o", snapshot)
        assert written.exit_code == 0, written.output
        world.create(app)
        world.pass_time(60)
        assert world.running("web-") == runs
        dumped = world.command("fit", "-f", manifest, "--from", snapshot)
    assert said in " ".join(live.stdout.split())
    assert live.stdout == dumped.stdout
    assert (live.exit_code, dumped.exit_code) == (1, 1)
