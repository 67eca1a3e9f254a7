"""The status of scheduler-plugins' PodGroups, as their controller writes it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.controllers.small_clusters import World, live
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, PODS
from stowplan.api.coscheduling import POD_GROUP_LABEL
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.devices.coscheduling import CoschedulingController, next_status

CRD = Path(__file__).parents[3] / "deploy" / "coscheduling" / "crd.yaml"


def pods(*phases: str) -> list[Json]:
    owner = {"kind": "ReplicaSet", "name": "r"}
    return [
        {
            "metadata": {"name": f"p{i}", "namespace": "d", "ownerReferences": [owner]},
            "status": {"phase": phase},
        }
        for i, phase in enumerate(phases)
    ]


@pytest.mark.parametrize(
    ("phase", "members", "expected"),
    [
        ("", pods(), {"phase": "Pending"}),
        ("Pending", pods("Pending"), {}),
        ("Pending", pods("Pending", "Pending"), {"phase": "Scheduling", "occupiedBy": "d/r"}),
        ("Scheduling", pods("Running", "Pending"), {"phase": "Scheduling", "running": 1}),
        ("Scheduling", pods("Running", "Running"), {"phase": "Running", "running": 2}),
        ("Running", pods("Running"), {"phase": "Pending", "running": 1}),
        ("Running", pods("Succeeded", "Failed"), {"phase": "Failed", "succeeded": 1, "failed": 1}),
        ("Running", pods("Succeeded", "Succeeded"), {"phase": "Finished", "succeeded": 2}),
        ("Finished", pods(), {}),
        ("Failed", pods("Running", "Running"), {}),
    ],
)
def test_a_group_goes_from_phase_to_phase(phase: str, members: list[Json], expected: Json) -> None:
    group = {"spec": {"minMember": 2}, "status": {"phase": phase}}
    counts = dict.fromkeys(("running", "succeeded", "failed"), 0) if "phase" in expected else {}
    if phase in ("", "Pending"):
        counts = {}
    assert next_status(group, members) == {**counts, **expected}


def test_the_status_follows_the_pods() -> None:
    async def story(world: World) -> None:
        world.store.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(CRD.read_text("utf-8")))
        groups = world.store.catalogue.named("podgroups.v1alpha1.scheduling.x-k8s.io")
        assert groups is not None
        world.put(groups, {"metadata": {"name": "g"}, "spec": {"minMember": 1}})

        def phase() -> Any:
            return (world.get(groups, "g").get("status") or {}).get("phase")

        await world.until(lambda: phase() == "Pending")
        metadata = {"name": "p", "labels": {POD_GROUP_LABEL: "g"}}
        world.put(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        await world.until(lambda: phase() == "Scheduling")
        world.patch(PODS, "p", {"status": {"phase": "Running"}}, subresource="status")
        await world.until(lambda: phase() == "Running")
        assert world.get(groups, "g")["status"]["running"] == 1

    live(story, lambda context: [CoschedulingController(context)])
