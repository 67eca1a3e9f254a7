"""Deployments with everything around them: pods get created, placed and run, rollouts complete."""

import random
from typing import Any

import pytest

from localcluster.controllers.small_clusters import NAMESPACE, World, live, selecting, template
from stowplan.api.catalogue import DEPLOYMENTS, EVENTS, LIMIT_RANGES, PODS, REPLICA_SETS
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.workloads.deployment import DeploymentController
from stowplan.localcluster.controllers.workloads.replicaset import ReplicaSetController
from stowplan.localcluster.kubelets import Kubelets, NodeShape
from stowplan.localcluster.objects.fields import condition_of
from stowplan.testing.faults import Faults


def controllers(context: ControllerContext) -> list[Controller]:
    return [DeploymentController(context), ReplicaSetController(context)]


def kubelets(world: World) -> Kubelets:
    shapes = [NodeShape(count=5, cpu="16")]
    return Kubelets(world.client, shapes, clock=world.clock, rng=random.Random(9))


def deployment(replicas: int = 4, **spec: Any) -> Json:
    full = {"replicas": replicas, "selector": selecting(), "template": template(), **spec}
    return {"metadata": {"name": "web"}, "spec": full}


def status(world: World) -> Json:
    found: Json = world.get(DEPLOYMENTS, "web").get("status", {})
    return found


def is_rolled_out(world: World) -> bool:
    """As `kubectl rollout status` sees it."""
    now = world.get(DEPLOYMENTS, "web")
    told, wanted = now.get("status", {}), now["spec"]["replicas"]
    return bool(
        told.get("observedGeneration", 0) >= now["metadata"]["generation"]
        and told.get("updatedReplicas", 0) == wanted
        and told.get("replicas", 0) == wanted
        and told.get("availableReplicas", 0) == wanted
    )


def images(world: World) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in world.all(PODS)}


def set_image(world: World, image: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
    world.patch(DEPLOYMENTS, "web", change)


def test_what_admission_fills_in_for_a_pod_stays_out_of_its_template() -> None:
    """Otherwise the template of the ReplicaSet is no longer that of the Deployment, which makes another."""

    async def story(world: World) -> None:
        defaults = {"type": "Container", "defaultRequest": {"memory": "1Gi"}}
        world.put(LIMIT_RANGES, {"metadata": {"name": "sizes"}, "spec": {"limits": [defaults]}})
        limited = template()
        limited["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
        world.put(DEPLOYMENTS, deployment(2, template=limited))
        await world.until(lambda: is_rolled_out(world))
        world.patch(DEPLOYMENTS, "web", {"metadata": {"labels": {"looked": "at"}}})
        await world.settle(5)
        (replicas,) = world.all(REPLICA_SETS)
        for obj in (replicas, world.get(DEPLOYMENTS, "web")):
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            assert container["resources"] == {"limits": {"cpu": "1"}}
        for pod in world.all(PODS):
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            assert requests == {"cpu": "1", "memory": "1Gi"}

    live(story, controllers, scheduler=True, beside=kubelets)


def test_fifty_pods_come_to_run_and_the_deployment_says_so() -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(50))
        await world.until(lambda: is_rolled_out(world))
        assert len(world.pods("Running")) == 50 == world.pods_created
        told = status(world)
        assert told["readyReplicas"] == 50
        assert told["terminatingReplicas"] == 0
        assert "unavailableReplicas" not in told
        held = world.get(DEPLOYMENTS, "web")
        assert (condition_of(held, "Available") or {})["reason"] == "MinimumReplicasAvailable"
        progressing = condition_of(held, "Progressing") or {}
        assert progressing["reason"] == "NewReplicaSetAvailable"
        (one,) = world.all(REPLICA_SETS)
        assert (
            progressing["message"] == f'ReplicaSet "{one["metadata"]["name"]}" has successfully progressed.'
        )
        assert one["status"]["fullyLabeledReplicas"] == 50
        assert held["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        reasons = {event["reason"] for event in world.all(EVENTS)}
        assert {"ScalingReplicaSet", "SuccessfulCreate"} <= reasons

    live(story, controllers, scheduler=True, beside=kubelets)


def test_a_rolling_update_keeps_enough_pods_and_undo_goes_back() -> None:
    async def story(world: World) -> None:
        world.put(
            DEPLOYMENTS, deployment(8, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}})
        )
        await world.until(lambda: is_rolled_out(world))
        first = world.get(DEPLOYMENTS, "web")["spec"]["template"]
        set_image(world, "registry.example/app:2")
        lowest, most = 8, 0
        while not (is_rolled_out(world) and images(world) == {"registry.example/app:2"}):
            lowest = min(lowest, status(world)["availableReplicas"])
            most = max(
                most, len([pod for pod in world.all(PODS) if "deletionTimestamp" not in pod["metadata"]])
            )
            await world.settle(0.05)
            assert world.now < 300
        assert lowest >= 7
        assert 8 < most <= 10
        patch = [{"op": "replace", "path": "/spec/template", "value": first}]
        world.store.patch(DEPLOYMENTS, NAMESPACE, "web", patch, PatchType.JSON)
        await world.until(lambda: is_rolled_out(world) and images(world) == {"registry.example/app:1"})
        assert len(world.all(REPLICA_SETS)) == 2
        revisions = sorted(
            one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            for one in world.all(REPLICA_SETS)
        )
        assert revisions == ["2", "3"]
        assert (
            world.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            == "3"
        )

    live(story, controllers, scheduler=True, beside=kubelets)


