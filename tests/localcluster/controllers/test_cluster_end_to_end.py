"""All control loops together: nodes that die, budgets, what belongs to what, and namespaces."""

import random
from typing import Any

import pytest

from localcluster.controllers.small_clusters import NAMESPACE, World, live, selecting, template
from stowplan.api.catalogue import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.manager import all_controllers
from stowplan.localcluster.kubelets import Kubelets, NodeShape
from stowplan.localcluster.objects.fields import condition_of
from stowplan.testing.faults import Faults

PATIENT = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


class Cluster:
    """A story's cluster: its world and its kubelets."""

    kubelets: Kubelets

    def start(self, world: World) -> Kubelets:
        shapes = [NodeShape(count=4, name="n", cpu="16")]
        self.kubelets = Kubelets(world.client, shapes, clock=world.clock, rng=random.Random(9))
        return self.kubelets


def play(story: Any, faults: Faults | None = None, seed: int = 1) -> None:
    cluster = Cluster()

    async def begin(world: World) -> None:
        await world.until(lambda: len(world.names(NODES)) == 4)
        await story(world, cluster.kubelets)

    def controllers(context: ControllerContext) -> list[Controller]:
        return all_controllers(context)

    live(begin, controllers, scheduler=True, beside=cluster.start, faults=faults, seed=seed)


def deployment(replicas: int = 4, **spec: Any) -> Json:
    full = {
        "replicas": replicas,
        "selector": selecting(),
        "template": template(tolerations=PATIENT),
        **spec,
    }
    return {"metadata": {"name": "web"}, "spec": full}


def running(world: World) -> list[Json]:
    return [pod for pod in world.pods("Running") if "deletionTimestamp" not in pod["metadata"]]


def taints(world: World, node: str) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in world.get(NODES, node)["spec"].get("taints") or ()]


def ready(world: World, node: str) -> str:
    return str((condition_of(world.get(NODES, node), "Ready") or {})["status"])


# Nodes


def test_pods_of_a_node_that_dies_are_replaced_when_their_patience_is_over() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(8))
        await world.until(lambda: len(running(world)) == 8)
        began = world.now
        kubelets.silence("n-1")
        await world.until(lambda: ready(world, "n-1") == "Unknown")
        assert 40 <= world.now - began <= 62
        await world.until(lambda: len(taints(world, "n-1")) == 2)
        assert taints(world, "n-1") == [
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        ]
        lost = [pod for pod in running(world) if pod["spec"]["nodeName"] == "n-1"]
        assert lost
        assert all((condition_of(pod, "Ready") or {})["status"] == "False" for pod in lost)
        await world.settle(250)
        assert len([pod for pod in running(world) if pod["spec"]["nodeName"] == "n-1"]) == len(lost)
        await world.until(
            lambda: len([pod for pod in running(world) if pod["spec"]["nodeName"] != "n-1"]) == 8, 120
        )
        target = condition_of(world.get(PODS, lost[0]["metadata"]["name"]), "DisruptionTarget") or {}
        assert target["reason"] == "DeletionByTaintManager"
        kubelets.recover("n-1")
        await world.until(lambda: taints(world, "n-1") == [] and len(world.pods()) == 8)
        assert ready(world, "n-1") == "True"

    play(story)


def test_a_node_that_no_kubelet_reports_has_longer_until_it_is_unknown() -> None:
    """A minute to start, where a node that has reported before has 50 s; looked at every 5 s."""

    async def story(world: World, kubelets: Kubelets) -> None:
        world.store.create(NODES, {"metadata": {"name": "empty"}})
        began = world.now
        await world.until(lambda: condition_of(world.get(NODES, "empty"), "Ready"))
        assert 60 <= world.now - began <= 66
        found = condition_of(world.get(NODES, "empty"), "Ready") or {}
        assert (found["status"], found["reason"]) == ("Unknown", "NodeStatusNeverUpdated")

    play(story)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(8))
        await world.until(lambda: len(running(world)) == 8)
        before = sorted(world.names(PODS))
        kubelets.silence("n-1")
        await world.until(lambda: ready(world, "n-1") == "Unknown")
        await world.settle(30)
        kubelets.recover("n-1")
        await world.settle(400)
        assert sorted(world.names(PODS)) == before
        assert taints(world, "n-1") == []
        assert world.get(DEPLOYMENTS, "web")["status"]["readyReplicas"] == 8

    play(story)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("MemoryPressure", [("node.kubernetes.io/memory-pressure", "NoSchedule")]),
        (
            "Ready",
            [
                ("node.kubernetes.io/not-ready", "NoSchedule"),
                ("node.kubernetes.io/not-ready", "NoExecute"),
            ],
        ),
    ],
)
def test_what_a_node_reports_becomes_taints(condition: str, expected: list[tuple[str, str]]) -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        kubelets.ail("n-0", condition)
        await world.settle(2)
        assert taints(world, "n-0") == expected
        kubelets.recover("n-0")
        await world.settle(2)
        assert taints(world, "n-0") == []

    play(story)


