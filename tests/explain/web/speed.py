"""CPU of the page with a large cluster in Chromium, by view: `make page-speed` fails above its limits.

First view, each view, a search, with 5,000 nodes and 50,000 pods: the main thread of the page in a trace of
Chromium, in all and the longest task. On the clock a task also takes the time of other processes.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from playwright.sync_api import Browser, Page, expect, sync_playwright

from stowplan.api.catalogue import PODS
from stowplan.config.dump import dump
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import PageServer
from stowplan.lab.bench.engine.explain import waiting_pod
from stowplan.lab.bench.engine.loop import LoopRun, fill, running_scheduler
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

LONGEST: Final = 50.0
"""Milliseconds of a task on the browser's main thread, after which it is a long one."""
LIMITS: Final = {"first view": 1000.0, "search": 300.0}
"""Milliseconds of CPU of the main thread."""
PATIENCE: Final = 120_000
TASK: Final = "ThreadControllerImpl::RunTask"
"""Chromium's name of a task in its traces."""


class Step(NamedTuple):
    """CPU of the main thread, and the longest task, in milliseconds."""

    name: str
    cpu: float
    longest: float

    @property
    def is_over(self) -> bool:
        return self.longest > LONGEST or self.cpu > LIMITS.get(self.name, float("inf"))


def serve(nodes: int, pods_per_node: int, told: Connection) -> None:
    """Serve the page of a cluster until the other end of the pipe is closed."""
    asyncio.run(_serve(nodes, pods_per_node, told))


async def _serve(nodes: int, pods_per_node: int, told: Connection) -> None:
    store = Store(RealClock(), random.Random(0))
    fill(store, LoopRun(nodes=nodes, existing_per_node=pods_per_node, pods=0))
    for number in range(200):
        store.create(PODS, waiting_pod(number, number % 8))
    async with running_scheduler(store, 0) as scheduler:
        inspection = Inspection(lambda: scheduler, cluster="bench", release="bench")
        routes = Routes(inspection, lambda: dump(scheduler.settings.config.config))
        async with inspection.following(), PageServer(routes) as server:
            queue = scheduler.context.queue
            while queue.counts()["active"] or queue.in_flight:
                await asyncio.sleep(0.1)
            told.send(server.url)
            await asyncio.get_running_loop().run_in_executor(None, told.poll, None)


@contextmanager
def served(nodes: int, pods_per_node: int) -> Iterator[str]:
    """The address of a page, served by another process."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(nodes, pods_per_node, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join(30)
        process.kill()


class Watched:
    """A page whose work is measured step by step."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self.page = page
        self._browser = browser
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._browser.start_tracing(page=self.page, categories=["toplevel", "__metadata"])
        yield
        self.page.wait_for_timeout(700)  # what was loaded is drawn
        spent = _tasks(json.loads(self._browser.stop_tracing())["traceEvents"])
        self.steps.append(Step(name, sum(spent), max(spent, default=0.0)))


def _tasks(events: list[dict[str, Any]]) -> list[float]:
    """CPU of the tasks on the main thread that works most, in milliseconds: other renderers are idle."""
    main = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    spent: dict[tuple[int, int], list[float]] = {}
    for one in events:
        if one["name"] == TASK and (one["pid"], one["tid"]) in main:
            spent.setdefault((one["pid"], one["tid"]), []).append(one.get("tdur", 0) / 1000)
    return max(spent.values(), key=sum, default=[])


def measure(address: str) -> list[Step]:
    """Open the page, go through its views, and search."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        watched = Watched(browser, page)
        with watched.step("first view"):
            page.goto(address)
            expect(page.locator("#heading")).to_contain_text("nodes", timeout=PATIENCE)
        with watched.step("what needs attention"):
            expect(page.locator(".attention .card").first).to_be_visible(timeout=PATIENCE)
            expect(page.locator(".attention", has_text="finding out")).to_have_count(0, timeout=PATIENCE)
        for view in ("pending", "queue", "decisions", "groups", "cluster"):
            with watched.step(view):
                page.goto(f"{page.url.split('#')[0]}#/{view}")
                expect(page.locator("main > .inner > *").first).to_be_attached(timeout=PATIENCE)
                expect(page.locator("main")).not_to_contain_text("Loading", timeout=PATIENCE)
        with watched.step("other filling"):
            page.locator("#resource").select_option("memory")
        with watched.step("search"):
            page.locator("#search-text").fill("existing-77")
            expect(page.locator("#search-results li").first).to_be_visible(timeout=PATIENCE)
        page.keyboard.press("Escape")
        with watched.step("node"):
            page.goto(f"{page.url.split('#')[0]}#/cluster~node/node-77")
            expect(page.locator("aside h1")).to_be_visible(timeout=PATIENCE)
        browser.close()
        return watched.steps


def main() -> int:
    parser = argparse.ArgumentParser(prog="make page-speed", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=10)
    asked = parser.parse_args()
    with served(asked.nodes, asked.pods_per_node) as address:
        steps = measure(address)
    print(f"{'':<22} CPU, ms  longest task, ms")
    for one in steps:
        print(f"{one.name:<22} {one.cpu:>7.0f}  {one.longest:>16.0f}{'  over' if one.is_over else ''}")
    return 1 if any(one.is_over for one in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
