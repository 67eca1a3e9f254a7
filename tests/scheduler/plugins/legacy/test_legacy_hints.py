"""Events that wake a pod that a plugin of an earlier release rejected, and those that do not."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.plugins.legacy.asking import only, service
from scheduler.plugins.legacy.test_legacy_filters import having
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, build_hint_map
from stowplan.scheduler.plugins.legacy.serviceaffinity import SERVICES
from stowplan.testing import cluster, node, pod

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
CONDITION = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_CONDITION)
TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
ALLOCATABLE = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
TOLERATION = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
POD_LABEL = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
SERVICE_ADD, SERVICE_UPDATE, SERVICE_DELETE = (
    ClusterEvent(SERVICES, action) for action in (Action.ADD, Action.UPDATE, Action.DELETE)
)

WAITING = pod("p").labels(app="web")
SIBLING = pod("x").labels(app="web").on("n").obj()
STRANGER = pod("y").labels(app="db").on("n").obj()
ABROAD = pod("z").labels(app="web").namespace("other").on("n").obj()
READY, SICK = having("n", Ready="True").obj(), having("n", Ready="False").obj()
FULL, FINE = having("n", DiskPressure="True").obj(), having("n", DiskPressure="False").obj()
DEADLY = node("n").taint("a", effect="NoExecute").obj()
LABELLED, RELABELLED = node("n").labels(region="a").obj(), node("n").labels(region="b").obj()
BARE = node("n").obj()
WEB = service("s", app="web")


def told(plugin: str, args: dict[str, Any], event: ClusterEvent, old: Any, new: Any) -> str:
    """`deaf` if a plugin does not want to hear of an event, else what it says of it."""
    [framework] = cluster(config=only(plugin, args)).frameworks.values()
    hints = build_hint_map(framework.plugins.values()).matching(event)
    if plugin not in hints:
        return "deaf"
    waiting = framework.table.info(WAITING.obj())
    said = {Hint.QUEUE if entry.hint is None else entry.hint(waiting, old, new) for entry in hints[plugin]}
    return "wakes" if Hint.QUEUE in said else "sleeps"


def own_toleration() -> tuple[Pod, Pod]:
    return WAITING.obj(), WAITING.tolerates("a").obj()


LABELS = {"presentLabels": ["region"]}
REGION = {"affinityLabels": ["region"]}

TABLE = [
    ("NodeCondition", {}, NODE_ADD, None, READY, "wakes"),
    ("NodeCondition", {}, NODE_ADD, None, SICK, "sleeps"),
    ("NodeCondition", {}, CONDITION, SICK, READY, "wakes"),
    ("NodeCondition", {}, CONDITION, READY, READY, "sleeps"),
    ("NodeCondition", {}, TAINT, node("n").unschedulable().obj(), BARE, "wakes"),
    ("NodeCondition", {}, ALLOCATABLE, SICK, READY, "deaf"),
    ("NodeDiskPressure", {}, CONDITION, FULL, FINE, "wakes"),
    ("NodeDiskPressure", {}, CONDITION, FINE, FULL, "sleeps"),
    ("NodeDiskPressure", {}, ALLOCATABLE, FULL, FINE, "deaf"),
    ("NodeMemoryPressure", {}, NODE_ADD, None, BARE, "wakes"),
    ("NodePIDPressure", {}, NODE_ADD, None, having("n", PIDPressure="True").obj(), "sleeps"),
    ("NoExecuteTaints", {}, TAINT, DEADLY, BARE, "wakes"),
    ("NoExecuteTaints", {}, TAINT, BARE, DEADLY, "sleeps"),
    ("NoExecuteTaints", {}, TOLERATION, *own_toleration(), "wakes"),
    ("NoExecuteTaints", {}, TOLERATION, STRANGER, STRANGER, "sleeps"),
    ("NodeLabel", LABELS, LABEL, BARE, LABELLED, "wakes"),
    ("NodeLabel", LABELS, LABEL, LABELLED, RELABELLED, "sleeps"),
    ("NodeLabel", LABELS, NODE_ADD, None, BARE, "sleeps"),
    ("NodeLabel", LABELS, CONDITION, BARE, LABELLED, "deaf"),
    ("ServiceAffinity", REGION, NODE_ADD, None, BARE, "wakes"),
    ("ServiceAffinity", REGION, NODE_DELETE, BARE, None, "wakes"),
    ("ServiceAffinity", REGION, LABEL, LABELLED, RELABELLED, "wakes"),
    ("ServiceAffinity", REGION, LABEL, BARE, node("n").labels(disk="ssd").obj(), "sleeps"),
    ("ServiceAffinity", REGION, POD_ADD, None, SIBLING, "wakes"),
    ("ServiceAffinity", REGION, POD_DELETE, SIBLING, None, "wakes"),
    ("ServiceAffinity", REGION, POD_DELETE, STRANGER, None, "sleeps"),
    ("ServiceAffinity", REGION, POD_DELETE, ABROAD, None, "sleeps"),
    ("ServiceAffinity", REGION, POD_LABEL, STRANGER, replace(SIBLING, metadata=SIBLING.metadata), "wakes"),
    ("ServiceAffinity", REGION, SERVICE_ADD, None, WEB, "wakes"),
    ("ServiceAffinity", REGION, SERVICE_DELETE, WEB, None, "wakes"),
    ("ServiceAffinity", REGION, SERVICE_UPDATE, WEB, service("s", app="db"), "wakes"),
    ("ServiceAffinity", REGION, SERVICE_UPDATE, WEB, WEB, "sleeps"),
    ("ServiceAffinity", REGION, SERVICE_DELETE, service("s", app="db"), None, "sleeps"),
    ("MaxCinderVolumeCount", {}, POD_DELETE, SIBLING, None, "wakes"),
    ("MaxCinderVolumeCount", {}, LABEL, BARE, LABELLED, "deaf"),
]


@pytest.mark.parametrize(("plugin", "args", "event", "old", "new", "expected"), TABLE)
def test_an_event_wakes_those_it_can_help(
    plugin: str, args: dict[str, Any], event: ClusterEvent, old: Any, new: Any, expected: str
) -> None:
    assert told(plugin, args, event, old, new) == expected
