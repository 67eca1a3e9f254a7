"""Every way in which the volumes of a pod do not come about, and what becomes of the pod."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from scheduler.live_scheduler import World, live
from scheduler.plugins.volumebinding.claimed_volumes import (
    add_claim,
    add_user,
    add_volume,
    change_claim,
    change_volume,
    claim_of,
    looked_after,
    patient,
    remove_claim,
    remove_volume,
    two_nodes,
    volume_errors,
)
from stowplan.api.status import ApiError

Deed = Callable[[World], None]

PATIENCE = 5
SELECTED = "volume.kubernetes.io/selected-node"
WRITE_VOLUME, WRITE_CLAIM = "PUT ", "PUT persistentvolumeclaims/c"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
NONE = "0/2 nodes are available: "
NO_VOLUME = f"{NONE}2 node(s) didn't find available persistent volumes to bind."


def nothing(world: World) -> None:
    """Nothing happens, or nothing needs to happen."""


class Case(NamedTuple):
    """`while_written` happens as the server is about to write for the pod, `while_waiting` after that.

    `problem` is the pod's message; `then` its message a while later if the cause is still there, and `remedy`
    removes the cause.
    """

    class_name: str
    problem: str
    while_written: tuple[str, ApiError | Deed] | None = None
    while_waiting: Deed = nothing
    then: str = ""
    remedy: Deed = nothing
    seconds: float = 1.0


def relabel(world: World) -> None:
    change_volume(world, {"metadata": {"labels": {"a": "b"}}})


def give_away(world: World) -> None:
    change_volume(world, {"spec": {"claimRef": {"namespace": "d", "name": "other", "uid": "u"}}})


def add_other_volume(world: World) -> None:
    add_volume(world, "w", "n2")


def add_both(world: World) -> None:
    add_claim(world, "static")
    add_other_volume(world)


def add_node(world: World) -> None:
    world.add_node("n1")


def deselect(world: World) -> None:
    change_claim(world, {"metadata": {"annotations": {SELECTED: None, "other": "x"}}})


CASES = {
    "the volume changed meanwhile": Case(
        "static",
        f'Operation cannot be fulfilled on persistentvolumes "v": {MODIFIED}',
        while_written=(WRITE_VOLUME, relabel),
    ),
    "the volume went to another claim meanwhile": Case(
        "static",
        f'Operation cannot be fulfilled on persistentvolumes "v": {MODIFIED}',
        while_written=(WRITE_VOLUME, give_away),
        then=NO_VOLUME,
        remedy=add_other_volume,
    ),
    "the claim changed meanwhile": Case(
        "dynamic",
        f'Operation cannot be fulfilled on persistentvolumeclaims "c": {MODIFIED}',
        while_written=(WRITE_CLAIM, lambda world: change_claim(world, {"metadata": {"labels": {"a": "b"}}})),
    ),
    "the API server fails": Case(
        "static",
        "Internal error occurred: no leader",
        while_written=(WRITE_VOLUME, ApiError(500, "InternalError", "Internal error occurred: no leader")),
    ),
    "the volume is gone before it is written": Case(
        "static",
        'persistentvolumes "v" not found',
        while_written=(WRITE_VOLUME, remove_volume),
        then=NO_VOLUME,
        remedy=add_volume,
    ),
    "the claim is gone before it is written": Case(
        "dynamic",
        'persistentvolumeclaims "c" not found',
        while_written=(WRITE_CLAIM, remove_claim),
        then=f'{NONE}persistentvolumeclaim "c" not found.',
        remedy=lambda world: add_claim(world, "dynamic"),
    ),
    "nobody binds the claim in time": Case(
        "static", "binding volumes: context deadline exceeded", seconds=PATIENCE
    ),
    "nobody makes the volume in time": Case(
        "dynamic", "binding volumes: context deadline exceeded", seconds=PATIENCE
    ),
    "the volume goes": Case(
        "static",
        'binding volumes: failed to check binding: persistentvolumes "v" not found',
        while_waiting=remove_volume,
        then=NO_VOLUME,
        remedy=add_other_volume,
    ),
    "the claim is deleted": Case(
        "static",
        'binding volumes: failed to check binding: persistentvolumeclaims "d/c" not found',
        while_waiting=remove_claim,
        then=f'{NONE}persistentvolumeclaim "c" not found.',
        remedy=add_both,
    ),
    "the claim for which a volume is made is deleted": Case(
        "dynamic",
        'binding volumes: failed to check provisioning pvc: persistentvolumeclaims "d/c" not found',
        while_waiting=remove_claim,
        then=f'{NONE}persistentvolumeclaim "c" not found.',
        remedy=lambda world: add_claim(world, "dynamic"),
    ),
    "the volume is taken from the claim": Case(
        "static",
        'binding volumes: ClaimRef got reset for pv "v"',
        while_waiting=lambda world: change_volume(world, {"spec": {"claimRef": None}}),
    ),
    "the provisioner says no": Case(
        "dynamic", 'binding volumes: provisioning failed for PVC "c"', while_waiting=deselect
    ),
    "the provisioner leaves no trace": Case(
        "dynamic",
        'binding volumes: selectedNode annotation reset for PVC "c"',
        while_waiting=lambda world: change_claim(world, {"metadata": {"annotations": None}}),
    ),
    "the node goes": Case(
        "static",
        'binding volumes: failed to get node "n1": node "n1" not found',
        while_waiting=lambda world: world.remove_node("n1"),
        then="0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
        remedy=add_node,
    ),
    "the node loses the label that the volume needs": Case(
        "static",
        'binding volumes: pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
        while_waiting=lambda world: world.change_node("n1", labels={"kubernetes.io/hostname": "other"}),
        then=NO_VOLUME,
        remedy=lambda world: world.change_node("n1"),
    ),
}


def has_given_up(world: World, problem: str) -> None:
    """The attempt has failed: the pod waits for its next one, and nothing of this one is left."""
    told = f'running PreBind plugin "VolumeBinding": {problem}'
    condition = world.condition("p")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "SchedulerError",
        told,
    )
    assert world.notes("p", "FailedScheduling") == [told]
    assert world.place_of("p") == "backoff"
    assert world.nominated("p") == ""
    context = world.scheduler.context
    assert context.cache.table.storage.assumed() == []
    assert (dict(context.cache.assumed), len(context.queue.in_flight)) == ({}, 0)
    assert volume_errors(world, "bind") == 1


async def put_back(world: World, seconds: float) -> None:
    """Wait until the pod is in the queue again, at most `seconds`, and all writes are done."""
    ends = world.now + seconds + 0.001
    while world.place_of("p") is None:
        assert world.now < ends, "the pod is still being bound"
        await world.settle(0.05)
    await world.settle()


@pytest.mark.parametrize("name", CASES)
def test_a_pod_whose_volumes_do_not_come_about_is_put_back_and_bound_later(name: str) -> None:
    case = CASES[name]

    async def story(world: World) -> None:
        if case.while_written is not None:
            request, answer = case.while_written
            world.wire.answer(request, answer if isinstance(answer, ApiError) else lambda: answer(world))
        add_claim(world, case.class_name)
        add_volume(world)
        await add_user(world)
        case.while_waiting(world)
        await put_back(world, case.seconds)
        has_given_up(world, case.problem)
        if case.then:
            await world.settle(8)
            assert world.message("p").startswith(case.then)
            assert world.place_of("p") == "unschedulable"
            assert world.scheduler.context.cache.table.storage.assumed() == []
        case.remedy(world)
        async with looked_after(world):
            await world.settle(30)
            assert world.node_of("p")
            assert claim_of(world)["status"]["phase"] == "Bound"
        assert world.scheduler.context.cache.table.storage.assumed() == []

    live(story, before=two_nodes, config=patient(PATIENCE))
