"""Owners that are deleted in the foreground: circles, chains and crowds, in bounded work."""

from collections.abc import Sequence

import pytest

from localcluster.controllers.small_clusters import NAMESPACE, World, live
from stowplan.api.catalogue import CONFIG_MAPS, Resource
from stowplan.api.requests import DeleteOptions, Json
from stowplan.localcluster.controllerruntime.controller import ControllerContext
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector, unblocked_owners

WATCHED: tuple[Resource, ...] = (CONFIG_MAPS,)


class CountingCollector(GarbageCollector):
    """Counts how often it looks at something, and ends a test that would not end."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, WATCHED)
        self.looks = 0

    async def sync(self, key: str) -> None:
        self.looks += 1
        assert self.looks < 100_000, "the collector spins"
        await super().sync(key)


def collector(context: ControllerContext) -> Sequence[CountingCollector]:
    return [CountingCollector(context)]


def looks(world: World) -> int:
    (made,) = world.controllers
    assert isinstance(made, CountingCollector)
    return made.looks


def reference(owner: Json, *, blocks: bool = True) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }


def put(world: World, name: str, *owners: Json, blocks: bool = True) -> Json:
    references = [reference(owner, blocks=blocks) for owner in owners]
    return world.put(CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": references}})


def own(world: World, name: str, *owners: Json) -> None:
    world.patch(CONFIG_MAPS, name, {"metadata": {"ownerReferences": [reference(one) for one in owners]}})


def delete(world: World, name: str, policy: str = "Foreground") -> None:
    world.store.delete(CONFIG_MAPS, NAMESPACE, name, DeleteOptions(propagation=policy))


def ours(world: World) -> list[str]:
    return [name for name in world.names(CONFIG_MAPS) if name != "kube-root-ca.crt"]


@pytest.mark.parametrize("size", [2, 3, 7])
def test_objects_that_own_each_other_go_when_one_is_deleted_in_the_foreground(size: int) -> None:
    async def story(world: World) -> None:
        ring = [put(world, f"c{number}") for number in range(size)]
        for number in range(size):
            own(world, f"c{number}", ring[number - 1])
        await world.settle()
        delete(world, "c0")
        await world.until(lambda: not ours(world), 3.0)

    world = live(story, collector)
    assert looks(world) <= 10 * size
    assert not world.problems


def test_an_object_that_owns_itself_stays_as_with_kubernetes_and_nothing_spins() -> None:
    """kube-controller-manager waits for it to go before it lets it go, until its finalizers are removed."""

    async def story(world: World) -> None:
        own(world, "c", put(world, "c"))
        await world.settle()
        delete(world, "c")
        await world.settle(60.0)
        assert ours(world) == ["c"]
        world.patch(CONFIG_MAPS, "c", {"metadata": {"finalizers": None}})
        await world.until(lambda: not ours(world), 3.0)

    assert looks(live(story, collector)) < 10


def test_a_long_chain_goes_from_its_end() -> None:
    async def story(world: World) -> None:
        last = put(world, "c0")
        for number in range(1, 100):
            last = put(world, f"c{number}", last)
        await world.settle()
        delete(world, "c0")
        await world.until(lambda: not ours(world))

    assert looks(live(story, collector)) <= 5 * 100


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
def test_an_owner_of_many_costs_each_of_them_a_look_or_two(policy: str) -> None:
    many = 300

    async def story(world: World) -> None:
        owner = put(world, "owner")
        for number in range(many):
            put(world, f"c{number}", owner)
        await world.settle()
        delete(world, "owner", policy)
        await world.until(lambda: len(ours(world)) == (many if policy == "Orphan" else 0))
        assert not any(one["metadata"].get("ownerReferences") for one in world.all(CONFIG_MAPS))

    assert looks(live(story, collector)) <= 5 * many


def test_an_owner_goes_when_what_held_it_up_is_disowned() -> None:
    async def story(world: World) -> None:
        put(world, "shared", put(world, "going"), put(world, "staying"))
        await world.settle()
        delete(world, "going")
        await world.until(lambda: sorted(ours(world)) == ["shared", "staying"], 3.0)

    live(story, collector)


def test_objects_of_owners_that_are_absent_go() -> None:
    many = 200

    async def story(world: World) -> None:
        for number in range(many):
            put(world, f"c{number}", {"metadata": {"name": "gone", "uid": f"none-{number}"}})
        await world.until(lambda: not ours(world))

    assert looks(live(story, collector)) <= 3 * many


def test_references_that_no_longer_block_are_those_removed_or_changed() -> None:
    def having(*references: Json) -> Json:
        return {"metadata": {"ownerReferences": [*references]}}

    one, two = {"uid": "1", "blockOwnerDeletion": True}, {"uid": "2", "blockOwnerDeletion": True}
    assert unblocked_owners(having(one, two), having(one)) == [two]
    assert unblocked_owners(having(one), having({"uid": "1", "blockOwnerDeletion": False})) == [one]
    assert unblocked_owners(having(one), having(one, two)) == []
    assert unblocked_owners(having({"uid": "3"}), having()) == []
