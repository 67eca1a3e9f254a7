"""The walk of a POST in docs/design.md is the one it takes, from the request to the controller."""

import asyncio
import http.client
import json
from random import Random
from typing import Any

from docs import walks
from stowplan.api.catalogue import REPLICA_SETS
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.workloads.replicaset import ReplicaSetController
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE

CONTAINERS = [{"name": "main", "image": "registry.example/app:1"}]
LABELS = {"app": "web"}


def replica_set() -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def post_pod(server: ApiServer) -> int:
    """Create a pod that the ReplicaSet adopts."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "labels": LABELS},
        "spec": {"containers": CONTAINERS},
    }
    host, port = server.url.split("//")[1].split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/namespaces/default/pods", json.dumps(pod), headers)
    code = connection.getresponse().status
    connection.close()
    return code


def traced() -> list[walks.Step]:
    tracer = walks.Tracer(
        first="RequestHandler.__call__",
        milestones=(
            "WriteVerbs.create",
            "Store.create",
            "ClusterAdmission.admit_create",
            "ObjectStorage._change",
            "Watcher.deliver",
            "Informer.added",
            "WorkQueue.add",
        ),
        last="ReplicaSetController.sync",
        packages=("localcluster", "client"),
    )

    async def story() -> None:
        clock = RealClock()
        store = Store(clock, Random(1), admission=ClusterAdmission(), fields=FieldManager())
        create_bootstrap_objects(store)
        context = ControllerContext.of(InProcessClient(store), clock, Random(2))
        server = ApiServer(store, Listening(plain=True, token="the-token"), rng=Random(3))
        manager = ControllerManager(context, [ReplicaSetController(context)])
        async with server, manager.running():
            store.create(REPLICA_SETS, replica_set(), "default")
            while not store.get(REPLICA_SETS, "default", "web")["status"].get("replicas"):
                await asyncio.sleep(0)
            with tracer:
                assert await asyncio.to_thread(post_pod, server) == 201
                while tracer.is_on:
                    await asyncio.sleep(0)

    async def in_time() -> None:
        await asyncio.wait_for(story(), PATIENCE)

    asyncio.run(in_time())
    return tracer.walk


def test_the_design_page_lists_the_walk_of_a_request() -> None:
    walks.check(traced, most_files=13, most_functions=30)
