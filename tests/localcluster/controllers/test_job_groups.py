"""Jobs whose pods are a group: the Workload and the PodGroup that they get. Claims of groups."""

from typing import Any

import pytest

from localcluster.controllers.small_clusters import NAMESPACE, World, live
from stowplan.api.catalogue import (
    EVENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    WORKLOADS,
)
from stowplan.api.requests import DeleteOptions, Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.devices.podgroupprotection import PodGroupProtectionController
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.workloads.job import JobController
from stowplan.localcluster.controllers.workloads.jobgroups import (
    TEMPLATE_ANNOTATION,
    group_name,
    workload_name,
)
from stowplan.localcluster.objects.groupclaims import GROUP_PROTECTION

GANG: Json = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
TOPOLOGY: Json = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def controllers(context: ControllerContext) -> list[Controller]:
    return [
        JobController(context, groups=True),
        PodGroupProtectionController(context),
        GarbageCollector(context, [JOBS, PODS, POD_GROUPS, WORKLOADS, RESOURCE_CLAIMS]),
    ]


def job(name: str = "train", parallelism: int = 3, scheduling: Json | None = None, **pods: Any) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", **pods}}
    spec: Json = {"parallelism": parallelism, "completions": parallelism, "template": template}
    if scheduling is not None:
        spec["scheduling"] = scheduling
    return {"metadata": {"name": name}, "spec": spec}


def play(story: Any) -> None:
    live(story, controllers)


def test_a_job_gets_a_workload_and_a_group_before_its_pods() -> None:
    async def story(world: World) -> None:
        world.put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7})
        made = world.put(JOBS, job(scheduling={**GANG, **TOPOLOGY}, priorityClassName="high"))
        await world.until(lambda: len(world.pods()) == 3)
        (workload,) = world.all(WORKLOADS)
        (group,) = world.all(POD_GROUPS)
        assert workload["metadata"]["name"] == workload_name(made)
        assert workload["spec"] == {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [
                {
                    "name": "train-pgt-0",
                    "schedulingPolicy": {"gang": {"minCount": 3}},
                    "priorityClassName": "high",
                    "disruptionMode": {"all": {}},
                    **TOPOLOGY,
                }
            ],
        }
        assert group["spec"]["workloadRef"] == {
            "workloadName": workload["metadata"]["name"],
            "templateName": "train-pgt-0",
        }
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert (group["spec"]["priority"], group["spec"]["disruptionMode"]) == (7, {"all": {}})
        owners = [(one["kind"], one.get("controller", False)) for one in group["metadata"]["ownerReferences"]]
        assert owners == [("Job", True), ("Workload", False)]
        for pod in world.pods():
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}
            assert {one["kind"] for one in pod["metadata"]["ownerReferences"]} == {"Job"}
        reasons = {event["reason"] for event in world.all(EVENTS)}
        assert {"WorkloadCreated", "PodGroupCreated", "SuccessfulCreate"} <= reasons

    play(story)


def test_a_job_that_says_nothing_is_a_group_with_the_basic_policy() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job())
        await world.until(lambda: len(world.pods()) == 3)
        (group,) = world.all(POD_GROUPS)
        assert group["spec"]["schedulingPolicy"] == {"basic": {}}

    play(story)


@pytest.mark.parametrize("how", ["own group", "owned", "started"])
def test_a_job_without_a_group_of_its_own(how: str) -> None:
    async def story(world: World) -> None:
        body = job(schedulingGroup={"podGroupName": "mine"}) if how == "own group" else job()
        if how == "owned":
            owner = {"apiVersion": "x.io/v1", "kind": "Set", "name": "s", "uid": "1", "controller": True}
            body["metadata"]["ownerReferences"] = [owner]
        if how == "started":
            body["spec"]["suspend"] = True
        world.put(JOBS, body)
        if how == "started":
            started = {"startTime": "2026-01-01T00:00:00Z", "failed": 1}
            world.patch(JOBS, "train", {"status": started}, subresource="status")
            world.patch(JOBS, "train", {"spec": {"suspend": False}})
        await world.until(lambda: len(world.pods()) == 3)
        assert world.all(POD_GROUPS) == world.all(WORKLOADS) == []

    live(story, lambda context: [JobController(context, groups=True)])


