"""StatefulSets, DaemonSets and Jobs with everything around them."""

import json
import random
from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live, selecting, template
from stowplan.api.catalogue import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.manager import volume_controllers
from stowplan.localcluster.controllers.workloads.daemonset import DaemonSetController
from stowplan.localcluster.controllers.workloads.job import JobController
from stowplan.localcluster.controllers.workloads.statefulset import StatefulSetController
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings, NodeShape
from stowplan.localcluster.objects.fields import condition_of
from stowplan.localcluster.store import StoreChange
from stowplan.testing.faults import Faults

BAD_DAY = {"refused": 0.2, "lost": 0.15, "cut": 0.05, "forgotten": 0.02, "delay": 0.2}
SECOND = "registry.example/app:2"


def controllers(context: ControllerContext) -> list[Controller]:
    return [
        StatefulSetController(context),
        DaemonSetController(context),
        JobController(context),
        GarbageCollector(context),
        *volume_controllers(context),
    ]


def kubelets(world: World) -> Kubelets:
    shapes = [NodeShape(count=3, name="n", cpu="16"), NodeShape(name="gpu", labels={"gpu": "yes"})]
    settings = KubeletSettings(run_seconds=3.0)
    return Kubelets(world.client, shapes, settings, clock=world.clock, rng=random.Random(9))


def play(story: Any, faults: Faults | None = None, seed: int = 1) -> None:
    live(story, controllers, scheduler=True, beside=kubelets, faults=faults, seed=seed)


def change_image(world: World, resource: Any, name: str) -> None:
    containers = [{"name": "c", "image": SECOND}]
    world.patch(resource, name, {"spec": {"template": {"spec": {"containers": containers}}}})


def images(world: World) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in world.all(PODS)}


# StatefulSets


def stateful(replicas: int = 3, **spec: Any) -> Json:
    full = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": selecting(),
        "template": template(),
        **spec,
    }
    return {"metadata": {"name": "db"}, "spec": full}


def is_complete(world: World, wanted: int) -> bool:
    told = world.get(STATEFUL_SETS, "db").get("status", {})
    same = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas")
    return (
        all(told.get(field) == wanted for field in same) and told["currentRevision"] == told["updateRevision"]
    )


def test_a_stateful_set_comes_up_in_order_with_volumes_made_for_it() -> None:
    async def story(world: World) -> None:
        world.put(
            STORAGE_CLASSES,
            {
                "metadata": {"name": "fast"},
                "provisioner": "csi.example",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "fast",
            },
        }
        world.put(STATEFUL_SETS, stateful(volumeClaimTemplates=[claim]))
        while len(world.pods("Running")) < 3:
            names = world.names(PODS)
            assert names == [f"db-{number}" for number in range(len(names))]
            assert len(names) <= len(world.pods("Running")) + 1
            await world.settle(0.05)
            assert world.now < 120
        await world.until(lambda: is_complete(world, 3))
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["data-db-0", "data-db-1", "data-db-2"]
        assert all(one["status"]["phase"] == "Bound" for one in world.all(PERSISTENT_VOLUMES))
        pod = world.get(PODS, "db-1")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
        world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
        await world.until(lambda: is_complete(world, 1) and world.names(PODS) == ["db-0"])
        assert len(world.names(PERSISTENT_VOLUME_CLAIMS)) == 3

    play(story)


