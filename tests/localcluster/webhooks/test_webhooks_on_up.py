"""A webhook on `stowplan up`, as its author uses it: kubectl writes, controllers make pods, it answers."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from localcluster.up.clusters import up
from localcluster.webhooks.hookserver import (
    Json,
    allow,
    configuration,
    deny,
    labels,
    rule,
    webhook,
    webhooks,
)
from waiting import KUBECTL_PATIENCE, PATIENCE

KUBECTL = shutil.which("kubectl")


def few_replicas(review: Json) -> Any:
    spec = review["request"]["object"]["spec"]
    return allow(review) if spec.get("replicas", 1) <= 3 else deny("at most 3 replicas", code=403)(review)


def test_kubectl_and_controllers_meet_the_webhook(tmp_path: Path) -> None:
    assert KUBECTL is not None, "kubectl is not installed; `make test` installs it"
    with (
        webhooks(mutate=labels(by="hook"), check=few_replicas) as hook,
        up(
            tmp_path, "--nodes", "1", "--no-page", "--service", f"hook.default=127.0.0.1:{hook.port}"
        ) as cluster,
    ):
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path)}

        def kubectl(*words: str, stdin: Json | None = None) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [KUBECTL or "", *words],
                input=None if stdin is None else json.dumps(stdin),
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
                check=False,
            )

        change = webhook(hook.service("/mutate"), rule("pods"), name="mutate.example.com")
        check = webhook(hook.service("/check"), rule("deployments", operations=("CREATE", "UPDATE")))
        away = webhook({"service": {"name": "away", "namespace": "default"}}, rule("configmaps"))
        kubectl("apply", "-f", "-", stdin=configuration("Mutating", change))
        kubectl("apply", "-f", "-", stdin=configuration("Validating", check))
        skipped = kubectl("apply", "-f", "-", stdin=configuration("Validating", away, name="away"))
        assert (
            "Warning: webhooks of away are skipped: nothing answers at service away.default:443"
            in skipped.stderr
        )
        refused = kubectl("create", "deployment", "web", "--image=nginx", "--replicas=5")
        assert refused.returncode == 1
        expected = 'admission webhook "hook.example.com" denied the request: at most 3 replicas'
        assert refused.stderr.strip().endswith(expected)
        assert kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2").returncode == 0
        assert kubectl("rollout", "status", "deployment/web", KUBECTL_PATIENCE).returncode == 0
        pods = kubectl("get", "pods", "-l", "app=web,by=hook", "-o", "name").stdout.split()
        assert len(pods) == 2
        made = hook.requests("/mutate")
        assert {one["userInfo"]["username"] for one in made} == {"system:kube-controller-manager"}
