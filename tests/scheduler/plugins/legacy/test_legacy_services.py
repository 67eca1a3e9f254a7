"""A living scheduler hears of services when a plugin needs them, and tries pods again."""

import json
from typing import Any

from scheduler.live_scheduler import NAMESPACE, World, live
from scheduler.plugins.legacy.asking import only
from stowplan.api.catalogue import SERVICES
from stowplan.config import load

LABELLED = {"labels": {"app": "web"}}


def _service(**selector: str) -> dict[str, Any]:
    meta = {"name": "web", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}}


def test_a_pod_kept_with_its_service_is_free_once_the_service_is_gone() -> None:
    async def story(world: World) -> None:
        world.store.create(SERVICES, _service(app="web"))
        world.add_node("a", labels={"region": "a"})
        await world.add_pod("first", metadata=LABELLED)
        assert world.node_of("first") == "a"
        world.remove_node("a")
        world.add_node("a", labels={"region": "a"}, unschedulable=True)
        world.add_node("b", labels={"region": "b"})
        await world.add_pod("second", metadata=LABELLED)
        assert not world.node_of("second")
        world.store.delete(SERVICES, NAMESPACE, "web")
        await world.settle(30)
        assert world.node_of("second") == "b"

    config = only("ServiceAffinity", {"affinityLabels": ["region"]}, "NodeUnschedulable")
    live(story, config=load(json.dumps(config)))