def test_an_update_goes_from_the_last_to_the_first_down_to_the_partition() -> None:
    async def story(world: World) -> None:
        world.put(STATEFUL_SETS, stateful(updateStrategy={"rollingUpdate": {"partition": 1}}))
        await world.until(lambda: is_complete(world, 3))
        change_image(world, STATEFUL_SETS, "db")
        await world.settle(60)
        new = [pod["spec"]["containers"][0]["image"] == SECOND for pod in world.all(PODS)]
        assert new == [False, True, True]
        told = world.get(STATEFUL_SETS, "db")["status"]
        assert (told["updatedReplicas"], told["currentReplicas"]) == (2, 1)
        world.delete(PODS, "db-0")
        await world.settle(30)
        assert world.get(PODS, "db-0")["spec"]["containers"][0]["image"] != SECOND
        world.patch(STATEFUL_SETS, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        await world.until(lambda: is_complete(world, 3) and images(world) == {SECOND})
        assert [one["revision"] for one in world.all(CONTROLLER_REVISIONS)].count(2) == 1
        data = world.all(CONTROLLER_REVISIONS)[0]["data"]
        assert json.dumps(data) == json.dumps(data, sort_keys=True), "clients compare the bytes"

    play(story)


def test_going_back_takes_the_old_revision_up_again() -> None:
    async def story(world: World) -> None:
        world.put(STATEFUL_SETS, stateful(1))
        await world.until(lambda: is_complete(world, 1))
        first = world.get(STATEFUL_SETS, "db")
        change_image(world, STATEFUL_SETS, "db")
        await world.until(lambda: is_complete(world, 1) and images(world) == {SECOND})
        world.store.patch(
            STATEFUL_SETS, "d", "db", {"spec": {"template": first["spec"]["template"]}}, PatchType.MERGE
        )
        await world.until(lambda: is_complete(world, 1) and images(world) != {SECOND})
        numbers = {one["metadata"]["name"]: one["revision"] for one in world.all(CONTROLLER_REVISIONS)}
        assert numbers.pop(first["status"]["currentRevision"]) == 3
        assert list(numbers.values()) == [2]

    play(story)


def test_in_parallel_all_come_at_once() -> None:
    async def story(world: World) -> None:
        world.put(STATEFUL_SETS, stateful(5, podManagementPolicy="Parallel"))
        await world.settle(0.3)
        assert len(world.pods()) == 5
        await world.until(lambda: is_complete(world, 5))

    play(story)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_went_wrong_a_stateful_set_ends_as_it_should(seed: int) -> None:
    async def story(world: World) -> None:
        world.put(STATEFUL_SETS, stateful(4))
        await world.settle(30)
        change_image(world, STATEFUL_SETS, "db")
        await world.settle(30)
        world.faults.stop()
        await world.until(lambda: is_complete(world, 4) and images(world) == {SECOND}, 600)
        assert world.names(PODS) == ["db-0", "db-1", "db-2", "db-3"]

    play(story, Faults(**BAD_DAY), seed)


# DaemonSets


def daemon(**spec: Any) -> Json:
    return {"metadata": {"name": "agent"}, "spec": {"selector": selecting(), "template": template(), **spec}}


def nodes_of(world: World) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in world.pods("Running"))


def daemon_status(world: World) -> Json:
    found: Json = world.get(DAEMON_SETS, "agent").get("status", {})
    return found


def test_a_daemon_runs_on_every_node_and_comes_to_new_ones() -> None:
    async def story(world: World) -> None:
        world.patch(NODES, "n-2", {"spec": {"unschedulable": True}})
        world.put(DAEMON_SETS, daemon())
        await world.until(lambda: nodes_of(world) == ["gpu", "n-0", "n-1", "n-2"])
        await world.settle(1)
        told = daemon_status(world)
        for field in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"):
            assert told[field] == 4
        assert told["numberMisscheduled"] == 0
        assert "numberUnavailable" not in told
        world.add_node("late")
        await world.until(lambda: len(world.pods()) == 5)
        pod = next(one for one in world.pods() if one["status"]["phase"] == "Pending")
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert affinity["nodeSelectorTerms"] == [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["late"]}]}
        ]

    play(story)


def test_a_daemon_leaves_nodes_it_does_not_fit_any_more() -> None:
    async def story(world: World) -> None:
        chosen = template(nodeSelector={"gpu": "yes"})
        world.put(DAEMON_SETS, daemon(template=chosen))
        await world.until(lambda: nodes_of(world) == ["gpu"])
        world.patch(NODES, "gpu", {"metadata": {"labels": {"gpu": "no"}}})
        world.patch(NODES, "n-1", {"metadata": {"labels": {"gpu": "yes"}}})
        await world.until(lambda: nodes_of(world) == ["n-1"])
        await world.settle(2)
        assert daemon_status(world)["desiredNumberScheduled"] == 1

    play(story)


