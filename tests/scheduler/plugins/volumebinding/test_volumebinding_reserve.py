"""Volumes taken for a pod once its node is chosen, and released if the attempt fails."""

from scheduler.plugins.volumebinding.binding import World, three_zones
from scheduler.plugins.volumebinding.storageobjects import NAMESPACE, claim, storage_class, using, volume
from stowplan.api.storage import ObjectReference
from stowplan.scheduler.framework.status import error
from stowplan.testing import node

MAKES = storage_class(provisioner="csi.example.com")
MAKER = storage_class("maker", provisioner="csi.example.com")
SELECTED = "volume.kubernetes.io/selected-node"


def undo(world: World, evaluation: object, on: str) -> None:
    cycle = evaluation.cycle  # type: ignore[attr-defined]
    assert world.lifecycle.unreserve(cycle, cycle.pod, on) == []


def test_the_smallest_volume_that_will_do_is_taken_and_among_equals_the_first_by_name() -> None:
    free = [volume("w", "12Gi"), volume("v2", "11Gi"), volume("v1", "11Gi"), volume("small", "9Gi")]
    world = World([storage_class(), claim("c"), *free])
    world.reserve(using("p", "c"), "a")
    taken = world.table.storage.volume("v1")
    assert taken is not None
    assert taken.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert taken.spec.claim_ref == ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=NAMESPACE,
        name="c",
        uid="uid-c",
        api_version="v1",
        resource_version="1",
    )
    assert world.table.storage.volumes["v1"].spec.claim_ref is None, "only in memory"


def test_a_volume_taken_is_there_for_its_claim_and_for_no_other() -> None:
    objects = [storage_class(), claim("c"), claim("d"), volume("v", zone="b"), volume("w", zone="c")]
    world = World(objects)
    evaluation = world.reserve(using("p", "c"), "b")
    assert world.feasible(using("q", "d")) == {"c"}
    assert world.feasible(using("r", "c")) == {"b"}
    undo(world, evaluation, "b")
    assert world.feasible(using("q", "d")) == {"b", "c"}
    assert world.feasible(using("r", "c")) == {"b", "c"}


def test_a_volume_promised_in_full_is_left_as_it_is() -> None:
    own = volume("v", claimed_by="c", claim_uid="uid-c")
    world = World([storage_class(), claim("c"), own])
    world.reserve(using("p", "c"), "a")
    assert world.table.storage.volume("v") is own


def test_a_volume_promised_by_name_gets_the_uid_but_nobody_is_said_to_have_bound_it() -> None:
    world = World([storage_class(), claim("c"), volume("v", claimed_by="c")])
    world.reserve(using("p", "c"), "a")
    taken = world.table.storage.volume("v")
    assert taken is not None
    assert taken.spec.claim_ref is not None
    assert (taken.spec.claim_ref.uid, taken.metadata.annotations) == ("uid-c", {})


def test_a_claim_for_which_a_volume_is_to_be_made_holds_other_pods_to_the_node() -> None:
    world = World([MAKES, claim("c")])
    evaluation = world.reserve(using("p", "c"), "b")
    asking = world.table.storage.claim(f"{NAMESPACE}/c")
    assert asking is not None
    assert asking.metadata.annotations == {SELECTED: "b"}
    assert world.feasible(using("q", "c")) == {"b"}
    undo(world, evaluation, "b")
    assert world.feasible(using("q", "c")) == {"a", "b", "c"}


def test_a_pod_that_gives_back_leaves_another_of_the_same_claims_what_it_has() -> None:
    free = [volume("v", zone="b"), volume("w", zone="c")]
    world = World([storage_class(), MAKER, claim("static"), claim("made", class_name="maker"), *free])
    world.reserve(using("p", "static", "made"), "b")
    undo(world, world.reserve(using("q", "static", "made"), "b"), "b")
    assert world.feasible(using("r", "static")) == {"b"}
    assert world.feasible(using("r", "made")) == {"b"}


def test_as_many_volumes_must_be_left_as_a_pod_has_claims() -> None:
    wanted = [claim("c1"), claim("c2"), claim("d")]
    world = World([storage_class(), *wanted, *(volume(f"v{n}", zone="b") for n in range(2))])
    pair = using("pair", "c1", "c2")
    assert world.feasible(pair) == {"b"}
    evaluation = world.reserve(using("p", "d"), "b")
    assert world.feasible(pair) == set()
    undo(world, evaluation, "b")
    assert world.feasible(pair) == {"b"}


def test_what_the_api_server_tells_goes_before_what_was_assumed() -> None:
    world = World([storage_class(), claim("c"), claim("d"), volume("v")])
    evaluation = world.reserve(using("p", "c"), "a")
    world.table.put(volume("v"))
    assert world.feasible(using("q", "d")) == set(), "the same version again says nothing new"
    world.table.put(volume("v", version="2"))
    assert world.feasible(using("q", "d")) == {"a", "b", "c"}
    undo(world, evaluation, "a")
    assert world.feasible(using("q", "d")) == {"a", "b", "c"}


