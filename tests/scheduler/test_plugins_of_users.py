"""Plugins from a user's file: every extension point, and events of custom kinds."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, live, plugin
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.framework.events import Action, ClusterEvent, EventRegistration
from stowplan.scheduler.framework.events import Resource as Kind
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.scheduler.framework.status import unschedulable

FILE = Path(__file__).parent / "everywhere.py"
TICKETS = Resource("example.com", "v1", "tickets", "Ticket", custom=True)


def _catalogue() -> Catalogue:
    catalogue = Catalogue()
    catalogue.register(TICKETS)
    return catalogue


def _options(*valid: str) -> dict[str, Any]:
    """A scheduler with the plugin from the file before all others at every point."""
    everywhere = load_plugin(f"{FILE}:Everywhere")
    enabled = {"enabled": [{"name": "Everywhere", "weight": 10}]}
    replaced = {"disabled": [{"name": "*"}], "enabled": [{"name": "Everywhere"}]}
    binders = {"disabled": [{"name": "*"}], "enabled": [{"name": "Everywhere"}, {"name": "DefaultBinder"}]}
    profile = {
        "plugins": {
            "multiPoint": enabled,
            "queueSort": replaced,
            "postFilter": replaced,
            "bind": binders,
        },
        "pluginConfig": [{"name": "Everywhere", "args": {"valid": list(valid)}}],
    }
    return {"config": configured(profile), "plugins": [everywhere], "catalogue": _catalogue()}


def _plugin_of(world: World) -> Any:
    return world.scheduler.context.profiles["default-scheduler"].framework.plugins["Everywhere"]


def _ticket(world: World, name: str) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Ticket", "metadata": {"name": name, "namespace": "d"}}
    world.store.create(TICKETS, body)


def test_a_plugin_is_asked_at_every_point_in_order() -> None:
    async def story(world: World) -> None:
        world.add_node("favourite")
        world.add_node("other")
        await world.add_pod("p")
        assert world.node_of("p") == "favourite"
        log = _plugin_of(world).log
        assert [one for one in log if not one.startswith(("filter_node", "score_node"))] == [
            "pre_enqueue",
            "pre_filter",
            "pre_score",
            "reserve favourite",
            "permit favourite",
            "pre_bind_pre_flight favourite",
            "pre_bind favourite",
            "bind favourite",
            "post_bind favourite",
        ]
        assert sorted(one for one in log if one.startswith(("filter_node", "score_node"))) == [
            "filter_node favourite",
            "filter_node other",
            "score_node favourite",
            "score_node other",
        ]

    world = live(story, **_options())
    assert _plugin_of(world).closed


def test_its_order_of_the_queue_holds() -> None:
    async def before(world: World) -> None:
        world.add_node("favourite")
        for name in ("c", "a", "b"):
            world.put_pod(name, cpu="100m", priority=ord(name))

    async def story(world: World) -> None:
        await world.settle()
        bound = [one for one in world.wire.shorts if one.endswith("binding")]
        assert bound == [f"POST pods/{name}/binding" for name in "abc"]

    live(story, before=before, **_options())


def test_what_it_rejects_waits_for_its_own_kind_of_object() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", metadata={"labels": {"ticket": "t1"}})
        assert world.message("p") == "0/1 nodes are available: 1 no ticket. nothing to be done"
        assert world.place_of("p") == "unschedulable"
        plugin_itself = _plugin_of(world)
        assert plugin_itself.log[-1] == "post_filter"
        tried = len(plugin_itself.log)
        _ticket(world, "another")
        await world.settle(5)
        assert len(plugin_itself.log) == tried
        plugin_itself.args["valid"].append("t1")
        _ticket(world, "t1")
        await world.settle()
        assert world.node_of("p") == "n"

    live(story, **_options())


def test_what_it_keeps_out_of_the_queue_is_told_nothing() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", metadata={"labels": {"locked": "yes", "ticket": "t1"}})
        assert (world.place_of("p"), world.wire.writes) == ("gated", [])
        world.patch_pod("p", {"metadata": {"labels": {"locked": "no", "ticket": None}}})
        await world.settle()
        assert world.place_of("p") == "gated"  # no registration for labels
        world.patch_pod("p", {"metadata": {"labels": {"ticket": "t2"}}})
        _plugin_of(world).args["valid"].append("t2")
        await world.settle()
        _ticket(world, "t2")
        await world.settle()
        assert world.node_of("p") == "n"

    live(story, **_options())


def test_scheduling_begins_without_a_kind_that_the_server_lacks_and_hears_of_it_when_it_comes() -> None:
    options = _options()
    catalogue = options["catalogue"] = Catalogue()

    async def main(clock: VirtualClock) -> None:
        world = World(clock, **options)
        asyncio.get_running_loop().call_later(100, catalogue.register, TICKETS)
        async with world.scheduler.running():
            assert world.now == 0
            (problem,) = world.problems
            assert problem.startswith(f"cannot watch {TICKETS.qualified}: ")
            assert "could not find the requested resource" in problem
            world.add_node("n")
            await world.add_pod("p", metadata={"labels": {"ticket": "t1"}})
            assert world.place_of("p") == "unschedulable"
            await world.settle(200)
            _plugin_of(world).args["valid"].append("t1")
            _ticket(world, "t1")
            await world.settle()
            assert world.node_of("p") == "n"
            assert len(world.problems) == 1

    run(main)


@pytest.mark.parametrize("name", ["tickets", "tickets.v1"])
def test_a_resource_that_cannot_be_named_is_refused(name: str) -> None:
    registered = [EventRegistration(ClusterEvent(name, Action.ADD))]
    odd = plugin("Odd", filter_node=lambda self, cycle, pod, node: None, events=lambda self: registered)

    async def story(world: World) -> None:
        raise AssertionError("it must not begin")

    with pytest.raises(ValueError, match=f"event resource '{name}': expected <plural>.<version>.<group>"):
        live(story, plugins=[odd])


@pytest.mark.parametrize(
    ("registered", "woken"),
    [
        (None, True),
        ([], False),
        ([EventRegistration(ClusterEvent(Kind.NODE, Action.ADD))], True),
        ([EventRegistration(ClusterEvent(Kind.NODE, Action.DELETE))], False),
    ],
)
def test_a_rejected_pod_is_tried_again_at_events_its_plugin_registered_for(
    registered: Any, woken: bool
) -> None:
    tried: list[str] = []

    def filter_node(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
        tried.append(node.name)
        return unschedulable("no")

    methods: dict[str, Any] = {"filter_node": filter_node}
    if registered is not None:
        methods["events"] = lambda self: registered
    rejecting: type[Plugin] = type("Rejecting", (Plugin,), methods)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        tried.clear()
        world.add_node("m")
        await world.settle(1)
        assert (len(tried) > 0) is woken

    live(story, plugins=[rejecting])


def test_a_hint_that_fails_tries_the_pod_to_be_on_the_safe_side() -> None:
    def broken(pod: Any, old: Any, new: Any) -> Any:
        raise RuntimeError("oh")

    tried: list[str] = []
    registered = [EventRegistration(ClusterEvent(Kind.NODE, Action.ADD), broken)]

    def filter_node(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
        tried.append(node.name)
        return unschedulable("no")

    picky = plugin("Picky", filter_node=filter_node, events=lambda self: registered)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        world.add_node("m")
        await world.settle()
        assert "m" in tried

    live(story, plugins=[picky])


def test_it_can_look_up_the_objects_of_kinds_it_registered_for() -> None:
    registered = [EventRegistration(ClusterEvent("tickets.v1.example.com", Action.ADD))]

    def needs_a_ticket(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
        tickets = self.handle.scheduler.objects("tickets.v1.example.com")
        found = tickets.get(f"{pod.namespace}/{pod.name}")
        return None if found is not None and found.data["metadata"]["name"] else unschedulable("no ticket")

    holder = plugin("Holder", filter_node=needs_a_ticket, events=lambda self: registered)
    catalogue = Catalogue()
    catalogue.register(TICKETS)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert "1 no ticket" in world.message("p")
        _ticket(world, "p")
        await world.settle()
        assert world.node_of("p") == "n"
        services = world.scheduler.context.profiles["default-scheduler"].framework.plugins["Holder"].handle
        assert list(services.scheduler.objects("Node")) == ["n"]
        with pytest.raises(LookupError, match="objects of kind 'wishes' are not watched"):
            services.scheduler.objects("wishes")

    live(story, plugins=[holder], catalogue=catalogue)
