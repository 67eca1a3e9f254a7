"""Questions about pods of groups: they are placed together or not at all, as the scheduler does it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simulate.real_clusters import World, done_for_real, parsed
from stowplan.api.gates.feature_gates import gates_with
from stowplan.api.node import Node
from stowplan.api.pod_groups import GATES
from stowplan.cli.main import stowplan
from stowplan.config import default_config
from stowplan.scheduler import Settings
from stowplan.simulate import Cluster
from stowplan.simulate.creation.manifests import read_manifests
from stowplan.simulate.fit import fit
from stowplan.testing import node

EXAMPLES = Path(__file__).parents[2] / "examples/gangs"
GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: example.com/rack}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: g}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      schedulingGroup: {podGroupName: g}
      restartPolicy: Never
      containers: [{name: w, image: x, resources: {requests: {cpu: "3"}}}]
"""
OF_ITS_OWN = """
apiVersion: batch/v1
kind: Job
metadata: {name: g}
spec:
  parallelism: 4
  completions: 4
  scheduling:
    schedulingPolicy: {gang: {}}
    schedulingConstraints: {topology: [{key: example.com/rack}]}
  template:
    spec:
      restartPolicy: Never
      containers: [{name: w, image: x, resources: {requests: {cpu: "3"}}}]
"""
COSCHEDULING = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: pg}
spec: {minMember: 5}
---
apiVersion: batch/v1
kind: Job
metadata: {name: cj}
spec:
  parallelism: 5
  completions: 5
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: pg}}
    spec:
      restartPolicy: Never
      containers: [{name: w, image: x, resources: {requests: {cpu: "3"}}}]
"""
RACKS = """
nodes:
  - {{name: a, count: {size}, cpu: 4, labels: {{example.com/rack: a}}}}
  - {{name: b, count: {size}, cpu: 4, labels: {{example.com/rack: b}}}}
