"""Registrations that an event matches, and the names of events."""

import pytest

from releases import V1_36, V1_37
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Resource,
    pod_resources,
)

NODE, POD = Resource.NODE, Resource.POD


@pytest.mark.parametrize(
    ("registered", "incoming", "heard"),
    [
        ((NODE, Action.ADD), (NODE, Action.ADD), True),
        ((NODE, Action.ADD), (NODE, Action.DELETE), False),
        ((NODE, Action.ADD), (POD, Action.ADD), False),
        ((NODE, Action.ADD | Action.UPDATE_NODE_TAINT), (NODE, Action.UPDATE_NODE_TAINT), True),
        ((NODE, Action.ADD | Action.UPDATE_NODE_TAINT), (NODE, Action.UPDATE_NODE_LABEL), False),
        ((POD, Action.UPDATE), (Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL), True),
        ((POD, Action.UPDATE), (Resource.UNSCHEDULABLE_POD, Action.UPDATE), True),
        ((POD, Action.UPDATE), (Resource.TARGET_POD, Action.UPDATE_POD_SCALE_UP), True),
        ((Resource.TARGET_POD, Action.UPDATE), (Resource.UNSCHEDULED_POD, Action.UPDATE), False),
        ((POD, Action.UPDATE_POD_LABEL), (Resource.ASSIGNED_POD, Action.UPDATE), False),
        ((Resource.ASSIGNED_POD, Action.ADD), (POD, Action.ADD), False),
        ((NODE, Action.ALL), (Resource.ASSIGNED_POD, Action.ADD), False),
        ((Resource.ANY, Action.ADD), (NODE, Action.ADD), True),
        ((Resource.ANY, Action.ADD), (NODE, Action.DELETE), False),
        ((Resource.ANY, Action.ALL), (NODE, Action.DELETE), True),
        ((NODE, Action.ALL), (Resource.ANY, Action.ALL), False),
        (("foos.v1.example.com", Action.ALL), ("foos.v1.example.com", Action.UPDATE), True),
    ],
)
def test_who_hears_of_what(registered: tuple[str, Action], incoming: tuple[str, Action], heard: bool) -> None:
    assert ClusterEvent(*registered).hears(ClusterEvent(*incoming)) is heard


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (pod_resources(V1_36.behaviour).added, "UnschedulablePodAdd"),
        (pod_resources(V1_37.behaviour).added, "UnscheduledPodAdd"),
        (ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(Resource.CSI_NODE, Action.ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent(NODE, Action.ALL), "NodeAll"),
        (ClusterEvent(NODE, Action.ADD | Action.DELETE), "NodeAdd|Delete"),
        (FORCE_ACTIVATE, "ForceActivate"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
    ],
)
def test_what_an_event_is_called(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def test_actions_are_found_by_the_names_people_know() -> None:
    assert Action.named("UpdatePodSchedulingGatesEliminated") is Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    assert all(Action.named(action.label) is action for action in (*Action, Action.UPDATE, Action.ALL))
    with pytest.raises(ValueError, match="action 'Explode' is not known, expected one of Add, Delete"):
        Action.named("Explode")
