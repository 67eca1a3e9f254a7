"""Groups in a running scheduler: their objects and members in a line each."""

from typing import Any

from releases import V1_37
from scheduler.live_scheduler import NAMESPACE, World, configured
from stowplan.api.catalogue import COMPOSITE_POD_GROUPS, POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.requests import Json
from stowplan.config import LoadedConfig


def with_gates(*names: str, **others: bool) -> LoadedConfig:
    gates = {**dict.fromkeys(("GenericWorkload", *names), True), **others}
    return configured(gates=FeatureGates(gates, V1_37))


def add_group(world: World, name: str, count: int | None = None, priority: int = 0, **spec: Any) -> Json:
    """A PodGroup; without a count the policy is `basic`."""
    policy: Json = {"basic": {}} if count is None else {"gang": {"minCount": count}}
    full = {"schedulingPolicy": policy, "priority": priority, **spec}
    return world.store.create(POD_GROUPS, {"metadata": _metadata(name), "spec": full})


def add_composite(world: World, name: str, count: int, priority: int = 0, **spec: Any) -> Json:
    policy = {"gang": {"minGroupCount": count}}
    full = {"schedulingPolicy": policy, "priority": priority, **spec}
    return world.store.create(COMPOSITE_POD_GROUPS, {"metadata": _metadata(name), "spec": full})


def _metadata(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE}


def put_members(
    world: World, group: str, count: int, cpu: str = "2", priority: int = 0, **about: Any
) -> list[str]:
    """Members of a group, `group-0` and so on; the scheduler has not heard of them yet."""
    names = [f"{group}-{number}" for number in range(count)]
    for name in names:
        world.put_pod(name, cpu, priority=priority, schedulingGroup={"podGroupName": group}, **about)
    return names


def told_of(world: World, group: str) -> str:
    """The message of a group's condition."""
    conditions = world.store.get(POD_GROUPS, NAMESPACE, group).get("status", {}).get("conditions", ())
    return next((one["message"] for one in conditions), "")
