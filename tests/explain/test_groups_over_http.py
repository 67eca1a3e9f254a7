"""Groups of pods in the API behind the page: lists, domains by node, one entry in the queue, one cause."""

from typing import Any

from scheduler.live_scheduler import World, live
from scheduler.pod_groups.group_stories import add_composite, add_group, put_members, with_gates
from stowplan.api.pod_groups import GATES
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.access import EVERYTHING, Viewer

RACK = "example.com/rack"


async def told(world: World, path: str, viewer: Viewer = EVERYTHING, **query: str) -> Any:
    inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
    answer = await Routes(inspection, dict).answer(f"/stowplan/v1/{path}", query, viewer)
    return answer.document.document() if answer.code == 200 else answer.code


async def racks(world: World) -> None:
    """Two racks of two nodes with 4 CPUs; `fits` has two pods of 2 in one, `waits` needs four of 3."""
    for rack in "ab":
        for number in range(2):
            world.add_node(f"{rack}{number}", labels={RACK: rack})
    in_one_rack = {"topology": [{"key": RACK}]}
    for name, count, cpu in (("fits", 2, "2"), ("waits", 4, "3")):
        add_group(world, name, count, schedulingConstraints=in_one_rack)
        await world.settle(1)
        put_members(world, name, count, cpu)
        await world.settle(1)


def gangs(story: Any) -> None:
    live(story, config=with_gates(*GATES))


def test_groups_are_listed_with_how_far_they_are_and_waiting_ones_first() -> None:
    async def story(world: World) -> None:
        await racks(world)
        found = await told(world, "podgroups")
        assert found["total"] == 2
        waits, fits = found["items"]
        assert (waits["group"], waits["state"], waits["pods"], waits["scheduled"]) == (
            "d/waits",
            "waiting",
            4,
            0,
        )
        assert waits["place"] in ("backoff", "active")
        assert waits["attempts"] >= 1
        assert "minCount (4) cannot be satisfied" in waits["message"]
        assert (fits["group"], fits["state"], fits["scheduled"]) == ("d/fits", "placed", 2)
        found = await told(world, "podgroups", search="FIT")
        assert [one["group"] for one in found["items"]] == ["d/fits"]

    gangs(story)


def test_a_group_has_its_members_and_its_domains_by_node() -> None:
    async def story(world: World) -> None:
        await racks(world)
        waits, drawn = await told(world, "podgroups/d/waits"), await told(world, "podgroups/d/waits/map")
        assert (waits["state"], waits["needed"]) == ("waiting", 4)
        assert {one["pod"] for one in waits["members"]} == {f"d/waits-{number}" for number in range(4)}
        names = (await told(world, "nodes"))["names"]
        in_rack = {name: drawn["domains"][place] for name, place in zip(names, drawn["nodes"], strict=True)}
        assert in_rack == {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
        assert sum(drawn["members"]) == 0
        fits, drawn = await told(world, "podgroups/d/fits"), await told(world, "podgroups/d/fits/map")
        on = {one["node"] for one in fits["members"]}
        members = dict(zip(names, drawn["members"], strict=True))
        assert {name for name, count in members.items() if count} == on
        assert sum(drawn["members"]) == 2
        assert drawn["domains"] == ["a", "b"]
        assert await told(world, "podgroups/d/nobody/map") == 404

    gangs(story)


def test_a_member_names_its_group_whether_it_waits_or_not() -> None:
    async def story(world: World) -> None:
        await racks(world)
        assert (await told(world, "pods/d/fits-0"))["podGroup"] == "d/fits"
        waits = await told(world, "pods/d/waits-0")
        assert (waits["podGroup"], waits["group"]["state"]) == ("d/waits", "waiting")

    gangs(story)


def test_a_group_is_one_entry_of_the_queue_and_one_cause() -> None:
    async def story(world: World) -> None:
        await racks(world)
        await world.add_pod("alone", cpu="64")
        lanes = {lane["name"]: lane for lane in (await told(world, "queue"))["lanes"]}
        lane = next(lane for lane in lanes.values() if lane["groups"])
        assert (lane["total"], lane["groups"]) == (4, 1)
        (entry,) = lane["pods"]
        assert (entry["group"], entry["kind"], entry["pods"]) == ("d/waits", "PodGroup", 4)
        assert [one["pod"] for one in lanes["unschedulable"]["pods"]] == ["d/alone"]
        causes = (await told(world, "pending"))["causes"]
        assert [(one["name"], one["count"]) for one in causes] == [("d/waits", 4), ("d/alone", 1)]
        assert causes[0]["group"]["kind"] == "PodGroup"
        assert causes[1]["group"] is None

    gangs(story)


def test_a_tree_of_groups_is_one_cause_and_one_entry() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        add_composite(world, "all", 2)
        for name in ("one", "two"):
            add_group(world, name, 2, parentCompositePodGroupName="all")
        await world.settle(1)
        for name in ("one", "two"):
            put_members(world, name, 2, "3")
        await world.settle(1)
        (cause,) = (await told(world, "pending"))["causes"]
        assert (cause["name"], cause["count"], cause["group"]["kind"]) == ("d/all", 4, "CompositePodGroup")
        entries = [one for lane in (await told(world, "queue"))["lanes"] for one in lane["pods"]]
        assert [(one["group"], one["kind"], one["pods"]) for one in entries] == [
            ("d/all", "CompositePodGroup", 4)
        ]
        listed = {one["group"]: one for one in (await told(world, "podgroups"))["items"]}
        assert {name: one["parent"] for name, one in listed.items()} == {
            "d/all": None,
            "d/one": "d/all",
            "d/two": "d/all",
        }

    gangs(story)


def test_groups_of_namespaces_that_may_not_be_read_are_not_told_of() -> None:
    async def reads_team(plural: str, namespace: str) -> bool:
        return plural == "nodes" or namespace == "team"

    async def story(world: World) -> None:
        await racks(world)
        team = Viewer(reads_team)
        assert (await told(world, "podgroups", team)) == {"document": "groups", "items": [], "total": 0}
        assert await told(world, "podgroups/d/waits", team) == 403
        assert await told(world, "podgroups/d/waits/map", team) == 403

    gangs(story)
