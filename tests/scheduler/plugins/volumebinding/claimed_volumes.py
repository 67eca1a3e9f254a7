"""A running scheduler with two nodes, a claim, and a controller for claims and volumes."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.live_scheduler import NAMESPACE, World, configured
from stowplan.api import catalogue as c
from stowplan.api.requests import Json, PatchType
from stowplan.config import LoadedConfig
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.manager import volume_controllers
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerSettings

HOST = "kubernetes.io/hostname"
CLASSES = {
    "static": ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    "dynamic": ("example.com/disks", "WaitForFirstConsumer"),
    "immediate": ("example.com/disks", "Immediate"),
}


async def two_nodes(world: World) -> None:
    for name in ("n1", "n2"):
        world.add_node(name)
    for name, (provisioner, mode) in CLASSES.items():
        fields = {"provisioner": provisioner, "volumeBindingMode": mode}
        world.store.create(c.STORAGE_CLASSES, {"metadata": {"name": name}, **fields})


@asynccontextmanager
async def looked_after(
    world: World, provisioner: ProvisionerSettings | None = None
) -> AsyncGenerator[ControllerManager, None]:
    """With the control loops that bind claims and make volumes."""
    context = ControllerContext.of(InProcessClient(world.store), world.clock, random.Random(3))
    async with ControllerManager(context, volume_controllers(context, provisioner)).running() as crew:
        yield crew


def patient(seconds: int) -> LoadedConfig:
    """A configuration that has volumes waited for no longer than this."""
    args = {"bindTimeoutSeconds": seconds}
    return configured(
        {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "VolumeBinding", "args": args}]}
    )


def add_claim(world: World, class_name: str, name: str = "c", mode: str = "ReadWriteOnce") -> None:
    spec = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    world.store.create(c.PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})


def add_volume(world: World, name: str = "v", node: str = "n1") -> None:
    """A free volume of the class `static` that only one node reaches."""
    here = {"key": HOST, "operator": "In", "values": [node]}
    spec = {
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "static",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    made = world.store.create(c.PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    world.store.update(c.PERSISTENT_VOLUMES, {**made, "status": {"phase": "Available"}}, subresource="status")


async def add_user(world: World, name: str = "p", claim: str = "c", **spec: Any) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    await world.add_pod(name, volumes=volumes, **spec)


def claim_of(world: World, name: str = "c") -> Json:
    return world.store.get(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name)


def remove_claim(world: World, name: str = "c") -> None:
    world.store.delete(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name)


def remove_volume(world: World, name: str = "v") -> None:
    world.store.delete(c.PERSISTENT_VOLUMES, "", name)


def change_claim(world: World, patch: Json, name: str = "c") -> None:
    world.store.patch(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name, patch, PatchType.MERGE)


def change_volume(world: World, patch: Json, name: str = "v") -> None:
    world.store.patch(c.PERSISTENT_VOLUMES, "", name, patch, PatchType.MERGE)


def volume_errors(world: World, operation: str) -> int:
    """Number of failures of a stage, according to the metric."""
    name, labels = "scheduler_volume_scheduling_stage_error_total", {"operation": operation}
    value = world.scheduler.context.metrics.registry.get_sample_value(name, labels)
    return int(value or 0)