def test_a_cordoned_node_is_tainted_and_what_others_tainted_stays() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        mine = {"key": "mine", "effect": "NoSchedule"}
        world.patch(NODES, "n-0", {"spec": {"unschedulable": True, "taints": [mine]}})
        await world.settle(2)
        cordoned = ("node.kubernetes.io/unschedulable", "NoSchedule")
        assert taints(world, "n-0") == [("mine", "NoSchedule"), cordoned]
        world.patch(NODES, "n-0", {"spec": {"unschedulable": None}})
        await world.settle(2)
        assert taints(world, "n-0") == [("mine", "NoSchedule")]

    play(story)


def test_pods_of_a_node_that_vanished_are_removed_and_its_lease_too() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(8))
        await world.until(lambda: len(running(world)) == 8)
        kubelets.vanish("n-2")
        await world.until(lambda: not any(pod["spec"].get("nodeName") == "n-2" for pod in world.pods()), 120)
        await world.until(lambda: len(running(world)) == 8)
        assert sorted(world.names(LEASES)) == ["n-0", "n-1", "n-3"]

    play(story)


# Budgets


def budget(**spec: Any) -> Json:
    return {"metadata": {"name": "b"}, "spec": {"selector": selecting(), **spec}}


@pytest.mark.parametrize(
    ("spec", "healthy", "allowed", "expected"),
    [
        ({"minAvailable": 3}, 3, 1, 4),
        ({"minAvailable": "50%"}, 2, 2, 4),
        ({"maxUnavailable": 1}, 3, 1, 4),
        ({"maxUnavailable": "30%"}, 2, 2, 4),
    ],
)
def test_a_budget_knows_how_many_pods_may_go(spec: Json, healthy: int, allowed: int, expected: int) -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(4))
        world.put(POD_DISRUPTION_BUDGETS, budget(**spec))
        await world.until(lambda: len(running(world)) == 4)
        await world.settle(2)
        told = world.get(POD_DISRUPTION_BUDGETS, "b")["status"]
        found = (
            told["desiredHealthy"],
            told["disruptionsAllowed"],
            told["expectedPods"],
            told["currentHealthy"],
        )
        assert found == (healthy, allowed, expected, 4)
        assert told["observedGeneration"] == 1
        assert (condition_of({"status": told}, "DisruptionAllowed") or {})["reason"] == "SufficientPods"

    play(story)


def test_evictions_use_a_budget_up_until_new_pods_are_healthy() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(4))
        world.put(POD_DISRUPTION_BUDGETS, budget(minAvailable=3))
        await world.until(lambda: len(running(world)) == 4)
        await world.settle(2)
        first, second = world.names(PODS)[:2]
        world.store.evict(NAMESPACE, first)
        with pytest.raises(ApiError, match="disruption budget"):
            world.store.evict(NAMESPACE, second)
        await world.settle(0.1)
        with pytest.raises(ApiError, match="disruption budget"):
            world.store.evict(NAMESPACE, second)
        await world.settle(10)
        assert not world.get(POD_DISRUPTION_BUDGETS, "b")["status"].get("disruptedPods")
        world.store.evict(NAMESPACE, second)

    play(story)


def test_a_budget_over_pods_of_nobody_says_so_and_allows_nothing() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(PODS, {"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": template()["spec"]})
        world.put(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))
        await world.settle(5)
        told = world.get(POD_DISRUPTION_BUDGETS, "b")["status"]
        assert (told["expectedPods"], told["disruptionsAllowed"]) == (0, 0)
        assert "UnmanagedPods" in {event["reason"] for event in world.all(EVENTS)}

    play(story)