def test_a_daemons_update_takes_one_node_at_a_time() -> None:
    async def story(world: World) -> None:
        world.put(DAEMON_SETS, daemon())
        await world.until(lambda: len(nodes_of(world)) == 4)
        change_image(world, DAEMON_SETS, "agent")
        while images(world) != {SECOND} or len(nodes_of(world)) < 4:
            leaving = [pod for pod in world.pods() if "deletionTimestamp" in pod["metadata"]]
            assert len(leaving) <= 1
            await world.settle(0.05)
            assert world.now < 120
        await world.settle(1)
        assert daemon_status(world)["updatedNumberScheduled"] == 4

    play(story)


def test_whatever_went_wrong_every_node_ends_with_one_daemon() -> None:
    async def story(world: World) -> None:
        world.put(DAEMON_SETS, daemon())
        await world.settle(30)
        change_image(world, DAEMON_SETS, "agent")
        await world.settle(20)
        world.faults.stop()
        await world.until(
            lambda: (
                nodes_of(world) == ["gpu", "n-0", "n-1", "n-2"]
                and images(world) == {SECOND}
                and len(world.pods()) == 4
                and daemon_status(world).get("numberReady") == 4
            ),
            600,
        )

    play(story, Faults(**BAD_DAY))


# Jobs


def job(**spec: Any) -> Json:
    pods = spec.pop("template", template(restartPolicy="Never"))
    return {"metadata": {"name": "sum"}, "spec": {"template": pods, **spec}}


def failing(policy: str = "Never") -> Json:
    made = template(restartPolicy=policy)
    made["metadata"]["annotations"] = {"pretend.stowplan.io/outcome": "Failed"}
    return made


def ended(world: World, kind: str = "Complete") -> bool:
    return (condition_of(world.get(JOBS, "sum"), kind) or {}).get("status") == "True"


def test_a_job_runs_so_many_pods_so_many_at_a_time() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(completions=5, parallelism=2))
        most = 0
        while not ended(world):
            running = [pod for pod in world.pods() if pod["status"]["phase"] in ("Pending", "Running")]
            most = max(most, len(running))
            await world.settle(0.1)
            assert world.now < 120
        assert most == 2
        told = world.get(JOBS, "sum")["status"]
        assert (told["succeeded"], told["ready"], told["terminating"]) == (5, 0, 0)
        assert not {"failed", "active"} & set(told)
        assert "completionTime" in told
        assert not told.get("uncountedTerminatedPods")
        assert (condition_of(world.get(JOBS, "sum"), "Complete") or {})["reason"] == "CompletionsReached"
        assert len(world.pods("Succeeded")) == 5
        assert not any(pod["metadata"].get("finalizers") for pod in world.pods())

    play(story)


def test_a_job_whose_pods_fail_gives_up_after_its_limit_with_growing_pauses() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(backoffLimit=2, template=failing()))
        await world.until(lambda: ended(world, "Failed"), 300)
        assert world.now > 30
        told = world.get(JOBS, "sum")["status"]
        assert (told["failed"], told["ready"]) == (3, 0)
        assert not {"succeeded", "active"} & set(told)
        condition = condition_of(world.get(JOBS, "sum"), "Failed") or {}
        assert condition["reason"] == "BackoffLimitExceeded"

    play(story)


def test_a_job_takes_no_longer_than_it_may() -> None:
    async def story(world: World) -> None:
        slow = template(restartPolicy="Never")
        slow["metadata"]["annotations"] = {"pretend.stowplan.io/run-seconds": "1000"}
        world.put(JOBS, job(activeDeadlineSeconds=20, template=slow))
        await world.until(lambda: ended(world, "Failed"), 60)
        assert (condition_of(world.get(JOBS, "sum"), "Failed") or {})["reason"] == "DeadlineExceeded"
        await world.until(lambda: not world.pods("Running"))

    play(story)


def test_an_indexed_job_does_each_index_once() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(completions=4, parallelism=3, completionMode="Indexed"))
        await world.until(lambda: ended(world))
        assert world.get(JOBS, "sum")["status"]["completedIndexes"] == "0-3"
        hosts = sorted(pod["spec"]["hostname"] for pod in world.pods())
        assert hosts == ["sum-0", "sum-1", "sum-2", "sum-3"]

    play(story)


