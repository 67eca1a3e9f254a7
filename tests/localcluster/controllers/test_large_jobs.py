"""Jobs of more pods than there is memory for: pods are made in parts, nothing is written out beforehand."""

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live
from stowplan.api.catalogue import JOBS
from stowplan.localcluster.controllerruntime.controller import MAX_BURST
from stowplan.localcluster.controllers.workloads.job import JobController

MANY = 20_000_000
"""As a list of positions these are 160 MB."""


def test_a_job_of_very_many_pods_at_a_time_makes_them_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []

    async def create(self: JobController, job: Any, pods: Any, indexes: Sequence[object], more: Any) -> None:
        parts.append(len(indexes))

    async def story(world: World) -> None:
        container = {"name": "c", "image": "i"}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        tracemalloc.start()
        try:
            spec = {"parallelism": MANY, "completions": MANY, "template": template}
            world.put(JOBS, {"metadata": {"name": "large"}, "spec": spec})
            await world.settle(1)
            assert tracemalloc.get_traced_memory()[1] < 8 * MANY / 4
        finally:
            tracemalloc.stop()

    monkeypatch.setattr(JobController, "_create", create)
    live(story, lambda context: [JobController(context)])
    assert parts[:1] == [MAX_BURST]
