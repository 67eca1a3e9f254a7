"""The walk of a pod in docs/design.md is the one it takes: traced through a running scheduler."""

import asyncio
import re
import sys
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from msgspec import to_builtins

from stowplan.api.catalogue import NODES, PODS
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod

MOST_FILES = 14
MOST_FUNCTIONS = 45

FIRST = "PodEventHandler.added"
LAST = "InProcessClient.bind"
MILESTONES = {
    "SchedulingQueue.add",
    "SubQueues.to_active",
    "SchedulingQueue.pop",
    "NodeResourcesFit.filter",
    "NodeResourcesFit.score",
    "choose_node",
    "Cache.assume",
    "ClusterTable.assume",
    "Lifecycle.run_reserve_and_permit",
    "BindingCycle.start",
    "DefaultBinder.bind",
    LAST,
}
"""Where a pod gets to. The walk is every function of the scheduler on the stack when it gets there."""

PACKAGES = ("scheduler",)
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"


def traced() -> list[tuple[str, str]]:
    """The functions a new pod goes through from its watch event to its binding, by module, in order."""
    walk: dict[tuple[str, str], None] = {}
    state = {"on": False}
    ahead = {FIRST, *MILESTONES}

    def follow(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_qualname
        if event != "call" or (not state["on"] and name != FIRST):
            return
        state["on"] = name != LAST
        if name in ahead:
            ahead.remove(name)
            walk.update(dict.fromkeys(reversed(_stack(frame))))

    async def main(clock: VirtualClock) -> None:
        store = Store(clock, Random(1))
        for number in range(3):
            store.create(NODES, to_builtins(node(f"n{number}").obj()))
        scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
        async with scheduler.running():
            sys.setprofile(follow)
            store.create(PODS, to_builtins(pod("a").obj()))
            await asyncio.sleep(1)
            sys.setprofile(None)

    try:
        run(main)
    finally:
        sys.setprofile(None)
    return list(walk)


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    """The functions of the scheduler that called a frame, itself first."""
    found = []
    while frame is not None:
        package, _, module = str(frame.f_globals.get("__name__", "")).partition(".")
        if package == "stowplan" and module.partition(".")[0] in PACKAGES:
            found.append((f"{module.replace('.', '/')}.py", frame.f_code.co_qualname))
        frame = frame.f_back
    return found


def documented() -> list[tuple[str, str]]:
    text = DESIGN.read_text()
    [block] = re.findall(r"```text\n(scheduler/scheduler\.py +Scheduler\._reflect\n.*?)```", text, re.DOTALL)
    walk: list[tuple[str, str]] = []
    module = ""
    for line in block.splitlines():
        first, _, rest = line.partition(" ")
        module = first or module
        walk.append((module, rest.strip()))
    return walk


def test_the_design_page_lists_the_walk_of_a_pod() -> None:
    assert documented() == traced()


def test_the_walk_is_short_enough_to_be_read() -> None:
    walk = traced()
    assert len({module for module, _ in walk}) <= MOST_FILES
    assert len(walk) <= MOST_FUNCTIONS
