"""Custom objects in a cluster: they go with their owners, with their namespace and with their definition."""

from localcluster.controllers.small_clusters import NAMESPACE, Story, World, live
from localcluster.customresources.definitions import custom, definition
from stowplan.api.catalogue import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.namespace import NamespaceController


def defined(world: World, plural: str) -> Resource:
    world.put(CUSTOM_RESOURCE_DEFINITIONS, definition(plural))
    found = world.store.catalogue.named(f"{plural}.v1.example.com")
    assert found is not None
    return found


def owned_by(owner: Json, name: str, **more: str) -> Json:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}, **more}


def play(story: Story) -> None:
    live(story, lambda context: [GarbageCollector(context), NamespaceController(context)])


def test_what_belongs_to_a_custom_object_goes_with_it() -> None:
    async def story(world: World) -> None:
        gears, teeth = defined(world, "gears"), defined(world, "cogs")
        await world.settle(1)
        gear = world.put(gears, custom("Gear", "g"))
        world.put(CONFIG_MAPS, owned_by(gear, "config"))
        world.put(teeth, {**custom("Cog", "tooth"), **owned_by(gear, "tooth")})
        world.put(teeth, custom("Cog", "loose"))
        await world.settle(1)
        assert world.names(teeth) == ["loose", "tooth"]
        world.delete(gears, "g")
        await world.until(lambda: world.names(teeth) == ["loose"])
        await world.until(lambda: "config" not in world.names(CONFIG_MAPS))

    play(story)


def test_a_custom_object_goes_with_a_built_in_owner() -> None:
    async def story(world: World) -> None:
        gears = defined(world, "gears")
        owner = world.put(
            CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        )
        world.put(gears, {**custom("Gear", "g"), **owned_by(owner, "g")})
        await world.settle(1)
        world.delete(CONFIG_MAPS, "owner")
        await world.until(lambda: world.names(gears) == [])

    play(story)


def test_a_namespace_takes_its_custom_objects_along() -> None:
    async def story(world: World) -> None:
        gears = defined(world, "gears")
        world.put(gears, custom("Gear", "g"))
        await world.settle(1)
        world.delete(NAMESPACES, NAMESPACE)
        await world.until(lambda: NAMESPACE not in world.names(NAMESPACES))
        assert world.names(gears) == []

    play(story)


def test_a_definition_that_comes_back_is_followed_again() -> None:
    async def story(world: World) -> None:
        gears = defined(world, "gears")
        gear = world.put(gears, custom("Gear", "g"))
        world.put(CONFIG_MAPS, owned_by(gear, "config"))
        await world.settle(1)
        world.delete(CUSTOM_RESOURCE_DEFINITIONS, "gears.example.com")
        await world.until(lambda: "config" not in world.names(CONFIG_MAPS))
        gear = world.put(defined(world, "gears"), custom("Gear", "g"))
        world.put(CONFIG_MAPS, owned_by(gear, "config"))
        await world.settle(1)
        assert "config" in world.names(CONFIG_MAPS)
        world.delete(gears, "g")
        await world.until(lambda: "config" not in world.names(CONFIG_MAPS))
        assert world.problems == []

    play(story)
