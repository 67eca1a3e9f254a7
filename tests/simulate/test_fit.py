"""`stowplan fit`: its answer is the result of doing it, and mistakes are reported with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.real_clusters import World, done_for_real, parsed
from stowplan.api.node import Node
from stowplan.cli.main import stowplan
from stowplan.simulate import Cluster
from stowplan.simulate.counting import count_more
from stowplan.simulate.creation.manifests import read_manifests
from stowplan.simulate.fit import fit, fit_max
from stowplan.testing import node, pod
from stowplan.testing.cluster_strategies import any_node, pods

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 9
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: web:1
        resources: {limits: {cpu: 500m}}
"""
SPREAD = DEPLOYMENT.replace(
    "    spec:\n      containers",
    """    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers""",
)
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec:
  parallelism: 5
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: batch, resources: {requests: {cpu: "1"}}}]
"""
DAEMONS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: c, image: agent, resources: {requests: {cpu: 100m}}}]
"""
STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  podManagementPolicy: Parallel
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: db, resources: {requests: {cpu: "2"}}}]
"""


def nodes() -> list[Node]:
    return [
        node(f"n{number}")
        .capacity(cpu="2", memory="8Gi", pods="20")
        .labels({"disk": "ssd" if number % 2 else "hdd"})
        .zone("ab"[number % 2])
        .obj()
        for number in range(5)
    ]


def written(folder: Path, text: str) -> Path:
    path = folder / "app.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize(
    ("text", "asked", "placed"),
    [
        (DEPLOYMENT, 9, 9),
        (SPREAD.replace("replicas: 9", "replicas: 30"), 30, 17),
        (JOB, 4, 4),
        (DAEMONS, 2, 2),
        (STATEFUL, 3, 3),
        (STATEFUL + "---" + DEPLOYMENT, 12, 11),
    ],
    ids=["deployment", "spread", "job", "daemons", "stateful", "both"],
)
def test_placements_are_those_of_the_cluster_where_it_is_applied(
    text: str, asked: int, placed: int, seed: int, tmp_path: Path
) -> None:
    manifests = read_manifests([written(tmp_path, text)])
    found = fit(Cluster(nodes(), seed=seed), manifests).document()

    async def story(world: World) -> None:
        for document in parsed(text):
            world.create(document)
            await world.settle()

    really = done_for_real(nodes(), story, seed)
    assert found["placements"] == really.by_node()
    assert (sum(one["asked"] for one in found["workloads"]), found["replicas"]) == (asked, placed)
    assert len(really.placements()) == asked
    assert found["fits"] == (asked == placed)
    said = {why for one in found["workloads"] for why in one["pending"].values()}
    assert {why.partition(" preemption:")[0] for why in said} == {
        why.partition(" preemption:")[0] for why in really.messages()
    }


def test_the_most_that_fits_is_what_a_scheduler_places(tmp_path: Path) -> None:
    cluster = Cluster(nodes())
    manifests = read_manifests([written(tmp_path, SPREAD)])
    found = fit_max(cluster, manifests, manifests.workloads[0]).document()
    too_many = parsed(SPREAD.replace("replicas: 9", "replicas: 40"))

    async def story(world: World) -> None:
        world.create(*too_many)
        await world.settle()

    really = done_for_real(nodes(), story)
    assert found["placements"] == really.by_node()
    assert found["replicas"] == 17
    assert found["stoppedBy"]["reason"] == "node(s) didn't match pod topology spread constraints"
    [message] = really.messages()
    assert message.startswith(found["stoppedBy"]["message"])
    assert not cluster.placements


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_counting_is_the_same_as_placing_one_by_one(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(any_node, min_size=1, max_size=5, unique_by=lambda one: one.name))
    cluster = Cluster(drawn)
    for number, other in enumerate(data.draw(st.lists(pods(), max_size=4))):
        cluster.put_copy(other, f"other-{number}", data.draw(st.sampled_from(drawn)).name)
    asked = {"cpu": data.draw(st.sampled_from(["0", "100m", "700m", "1"]))}
    asked |= {"example.com/gpu": "1"} if data.draw(st.booleans()) else {}

    def alike() -> Any:
        for number in range(3000):
            yield pod(f"new-{number}").requests(asked).obj()

    counted = count_more(cluster, alike())
    placed: dict[str, int] = {}
    message = ""
    with cluster.fork():
        for one in alike():
            outcome = cluster.schedule(one, preempt=False)
            message = outcome.pending.get(one.key, "")
            if message:
                break
            [where] = outcome.placed.values()
            placed[where] = placed.get(where, 0) + 1
    assert counted.by_node == placed
    assert (counted.stop.message if counted.stop else "") == message


def run(*arguments: object) -> Result:
    return CliRunner().invoke(stowplan, ["fit", *map(str, arguments)])


SHAPES = "nodes:\n- {name: n, count: 4, cpu: 2}\n"


def test_the_command_tells_json_text_and_page(tmp_path: Path) -> None:
    shapes, page = tmp_path / "shapes.yaml", tmp_path / "fit.html"
    shapes.write_text(SHAPES)
    app = written(tmp_path, DEPLOYMENT)
    told = run("-f", app, "--from", shapes, "--json", "--report", page)
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout)
    assert (document["fits"], document["replicas"], sum(document["placements"].values())) == (True, 9, 9)
    assert document["workloads"][0]["more"] == 7
    assert document["stoppedBy"]["resource"] == "cpu"
    assert "Content-Security-Policy" in page.read_text()
    most = run("-f", app, "--from", shapes, "--max")
    assert "16 replicas of deployment/web fit, limited by cpu." in most.stdout
    too_many = run("-f", app, "--from", shapes, "--replicas", 20)
    assert too_many.exit_code == 1
    assert "16 of 20 replicas of deployment/web fit" in too_many.stdout


@pytest.mark.parametrize(
    "text", [DEPLOYMENT, SPREAD, DEPLOYMENT + "---" + JOB], ids=["room", "spread", "two"]
)
def test_ten_million_replicas_end_early_with_what_ends_them(text: str, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("nodes:\n- {name: n, count: 4, cpu: 2, pods: 30, zones: [a, b]}\n")
    told = run("-f", written(tmp_path, text), "--from", shapes, "--replicas", 10_000_000)
    assert told.exit_code == 1
    assert "of 10,000,000 replicas of deployment/web fit, limited by cpu." in told.stdout


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (DEPLOYMENT.replace("replicas: 9", "replicas: nine"), "app.yaml:6: spec.replicas: expected `int`"),
        (DEPLOYMENT.replace("replicas", "replica"), "app.yaml:6: spec.replica: unknown field"),
        (
            DEPLOYMENT.replace("cpu: 500m", "cpu: much"),
            "app.yaml:14: spec.template.spec.containers[0].resources",
        ),
        (
            DEPLOYMENT.replace("{app: web}}\n  t", "{app: x}}\n  t"),
            "app.yaml:9: spec.template.metadata.labels:",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "app.yaml:1: spec.containers: Required value"),
        ("a: [", "app.yaml:2: not YAML or JSON:"),
        ("- 1\n- 2\n", "app.yaml:1: expected an object with apiVersion and kind"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n",
            "expected a pod or a workload",
        ),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_field(text: str, line: str, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text(SHAPES)
    told = run("-f", written(tmp_path, text), "--from", shapes)
    assert told.exit_code == 1
    assert line in told.stderr
    assert [one for one in told.stderr.splitlines() if not one.startswith("note: ")] == [
        told.stderr.splitlines()[-1]
    ]


def test_mistakes_of_a_dump_and_of_shapes_have_a_line_too(tmp_path: Path) -> None:
    app, dump = written(tmp_path, DEPLOYMENT), tmp_path / "dump.yaml"
    for text, line in (
        (
            "kind: NodeList\nitems:\n- metadata: {name: a}\n- metadata: {name: 7}\n",
            ":4: items[1].metadata.name: expected",
        ),
        ("nodes:\n- cpu: 4\n- cpu: lots\n", ":3: nodes[1].cpu: expected a quantity"),
        ("nodes:\n- cpus: 4\n", ":2: nodes[0]"),
    ):
        dump.write_text(text)
        told = run("-f", app, "--from", dump)
        assert (told.exit_code, told.stderr.count("\n")) == (1, 1)
        assert f"dump.yaml{line}" in told.stderr
