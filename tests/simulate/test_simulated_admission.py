"""The API server's admission decides about a manifest: `fit` gives the result of applying it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from simulate.real_clusters import World, done_for_real, parsed
from stowplan.api.catalogue import PODS
from stowplan.api.decode import convert_any
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.cli.main import stowplan
from stowplan.simulate import Cluster
from stowplan.simulate.creation.manifests import read_manifests
from stowplan.simulate.fit import fit, fit_max
from stowplan.testing import node

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 200
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: "web:1"}]
"""
ASKING = WEB.replace('"web:1"}', '"web:1", resources: {requests: {cpu: "1"}}}')
LIMITS = """
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: default}
spec:
  limits: [{type: Container, default: {cpu: "3"}}]
"""
SMALL = LIMITS.replace('default: {cpu: "3"}', "max: {cpu: 500m}")
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: default}
spec: {hard: {requests.cpu: "30", pods: "100"}}
"""
KATA = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: "2"}}
"""
IN_KATA = ASKING.replace("    spec:\n", "    spec:\n      runtimeClassName: kata\n")
GOLD = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 1000
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec:
  parallelism: 50
  completions: 50
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: batch, resources: {requests: {cpu: "1"}}}]
"""
DB = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 40
  podManagementPolicy: Parallel
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: db, resources: {requests: {cpu: "1"}}}]
"""


def nodes() -> list[Node]:
    return [node(f"n{number}").capacity(cpu="10", memory="64Gi", pods="50").obj() for number in range(12)]


def dumped(text: str) -> list[Object]:
    """Objects of a dump."""
    found = [convert_any(one) for one in parsed(text)]
    return [one for one in found if one is not None]


def written(folder: Path, text: str) -> Path:
    path = folder / "app.yaml"
    path.write_text(text)
    return path


def really(around: str, text: str) -> World:
    """The same on the embedded cluster, with controllers and scheduler."""

    async def story(world: World) -> None:
        for document in parsed(around):
            world.create(document)
        await world.settle(2.0)
        for document in parsed(text):
            world.create(document)
        await world.settle(12.0)

    return done_for_real(nodes(), story)


@pytest.mark.parametrize(
    ("around", "text", "created", "placed"),
    [
        (LIMITS, WEB, 200, 36),
        (QUOTA, ASKING, 30, 30),
        (KATA, IN_KATA, 200, 36),
        (LIMITS + "---" + QUOTA, WEB, 10, 10),
        (QUOTA, JOB, 30, 30),
        (QUOTA, DB, 30, 30),
        (SMALL, ASKING.replace("requests", "limits"), 0, 0),
        ("", ASKING.replace("    spec:\n", "    spec:\n      priorityClassName: gold\n"), 0, 0),
        (GOLD, ASKING.replace("    spec:\n", "    spec:\n      priorityClassName: gold\n"), 200, 120),
    ],
    ids=["limits", "quota", "overhead", "both", "job", "stateful", "maximum", "no class", "class"],
)
@pytest.mark.parametrize("in_dump", [True, False], ids=["in the dump", "in the manifest"])
def test_the_count_is_that_of_the_cluster_where_it_is_applied(
    around: str, text: str, created: int, placed: int, in_dump: bool, tmp_path: Path
) -> None:
    cluster = Cluster([*nodes(), *(dumped(around) if in_dump else ())])
    manifests = read_manifests([written(tmp_path, text if in_dump else f"{around}\n---\n{text}")])
    [found] = fit(cluster, manifests).document()["workloads"]
    not_created = found["notCreated"] or {"pods": 0}
    assert (found["asked"] - not_created["pods"], found["replicas"]) == (created, placed)
    if not in_dump:
        return
    done = really(around, text)
    assert len(done.placements()) == created
    assert found["placements"] == done.by_node()


def test_the_refusal_is_in_the_words_of_the_api_server(tmp_path: Path) -> None:
    manifests = read_manifests([written(tmp_path, ASKING)])
    found = fit(Cluster([*nodes(), *dumped(QUOTA)]), manifests).document()
    message = found["workloads"][0]["notCreated"]["message"]
    words = "exceeded quota: team, requested: requests.cpu=1, used: requests.cpu=30, limited: requests.cpu=30"
    assert message == f'pods "web-30" is forbidden: {words}'
    assert not found["fits"]
    assert (found["stoppedBy"]["reason"], found["stoppedBy"]["refused"]) == (words, True)
    said = {
        event["note"].partition(" is forbidden: ")[2]
        for event in really(QUOTA, ASKING).events("FailedCreate")
    }
    assert words in said


