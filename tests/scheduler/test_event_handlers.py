"""Effect of a watch event on the cache and the queue."""

from typing import Any

import pytest
from msgspec.structs import replace

from releases import V1_36, V1_37
from stowplan.api.devices import DeviceTaintRule
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.storage import StorageClass
from stowplan.scheduler.event_handlers import EventHandlers, event_of
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
    pod_resources,
)
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.testing import PodBuilder, node, pod


def versioned(builder: PodBuilder, version: str) -> Pod:
    made = builder.obj()
    return replace(made, metadata=replace(made.metadata, resource_version=version))


Call = tuple[object, ...]


class Notebook:
    """A cache and a queue that do nothing but note what they are to do."""

    def __init__(self, *assumed: Pod, **about: Any) -> None:
        self._assumed = {each.metadata.uid: each for each in assumed}
        self.noted: list[Call] = []
        self.handlers = EventHandlers(self, self, ("default-scheduler",), WaitingPods(), **about)

    def assumed_pod(self, pod: Pod) -> Pod | None:
        return self._assumed.get(pod.metadata.uid)

    def __getattr__(self, call: str) -> Any:
        return lambda *args: self.noted.append((call, *args))

    def move_all(self, event: ClusterEvent, old: Any, new: Any, at_most_priority: int | None = None) -> None:
        limit = () if at_most_priority is None else (at_most_priority,)
        self.noted.append(("move_all", event, old, new, *limit))


def calls(handler: str, *objects: Object, **about: Any) -> list[Call]:
    """Calls of a handler to the cache and the queue; `assumed` is an assumed pod."""
    assumed = about.pop("assumed", None)
    notebook = Notebook(*([assumed] if assumed else []), **about)
    getattr(notebook.handlers, handler)(*objects)
    return notebook.noted


NODE = node("n").obj()
WAITING = versioned(pod("p"), "1")
CHANGED = versioned(pod("p").labels(app="a"), "2")
PLACED = versioned(pod("p").on("n"), "3")
NOMINATED = versioned(pod("p").nominated("m").priority(7), "1")
FOREIGN = versioned(pod("p").scheduler("another"), "1")
DYING = versioned(pod("p").terminating(), "2")


def test_nodes_come_change_and_go() -> None:
    assert calls("add_node", NODE) == [("put_node", NODE), ("move_all", NODE_ADD, None, NODE)]
    assert calls("update_node", NODE, NODE) == [("put_node", NODE)]
    tainted = node("n").taint("gpu").labels(a="b").obj()
    assert calls("update_node", NODE, tainted) == [
        ("put_node", tainted),
        ("move_all", ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), NODE, tainted),
        ("move_all", ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), NODE, tainted),
    ]
    assert calls("delete_node", NODE) == [("move_all", NODE_DELETE, NODE, None), ("remove_node", NODE)]


def test_declared_features_are_no_event_without_their_gate() -> None:
    able = node("n").features("X").obj()
    assert len(calls("update_node", NODE, able)) == 2
    assert calls("update_node", NODE, able, gates=FeatureGates({"NodeDeclaredFeatures": False})) == [
        ("put_node", able)
    ]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (PLACED, [("put_pod", PLACED), ("move_all", ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, [("add", WAITING)]),
        (FOREIGN, []),
    ],
)
def test_a_new_pod_goes_to_the_cache_or_to_the_queue_or_is_not_ours(added: Pod, expected: list[Call]) -> None:
    assert calls("add_pod", added) == expected