def test_a_budget_over_pods_whose_owner_has_no_size_cannot_be_worked_out() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        node = world.get(NODES, "n-0")["metadata"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n-0", "uid": node["uid"], "controller": True}
        metadata = {"name": "p", "labels": {"app": "a"}, "ownerReferences": [owner]}
        world.put(PODS, {"metadata": metadata, "spec": template()["spec"]})
        world.put(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))
        await world.settle(5)
        held = condition_of(world.get(POD_DISRUPTION_BUDGETS, "b"), "DisruptionAllowed") or {}
        assert (held["status"], held["reason"]) == ("False", "SyncFailed")
        assert held["message"] == 'found no controllers for pod "p"'

    play(story)


# Ownership


def delete_held(world: World, resource: Any, name: str, finalizer: str) -> None:
    """Delete with a propagation policy, as the API server does that."""
    world.patch(resource, name, {"metadata": {"finalizers": [finalizer]}})
    world.delete(resource, name)


def test_what_belongs_to_a_deleted_deployment_goes() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(4))
        await world.until(lambda: len(running(world)) == 4)
        world.delete(DEPLOYMENTS, "web")
        await world.until(lambda: not world.pods() and not world.all(REPLICA_SETS), 30)

    play(story)


def test_in_the_foreground_the_owner_goes_last() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(4))
        await world.until(lambda: len(running(world)) == 4)
        delete_held(world, DEPLOYMENTS, "web", "foregroundDeletion")
        while world.names(DEPLOYMENTS):
            await world.settle(0.05)
            assert world.now < 60
        assert world.pods() == []
        assert world.names(REPLICA_SETS) == []

    play(story)


def test_orphans_stay() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(DEPLOYMENTS, deployment(4))
        await world.until(lambda: len(running(world)) == 4)
        delete_held(world, DEPLOYMENTS, "web", "orphan")
        await world.until(lambda: not world.names(DEPLOYMENTS))
        await world.settle(20)
        (left,) = world.all(REPLICA_SETS)
        assert not left["metadata"].get("ownerReferences")
        assert len(running(world)) == 4

    play(story)


# Namespaces


def test_a_deleted_namespace_is_emptied_and_every_other_has_its_account() -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(NAMESPACES, {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}})
        await world.settle(1)
        having = [one["metadata"]["namespace"] for one in world.all(SERVICE_ACCOUNTS)]
        assert having == world.names(NAMESPACES)
        assert {"d", "x"} < set(having)
        body = deployment(3)
        world.store.create(DEPLOYMENTS, {**body, "metadata": {"name": "web", "namespace": "x"}})
        world.store.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "x"}})
        await world.until(lambda: len(running(world)) == 3)
        world.delete(NAMESPACES, "x")
        assert world.get(NAMESPACES, "x")["status"]["phase"] == "Terminating"
        await world.until(lambda: "x" not in world.names(NAMESPACES), 30)
        assert world.pods() == []
        assert world.names(DEPLOYMENTS) == world.names(REPLICA_SETS) == []
        assert "x" not in {one["metadata"]["namespace"] for one in world.all(CONFIG_MAPS)}

    play(story)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_went_wrong_the_cluster_ends_as_it_should(seed: int) -> None:
    async def story(world: World, kubelets: Kubelets) -> None:
        world.put(NAMESPACES, {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}})
        body = deployment(3)
        world.store.create(DEPLOYMENTS, {**body, "metadata": {"name": "gone", "namespace": "x"}})
        world.put(DEPLOYMENTS, deployment(6))
        world.put(POD_DISRUPTION_BUDGETS, budget(minAvailable=4))
        await world.settle(30)
        world.delete(NAMESPACES, "x")
        kubelets.silence("n-0")
        await world.settle(60)
        kubelets.vanish("n-1")
        await world.settle(60)
        kubelets.recover("n-0")
        world.faults.stop()
        await world.until(
            lambda: (
                "x" not in world.names(NAMESPACES)
                and len(world.pods()) == 6 == len(running(world))
                and taints(world, "n-0") == []
                and world.get(DEPLOYMENTS, "web")["status"].get("availableReplicas") == 6
                and world.get(POD_DISRUPTION_BUDGETS, "b")["status"].get("disruptionsAllowed") == 2
            ),
            900,
        )
        assert "n-1" not in {pod["spec"]["nodeName"] for pod in world.pods()}

    play(story, Faults(refused=0.2, lost=0.15, cut=0.05, forgotten=0.02, delay=0.2), seed)
