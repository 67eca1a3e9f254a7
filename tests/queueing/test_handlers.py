"""What the news of an object means for the queue and the table."""

import pytest
from msgspec.structs import replace

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
from stowplan.queue.handlers import (
    Abandon,
    AddToQueue,
    Call,
    DeleteFromQueue,
    Handlers,
    MoveAll,
    PutNode,
    PutPod,
    RemoveNode,
    RemovePod,
    UpdateInQueue,
    object_changed,
)
from stowplan.testing import PodBuilder, node, pod


def versioned(builder: PodBuilder, version: str) -> Pod:
    made = builder.obj()
    return replace(made, metadata=replace(made.metadata, resource_version=version))


def handlers(*assumed: Pod, gangs: bool = False, declared_features: bool = True) -> Handlers:
    by_uid = {each.metadata.uid: each for each in assumed}
    return Handlers(
        lambda pod: pod.spec.scheduler_name == "default-scheduler",
        lambda pod: by_uid.get(pod.metadata.uid),
        gangs=gangs,
        declared_features=declared_features,
    )


NODE = node("n").obj()
WAITING = versioned(pod("p"), "1")
CHANGED = versioned(pod("p").labels(app="a"), "2")
PLACED = versioned(pod("p").on("n"), "3")
NOMINATED = versioned(pod("p").nominated("m").priority(7), "1")
FOREIGN = versioned(pod("p").scheduler("another"), "1")
DYING = versioned(pod("p").terminating(), "2")


def test_nodes_come_change_and_go() -> None:
    h = handlers()
    assert h.node_added(NODE) == [PutNode(NODE), MoveAll(NODE_ADD, None, NODE)]
    assert h.node_updated(NODE, NODE) == [PutNode(NODE)]
    tainted = node("n").taint("gpu").labels(a="b").obj()
    assert h.node_updated(NODE, tainted) == [
        PutNode(tainted),
        MoveAll(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), NODE, tainted),
        MoveAll(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), NODE, tainted),
    ]
    assert h.node_deleted(NODE) == [MoveAll(NODE_DELETE, NODE), RemoveNode(NODE)]


def test_features_of_nodes_are_no_news_without_their_gate() -> None:
    able = node("n").features("X").obj()
    assert len(handlers().node_updated(NODE, able)) == 2
    assert handlers(declared_features=False).node_updated(NODE, able) == [PutNode(able)]


@pytest.mark.parametrize(
    ("added", "calls"),
    [
        (PLACED, [PutPod(PLACED), MoveAll(ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, [AddToQueue(WAITING)]),
        (FOREIGN, []),
    ],
)
def test_a_new_pod_goes_to_the_table_or_to_the_queue_or_is_none_of_ours(
    added: Pod, calls: list[Call]
) -> None:
    assert handlers().pod_added(added) == calls


def test_with_gangs_a_new_pod_may_help_others() -> None:
    expected = [AddToQueue(WAITING), MoveAll(UNSCHEDULED_POD_ADD, None, WAITING)]
    assert handlers(gangs=True).pod_added(WAITING) == expected


@pytest.mark.parametrize(
    ("old", "new", "calls"),
    [
        (PLACED, PLACED, [PutPod(PLACED), MoveAll(ASSIGNED_POD_UPDATE, PLACED, PLACED)]),
        (
            WAITING,
            PLACED,
            [PutPod(PLACED), MoveAll(ASSIGNED_POD_ADD, None, PLACED), DeleteFromQueue(WAITING)],
        ),
        (FOREIGN, PLACED, [PutPod(PLACED), MoveAll(ASSIGNED_POD_ADD, None, PLACED)]),
        (WAITING, CHANGED, [UpdateInQueue(WAITING, CHANGED)]),
        (WAITING, WAITING, []),
        (FOREIGN, FOREIGN, []),
        (
            NOMINATED,
            CHANGED,
            [UpdateInQueue(NOMINATED, CHANGED), MoveAll(ASSIGNED_POD_DELETE, NOMINATED, None, 7)],
        ),
    ],
)
def test_an_updated_pod(old: Pod, new: Pod, calls: list[Call]) -> None:
    assert handlers().pod_updated(old, new) == calls


@pytest.mark.parametrize(
    ("new", "calls"),
    [(CHANGED, []), (DYING, [Abandon(PLACED), MoveAll(ASSIGNED_POD_DELETE, PLACED)])],
)
def test_of_an_assumed_pod_only_the_beginning_of_its_end_is_news(new: Pod, calls: list[Call]) -> None:
    assert handlers(PLACED).pod_updated(WAITING, new) == calls


@pytest.mark.parametrize(
    ("gone", "assumed", "calls"),
    [
        (PLACED, None, [RemovePod(PLACED), MoveAll(ASSIGNED_POD_DELETE, PLACED)]),
        (WAITING, None, [DeleteFromQueue(WAITING)]),
        (NOMINATED, None, [DeleteFromQueue(NOMINATED), MoveAll(ASSIGNED_POD_DELETE, NOMINATED, None, 7)]),
        (
            NOMINATED,
            PLACED,
            [DeleteFromQueue(NOMINATED), Abandon(PLACED), MoveAll(ASSIGNED_POD_DELETE, PLACED)],
        ),
        (FOREIGN, None, []),
    ],
)
def test_a_deleted_pod(gone: Pod, assumed: Pod | None, calls: list[Call]) -> None:
    assert handlers(*([assumed] if assumed else [])).pod_deleted(gone) == calls


def test_a_pod_that_vanished_unnoticed_is_taken_away_wherever_it_may_be() -> None:
    assert handlers().pod_vanished(WAITING) == [
        RemovePod(WAITING),
        MoveAll(ASSIGNED_POD_DELETE, WAITING),
        DeleteFromQueue(WAITING),
    ]
    assert handlers().pod_vanished(FOREIGN) == [RemovePod(FOREIGN), MoveAll(ASSIGNED_POD_DELETE, FOREIGN)]


def test_other_objects_are_news_if_somebody_registered_for_what_happened() -> None:
    fast = StorageClass()
    kind = Resource.STORAGE_CLASS
    watched = {str(kind): Action.ADD | Action.UPDATE}
    assert object_changed(kind, None, fast, watched) == [MoveAll(ClusterEvent(kind, Action.ADD), None, fast)]
    assert object_changed(kind, fast, fast, watched) == [
        MoveAll(ClusterEvent(kind, Action.UPDATE), fast, fast)
    ]
    assert object_changed(kind, fast, None, watched) == []
    assert object_changed("foos.v1.example.com", None, fast, watched) == []