def test_a_suspended_job_waits_and_a_finished_one_goes_when_its_time_is_over() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(suspend=True, ttlSecondsAfterFinished=30))
        await world.settle(20)
        assert world.pods() == []
        world.patch(JOBS, "sum", {"spec": {"suspend": False}})
        await world.until(lambda: ended(world))
        await world.settle(10)
        assert world.names(JOBS) == ["sum"]
        await world.settle(60)
        assert world.names(JOBS) == []
        assert world.pods() == []

    play(story)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_went_wrong_a_job_counts_each_pod_once(seed: int) -> None:
    """Pods that the Job itself has deleted as too many are gone or are not counted, however they ended."""

    async def story(world: World) -> None:
        succeeded: set[str] = set()

        def saw(change: StoreChange) -> None:
            if change.object["status"].get("phase") == "Succeeded":
                succeeded.add(change.object["metadata"]["uid"])

        world.store.watch(PODS, saw)
        world.put(JOBS, job(completions=6, parallelism=3))
        await world.settle(40)
        world.faults.stop()
        await world.until(lambda: ended(world), 600)
        told = world.get(JOBS, "sum")["status"]
        assert 6 <= told["succeeded"] <= len(succeeded)
        assert told["uncountedTerminatedPods"] == {}
        assert not any(pod["metadata"].get("finalizers") for pod in world.pods())

    play(story, Faults(**BAD_DAY), seed)


def test_more_pods_than_are_counted_at_a_time_end_at_once() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(completions=700, parallelism=700))
        await world.until(lambda: len(world.pods()) == 700)
        for pod in world.pods():
            world.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, "status")
        await world.until(lambda: ended(world), 30)
        assert world.get(JOBS, "sum")["status"]["succeeded"] == 700
        assert not any(pod["metadata"].get("finalizers") for pod in world.pods())

    live(story, lambda context: [JobController(context)])


def test_pods_of_a_job_that_is_deleted_alone_are_held_by_nobody() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(completions=2, parallelism=2))
        await world.until(lambda: len(world.pods()) == 2)
        world.store.delete(JOBS, "d", "sum", DeleteOptions(propagation="Orphan"))
        await world.until(lambda: not world.all(JOBS))
        await world.settle(5)
        assert len(world.pods()) == 2
        assert not any(pod["metadata"].get("finalizers") for pod in world.pods())

    live(story, lambda context: [JobController(context), GarbageCollector(context)])


def test_a_job_of_another_controller_is_left_alone() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(managedBy="example.com/batch"))
        await world.settle(10)
        assert world.pods() == []
        assert not world.get(JOBS, "sum").get("status")

    live(story, lambda context: [JobController(context)])


def test_a_job_goes_with_its_pods_when_its_time_after_the_end_is_over() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(completions=1, ttlSecondsAfterFinished=60))
        await world.until(lambda: len(world.pods()) == 1)
        world.patch(PODS, world.pods()[0]["metadata"]["name"], {"status": {"phase": "Succeeded"}}, "status")
        await world.until(lambda: ended(world))
        await world.settle(50)
        assert world.all(JOBS)
        await world.settle(20)
        assert world.all(JOBS) == world.pods() == []

    live(story, lambda context: [JobController(context), GarbageCollector(context)])


def test_a_surging_daemon_is_renewed_without_a_gap() -> None:
    async def story(world: World) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        world.put(DAEMON_SETS, daemon(updateStrategy=rolling))
        await world.until(lambda: daemon_status(world).get("numberAvailable") == 4)
        fewest = 4

        def saw(change: StoreChange) -> None:
            nonlocal fewest
            ready = [pod for pod in world.pods("Running") if "deletionTimestamp" not in pod["metadata"]]
            fewest = min(fewest, len({pod["spec"]["nodeName"] for pod in ready}))

        world.store.watch(PODS, saw)
        world.patch(DAEMON_SETS, "agent", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await world.until(lambda: daemon_status(world).get("updatedNumberScheduled") == 4)
        await world.settle(10)
        assert fewest == 4
        assert {pod["metadata"]["labels"].get("v") for pod in world.pods()} == {"2"}

    play(story)