def test_what_another_pod_assumed_since_is_not_given_back_with_something_older() -> None:
    world = World([storage_class(), claim("c"), claim("d"), claim("e"), volume("v")])
    evaluation = world.reserve(using("p", "c"), "a")
    world.table.put(volume("v", version="2"))
    world.reserve(using("q", "d"), "a")
    undo(world, evaluation, "a")
    assert world.feasible(using("r", "e")) == set()


def test_among_volumes_of_one_size_one_that_is_good_for_less_is_taken() -> None:
    anywhere, here = volume("v1"), volume("v2", zone="a")
    world = World([storage_class(), claim("c"), claim("d"), anywhere, here])
    world.reserve(using("p", "c"), "a")
    assert world.table.storage.volume("v1") is anywhere
    assert world.feasible(using("q", "d")) == {"a", "b", "c"}


def test_a_volume_that_goes_takes_what_was_assumed_of_it_along() -> None:
    world = World([storage_class(), claim("c"), volume("v")])
    evaluation = world.reserve(using("p", "c"), "a")
    world.table.discard(volume("v"))
    assert world.table.storage.volume("v") is None
    undo(world, evaluation, "a")
    assert world.feasible(using("q", "c")) == set()


def test_volumes_that_went_to_another_pod_meanwhile_cannot_be_reserved() -> None:
    world = World([storage_class(), claim("c"), claim("d"), volume("v")])
    late = world.evaluate(using("late", "d"))
    world.reserve(using("p", "c"), "a")
    status = world.lifecycle.reserve(late.cycle, late.cycle.pod, "a")
    told = "the volumes found for the pod are not free any more"
    assert status == error(f'running Reserve plugin "VolumeBinding": {told}')
    undo(world, late, "a")


def test_a_claim_that_changed_meanwhile_cannot_be_assumed_and_nothing_stays_taken() -> None:
    world = World([MAKES, claim("c"), claim("d", "20Gi"), volume("v")])
    late = world.evaluate(using("late", "c", "d"))
    world.table.put(claim("d", "20Gi", version="2"))
    status = world.lifecycle.reserve(late.cycle, late.cycle.pod, "a")
    assert status.message.endswith(f'"{NAMESPACE}/d" is out of sync (stored: 2, assume: 1)')
    assert world.table.storage.volume("v") == volume("v")


def test_nodes_that_come_while_a_pod_is_on_its_way_do_no_harm() -> None:
    """The table has room for 64 rows at first and then grows."""
    nodes = [*three_zones(), *(node(f"n{number}").obj() for number in range(60))]
    world = World([storage_class(), claim("c"), volume("v", zone="b")], nodes=nodes)
    late = world.evaluate(using("late", "c"))
    for number in range(60, 70):
        world.table.put_node(node(f"n{number}").obj())
    assert world.lifecycle.reserve(late.cycle, late.cycle.pod, "b").is_success


def test_a_pod_whose_claims_are_bound_has_nothing_to_reserve() -> None:
    world = World([claim("c", bound_to="v"), volume("v", claimed_by="c", claim_uid="uid-c", phase="Bound")])
    evaluation = world.reserve(using("p", "c"), "a")
    _, busy = world.lifecycle.pre_flight(evaluation.cycle, evaluation.cycle.pod, "a")
    assert list(busy) == []
    undo(world, evaluation, "a")


def test_every_claim_of_a_pod_gets_its_own_volume() -> None:
    wanted = [claim("c1"), claim("c2"), claim("c3", "5Gi")]
    world = World([storage_class(), *wanted, *(volume(f"v{n}") for n in range(3))])
    world.reserve(using("p", "c1", "c2", "c3"), "a")
    found = [world.table.storage.volume(f"v{n}") for n in range(3)]
    names = [one.spec.claim_ref.name for one in found if one is not None and one.spec.claim_ref is not None]
    assert names == ["c3", "c1", "c2"], "the smallest claim is served first"


def test_what_is_assumed_can_be_exchanged_for_something_else() -> None:
    world = World([storage_class(), MAKER, claim("c"), claim("d", class_name="maker"), volume("v", zone="b")])
    world.reserve(using("p", "c", "d"), "b")
    storage = world.table.storage
    laid_aside = storage.exchange_assumed([])
    assert [one.name for one in laid_aside] == ["v", "d"]
    assert world.feasible(using("q", "d")) == {"a", "b", "c"}
    assert storage.exchange_assumed(laid_aside) == []
    assert world.feasible(using("q", "d")) == {"b"}
    assert world.feasible(using("q", "c")) == {"b"}
