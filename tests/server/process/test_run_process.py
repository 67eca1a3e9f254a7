"""`stowplan run` from its start to its exit code, as those see it who start it."""

import asyncio
import re
import resource
import signal
from functools import partial
from pathlib import Path

from server.process.process_lives import ask
from server.process.processes import Cluster, RunningScheduler, cluster, names
from stowplan.api.catalogue import PODS
from stowplan.server.process import FORGOTTEN_WITHIN
from stowplan.testing.ports import free_port
from waiting import eventually

ELECTED = "Successfully acquired lease"
RELOAD = re.compile("Reloaded configuration")
RELOADED = "stowplan_config_last_reload_successful"


def test_a_leader_that_is_asked_to_end_gives_back_its_lease(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(3)
            place.add_pod("before")
            scheduler = await place.start("-v=2")
            await place.bound("before")
            place.add_pod("p")
            await place.bound("p")
            holder = place.lease()["holderIdentity"]
            scheduler.signal(signal.SIGTERM)
            assert await scheduler.ends() == 0
            assert holder
            assert place.lease()["holderIdentity"] == ""
            assert place.lease()["leaseDurationSeconds"] == 1
            assert '"Requested to terminate, exiting"' in scheduler.lines[-1]
            assert (place.scheduled("p"), place.scheduled("before")) == (1, 1)

    asyncio.run(story())


def test_a_changed_file_changes_the_profiles_of_a_scheduler_at_work(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(5)
            config = place.write_config("default-scheduler")
            scheduler = await place.start(config=config)
            place.add_pod("first")
            place.add_pod("early", schedulerName="second")
            await place.bound("first")
            busy = asyncio.create_task(keep_creating(place, scheduler))
            config = place.write_config("default-scheduler", "second")
            await scheduler.says(r'"Reloaded configuration".*second')
            await place.bound("early")
            created = await busy
            await place.bound(*created)
            await place.told_once(*created)

    asyncio.run(story())


async def keep_creating(place: Cluster, scheduler: RunningScheduler) -> list[str]:
    """Create pods until the scheduler has its new configuration, and a few more."""
    made: list[str] = []
    rest = 20
    while rest:
        rest -= "Reloaded" in scheduler.log
        name = f"busy-{len(made)}"
        place.add_pod(name)
        made.append(name)
        await asyncio.sleep(0.01)
    return made


def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1)
            config = place.write_config("default-scheduler")
            scheduler = await place.start(config=config)
            await scheduler.says(ELECTED)
            place.write_config("default-scheduler", more="nonsense: 1\n")
            line = await scheduler.says("Configuration was not reloaded")
            assert 'unknown field \\"nonsense\\"' in line
            place.add_pod("p")
            await place.bound("p")
            place.write_config("default-scheduler", "third")
            scheduler.signal(signal.SIGHUP)
            await scheduler.says("Reloaded configuration")
            place.add_pod("q", schedulerName="third")
            await place.bound("q")

    asyncio.run(story())


PICKY = """
from stowplan.framework import Plugin, unschedulable


class Picky(Plugin):
    def filter_node(self, cycle, pod, node):
        if {condition}:
            return unschedulable("node(s) were not to its liking")
"""


BROKEN = """
from stowplan.framework import Plugin


class Picky(Plugin):
    def __init__(self, args, handle):
        raise RuntimeError("no licence")

    def filter_node(self, cycle, pod, node):
        return None
"""


def test_a_plugin_file_that_changes_is_read_again(tmp_path: Path) -> None:
    async def loaded(port: int) -> str:
        answers = await ask(port, "anonymous", ["/metrics"])
        text = answers["anonymous", "/metrics"].text
        return next(line for line in text.splitlines() if line.startswith(RELOADED)).split()[1]

    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1)
            file = tmp_path / "picky.py"
            file.write_text(PICKY.format(condition="True"))
            more = "  plugins: {multiPoint: {enabled: [{name: Picky}]}}\n"
            config = place.write_config("default-scheduler", more=more)
            port = free_port()
            shown = (f"--secure-port={port}", "--authorization-always-allow-paths=/metrics")
            scheduler = await place.start(f"--plugin={file}:Picky", *shown, config=config)
            await scheduler.says(ELECTED)
            place.add_pod("p")
            assert await loaded(port) == "1"
            file.write_text(PICKY.format(condition="nonsense nonsense"))
            await scheduler.says("Configuration was not reloaded.*SyntaxError")
            file.write_text(BROKEN)
            await scheduler.says("Configuration was not reloaded.*no licence")
            assert await loaded(port) == "0"
            file.write_text(PICKY.format(condition="False"))
            await scheduler.says("Reloaded configuration")
            await place.bound("p")
            assert await loaded(port) == "1"

    asyncio.run(story())


