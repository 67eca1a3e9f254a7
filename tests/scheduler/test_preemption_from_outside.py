"""An out-of-tree preemption plugin has the rights of ours: its victims are evicted, and its hooks run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from scheduler.live_scheduler import World, configured, live
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.config import LoadedConfig
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.framework import (
    SUCCESS,
    Cycle,
    Handle,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from stowplan.framework.advanced import PreemptionPlugin, Victims
from stowplan.testing.extenders import RuleExtender, Rules

WAITING = "waiting for the eviction of others"


class Evictor(Plugin):
    """Evicts all pods of lower priority from the last node by name; the preemptor is gated meanwhile."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.gated: set[str] = set()
        self.told: list[tuple[str, ...]] = []

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable(WAITING) if pod.uid in self.gated else None

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> PostFilterResult:
        table = cycle.table
        candidates = {}
        for row in np.flatnonzero(table.valid).tolist():
            lower = [info.pod for info in table.pods_on[row].values() if info.priority < pod.priority]
            if lower and not any(victim.is_terminating for victim in lower):
                candidates[table.name_of(row)] = Victims(tuple(lower), 0)
        return self.among_candidates(candidates)

    def among_candidates(self, victims: Mapping[str, Victims]) -> PostFilterResult:
        self.told.append(("candidates", *sorted(victims)))
        if not victims:
            return PostFilterResult(unschedulable("nobody to evict"))
        node = max(victims)
        return PostFilterResult(SUCCESS, node, victims[node].pods, victims, (node,))

    def preemption_started(self, preemptor: Object) -> None:
        self.told.append(("started", preemptor.name))
        self.gated.add(preemptor.metadata.uid)

    def preemption_waits_for(self, preemptor: Object, victim: Pod) -> None:
        self.told.append(("waits for", preemptor.name, victim.name))

    def preemption_ended(self, preemptor: Object) -> None:
        self.told.append(("ended", preemptor.name))
        self.gated.discard(preemptor.metadata.uid)


def with_evictor() -> LoadedConfig:
    """Ours is not there; theirs is."""
    selection = {"disabled": [{"name": "DefaultPreemption"}], "enabled": [{"name": "Evictor"}]}
    return configured({"schedulerName": "default-scheduler", "plugins": {"multiPoint": selection}})


def evictor(world: World) -> Evictor:
    plugins = world.scheduler.context.profiles["default-scheduler"].framework.plugins
    assert "DefaultPreemption" not in plugins
    found = plugins["Evictor"]
    assert isinstance(found, Evictor)
    return found


async def _full(world: World, *names: str) -> None:
    """Nodes, each full of two unimportant pods."""
    for number, name in enumerate(names):
        world.add_node(name, cpu="4")
        for letter in "ab":
            await world.add_pod(f"{letter}{number}", cpu="2")


def deleted(world: World) -> list[str]:
    return sorted(one for one in world.wire.shorts if one.startswith("DELETE"))


def test_it_is_one_by_its_methods_alone() -> None:
    assert issubclass(Evictor, PreemptionPlugin)
    assert not issubclass(Plugin, PreemptionPlugin)


def test_its_victims_are_marked_and_evicted_and_the_preemptor_gets_their_node() -> None:
    async def story(world: World) -> None:
        await _full(world, "m", "n")
        on_n = sorted(name for name in ("a0", "b0", "a1", "b1") if world.node_of(name) == "n")
        made = await world.add_pod("high", cpu="4", priority=10)
        assert deleted(world) == [f"DELETE pods/{name}" for name in on_n]
        for name in on_n:
            assert world.condition(name, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
            note = f"Preempted by pod {made['metadata']['uid']} on node n"
            assert world.notes(name, "Preempted") == [note]
        assert world.nominated("high") == "n"
        for name in on_n:
            world.delete_pod(name)
        await world.settle(1)
        assert world.node_of("high") == "n"
        assert evictor(world).gated == set()
        assert world.problems == []

    live(story, config=with_evictor(), plugins=[Evictor])


def test_it_is_told_how_the_eviction_goes_and_gates_the_preemptor_meanwhile() -> None:
    async def story(world: World) -> None:
        await _full(world, "n")
        world.wire.seconds = 4.0
        await world.add_pod("high", cpu="4", priority=10)
        plugin = evictor(world)
        assert plugin.told[-1] == ("started", "high")
        await world.settle(1)
        world.add_node("z")
        await world.settle(1)
        assert world.place_of("high") == "gated"
        world.wire.seconds = 0.0
        await world.settle(30)
        said = [what for what, *_ in plugin.told if what != "candidates"]
        assert said == ["started", "waits for", "ended"]
        [(_, preemptor, last)] = [told for told in plugin.told if told[0] == "waits for"]
        assert (preemptor, last in ("a0", "b0")) == ("high", True)
        assert world.node_of("high") == "z"

    live(story, config=with_evictor(), plugins=[Evictor])


def test_it_is_told_of_the_end_also_if_the_eviction_fails() -> None:
    async def story(world: World) -> None:
        await _full(world, "n")
        world.wire.answer("DELETE pods/a0", ApiError(403, "Forbidden", "no"))
        await world.add_pod("high", cpu="4", priority=10)
        plugin = evictor(world)
        assert plugin.gated == set()
        assert ("ended", "high") in plugin.told
        assert world.problems[0] == "Tried to preempted pod"

    live(story, config=with_evictor(), plugins=[Evictor])


@pytest.mark.parametrize("left_over", ["m", "n"])
def test_extenders_have_their_say_about_its_candidates(left_over: str) -> None:
    """It chooses again among those that an extender left over."""

    asked = RuleExtender(
        ExtenderConfig(url_prefix="http://x", preempt_verb="preempt"),
        Rules(agrees=lambda node: node == left_over),
    )

    async def story(world: World) -> None:
        await _full(world, "m", "n")
        await world.add_pod("high", cpu="4", priority=10)
        assert evictor(world).told[:2] == [("candidates", "m", "n"), ("candidates", left_over)]
        assert world.nominated("high") == left_over

    live(story, config=with_evictor(), plugins=[Evictor], extenders=[asked])
