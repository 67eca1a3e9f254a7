"""The scheduler as a process: from its first word to its exit code."""

import asyncio
import logging
import os
import random
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import NEWEST, Release
from stowplan.client.election import (
    Candidate,
    CandidateInfo,
    ElectionError,
    ElectionEvents,
    ElectionHealth,
    ElectionThread,
    Elector,
    LeaseLostError,
    Participant,
    Timing,
    identity,
    lock_for,
)
from stowplan.config.load import ConfigError
from stowplan.config.types import LeaderElection
from stowplan.gocompat.quoting import path_error
from stowplan.runtime.clock import Clock, Hold, LoopWatchdog
from stowplan.runtime.gc_tuning import calm_collector, collect_replaced, resting_collector
from stowplan.runtime.logs import Logger
from stowplan.runtime.logs.tracebacks import formatted
from stowplan.scheduler import CacheCorruptedError, Settings
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.metrics import ProcessMetrics
from stowplan.scheduler.recording import Recording, recorded_scheduler
from stowplan.server.clients import Clients, watch_lists_wanted
from stowplan.server.configuration import read_policy, watch_files
from stowplan.server.instance import SchedulerInstance
from stowplan.server.options import RunOptions, reload, waiting_for_restart
from stowplan.server.serving import ServingError, ServingSettings
from stowplan.server.startup import ResolvedConfig, StartupPlan, resolve_config

if TYPE_CHECKING:
    from stowplan.explain.web.questions import Questions
    from stowplan.server.secure_port import SecurePort
    from stowplan.server.serving.keys import NewKey

GRACE: Final = 3.0
"""Seconds that running binding cycles are given when the process stops."""

GATHER_EVENTS: Final = 0.1
"""Seconds in which events are gathered to be written together."""

RELEASED_WITHIN: Final = 1.0
"""Seconds that releasing the lease may take."""

FORGOTTEN_WITHIN: Final = 1.0
"""Seconds after which a replaced instance is completely released."""


def run_process(
    plan: StartupPlan, environ: Mapping[str, str] = os.environ, *, questions: "Questions | None" = None
) -> int:
    """Run a scheduler until it exits; the exit code. `questions` answers those of the page."""
    watchdog = LoopWatchdog(lambda hold, others: _report_hold(plan.logger, hold, others))

    async def run() -> int:
        process = Process(plan, environ)
        process.questions = questions
        process.metrics.watch_loop(watchdog)
        process.install_signal_handlers()
        return await process.run()

    try:
        with (
            bridge_logging(plan.logger),
            asyncio.Runner(loop_factory=watchdog.new_loop) as runner,
            watchdog,
        ):
            return runner.run(run())
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def _report_hold(logger: Logger, hold: Hold, others: int) -> None:
    """Log what held the event loop for too long, and how many holds were not logged since the last line."""
    values = hold.values()
    if others:
        values["others"] = others
    logger.warning("Event loop was held", **values)


def _recording(options: RunOptions) -> Recording | None:
    """Where the scheduler is recorded to. Raises ConfigError."""
    if not options.record:
        return None
    try:
        return Recording(Path(options.record), size=options.record_max_size)
    except OSError as error:
        raise ConfigError("flags", f"record: {path_error(error, options.record)}") from None


@dataclass(frozen=True, slots=True)
class ExitReason:
    """Why a process exits, and with which code."""

    code: int
    log: Callable[[Logger], None]


TERMINATED: Final = ExitReason(0, lambda logger: logger.info(0, "Requested to terminate, exiting"))
WITHOUT_ELECTION: Final = ExitReason(
    1, lambda logger: logger.error("command failed", err="finished without leader elect")
)
LOST: Final = ExitReason(1, lambda logger: logger.error("Leaderelection lost"))


