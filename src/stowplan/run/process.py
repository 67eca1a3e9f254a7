"""The scheduler as a process: from its first word to its exit code."""

import asyncio
import os
import random
import signal
import socket
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, NoReturn

from stowplan.clock import Hold, LoopWatchdog
from stowplan.config.load import ConfigError
from stowplan.election import ElectionHealth, ElectionThread, LeaseLostError
from stowplan.extenders.http import extenders_for
from stowplan.logs import Journal
from stowplan.metrics import ProcessMetrics
from stowplan.run.clients import Clients
from stowplan.run.configuration import read_policy
from stowplan.run.electing import election_thread
from stowplan.run.following import follow
from stowplan.run.life import Life
from stowplan.run.options import Options, reload, waiting_for_restart
from stowplan.run.preparing import Prepared, prepare
from stowplan.run.serving import Port
from stowplan.run.starting import Launch
from stowplan.run.strays import strays_caught
from stowplan.scheduler import CacheCorruptedError, Scheduler, Settings
from stowplan.scheduler.gc_tuning import calm_collector
from stowplan.serving import ServingError

GRACE: Final = 3.0
"""Seconds that bindings under way are given when the process ends."""

RELEASED_WITHIN: Final = 1.0
"""Seconds that giving back the lease may take."""


def run_process(launch: Launch, environ: Mapping[str, str] = os.environ) -> int:
    """Run a scheduler to its end; the exit code."""

    watchdog = LoopWatchdog(lambda hold, others: _report_hold(launch.journal, hold, others))

    async def live() -> int:
        process = Process(launch, environ)
        process.metrics.watch_loop(watchdog)
        process.heed_signals()
        return await process.live()

    try:
        with (
            strays_caught(launch.journal),
            asyncio.Runner(loop_factory=watchdog.new_loop) as runner,
            watchdog,
        ):
            return runner.run(live())
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def _report_hold(journal: Journal, hold: Hold, others: int) -> None:
    """Say who held the event loop for too long, and how often that happened since the last such line."""
    values = hold.values()
    if others:
        values["others"] = others
    journal.warning("Event loop was held", **values)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a process ends, and with which code."""

    code: int
    tell: Callable[[Journal], None]


TERMINATED: Final = Ending(0, lambda journal: journal.info(0, "Requested to terminate, exiting"))
WITHOUT_ELECTION: Final = Ending(
    1, lambda journal: journal.problem("command failed", err="finished without leader elect")
)
LOST: Final = Ending(1, lambda journal: journal.problem("Leaderelection lost"))


class Process:
    """A scheduler that takes part in an election, answers on its port, and follows its configuration file."""

    def __init__(self, launch: Launch, environ: Mapping[str, str]) -> None:
        self.options: Options = launch.options
        self.prepared: Prepared = launch.prepared
        self.journal = launch.journal
        self.clock = launch.clock
        self.election_health = ElectionHealth()
        self.is_stopping = False
        self.elector: ElectionThread | None = None
        self._rng = random.Random(random.SystemRandom().getrandbits(128))
        self._hostname = socket.gethostname()
        self.metrics = ProcessMetrics(
            self.options.loaded.gates, timer=perf_counter, options=self.options.metrics
        )
        self._clients = Clients(
            launch.server,
            self.options.client,
            self.clock,
            self._rng,
            environ,
            self.metrics.requests,
            self.journal,
            streams=self.options.gates.on("WatchListClient"),
        )
        self.metrics.watch_servers(self._clients.reachable)
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._life: Life | None = None

    @property
    def is_synced(self) -> bool:
        """Whether the cluster is known."""
        return self._life is not None and self._life.is_synced

    @property
    def is_leading(self) -> bool:
        """Whether it is for this process to schedule."""
        if self.is_stopping:
            return False
        return self._life is not None and self._life.is_scheduling

    def _may_write(self) -> bool:
        """Whether this process may act on the cluster at this moment."""
        return self.elector is None or self.elector.is_leader

    @property
    def life(self) -> Life | None:
        """The scheduler of now; another one after a reload."""
        return self._life

    def stop(self) -> None:
        """End in good order; asked a second time, at once."""
        if self._stop.is_set():
            self.journal.flush()
            os._exit(1)
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration file again."""
        self._reload.set()

    def heed_signals(self) -> None:
        """SIGTERM and SIGINT end it, SIGHUP has it read its file again, SIGUSR2 tells what it believes."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.add_signal_handler(signal.SIGUSR2, self._tell_all)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    async def live(self) -> int:
        """From the first word to the last; the exit code. Raises ConfigError."""
        self.journal.info(0, "Starting Kubernetes Scheduler", version=self.options.version)
        async with AsyncExitStack() as stack:
            self._main = await stack.enter_async_context(
                self._clients.client("scheduler", patient=True, may_repeat=self._may_write)
            )
            self._events = await stack.enter_async_context(self._clients.client("scheduler", patient=True))
            await self._take_part_in_election(stack)
            port = Port(self, self._clients)
            try:
                await stack.enter_async_context(port.open())
            except ServingError as error:
                raise ConfigError("serving", str(error)) from None
            ending = await self._work()
        ending.tell(self.journal)
        return ending.code

    # The course of things

    async def _work(self) -> Ending:
        """Schedule when it is our turn, until there is a reason to end."""
        course = asyncio.create_task(self._course(), name="course")
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        following = asyncio.create_task(
            follow(lambda: self.options.files, self._reload, self._reload_now), name="configuration file"
        )
        try:
            await asyncio.wait({course, stopped, following}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                return await self._wind_up(course)
            await (course if course.done() else following)
            raise AssertionError("neither ends by itself")
        except LeaseLostError:
            return await self._give_up()
        except CacheCorruptedError as error:
            return await self._leave_it_to_others(error)
        except Exception as error:  # noqa: BLE001 - logged with its traceback, and the end of the process
            return await self._crash(error)
        finally:
            self.is_stopping = True
            await self._release()
            for task in (course, stopped, following):
                task.cancel()
            await asyncio.gather(course, stopped, following, return_exceptions=True)
            if self._life is not None:
                await self._life.end()

    async def _course(self) -> None:
        """Learn the cluster, wait to be elected, schedule. Ends only with what ends it all."""
        if self.options.started.delay_cache_until_active and self.elector is not None:
            await self.elector.acquire()
        else:
            await self._learn()
            if self.elector is not None:
                await self._unless_it_dies(self.elector.acquire())
        if self.elector is None:
            await self._schedule()
            return
        while True:
            try:
                await self._lead(self.elector)
            except LeaseLostError as lost:
                if not lost.may_return:
                    raise
            await self._stand_by()
            await self._unless_it_dies(self.elector.acquire(again=True))

    async def _lead(self, elector: ElectionThread) -> NoReturn:
        """Schedule for as long as the lease is ours. Raises `LeaseLostError`, and what ends it all."""
        holding = asyncio.create_task(elector.hold(), name="lease")
        working = asyncio.create_task(self._schedule(), name="leader")
        try:
            await asyncio.wait({holding, working}, return_when=asyncio.FIRST_COMPLETED)
            await (holding if holding.done() else working)
            raise AssertionError("neither ends by itself")
        finally:
            holding.cancel()
            working.cancel()
            await asyncio.gather(holding, working, return_exceptions=True)

    async def _stand_by(self) -> None:
        """The lease ran out because the API server could not be reached: keep the cache, and wait.

        What is assumed but not bound is undone. Whoever leads next, this process or another, starts from what
        the API server says.
        """
        self.journal.warning(
            "Lost the lease while the API server is unreachable, taking part in the election again"
        )
        if self._life is not None:
            await self._life.end_scheduling(0)

    async def _learn(self) -> None:
        """Come back when the scheduler of now knows the cluster; a reload may put another in its place."""
        if self._life is None:
            self._life = self._begin_life(self.prepared)
        life = None
        while life is not self._life:
            life = self._life
            await life.synced()

    async def _schedule(self) -> None:
        """Schedule until something must not be survived."""
        await self._learn()
        assert self._life is not None
        with calm_collector():
            self._life.begin_scheduling()
            while True:
                life = self._life
                await asyncio.wait({life.task})
                if life is self._life:
                    await life.task
                    raise AssertionError("a scheduler does not end by itself")

    async def _unless_it_dies(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something, unless the scheduler meanwhile ends with what must not be survived.

        One that a reload has replaced ends, too; then it is its successor that must not.
        """
        task = asyncio.create_task(waiting)
        try:
            while not task.done():
                life = self._life
                assert life is not None
                await asyncio.wait({task, life.task}, return_when=asyncio.FIRST_COMPLETED)
                if life.task.done() and life is self._life:
                    await life.task
            await task
        finally:
            task.cancel()

    # The end

    async def _wind_up(self, course: "asyncio.Task[None]") -> Ending:
        """Let bindings end, give back the lease; others may begin."""
        self.is_stopping = True
        if not self.is_synced:
            self.journal.problem("handlers are not fully synchronized", err="context canceled")
        if self._life is not None:
            await self._life.end_scheduling(GRACE)
        course.cancel()
        await asyncio.gather(course, return_exceptions=True)
        if self.elector is None:
            return WITHOUT_ELECTION
        await self._release()
        return TERMINATED

    async def _give_up(self) -> Ending:
        """Somebody else may schedule by now: begin nothing more."""
        self.is_stopping = True
        if self._life is not None:
            await self._life.end_scheduling(0)
        await self._release()
        return LOST

    async def _leave_it_to_others(self, error: CacheCorruptedError) -> Ending:
        """What is believed here is wrong. Whoever leads next learns the cluster from scratch."""
        self.is_stopping = True
        await self._release()
        why = str(error)
        return Ending(
            1,
            lambda journal: journal.fatal(
                "Scheduler cache is corrupted and can badly affect scheduling decisions", err=why
            ),
        )

    async def _crash(self, error: Exception) -> Ending:
        """Something failed that nobody expected to: another instance may do better, or a new start."""
        self.is_stopping = True
        await self._stop_scheduling()
        await self._release()
        stack = "".join(traceback.format_exception(error))
        why = f"{type(error).__name__}: {error}"
        return Ending(
            1, lambda journal: journal.problem("Unexpected error, exiting", err=why, stacktrace=stack)
        )

    async def _stop_scheduling(self) -> None:
        """End scheduling at once, as far as a scheduler that has failed can do that."""
        if self._life is None:
            return
        try:
            async with asyncio.timeout(RELEASED_WITHIN):
                await self._life.end_scheduling(0)
        except Exception as error:  # noqa: BLE001 - it has failed before
            self.journal.problem(
                "Scheduling was not ended in good order", err=f"{type(error).__name__}: {error}"
            )

    async def _release(self) -> None:
        """Give the lease back, whatever this process ends for. Once it is given back this does nothing."""
        if self.elector is not None:
            await self.elector.release(RELEASED_WITHIN)

    # Parts

    def _begin_life(self, prepared: Prepared) -> Life:
        options = self.options
        settings = Settings(
            prepared.built,
            options.loaded.gates,
            prepared.registry,
            options.longest_wait,
            self._hostname,
            legacy_metrics=options.legacy_metrics,
        )
        scheduler = Scheduler(
            self._main,
            settings,
            clock=self.clock,
            rng=random.Random(self._rng.getrandbits(64)),
            timer=perf_counter,
            extenders=extenders_for(prepared.built),
            journal=self.journal,
            events=self._events,
            may_schedule=None if self.elector is None else self._may_write,
        )
        life = Life(scheduler, self.journal)
        life.begin()
        self.metrics.show(scheduler.context.metrics)
        return life

    async def _take_part_in_election(self, stack: AsyncExitStack) -> None:
        if not self.options.election.leader_elect:
            return
        component = self.prepared.built.profiles[0].scheduler_name
        thread = election_thread(
            self._clients,
            self.options.election,
            announced_by=component,
            hostname=self._hostname,
            clock=self.clock,
            rng=self._rng,
            journal=self.journal,
            announcements_within=RELEASED_WITHIN,
        )
        self.elector = await stack.enter_async_context(thread)
        elector = thread.elector
        self.election_health.watch(elector)
        self.metrics.watch_election(
            elector.name, lambda: bool(elector.master_status), lambda: elector.slow_paths
        )

    def _tell_all(self) -> None:
        if self._life is not None:
            self._life.scheduler.debugger.tell()

    # The configuration file

    async def _reload_now(self) -> None:
        """Have a new scheduler, set up as the file says, take over from the old one; or keep that."""
        try:
            options = reload(self.options)
            if options.config_map is not None:
                options = reload(options, await read_policy(self._main, options.config_map))
            prepared = prepare(options)
        except ConfigError as error:
            self.journal.problem("Configuration was not reloaded, the old one stays in force", err=str(error))
            return
        for note in options.loaded.legacy.notes:
            self.journal.warning(note)
        for field in waiting_for_restart(options):
            self.journal.warning("A change takes effect only when the process starts anew", field=field)
        self.options, self.prepared = options, prepared
        old = self._life
        if old is not None:
            await self._take_over(old, prepared)
        names = [profile.scheduler_name for profile in prepared.built.profiles]
        self.journal.info(0, "Reloaded configuration", file=", ".join(options.files), profiles=names)

    async def _take_over(self, old: Life, prepared: Prepared) -> None:
        new = self._begin_life(prepared)
        try:
            await new.synced()
            if old.is_scheduling:
                await old.end_scheduling(GRACE)
                await new.caught_up_with(old)
                if not self.is_stopping:
                    new.begin_scheduling()
            self._life, new = new, old
        finally:
            await new.end()
