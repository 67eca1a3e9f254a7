"""Layers of workloads over the API: the document of the command line, with the rights of the viewer."""

from collections.abc import Mapping
from typing import Any

from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import DEPLOYMENTS, EVENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.access import EVERYTHING, Viewer

CONTAINERS = {"containers": [{"name": "main", "image": "app"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}


async def told(
    world: World, path: str, viewer: Viewer = EVERYTHING, query: Mapping[str, str] | None = None
) -> Any:
    inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
    answer = await Routes(inspection, dict).answer(f"/stowplan/v1/{path}", query or {}, viewer)
    return answer.document.document() if answer.code == 200 else answer.code


def owned_by(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]


def refused_deployment(world: World, namespace: str) -> None:
    """A Deployment whose ReplicaSet may not create pods."""
    world.store.create(NAMESPACES, {"metadata": {"name": namespace}})
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    world.store.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": namespace}, "spec": spec})
    metadata = {"name": "web-1", "namespace": namespace, "ownerReferences": owned_by("Deployment", "web")}
    world.store.create(REPLICA_SETS, {"metadata": metadata, "spec": spec})
    event = {
        "metadata": {"name": "web-1.1", "namespace": namespace},
        "regarding": {"kind": "ReplicaSet", "namespace": namespace, "name": "web-1"},
        "reason": "FailedCreate",
        "type": "Warning",
        "note": 'Error creating: pods "web-1-" is forbidden: no PriorityClass with name gold was found',
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    world.store.create(EVENTS, event)


def may_read(*namespaces: str) -> Viewer:
    async def allowed(resource: str, namespace: str) -> bool:
        return namespace in namespaces

    return Viewer(allowed)


def test_a_workload_is_explained_as_on_the_command_line() -> None:
    async def story(world: World) -> None:
        refused_deployment(world, "shop")
        found = await told(world, "deployments/shop/web")
        assert found["headline"] == (
            "Deployment shop/web: 0 of 2 pods exist: PriorityClass gold does not exist"
        )
        assert (found["document"], found["stoppedAt"]) == ("workload", "created")
        assert await told(world, "deployments/shop/other") == 404
        assert await told(world, "deployments/shop/web", may_read("team")) == 403

    live(story)


def test_pending_lists_workloads_without_pods_where_the_viewer_may_look() -> None:
    async def story(world: World) -> None:
        refused_deployment(world, "shop")
        refused_deployment(world, "team")
        await world.settle(1)
        found = await told(world, "pending")
        assert found["headline"] == "4 pods cannot be created"
        lines = [(one["name"], one["count"], one["workload"], one["pods"]) for one in found["notCreated"]]
        assert lines == [("shop/web", 2, "deployment/web", []), ("team/web", 2, "deployment/web", [])]
        assert {one["reason"] for one in found["notCreated"]} == {"PriorityClass gold does not exist"}
        found = await told(world, "pending", may_read("team"))
        assert [one["name"] for one in found["notCreated"]] == ["team/web"]
        found = await told(world, "pending", may_read("elsewhere"))
        assert found["notCreated"] == []

    live(story)


def test_causes_have_the_commands_that_the_answer_about_a_pod_has() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("big", cpu="6")
        await world.add_pod("v", schedulerName="volcano")
        found = await told(world, "pending")
        for causes, name in ((found["causes"], "big"), (found["elsewhere"], "v")):
            of_cause = causes[0]["explanation"]["changes"]
            of_pod = (await told(world, f"pods/d/{name}"))["changes"]
            assert [one.get("command") for one in of_cause] == [one.get("command") for one in of_pod]
            assert of_cause[0]["command"].startswith("kubectl get pod/")

    live(story)


def test_rights_that_are_missing_are_told_beside_what_was_found() -> None:
    async def no_events(resource: str, namespace: str) -> bool:
        return not resource.startswith("events")

    async def story(world: World) -> None:
        refused_deployment(world, "shop")
        found = await told(world, "deployments/shop/web", Viewer(no_events))
        missing = "events could not be read: reading events.events.k8s.io in namespace shop is not allowed"
        assert found["incomplete"] == [missing]
        assert "its controller has said nothing yet" in found["headline"]
        found = await told(world, "pending", Viewer(no_events))
        assert [one for one in found["incomplete"] if one.startswith("pods that cannot be created: events")]

    live(story)


def test_workloads_are_found_by_name_where_the_viewer_may_look() -> None:
    async def story(world: World) -> None:
        for namespace in ("shop", "team"):
            refused_deployment(world, namespace)
        everything = await told(world, "workloads")
        # The ReplicaSets belong to the Deployments.
        assert [(one["kind"], one["workload"]) for one in everything["items"]] == [
            ("Deployment", "shop/web"),
            ("Deployment", "team/web"),
        ]
        assert [one["workload"] for one in (await told(world, "workloads", may_read("team")))["items"]] == [
            "team/web"
        ]
        assert (await told(world, "workloads", query={"search": "SHOP/w"}))["total"] == 1
        assert await told(world, "workloads", query={"limit": "x"}) == 400

    live(story)


def test_events_of_a_pod_are_read_with_the_rights_of_the_viewer() -> None:
    async def story(world: World) -> None:
        world.store.create(NAMESPACES, {"metadata": {"name": "shop"}})
        world.store.create(PODS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": CONTAINERS})
        event = {
            "metadata": {"name": "web.1", "namespace": "shop"},
            "regarding": {"kind": "Pod", "namespace": "shop", "name": "web"},
            "reason": "Pulled",
            "type": "Normal",
            "note": "Container image is present",
            "eventTime": "2026-01-01T00:00:00.000000Z",
        }
        world.store.create(EVENTS, event)
        found = await told(world, "pods/shop/web/events")
        assert [(one["reason"], one["note"]) for one in found["items"] if one["reason"] == "Pulled"] == [
            ("Pulled", "Container image is present")
        ]

        async def pods_alone(resource: str, namespace: str) -> bool:
            return resource == "pods"

        assert await told(world, "pods/shop/web/events", may_read("team")) == 403
        unread = await told(world, "pods/shop/web/events", Viewer(pods_alone))
        assert unread["items"] == []
        assert "events could not be read" in unread["incomplete"][0]

    live(story)


def test_a_failed_job_is_judged_by_pods_that_schedulers_do_not_watch() -> None:
    async def story(world: World) -> None:
        world.store.create(NAMESPACES, {"metadata": {"name": "shop"}})
        spec = {"backoffLimit": 0, "template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}}
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "too often",
        }
        job = {"metadata": {"name": "report", "namespace": "shop"}, "spec": spec}
        made = world.store.create(JOBS, job)
        made = {**made, "status": {"failed": 1, "conditions": [failed]}}
        world.store.update(JOBS, made, subresource="status")
        owner = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "report", "uid": "report", "controller": True}
        ]
        metadata = {"name": "report-1", "namespace": "shop", "ownerReferences": owner}
        ended = world.store.create(PODS, {"metadata": metadata, "spec": CONTAINERS})
        world.store.update(PODS, {**ended, "status": {"phase": "Failed"}}, subresource="status")
        found = await told(world, "jobs/shop/report")
        assert found["failed"] == 1
        assert "kubectl logs -n shop report-1" in found["remedy"]

    live(story)
