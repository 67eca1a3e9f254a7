"""Whose pod it is: pods of other schedulers are never explained by a profile that does not decide them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.live_scheduler import World, live, node, pod
from stowplan.api.catalogue import LEASES
from stowplan.api.meta import micro_timestamp
from stowplan.cli.main import stowplan
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.access import EVERYTHING, Viewer


async def told(world: World, path: str, viewer: Viewer = EVERYTHING) -> Any:
    inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
    answer = await Routes(inspection, dict).answer(f"/stowplan/v1/{path}", {}, viewer)
    return answer.document.document() if answer.code == 200 else answer.code


def lease(world: World, name: str, age: float) -> None:
    spec = {
        "holderIdentity": "somebody",
        "leaseDurationSeconds": 15,
        "renewTime": micro_timestamp(world.clock.now() - age),
    }
    metadata = {"name": name, "namespace": "kube-system"}
    world.store.create(LEASES, {"metadata": metadata, "spec": spec})


# A running scheduler


def test_nobody_answers_to_a_name_that_no_scheduler_has() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("v", schedulerName="volcano")
        found = await told(world, "pods/d/v")
        assert found["headline"] == "d/v is pending: no scheduler answers to schedulerName volcano"
        assert found["decider"]["kind"] == "nobody"
        assert found["stoppedAt"] == "queued"
        assert found["remedy"] == (
            "start scheduler volcano, or schedulerName default-scheduler (now volcano)"
        )
        assert [one["node"] for one in found["changes"]] == ["n"]
        assert (found["wouldGoTo"], found["funnel"], found["scores"]) == (None, [], [])
        assert found["incomplete"] == []

    live(story)


def test_a_pod_that_nobody_decides_and_no_node_takes_is_told_both() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("v", cpu="6", schedulerName="default-schedular")
        found = await told(world, "pods/d/v")
        said = "no scheduler answers to schedulerName default-schedular; with default-scheduler: "
        assert found["headline"].startswith(f"d/v is pending: {said}")
        change = found["changes"][0]
        assert change["text"].startswith(
            "schedulerName default-scheduler (now default-schedular) and request 4 cpu"
        )
        assert change["patch"]["spec"]["schedulerName"] == "default-scheduler"
        assert change["patch"]["spec"]["containers"]

    live(story)


@pytest.mark.parametrize("evidence", ["lease", "placed pod"])
def test_a_scheduler_that_is_seen_to_work_decides_its_pods(evidence: str) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        if evidence == "lease":
            lease(world, "volcano", age=4)
        else:
            world.put_pod("placed", schedulerName="volcano", nodeName="n")
        await world.add_pod("v", schedulerName="volcano")
        said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: no card"}
        world.patch_pod("v", {"status": {"conditions": [said]}}, "status")
        await world.settle(1)
        found = await told(world, "pods/d/v")
        assert found["headline"] == ("d/v is pending: scheduler volcano decides it and says: no card")
        assert found["decider"]["kind"] == "other"
        assert found["stoppedAt"] == "placed"
        assert found["incomplete"] == [
            "not evaluated: the profile of scheduler volcano is not known here (--config)"
        ]

    live(story)


def test_a_lease_that_is_not_renewed_any_more_is_nobody() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        lease(world, "volcano", age=400)
        await world.add_pod("v", schedulerName="volcano")
        assert (await told(world, "pods/d/v"))["decider"]["kind"] == "nobody"

    live(story)


def test_who_may_not_read_leases_is_told_that_it_is_not_known() -> None:
    async def may_read(resource: str, namespace: str) -> bool:
        return resource != "leases.coordination.k8s.io"

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("v", schedulerName="volcano")
        found = await told(world, "pods/d/v", Viewer(may_read))
        assert found["decider"]["kind"] == "unknown"
        assert (
            "reading leases.coordination.k8s.io in namespace kube-system is not allowed"
            in (found["incomplete"][0])
        )
        assert found["changes"] == []

    live(story)


def test_pending_looks_at_all_pods_and_says_which_are_not_decided_here() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        for number in range(3):
            await world.add_pod(f"v-{number}", schedulerName="volcano")
        await world.add_pod("big", cpu="40")
        found = await told(world, "pending")
        assert found["headline"] == "1 pod waits on 1 cause; 3 pods wait and are not decided here"
        assert [cause["name"] for cause in found["causes"]] == ["d/big"]
        (cause,) = found["elsewhere"]
        assert (cause["name"], cause["count"], cause["scheduler"]) == ("d/v-*", 3, "volcano")
        assert cause["reason"] == "no scheduler answers to schedulerName volcano"
        world.delete_pod("big")
        await world.settle(1)
        found = await told(world, "pending")
        assert found["headline"] == "3 pods wait and are not decided here"

    live(story)


def test_a_placed_pod_of_another_scheduler_has_no_points_of_our_profile() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.put_pod("web", schedulerName="cheap", nodeName="n")
        await world.settle(1)
        found = await told(world, "pods/d/web")
        assert found["headline"] == "d/web is on n"
        assert found["why"] == ["Scheduler cheap decided that; its plugins are not known here."]
        assert (found["scores"], found["wouldGoTo"]) == ([], None)

    live(story)


# A dump


def dumped(folder: Path, *items: dict[str, Any]) -> str:
    kinds = [
        {"apiVersion": "v1", "kind": "Pod" if "containers" in one["spec"] else "Node", **one} for one in items
    ]
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": kinds}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stowplan, list(arguments))


def test_a_dump_does_not_tell_whether_a_scheduler_runs(tmp_path: Path) -> None:
    dump = dumped(tmp_path, {**node("n"), "spec": {}}, pod("v", schedulerName="volcano"))
    found = json.loads(run("explain", "--from", dump, "-n", "d", "v", "-o", "json").stdout)
    assert found["headline"] == "d/v is pending: schedulerName volcano is none of the profiles here"
    assert found["incomplete"] == [
        "whether scheduler volcano runs is not known: the dump has no leases; the dump has no events"
    ]
    causes = run("pending", "--from", dump)
    assert causes.stdout.splitlines()[0] == "1 pod waits and is not decided here"
    assert "incomplete: whether scheduler volcano runs is not known" in causes.stdout


def test_the_configuration_decides_whose_pods_a_dump_has(tmp_path: Path) -> None:
    dump = dumped(tmp_path, {**node("n"), "spec": {}}, pod("v", schedulerName="volcano"), pod("w"))
    config = tmp_path / "config.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**kind, "profiles": [{"schedulerName": "volcano"}]}))
    result = run("explain", "--from", dump, "--config", str(config), "-n", "d", "v", "w", "-o", "json")
    of_volcano, of_another = json.loads(result.stdout)["items"]
    assert of_volcano["headline"] == "d/v would go to n: 1 node of 1 fit"
    assert of_volcano["decider"] == {
        "scheduler": "volcano",
        "kind": "this",
        "profile": "volcano",
        "text": "decided by profile volcano",
    }
    assert of_another["decider"]["kind"] == "unknown"
    assert of_another["scores"] == []