def test_a_job_of_another_controller_gets_a_group_from_the_template_that_it_names() -> None:
    async def story(world: World) -> None:
        parent = world.put(JOBS, job("parent", parallelism=0))
        ref = {"apiGroup": "x.io", "kind": "Set", "name": "s"}
        templates = [
            {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}}
            for name, count in (("leader", 1), ("worker", 2))
        ]
        spec = {"controllerRef": ref, "podGroupTemplates": templates}
        world.put(WORKLOADS, {"metadata": {"name": "w"}, "spec": spec})
        body = job(parallelism=2)
        owner = {"apiVersion": "x.io/v1", "kind": "Set", "name": "s", "controller": True}
        body["metadata"] |= {
            "ownerReferences": [{**owner, "uid": parent["metadata"]["uid"]}],
            "annotations": {TEMPLATE_ANNOTATION: "worker"},
        }
        world.put(JOBS, body)
        await world.until(lambda: len(world.pods()) == 2)
        group = world.get(POD_GROUPS, group_name("w", "worker"))
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert [one["kind"] for one in group["metadata"]["ownerReferences"]] == ["Job"]

    live(story, lambda context: [JobController(context, groups=True)])


def test_a_gang_is_resized_with_its_job() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}))
        await world.until(lambda: len(world.pods()) == 3)
        world.patch(JOBS, "train", {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}}})

        def resized() -> bool:
            (workload,), (group,) = world.all(WORKLOADS), world.all(POD_GROUPS)
            template = workload["spec"]["podGroupTemplates"][0]
            wanted = {"gang": {"minCount": 3}}
            return bool(template["schedulingPolicy"] == group["spec"]["schedulingPolicy"] == wanted)

        await world.until(resized)

    play(story)


def test_with_a_job_go_its_workload_its_group_and_its_pods() -> None:
    async def story(world: World) -> None:
        world.put(JOBS, job(scheduling=GANG))
        await world.until(lambda: len(world.pods()) == 3)
        world.store.delete(JOBS, NAMESPACE, "train", DeleteOptions(propagation="Background"))
        await world.until(lambda: not any(map(world.all, (JOBS, PODS, POD_GROUPS, WORKLOADS))))

    play(story)


def test_a_deleted_group_stays_until_its_last_pod_has_ended() -> None:
    async def story(world: World) -> None:
        world.put(POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}})
        for name in ("a", "b"):
            spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}
            world.put(PODS, {"metadata": {"name": name}, "spec": spec})
        world.delete(POD_GROUPS, "g")
        world.delete(PODS, "a")
        await world.settle(5)
        assert world.get(POD_GROUPS, "g")["metadata"]["finalizers"] == [GROUP_PROTECTION]
        world.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.until(lambda: world.all(POD_GROUPS) == [])

    play(story)


def test_names_of_groups_are_cut_where_they_are_longest() -> None:
    for workload, template in (("w" * 300, "t"), ("w", "t" * 300), ("w" * 300, "t" * 300)):
        name = group_name(workload, template)
        assert len(name) == 253
        assert name.startswith("w")
        assert "-t" in name


def test_pods_of_a_group_share_the_claim_that_is_made_for_it() -> None:
    async def story(world: World) -> None:
        shared = {"name": "gpus", "resourceClaimTemplateName": "t"}
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
        world.put(
            RESOURCE_CLAIM_TEMPLATES,
            {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}},
        )
        spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [shared]}
        containers = [{"name": "c", "image": "i"}]
        for name, own in (("a", shared), ("b", shared), ("c", {**shared, "name": "mine"})):
            wanted = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": [own]}
            world.put(PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **wanted}})
        group = world.put(POD_GROUPS, {"metadata": {"name": "g"}, "spec": spec})

        def claims() -> list[list[str]]:
            statuses = [pod["status"].get("resourceClaimStatuses") or () for pod in world.all(PODS)]
            return [[one["resourceClaimName"] for one in status] for status in statuses]

        await world.until(lambda: all(claims()))
        (of_a,), (of_b,), (of_c,) = claims()
        assert of_a == of_b != of_c
        made = world.get(RESOURCE_CLAIMS, of_a)
        owner = made["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("PodGroup", group["metadata"]["uid"])
        for_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g"}
        reserved = [{**for_group, "uid": group["metadata"]["uid"]}]
        device = {"request": "r", "driver": "d", "pool": "p", "device": "0"}
        allocation = {"devices": {"results": [device]}}
        status = {"allocation": allocation, "reservedFor": reserved}
        world.patch(RESOURCE_CLAIMS, of_a, {"status": status}, subresource="status")
        await world.settle(5)
        assert world.get(RESOURCE_CLAIMS, of_a)["status"]["reservedFor"] == reserved
        for name in ("a", "b", "c"):
            world.delete(PODS, name)
        world.delete(POD_GROUPS, "g")
        await world.until(lambda: world.all(RESOURCE_CLAIMS) == [])

    live(story, lambda context: [ResourceClaimController(context, groups=True), *controllers(context)])