class Process:
    """A scheduler with leader election, a secure port, and a configuration file that may change."""

    def __init__(self, plan: StartupPlan, environ: Mapping[str, str]) -> None:
        self.options: RunOptions = plan.options
        self.resolved: ResolvedConfig = plan.resolved
        self.logger = plan.logger
        self.clock = plan.clock
        self.election_health = ElectionHealth()
        self.is_stopping = False
        self.elector: ElectionThread | None = None
        self.questions: Questions | None = None
        self._rng = random.Random(random.SystemRandom().getrandbits(128))
        self._hostname = socket.gethostname()
        self.metrics = ProcessMetrics(
            self.options.loaded.gates, timer=perf_counter, options=self.options.metrics
        )
        self._clients = Clients(
            plan.server,
            self.options.client,
            self.clock,
            self._rng,
            environ,
            self.metrics.requests,
            self.logger,
            streams=watch_lists_wanted(self.options.gates),
        )
        self.metrics.watch_servers(self._clients.reachable)
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._is_reload_refused = False
        self.metrics.watch_reloads(lambda: not self._is_reload_refused)
        self._instance: SchedulerInstance | None = None
        self._recording = _recording(self.options)

    @property
    def is_synced(self) -> bool:
        """True if the caches have synced."""
        return self._instance is not None and self._instance.is_synced

    @property
    def is_leading(self) -> bool:
        """True if this process is scheduling."""
        if self.is_stopping:
            return False
        return self._instance is not None and self._instance.is_scheduling

    @property
    def _is_cache_delayed(self) -> bool:
        """True if nothing is listed before this process leads."""
        return self.options.started.delay_cache_until_active and self.elector is not None

    def _may_write(self) -> bool:
        """True if this process may write to the cluster now: it needs no lease, or holds it."""
        return self.elector is None or self.elector.is_leader

    @property
    def candidate(self) -> Candidate | None:
        """Our candidate in a coordinated leader election."""
        return None if self.elector is None else self.elector.candidate

    @property
    def instance(self) -> SchedulerInstance | None:
        """The current scheduler instance; a reload replaces it."""
        return self._instance

    def stop(self) -> None:
        """Shut down gracefully; when called again, exit at once."""
        if self._stop.is_set():
            self.logger.flush()
            os._exit(1)
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration file again."""
        self._reload.set()

    def install_signal_handlers(self) -> None:
        """SIGTERM and SIGINT stop it, SIGHUP reloads the configuration, SIGUSR2 dumps cache and queue."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.add_signal_handler(signal.SIGUSR2, self._dump_state)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    async def run(self) -> int:
        """Run until there is a reason to exit; the exit code. Raises ConfigError."""
        self.logger.info(0, "Starting Kubernetes Scheduler", version=self.options.version)
        async with AsyncExitStack() as stack:
            self._main = await stack.enter_async_context(
                self._clients.client("scheduler", patient=True, may_write=self._may_write)
            )
            self._events = await stack.enter_async_context(self._clients.client("scheduler", patient=True))
            await self._join_election(stack)
            if not self._is_cache_delayed:
                self._instance = instance = self._start_instance(self.resolved)
                stack.push_async_callback(instance.stop)
            if self.options.serving.enabled:
                with resting_collector():
                    port, key_for = await asyncio.to_thread(_load_secure_port, self.options.serving)
                try:
                    await stack.enter_async_context(port(self, self._clients, key_for).open())
                except ServingError as error:
                    raise ConfigError("serving", str(error)) from None
            reason = await self._run_until_exit()
        reason.log(self.logger)
        return reason.code

    # Sync, elect, schedule

    async def _run_until_exit(self) -> ExitReason:
        """Schedule while leading, until there is a reason to exit."""
        main = asyncio.create_task(self._sync_elect_schedule(), name="main")
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        following = asyncio.create_task(
            watch_files(lambda: self.options.watched_files, self._reload, self._reload_configuration),
            name="configuration file",
        )
        try:
            await asyncio.wait({main, stopped, following}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                return await self._shut_down(main)
            await (main if main.done() else following)
            raise AssertionError("neither ends by itself")
        except LeaseLostError:
            return await self._exit_after_lost_lease()
        except CacheCorruptedError as error:
            return await self._exit_with_corrupted_cache(error)
        except Exception as error:  # noqa: BLE001 - logged with its traceback, and the end of the process
            return await self._exit_with_error(error)
        finally:
            self.is_stopping = True
            await self._release_lease()
            for task in (main, stopped, following):
                task.cancel()
            await asyncio.gather(main, stopped, following, return_exceptions=True)
            if self._instance is not None:
                await self._instance.stop()

    async def _sync_elect_schedule(self) -> None:
        """Sync the caches, acquire the lease, schedule. Only raises: there is no regular end."""
        if self._is_cache_delayed and self.elector is not None:
            await self.elector.acquire()
        else:
            await self._wait_synced()
            if self.elector is not None:
                await self._wait_while_instance_runs(self.elector.acquire())
        if self.elector is None:
            await self._schedule()
            return
        while True:
            try:
                await self._lead(self.elector)
            except LeaseLostError as lost:
                if not lost.may_rejoin:
                    raise
            await self._stand_by()
            await self._wait_while_instance_runs(self.elector.acquire(again=True))

    async def _lead(self, elector: ElectionThread) -> NoReturn:
        """Schedule for as long as we hold the lease. Raises `LeaseLostError`, and what scheduling raises."""
        renewing = asyncio.create_task(elector.renew(), name="lease")
        scheduling = asyncio.create_task(self._schedule(), name="leader")
        try:
            await asyncio.wait({renewing, scheduling}, return_when=asyncio.FIRST_COMPLETED)
            await (renewing if renewing.done() else scheduling)
            raise AssertionError("neither ends by itself")
        finally:
            renewing.cancel()
            scheduling.cancel()
            await asyncio.gather(renewing, scheduling, return_exceptions=True)

    async def _stand_by(self) -> None:
        """The lease expired because the API server could not be reached: keep the caches warm, and wait.

        Assumed pods that are not bound are forgotten: the next leader, this process or another, starts from
        the state in the API server.
        """
        self.logger.warning(
            "Lost the lease while the API server is unreachable, taking part in the election again"
        )
        if self._instance is not None:
            await self._instance.end_scheduling(0)

    async def _wait_synced(self) -> None:
        """Wait until the caches of the current instance have synced; a reload may replace it meanwhile."""
        if self._instance is None:
            self._instance = self._start_instance(self.resolved)
        instance = None
        while instance is not self._instance:
            instance = self._instance
            await instance.wait_synced()

    async def _schedule(self) -> None:
        """Schedule until the instance fails; a reload may replace it meanwhile."""
        await self._wait_synced()
        assert self._instance is not None
        with calm_collector():
            self._instance.begin_scheduling()
            while True:
                instance = self._instance
                await asyncio.wait({instance.task})
                if instance is self._instance:
                    await instance.task
                    raise AssertionError("an instance does not end by itself")

    async def _wait_while_instance_runs(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something, and raise what the current instance fails with meanwhile.

        An instance that a reload has replaced ends, too, without failing: then its successor counts.
        """
        task = asyncio.create_task(waiting)
        try:
            while not task.done():
                instance = self._instance
                assert instance is not None
                await asyncio.wait({task, instance.task}, return_when=asyncio.FIRST_COMPLETED)
                if instance.task.done() and instance is self._instance:
                    await instance.task
            await task
        finally:
            task.cancel()

    # Exit

    async def _shut_down(self, main: "asyncio.Task[None]") -> ExitReason:
        """Let bindings finish, then release the lease."""
        self.is_stopping = True
        if not self.is_synced:
            self.logger.error("handlers are not fully synchronized", err="context canceled")
        if self._instance is not None:
            await self._instance.end_scheduling(GRACE)
        main.cancel()
        await asyncio.gather(main, return_exceptions=True)
        if self.elector is None:
            return WITHOUT_ELECTION
        await self._release_lease()
        return TERMINATED

    async def _exit_after_lost_lease(self) -> ExitReason:
        """Stop at once: another instance may be scheduling by now."""
        self.is_stopping = True
        if self._instance is not None:
            await self._instance.end_scheduling(0)
        await self._release_lease()
        return LOST

    async def _exit_with_corrupted_cache(self, error: CacheCorruptedError) -> ExitReason:
        """The cache is wrong: the next leader builds its own from a list."""
        self.is_stopping = True
        await self._release_lease()
        why = str(error)
        return ExitReason(
            1,
            lambda logger: logger.fatal(
                "Scheduler cache is corrupted and can badly affect scheduling decisions", err=why
            ),
        )

    async def _exit_with_error(self, error: Exception) -> ExitReason:
        """An unexpected error: release the lease, so that another instance or a restart takes over."""
        self.is_stopping = True
        await self._stop_scheduling()
        await self._release_lease()
        stack = formatted(error)
        why = f"{type(error).__name__}: {error}"
        return ExitReason(
            1, lambda logger: logger.error("Unexpected error, exiting", err=why, stacktrace=stack)
        )

    async def _stop_scheduling(self) -> None:
        """Stop scheduling without a grace period, as far as a scheduler that has failed can."""
        if self._instance is None:
            return
        try:
            async with asyncio.timeout(RELEASED_WITHIN):
                await self._instance.end_scheduling(0)
        except Exception as error:  # noqa: BLE001 - it has failed before
            self.logger.error(
                "Scheduling was not ended in good order", err=f"{type(error).__name__}: {error}"
            )

    async def _release_lease(self) -> None:
        """Release the lease at any exit. Does nothing once it is released."""
        if self.elector is not None:
            await self.elector.release(RELEASED_WITHIN)

    # Parts

    def _start_instance(self, resolved: ResolvedConfig) -> SchedulerInstance:
        options = self.options
        settings = Settings(
            resolved.built,
            options.loaded.gates,
            resolved.registry,
            options.longest_wait,
            self._hostname,
            legacy_metrics=options.legacy_metrics,
            annotate_results=options.annotate_results,
            wake_failed_groups=options.wake_failed_groups,
            gather_events=GATHER_EVENTS,
        )
        scheduler = recorded_scheduler(
            self._recording,
            self._main,
            settings,
            clock=self.clock,
            seed=self._rng.getrandbits(64),
            report=lambda why: self.logger.error("Recording ended", err=why),
            source="stowplan run",
            timer=perf_counter,
            cpu=process_time,
            extenders=_extenders(resolved),
            logger=self.logger,
            events=self._events,
            may_schedule=None if self.elector is None else self._may_write,
        )
        instance = SchedulerInstance(scheduler, self.logger)
        instance.start()
        self.metrics.show(scheduler.context.metrics)
        return instance

    async def _join_election(self, stack: AsyncExitStack) -> None:
        if not self.options.election.leader_elect:
            return
        component = self.resolved.built.profiles[0].scheduler_name
        thread = election_thread(
            self._clients,
            self.options.election,
            component=component,
            hostname=self._hostname,
            clock=self.clock,
            rng=self._rng,
            logger=self.logger,
            events_within=RELEASED_WITHIN,
            gates=self.options.gates,
        )
        self.elector = await stack.enter_async_context(thread)
        elector = thread.elector
        self.election_health.watch(elector)
        self.metrics.watch_election(
            elector.name, lambda: bool(elector.master_status), lambda: elector.slow_paths
        )

    def _dump_state(self) -> None:
        if self._instance is not None:
            self._instance.scheduler.debugger.tell()

    # The configuration file

    async def _reload_configuration(self) -> None:
        """Replace the instance by one with the new configuration; keep it if that cannot be loaded."""
        try:
            options = reload(self.options)
            if options.config_map is not None:
                options = reload(options, await read_policy(self._main, options.config_map))
            resolved = resolve_config(options)
        except ConfigError as error:
            self._is_reload_refused = True
            self.logger.error("Configuration was not reloaded, the old one stays in force", err=str(error))
            return
        self._is_reload_refused = False
        for note in options.loaded.legacy.notes:
            self.logger.warning(note)
        for field in waiting_for_restart(options):
            self.logger.warning("A change takes effect only when the process starts anew", field=field)
        self.options, self.resolved = options, resolved
        old = self._instance
        if old is not None:
            await self._replace_instance(old, resolved)
        names = [profile.scheduler_name for profile in resolved.built.profiles]
        self.logger.info(0, "Reloaded configuration", file=", ".join(options.watched_files), profiles=names)

    async def _replace_instance(self, old: SchedulerInstance, resolved: ResolvedConfig) -> None:
        """Sync the new instance while the old one continues to schedule, then switch over."""
        new = self._start_instance(resolved)
        try:
            await new.wait_synced()
            if old.is_scheduling:
                await old.end_scheduling(GRACE)
                await new.wait_caught_up_with(old)
                if not self.is_stopping:
                    new.begin_scheduling()
            self._instance, new = new, old
        finally:
            await new.stop()
            asyncio.get_running_loop().call_later(FORGOTTEN_WITHIN, collect_replaced)


# Parts that only some processes need are loaded on first use


def _load_secure_port(settings: ServingSettings) -> "tuple[type[SecurePort], NewKey]":
    """Load the secure port, and begin to look for the key of its certificate if that has to be made.

    Its HTTP server takes long to load: meanwhile a key may be found, and lists of the cluster may arrive.
    """
    keys = import_module("stowplan.server.serving.keys")
    is_made = not (settings.certificate_file or settings.certificate_folder)
    key_for: NewKey = keys.new_key_ahead() if is_made else keys.new_key
    port: type[SecurePort] = import_module("stowplan.server.secure_port").SecurePort
    return port, key_for


def _extenders(resolved: ResolvedConfig) -> Sequence[Extender]:
    if not resolved.built.config.extenders:
        return ()
    from stowplan.scheduler.extenders.http import extenders_for

    return extenders_for(resolved.built)


# Leader election


def election_thread(
    clients: Clients,
    election: LeaderElection,
    *,
    component: str,
    hostname: str,
    clock: Clock,
    rng: random.Random,
    logger: Logger,
    events_within: float,
    gates: FeatureGates,
) -> ElectionThread:
    """The elector of this process, in a separate thread and with separate clients. Entering it raises
    ConfigError.

    Every change of leadership is recorded as an event of `component`; when the thread ends, unwritten events
    are given `events_within` seconds. With the gate CoordinatedLeaderElection the server picks the leader.
    """
    me = identity(hostname, rng)
    own = clients.for_thread(random.Random(rng.getrandbits(64)))
    event_rng, elector_rng = (random.Random(rng.getrandbits(64)) for _ in range(2))

    async def set_up(stack: AsyncExitStack) -> Participant:
        try:
            timing = Timing.of(election)
            client = own.client("leader-election", timeout=timing.request_timeout)
            await stack.enter_async_context(client)
            lock = lock_for(
                election.resource_lock, client, election.resource_namespace, election.resource_name, me
            )
        except ElectionError as error:
            raise ConfigError("election", str(error)) from None
        writer = await stack.enter_async_context(own.client("scheduler"))
        events = ElectionEvents(writer, component, clock=clock, rng=event_rng, logger=logger)
        stack.push_async_callback(events.drain, events_within)
        coordinated = gates["CoordinatedLeaderElection"]
        elector = Elector(
            lock,
            timing,
            clock=clock,
            rng=elector_rng,
            logger=logger,
            events=events,
            coordinated=coordinated,
            retry_release=gates.behaviour.calls.lease_release_retries,
            pause=client.pause,
            is_reachable=client.is_reachable,
        )
        if not coordinated:
            return Participant(elector)
        info = candidate_info(election, me, gates.release)
        return Participant(elector, Candidate(writer, info, clock=clock, rng=elector_rng, logger=logger))

    return ElectionThread(set_up)


def candidate_info(election: LeaderElection, name: str, release: Release) -> CandidateInfo:
    """Content of our LeaseCandidate: the version of this installation, and the one it emulates."""
    return CandidateInfo(
        namespace=election.resource_namespace,
        name=name,
        lease_name=election.resource_name,
        binary_version=NEWEST.version.partition("-")[0],
        emulation_version=f"{release.emulated}.0",
    )


# Python's logging


class LoggingBridge(logging.Handler):
    """Passes messages of Python's `logging` on to the logger, one line each.

    asyncio reports unretrieved exceptions this way, with a traceback; the first line and the error are kept.
    """

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        log = self._logger.error if record.levelno >= logging.ERROR else self._logger.warning
        text = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            log(text, logger=record.name)
        else:
            log(text, logger=record.name, err=f"{type(error).__name__}: {error}")


@contextmanager
def bridge_logging(logger: Logger) -> Iterator[None]:
    """Within the block, messages and warnings of libraries go to the logger."""
    handler = LoggingBridge(logger)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