def test_what_a_reload_cannot_change_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            config = place.write_config("default-scheduler")
            scheduler = await place.start(config=config)
            await scheduler.says(ELECTED)
            place.write_config("default-scheduler", more="leaderElection: {leaderElect: false}\n")
            assert 'field="leaderElection"' in await scheduler.says("only when the process starts anew")

    asyncio.run(story())


def test_a_standby_takes_over_also_if_it_was_reloaded_while_it_waited(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(3)
            leader = await place.start()
            await leader.says(ELECTED)
            standby = await place.start(config=place.write_config("default-scheduler"))
            await standby.says("Attempting to acquire leader lease")
            standby.signal(signal.SIGHUP)
            await standby.says("Reloaded configuration")
            leader.signal(signal.SIGTERM)
            assert await leader.ends() == 0
            wanted = names(20)
            for name in wanted:
                place.add_pod(name)
            await place.bound(*wanted)
            await place.told_once(*wanted)

    asyncio.run(story())


def test_configurations_that_were_replaced_take_no_memory(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(300)
            scheduler = await place.start(config=place.write_config("default-scheduler"))
            await scheduler.says(ELECTED)

            async def reloaded(times: int) -> float:
                for _ in range(times):
                    said = len(RELOAD.findall(scheduler.log))
                    scheduler.signal(signal.SIGHUP)
                    await eventually(partial(has_reloaded, said))
                await asyncio.sleep(2 * FORGOTTEN_WITHIN)
                pages = Path(f"/proc/{scheduler.process.pid}/statm").read_text().split()[1]
                return int(pages) * resource.getpagesize() / 2**20

            def has_reloaded(times: int) -> bool:
                return len(RELOAD.findall(scheduler.log)) > times

            warm = await reloaded(8)
            assert await reloaded(12) < warm + 5, "each takes about one MiB"

    asyncio.run(story())


def test_caches_can_be_left_until_it_is_our_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1)
            place.add_pod("p")
            config = place.write_config("default-scheduler", more="delayCacheUntilActive: true\n")
            leader = await place.start("-v=3", config=config)
            await place.bound("p")
            await leader.says(ELECTED)
            await leader.says("Starting reflector")
            assert order(leader, ELECTED) < order(leader, "Starting reflector")
            standby = await place.start("-v=3", config=config)
            await standby.says("Attempting to acquire leader lease")
            await asyncio.sleep(0.5)
            assert "Starting reflector" not in standby.log

    asyncio.run(story())


def order(scheduler: RunningScheduler, words: str) -> int:
    """The number of the first line that has some words."""
    return next(number for number, line in enumerate(scheduler.lines) if words in line)


def test_a_server_that_contradicts_itself_ends_the_process_in_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(2)
            place.add_pod("p")
            scheduler = await place.start()
            await place.bound("p")
            other = next(name for name in ("n0", "n1") if name != place.node_of("p"))
            place.store._admission = None
            place.store.patch(PODS, "default", "p", {"spec": {"nodeName": other}})
            assert await scheduler.ends() == 1
            assert "Scheduler cache is corrupted" in scheduler.lines[-1]
            assert "Traceback" not in scheduler.log
            assert place.lease()["holderIdentity"] == ""

    asyncio.run(story())
