"""The lease of a process whose scheduling loop is blocked or fails: kept for the one, else given back."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

from server.process.processes import Cluster, RunningScheduler, cluster
from stowplan.api.catalogue import LEASES
from stowplan.localcluster.store import StoreChange
from waiting import eventually

SHORT = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
BLOCKED = 8
PLUGIN = f"""
import time
from stowplan.framework import Plugin

class Sleepy(Plugin):
    def reserve(self, cycle, pod, node):
        if pod.name == "blocking":
            time.sleep({BLOCKED})
"""


def holders(place: Cluster) -> list[tuple[str, int]]:
    """Holders of the lease with the number of transitions, from now on, without repetition."""
    seen: list[tuple[str, int]] = []

    def changed(change: StoreChange) -> None:
        spec = change.object["spec"]
        found = (spec["holderIdentity"], spec["leaseTransitions"])
        if not seen or seen[-1] != found:
            seen.append(found)

    place.store.watch(LEASES, changed)
    return seen


def config_in(place: Cluster, **more: object) -> Path:
    path = place.folder / "config.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(place.kubeconfig)},
        "leaderElection": SHORT,
        **more,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_loop_that_is_blocked_for_longer_than_the_lease_keeps_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(2)
            (tmp_path / "sleepy.py").write_text(PLUGIN)
            enabled = {"reserve": {"enabled": [{"name": "Sleepy"}]}}
            config = config_in(place, profiles=[{"schedulerName": "default-scheduler", "plugins": enabled}])
            plugin = f"--plugin={tmp_path / 'sleepy.py'}:Sleepy"
            leader = await place.start(plugin, config=config)
            await leader.says("Successfully acquired lease")
            standby = await place.start(plugin, config=config)
            await standby.says("Attempting to acquire leader lease")
            seen = holders(place)
            place.add_pod("blocking")
            began = asyncio.get_running_loop().time()
            await place.bound("blocking")
            assert asyncio.get_running_loop().time() - began > BLOCKED - 0.5, "the loop was blocked"
            assert len(seen) == 1
            assert "Successfully acquired lease" not in standby.log
            place.add_pod("next")
            await place.bound("next")

    asyncio.run(story())


FAILING = """
import asyncio
from stowplan.server.process import Process
from stowplan.cli.main import main

{patch}

main()
"""
SCHEDULING_FAILS = """
schedule = Process._schedule
async def _schedule(self):
    async def fail():
        await asyncio.sleep(1)
        raise ZeroDivisionError("nobody expected this")
    await asyncio.gather(schedule(self), fail())
Process._schedule = _schedule
"""
RELOADING_FAILS = """
async def _reload_configuration(self):
    raise ZeroDivisionError("nobody expected this")
Process._reload_configuration = _reload_configuration
"""
CORRUPTED = """
from stowplan.scheduler import CacheCorruptedError
schedule = Process._schedule
async def _schedule(self):
    async def fail():
        await asyncio.sleep(1)
        raise CacheCorruptedError("pod p is on two nodes")
    await asyncio.gather(schedule(self), fail())
Process._schedule = _schedule
"""


async def started(place: Cluster, patch: str) -> RunningScheduler:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        FAILING.format(patch=patch),
        "run",
        f"--config={config_in(place)}",
        "--secure-port=0",
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBERNETES_SERVICE_HOST": ""},
    )
    scheduler = RunningScheduler(process)
    place.started.append(scheduler)
    return scheduler


@pytest.mark.parametrize(
    ("patch", "number", "last"),
    [
        (SCHEDULING_FAILS, None, '"Unexpected error, exiting" err="ZeroDivisionError: nobody expected this"'),
        (RELOADING_FAILS, signal.SIGHUP, '"Unexpected error, exiting" err="ZeroDivisionError'),
        (CORRUPTED, None, "Scheduler cache is corrupted"),
    ],
    ids=["scheduling fails", "reloading fails", "the cache is corrupted"],
)
def test_the_lease_is_given_back_when_something_fails(
    tmp_path: Path, patch: str, number: signal.Signals | None, last: str
) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            scheduler = await started(place, patch)
            await scheduler.says("Successfully acquired lease")
            seen = holders(place)
            await eventually(lambda: len(seen) > 0, lambda: scheduler.log)
            if number is not None:
                scheduler.signal(number)
            assert await scheduler.ends() == 1
            assert seen[-1][0] == "", "the lease is free"
            (line,) = [line for line in scheduler.lines if last in line]
            assert line[0] in "EF"
            if "ZeroDivisionError" in last:
                assert "Traceback (most recent call last)" in scheduler.log
                assert sum("Unexpected error" in one for one in scheduler.lines) == 1

    asyncio.run(story())
