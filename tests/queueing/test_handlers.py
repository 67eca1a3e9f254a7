"""What the news of an object means for the queue and the table."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.storage import StorageClass
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from stowplan.queue.handlers import Handlers, event_of
from stowplan.testing import PodBuilder, node, pod


def versioned(builder: PodBuilder, version: str) -> Pod:
    made = builder.obj()
    return replace(made, metadata=replace(made.metadata, resource_version=version))


Call = tuple[object, ...]


class Notebook:
    """A host that does nothing but note what it is to do."""

    def __init__(self, *assumed: Pod, gangs: bool = False, declared_features: bool = True) -> None:
        by_uid = {each.metadata.uid: each for each in assumed}
        self.noted: list[Call] = []
        self.handlers = Handlers(
            self,
            ("default-scheduler",),
            lambda pod: by_uid.get(pod.metadata.uid),
            gangs=gangs,
            declared_features=declared_features,
        )

    def __getattr__(self, call: str) -> Callable[..., None]:
        return lambda *args: self.noted.append((call, *args))


def calls(handler: str, *objects: Object, **about: Any) -> list[Call]:
    """What the news for a handler have done; `assumed` is a pod that is."""
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
    assert calls("node_added", NODE) == [("put_node", NODE), ("move_all", NODE_ADD, None, NODE)]
    assert calls("node_updated", NODE, NODE) == [("put_node", NODE)]
    tainted = node("n").taint("gpu").labels(a="b").obj()
    assert calls("node_updated", NODE, tainted) == [
        ("put_node", tainted),
        ("move_all", ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), NODE, tainted),
        ("move_all", ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), NODE, tainted),
    ]
    assert calls("node_deleted", NODE) == [("move_all", NODE_DELETE, NODE, None), ("remove_node", NODE)]


def test_features_of_nodes_are_no_news_without_their_gate() -> None:
    able = node("n").features("X").obj()
    assert len(calls("node_updated", NODE, able)) == 2
    assert calls("node_updated", NODE, able, declared_features=False) == [("put_node", able)]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (PLACED, [("put_pod", PLACED), ("move_all", ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, [("add_to_queue", WAITING)]),
        (FOREIGN, []),
    ],
)
def test_a_new_pod_goes_to_the_table_or_to_the_queue_or_is_none_of_ours(
    added: Pod, expected: list[Call]
) -> None:
    assert calls("pod_added", added) == expected


def test_with_gangs_a_new_pod_may_help_others() -> None:
    expected = [("add_to_queue", WAITING), ("move_all", UNSCHEDULED_POD_ADD, None, WAITING)]
    assert calls("pod_added", WAITING, gangs=True) == expected


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
                ("delete_from_queue", WAITING),
            ],
        ),
        (FOREIGN, PLACED, [("put_pod", PLACED), ("move_all", ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, CHANGED, [("update_in_queue", WAITING, CHANGED)]),
        (WAITING, WAITING, []),
        (FOREIGN, FOREIGN, []),
        (
            NOMINATED,
            CHANGED,
            [
                ("update_in_queue", NOMINATED, CHANGED),
                ("move_all", ASSIGNED_POD_DELETE, NOMINATED, None, 7),
            ],
        ),
    ],
)
def test_an_updated_pod(old: Pod, new: Pod, expected: list[Call]) -> None:
    assert calls("pod_updated", old, new) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (CHANGED, []),
        (
            DYING,
            [
                ("abandon", PLACED),
                ("move_all", ASSIGNED_POD_DELETE, PLACED, None),
            ],
        ),
    ],
)
def test_of_an_assumed_pod_only_the_beginning_of_its_end_is_news(new: Pod, expected: list[Call]) -> None:
    assert calls("pod_updated", WAITING, new, assumed=PLACED) == expected


@pytest.mark.parametrize(
    ("gone", "assumed", "expected"),
    [
        (PLACED, None, [("remove_pod", PLACED), ("move_all", ASSIGNED_POD_DELETE, PLACED, None)]),
        (WAITING, None, [("delete_from_queue", WAITING)]),
        (
            NOMINATED,
            None,
            [
                ("delete_from_queue", NOMINATED),
                ("move_all", ASSIGNED_POD_DELETE, NOMINATED, None, 7),
            ],
        ),
        (
            NOMINATED,
            PLACED,
            [
                ("delete_from_queue", NOMINATED),
                ("abandon", PLACED),
                ("move_all", ASSIGNED_POD_DELETE, PLACED, None),
            ],
        ),
        (FOREIGN, None, []),
    ],
)
def test_a_deleted_pod(gone: Pod, assumed: Pod | None, expected: list[Call]) -> None:
    assert calls("pod_deleted", gone, assumed=assumed) == expected


def test_a_pod_that_vanished_unnoticed_is_taken_away_wherever_it_may_be() -> None:
    assert calls("pod_vanished", WAITING) == [
        ("remove_pod", WAITING),
        ("move_all", ASSIGNED_POD_DELETE, WAITING, None),
        ("delete_from_queue", WAITING),
    ]
    assert calls("pod_vanished", FOREIGN) == [
        ("remove_pod", FOREIGN),
        ("move_all", ASSIGNED_POD_DELETE, FOREIGN, None),
    ]


def test_other_objects_are_news_if_somebody_registered_for_what_happened() -> None:
    fast = StorageClass()
    kind = Resource.STORAGE_CLASS
    watched = {str(kind): Action.ADD | Action.UPDATE}
    assert event_of(kind, None, fast, watched) is ClusterEvent(kind, Action.ADD)
    assert event_of(kind, fast, fast, watched) is ClusterEvent(kind, Action.UPDATE)
    assert event_of(kind, fast, None, watched) is None
    assert event_of("foos.v1.example.com", None, fast, watched) is None