def test_with_gangs_a_new_pod_may_help_others() -> None:
    for release, gate in ((V1_36, "GangScheduling"), (V1_37, "GenericWorkload")):
        gates = FeatureGates({"GenericWorkload": True, gate: True}, release)
        expected = [("add", WAITING), ("move_all", pod_resources(release.behaviour).added, None, WAITING)]
        if release is V1_37:
            expected.insert(0, ("put_unscheduled", WAITING))
        assert calls("add_pod", WAITING, gates=gates) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (PLACED, PLACED, [("put_pod", PLACED), ("move_all", ASSIGNED_POD_UPDATE, PLACED, PLACED)]),
        (
            WAITING,
            PLACED,
            [
                ("put_pod", PLACED),
                ("move_all", ASSIGNED_POD_ADD, None, PLACED),
                ("delete", WAITING),
            ],
        ),
        (FOREIGN, PLACED, [("put_pod", PLACED), ("move_all", ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, CHANGED, [("update", WAITING, CHANGED)]),
        (WAITING, WAITING, []),
        (FOREIGN, FOREIGN, []),
        (
            NOMINATED,
            CHANGED,
            [
                ("update", NOMINATED, CHANGED),
                ("move_all", ASSIGNED_POD_DELETE, NOMINATED, None, 7),
            ],
        ),
    ],
)
def test_an_updated_pod(old: Pod, new: Pod, expected: list[Call]) -> None:
    assert calls("update_pod", old, new) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (CHANGED, []),
        (
            DYING,
            [
                ("remove_assumed", PLACED.metadata.uid),
                ("move_all", ASSIGNED_POD_DELETE, PLACED, None),
            ],
        ),
    ],
)
def test_of_an_assumed_pod_only_its_deletion_matters(new: Pod, expected: list[Call]) -> None:
    assert calls("update_pod", WAITING, new, assumed=PLACED) == expected


@pytest.mark.parametrize(
    ("gone", "assumed", "expected"),
    [
        (PLACED, None, [("remove_pod", PLACED), ("move_all", ASSIGNED_POD_DELETE, PLACED, None)]),
        (WAITING, None, [("delete", WAITING)]),
        (
            NOMINATED,
            None,
            [
                ("delete", NOMINATED),
                ("move_all", ASSIGNED_POD_DELETE, NOMINATED, None, 7),
            ],
        ),
        (
            NOMINATED,
            PLACED,
            [
                ("delete", NOMINATED),
                ("remove_assumed", PLACED.metadata.uid),
                ("move_all", ASSIGNED_POD_DELETE, PLACED, None),
            ],
        ),
        (FOREIGN, None, []),
    ],
)
def test_a_deleted_pod(gone: Pod, assumed: Pod | None, expected: list[Call]) -> None:
    assert calls("delete_pod", gone, assumed=assumed) == expected


def test_a_deleted_pod_of_unknown_state_is_removed_wherever_it_may_be() -> None:
    assert calls("delete_pod_of_unknown_state", WAITING) == [
        ("remove_pod", WAITING),
        ("move_all", ASSIGNED_POD_DELETE, WAITING, None),
        ("delete", WAITING),
    ]
    assert calls("delete_pod_of_unknown_state", FOREIGN) == [
        ("remove_pod", FOREIGN),
        ("move_all", ASSIGNED_POD_DELETE, FOREIGN, None),
    ]


def test_other_objects_are_events_if_a_plugin_registered_for_them() -> None:
    fast = StorageClass()
    kind = Resource.STORAGE_CLASS
    watched = {str(kind): Action.ADD | Action.UPDATE}
    assert event_of(kind, None, fast, watched) is ClusterEvent(kind, Action.ADD)
    assert event_of(kind, fast, fast, watched) is ClusterEvent(kind, Action.UPDATE)
    assert event_of(kind, fast, None, watched) is None
    assert event_of("foos.v1.example.com", None, fast, watched) is None


def test_a_taint_rule_that_comes_or_goes_is_an_update_of_slices() -> None:
    rule, kind = DeviceTaintRule(), Resource.RESOURCE_SLICE
    watched = {str(kind): Action.ADD | Action.UPDATE}
    for old, new in ((None, rule), (rule, rule), (rule, None)):
        assert event_of(kind, old, new, watched) is ClusterEvent(kind, Action.UPDATE)


@pytest.mark.parametrize("somebody_waits", [False, True])
def test_listed_pods_go_into_the_cache_together_unless_somebody_waits_for_that(somebody_waits: bool) -> None:
    class Listed(Notebook):
        has_waiting_or_in_flight = somebody_waits

    notebook = Listed()
    first, waiting, second, third = (
        pod("first").on("a").obj(),
        pod("waiting").obj(),
        pod("second").on("a").obj(),
        pod("third").on("b").obj(),
    )
    notebook.handlers.add_pods([first, waiting, second, third])
    noted = [(call, *args) for call, *args in notebook.noted if call in ("put_pod", "put_pods", "add")]
    if somebody_waits:
        assert noted == [("put_pod", first), ("add", waiting), ("put_pod", second), ("put_pod", third)]
    else:
        assert noted == [("put_pods", [first]), ("add", waiting), ("put_pods", [second, third])]