"""


def asked(folder: Path, command: str, manifests: str, *options: object, size: int = 2) -> Result:
    shapes, app = folder / "shapes.yaml", folder / "app.yaml"
    shapes.write_text(RACKS.format(size=size))
    app.write_text(manifests)
    return CliRunner().invoke(stowplan, [command, "-f", str(app), "--from", str(shapes), *map(str, options)])


def racks(size: int) -> list[Node]:
    return [
        node(f"{rack}-{number}").capacity(cpu="4", memory="16Gi").labels({"example.com/rack": rack}).obj()
        for rack in "ab"
        for number in range(size)
    ]


@pytest.mark.parametrize("text", [f"{GROUP}---{JOB}", OF_ITS_OWN], ids=["a PodGroup", "the Job's own group"])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_gang_is_placed_as_by_the_scheduler(text: str, size: int, tmp_path: Path) -> None:
    gates = gates_with(GATES)
    (tmp_path / "app.yaml").write_text(text)
    manifests = read_manifests([tmp_path / "app.yaml"])
    found = fit(Cluster(racks(size), settings=Settings.of(default_config(gates)), seed=3), manifests)

    async def story(world: World) -> None:
        for document in parsed(text):
            world.create(document)
        await world.settle()

    really = done_for_real(racks(size), story, 3, gates)
    [one] = found.workloads
    assert one.by_node == really.by_node()
    assert (one.replicas, found.fits) == ((4, True) if size > 2 else (0, False))
    assert len({name.partition("-")[0] for name in one.by_node}) == (size > 2)
    assert {why.partition(", pod group preemption:")[0] for why in one.outcome.pending.values()} == {
        why.partition(", pod group preemption:")[0] for why in really.messages()
    }


def test_a_gang_that_fits_in_no_rack_says_how_many_members_would(tmp_path: Path) -> None:
    told = asked(tmp_path, "fit", f"{GROUP}---{JOB}")
    assert told.exit_code == 1
    assert (
        "0 of 4 replicas of job/g fit; podgroup/g: 2 of 4 needed members would fit in a, limited by cpu."
        in (" ".join(told.stdout.split()))
    )
    assert "evaluated with the feature gates of pod groups" in told.stderr
    stopped = json.loads(asked(tmp_path, "fit", f"{GROUP}---{JOB}", "--json").stdout)["stoppedBy"]
    assert stopped["group"]["domains"] == {"a": 2, "b": 2}
    assert (stopped["resource"], stopped["nodes"]) == ("cpu", 2)


def test_the_most_of_a_gang_that_fits_is_what_one_rack_takes(tmp_path: Path) -> None:
    told = asked(tmp_path, "fit", f"{GROUP}---{JOB}", "--max", size=8)
    assert "8 replicas of job/g fit, limited by cpu in" in told.stdout


def test_a_gang_of_coscheduling_is_one(tmp_path: Path) -> None:
    told = asked(tmp_path, "fit", COSCHEDULING)
    assert told.exit_code == 1
    assert "0 of 5 replicas of job/cj fit; podgroup/pg: 4 of 5 needed members would fit" in told.stdout
    assert "evaluated with the plugin Coscheduling" in told.stderr
    assert (
        "All 5 replicas of job/cj fit; room for 11 more"
        in asked(tmp_path, "fit", COSCHEDULING, size=8).stdout
    )


def test_groups_are_left_alone_where_options_say_so(tmp_path: Path) -> None:
    told = asked(tmp_path, "fit", f"{GROUP}---{JOB}", "--feature-gates", "GenericWorkload=false")
    assert "All 4 replicas of job/g fit" in told.stdout
    assert "the feature gate GenericWorkload is off: PodGroups are ignored" in told.stderr


def test_an_explanation_of_a_manifest_knows_the_whole_gang(tmp_path: Path) -> None:
    told = asked(tmp_path, "explain", f"{GROUP}---{JOB}")
    assert "2 of 4 needed members would fit in a" in told.stdout


def test_the_example_gets_the_answer_that_its_scheduler_gives(tmp_path: Path) -> None:
    """The example of docs/gangs.md: 24 of 32 members fit in rack-a."""
    shapes, changes = EXAMPLES / "nodes.yaml", ["--apply", str(EXAMPLES / "busy.yaml")]
    asked = [*changes, "--apply", str(EXAMPLES / "sweep.yaml"), "--apply", str(EXAMPLES / "training.yaml")]
    told = CliRunner().invoke(stowplan, ["whatif", "--from", str(shapes), *asked, "--json"])
    pending = json.loads(told.stdout)["pending"]
    assert {key.rpartition("-")[0] for key in pending} == {"default/training"}
    assert len(pending) == 32
    assert "minCount (32) cannot be satisfied: 24 scheduled, 7 remaining" in next(iter(pending.values()))


def test_a_gang_of_higher_priority_evicts_a_whole_gang(tmp_path: Path) -> None:
    shapes = str(EXAMPLES / "nodes.yaml")
    asked = [
        part for name in ("busy", "sweep", "urgent") for part in ("--apply", str(EXAMPLES / f"{name}.yaml"))
    ]
    told = json.loads(CliRunner().invoke(stowplan, ["whatif", "--from", shapes, *asked, "--json"]).stdout)
    assert sum(key.startswith("default/urgent-") for key in told["placed"]) == 32
    assert {key.rpartition("-")[0] for key in told["pending"]} == {"default/sweep"}
    assert len(told["pending"]) == 32


def test_every_set_of_a_mix_is_a_gang_of_its_own(tmp_path: Path) -> None:
    """A rack of five nodes takes one gang of four, and a second gang does not begin in the fifth node."""
    shapes, app, mix = (tmp_path / name for name in ("shapes.yaml", "app.yaml", "mix.yaml"))
    shapes.write_text(RACKS.format(size=5))
    app.write_text(f"{GROUP}---{JOB}")
    mix.write_text("mix: [{file: app.yaml}]")
    told = CliRunner().invoke(
        stowplan, ["capacity", "--mix", str(mix), "--from", str(shapes), "--json"], catch_exceptions=False
    )
    found = json.loads(told.stdout)
    assert found["sets"] == 2
    assert sorted(name.partition("-")[0] for name in found["placements"]) == [*"aaaabbbb"]
    assert found["stoppedBy"]["group"]["fits"] == 1


def test_a_fork_leaves_no_trace_of_a_gang(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(f"{GROUP}---{JOB}")
    manifests = read_manifests([tmp_path / "app.yaml"])
    cluster = Cluster(racks(8), settings=Settings.of(default_config(gates_with(GATES))), seed=3)
    first = fit(cluster, manifests).document()
    assert not list(cluster.table.groups)
    assert fit(cluster, manifests).document() == first