def test_what_a_quota_has_used_already_counts(tmp_path: Path) -> None:
    used = QUOTA + "status: {hard: {requests.cpu: '30'}, used: {requests.cpu: 28500m}}\n"
    manifests = read_manifests([written(tmp_path, ASKING)])
    assert fit(Cluster([*nodes(), *dumped(used)]), manifests).workloads[0].replicas == 1
    pods = [{**parsed(ASKING)[0]["spec"]["template"], "kind": "Pod", "apiVersion": "v1"} for _ in range(7)]
    for number, pod in enumerate(pods):
        pod["metadata"] = {"name": f"p{number}", "namespace": "default", "uid": f"p{number}"}
        pod["spec"] = {**pod["spec"], "nodeName": "n0"}
    there = dumped(QUOTA + "".join(f"---\n{yaml.safe_dump(pod)}" for pod in pods))
    assert fit(Cluster([*nodes(), *there]), manifests).workloads[0].replicas == 23


def test_a_fork_gives_back_what_it_charged(tmp_path: Path) -> None:
    cluster = Cluster([*nodes(), *dumped(QUOTA)])
    manifests = read_manifests([written(tmp_path, ASKING)])
    first = fit(cluster, manifests).document()
    assert fit(cluster, manifests).document() == first
    assert fit_max(cluster, manifests, manifests.workloads[0]).workloads[0].replicas == 30
    outcome = cluster.apply(manifests, replicas=25)
    assert (len(outcome.placed), outcome.refused) == (25, [])
    with cluster.fork():
        more = cluster.scale("deployment/web", 40)
        assert (len(more.placed), [one.pods for one in more.refused]) == (5, [10])
    cluster.scale("deployment/web", 5)
    assert len(cluster.scale("deployment/web", 40).placed) == 25


def test_more_would_fit_until_the_quota_ends_it(tmp_path: Path) -> None:
    manifests = read_manifests([written(tmp_path, ASKING)])
    [found] = fit(Cluster([*nodes(), *dumped(QUOTA)]), manifests, replicas=12).workloads
    assert (found.replicas, found.more, found.more_is_known) == (12, 18, True)
    assert found.stop is not None
    assert found.stop.reason.startswith("exceeded quota: team")


def command(*arguments: object) -> Result:
    return CliRunner().invoke(stowplan, [*map(str, arguments)])


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"nodes:\n- {{name: n, count: 12, cpu: 10}}\n---\n{QUOTA}")
    return path


def test_the_commands_say_what_ends_it(dump: Path, tmp_path: Path) -> None:
    app = written(tmp_path, ASKING)
    told = command("fit", "-f", app, "--from", dump)
    assert told.exit_code == 1
    ended = "30 of 200 are created: quota team, requests.cpu: 30 of 30 used."
    assert f"30 of 200 replicas of deployment/web fit; {ended}" in " ".join(told.stdout.split())
    assert "limited: requests.cpu=30" in told.stdout
    most = command("fit", "-f", app, "--from", dump, "--max")
    ended = "no more are created: quota team, requests.cpu: 30 of 30 used."
    assert f"30 replicas of deployment/web fit; {ended}" in " ".join(most.stdout.split())
    mix = tmp_path / "mix.yaml"
    mix.write_text("mix: [{count: 4, file: app.yaml}]\n")
    sets: dict[str, Any] = json.loads(command("capacity", "--mix", mix, "--from", dump, "--json").stdout)
    assert (sets["sets"], sets["stoppedBy"]["refused"]) == (7, True)
    asked = command("whatif", "--apply", app, "--from", dump, "--json")
    assert [one["pods"] for one in json.loads(asked.stdout)["notCreated"]] == [170]
    tight = tmp_path / "tight.yaml"
    tight.write_text(dump.read_text().replace('"30"', "500m"))
    why = command("explain", "-f", app, "--from", tight)
    assert why.exit_code == 1
    assert "exceeded quota: team, requested: requests.cpu=1" in why.stderr


def test_pods_of_a_workload_differ_only_in_their_names(tmp_path: Path) -> None:
    """Admission runs once for all of them: the API server stores them identically, too."""
    done = really(LIMITS, WEB.replace("200", "5"))
    bodies = []
    for pod in done.store.list(PODS).items:
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "volumes")}
        for container in spec["containers"]:
            container.pop("volumeMounts")
        bodies.append(json.dumps(spec, sort_keys=True))
    assert (len(bodies), len(set(bodies))) == (5, 1)


RESTRICTED = """
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: baseline}}
"""


def test_the_labels_of_a_namespace_decide_about_pods(tmp_path: Path) -> None:
    cluster = Cluster([*nodes(), *dumped(RESTRICTED)])
    on_host = WEB.replace("    spec:\n", "    spec:\n      hostNetwork: true\n")
    [found] = fit(cluster, read_manifests([written(tmp_path, on_host)])).document()["workloads"]
    assert (found["replicas"], found["notCreated"]["pods"]) == (0, 200)
    words = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    assert found["notCreated"]["message"] == f'pods "web-0" is forbidden: {words}'
    [found] = fit(cluster, read_manifests([written(tmp_path, WEB)]), replicas=2).document()["workloads"]
    assert (found["replicas"], found["notCreated"]) == (2, None)