def test_recreating_ends_all_old_pods_first() -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(4, strategy={"type": "Recreate"}))
        await world.until(lambda: is_rolled_out(world))
        set_image(world, "registry.example/app:2")
        while images(world) != {"registry.example/app:2"}:
            assert len(images(world)) <= 1
            await world.settle(0.05)
            assert world.now < 300
        await world.until(lambda: is_rolled_out(world))

    live(story, controllers, scheduler=True, beside=kubelets)


def test_scaling_goes_up_and_down_and_to_nothing() -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(3))
        for size, created in ((3, 3), (7, 7), (2, 7), (0, 7), (5, 12)):
            world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": size}})
            await world.until(lambda: is_rolled_out(world))
            await world.settle(5)
            assert (len(world.pods("Running")), world.pods_created) == (size, created)

    live(story, controllers, scheduler=True, beside=kubelets)


def test_a_rollout_that_cannot_go_on_is_called_so_after_its_deadline() -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(2, template=template(cpu="1000"), progressDeadlineSeconds=60))
        await world.settle(50)
        held = condition_of(world.get(DEPLOYMENTS, "web"), "Progressing") or {}
        assert held["status"] == "True"
        await world.settle(30)
        held = condition_of(world.get(DEPLOYMENTS, "web"), "Progressing") or {}
        assert (held["status"], held["reason"]) == ("False", "ProgressDeadlineExceeded")
        available = condition_of(world.get(DEPLOYMENTS, "web"), "Available") or {}
        assert available["message"] == "Deployment does not have minimum availability."

    live(story, controllers, scheduler=True, beside=kubelets)


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(3))
        await world.until(lambda: is_rolled_out(world))
        world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 5}})
        set_image(world, "registry.example/app:2")
        await world.settle(20)
        assert images(world) == {"registry.example/app:1"}
        assert len(world.pods("Running")) == 5
        world.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
        await world.until(lambda: is_rolled_out(world) and images(world) == {"registry.example/app:2"})

    live(story, controllers, scheduler=True, beside=kubelets)


def test_a_pod_without_an_owner_is_adopted_and_one_that_fits_no_more_is_let_go() -> None:
    async def story(world: World) -> None:
        world.put(PODS, {"metadata": {"name": "stray", "labels": {"app": "a"}}, "spec": template()["spec"]})
        one = {"metadata": {"name": "rs"}, "spec": deployment(2)["spec"]}
        world.put(REPLICA_SETS, one)
        await world.settle(5)
        assert len(world.pods()) == 2
        assert world.get(PODS, "stray")["metadata"]["ownerReferences"][0]["name"] == "rs"
        world.patch(PODS, "stray", {"metadata": {"labels": {"app": "b"}}})
        await world.settle(5)
        assert len(world.pods()) == 3
        assert not world.get(PODS, "stray")["metadata"].get("ownerReferences")

    live(story, controllers, scheduler=True, beside=kubelets)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_went_wrong_a_deployment_ends_as_it_should(seed: int) -> None:
    async def story(world: World) -> None:
        world.put(DEPLOYMENTS, deployment(10))
        await world.settle(20)
        set_image(world, "registry.example/app:2")
        await world.settle(20)
        world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}})
        await world.settle(10)
        world.faults.stop()
        await world.until(
            lambda: is_rolled_out(world) and len(world.pods()) == 6 == len(world.pods("Running")), 600
        )
        assert images(world) == {"registry.example/app:2"}
        assert len(world.all(REPLICA_SETS)) == 2

    faults = Faults(refused=0.2, lost=0.15, cut=0.05, forgotten=0.02, delay=0.2)
    live(story, controllers, scheduler=True, beside=kubelets, faults=faults, seed=seed)
