"""Cost of open pages: CPU of the stream while pods are placed, and of what a page loads first."""

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Final

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.config.dump import dump
from stowplan.explain.document.tried import TryLimits
from stowplan.explain.web import EVERYTHING, Inspection, Routes
from stowplan.explain.web.questions import JSON, Asked
from stowplan.explain.web.stream import EVERY, Subscription
from stowplan.lab.bench.engine.explain import waiting_pod
from stowplan.lab.bench.engine.loop import LoopRun, fill, pod_to_create, running_scheduler, workload_of
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.simulate.questions import ForkedQuestions

PATHS = {
    "overview": "",
    "nodes": "/nodes",
    "attention": "/attention",
    "search": "/pods?search=existing-7",
    "pending": "/pending",
}


_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "tried"},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}


@dataclass(frozen=True, slots=True)
class PageRun:
    """Parameters of a measurement: `rate` pods a second are placed while `viewers` pages are open."""

    nodes: int = 5000
    existing_per_node: int = 10
    waiting: int = 200
    rate: int = 200
    viewers: int = 1
    looks: int = 40
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PageFigures:
    """CPU in milliseconds: of a look for all viewers, and of each document, encoded.

    Of a question it is the CPU of the scheduler's process: the fork, and passing the answer on.
    """

    look_ms: float
    worst_look_ms: float
    core_percent: float
    """Share of a core that the stream takes at four looks a second."""
    bytes_a_second: int
    """Sent to each viewer."""
    documents_ms: dict[str, float]


def measure_page(run: PageRun) -> PageFigures:
    """Place pods as fast as `rate`, with a look after each quarter of a second's worth of them."""
    return asyncio.run(_measure(run))


async def _measure(run: PageRun) -> PageFigures:
    store = Store(RealClock(), random.Random(run.seed))
    per_look = max(round(run.rate * EVERY), 1)
    loop = LoopRun(nodes=run.nodes, existing_per_node=run.existing_per_node, pods=per_look * run.looks)
    fill(store, loop)
    for number in range(run.waiting):
        store.create(PODS, waiting_pod(number, number % 8))
    async with running_scheduler(store, run.seed) as scheduler:
        inspection = Inspection(lambda: scheduler, cluster="bench", release="bench")
        questions = ForkedQuestions(TryLimits(seconds=60))
        questions.load()
        routes = Routes(inspection, lambda: dump(scheduler.settings.config.config), questions)
        viewers = [Subscription(inspection, EVERYTHING) for _ in range(run.viewers)]
        with calm_collector():
            spent, sent = [], 0
            for number in range(-1, run.looks):
                for pod in range(max(number, 0) * per_look, (number + 1) * per_look):
                    store.create(PODS, pod_to_create(workload_of(loop).pod(pod)))
                await asyncio.sleep(0)
                await _settled(scheduler.context.queue)
                began = process_time()
                look = inspection.feed.look()
                told = [await viewer.told(look) for viewer in viewers]
                if number >= 0:
                    spent.append(process_time() - began)
                    sent += sum(map(len, told[0]))
            documents = {name: await _timed(_answer(routes, path)) for name, path in PATHS.items()}
            documents["question"] = await _timed(_ask(routes))
    mean = sum(spent) / len(spent)
    return PageFigures(
        look_ms=round(median(spent) * 1e3, 3),
        worst_look_ms=round(max(spent) * 1e3, 3),
        core_percent=round(100 * mean / EVERY, 3),
        bytes_a_second=round(sent / (run.looks * EVERY)),
        documents_ms=documents,
    )


async def _settled(queue: SchedulingQueue) -> None:
    """Wait until every pod was tried."""
    while queue.counts()["active"] or queue.in_flight:
        await asyncio.sleep(0.005)


async def _answer(routes: Routes, path: str) -> None:
    path, _, text = path.partition("?")
    query = dict([text.split("=")]) if text else {}
    answer = await routes.answer(f"/stowplan/v1{path}", query, EVERYTHING)
    assert answer.code == 200, answer.document
    msgspec.json.encode(answer.document)


async def _ask(routes: Routes) -> None:
    """A question, whose answer is computed in another process."""
    body = msgspec.json.encode({"manifests": _POD, "nodes": True})
    answer = await routes.ask(Asked("fit", body, JSON), EVERYTHING, lambda: False)
    assert answer.code == 200, answer.body


async def _timed(work: Awaitable[None]) -> float:
    began = process_time()
    await work
    return round((process_time() - began) * 1e3, 2)
