"""The scheduler itself: its parts put together, and its loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.coscheduling import see_pod
from stowplan.api.devices import ResourceClaim
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.client import Client, Reflector, Writer
from stowplan.explain.document.pod import SchedulingDocument
from stowplan.explain.recorded import scheduling_document
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.api_dispatcher import ApiDispatcher
from stowplan.scheduler.binding_cycle import WORKERS, BindingCycle, Unbound
from stowplan.scheduler.cache import Cache, GroupCache
from stowplan.scheduler.composition import (
    batches_for,
    events_of_interest,
    following,
    frameworks_for,
    status_reporter,
)
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.costs import CycleCosts
from stowplan.scheduler.cycle.failure_handler import FailureHandler
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder, SchedulingCycle
from stowplan.scheduler.debugger import Debugger
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.driver import Driver
from stowplan.scheduler.event_handlers import Dispatcher, EventHandlers
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.events import CLAIM_UPDATE, Action
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.interface import DeviceMetrics
from stowplan.scheduler.framework.pod_groups.placement import Waited
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.informers import Informers, kinds_to_watch, needed_objects
from stowplan.scheduler.instruments.annotations import ResultAnnotations
from stowplan.scheduler.instruments.log import CycleLog, log_plugins, reflector_values
from stowplan.scheduler.instruments.metrics import show_all
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.pod_groups.cycle import PodGroupCycle
from stowplan.scheduler.pod_groups.status import GroupStatusWriter
from stowplan.scheduler.preemption import Preemption
from stowplan.scheduler.queue.build import queue_for
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.random_sources import RandomSources
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.turns import FLUSH_BACKOFF, FLUSH_UNSCHEDULABLE, GOING_ON, ReplayLog
from stowplan.scheduler.unreadable import UnreadableObjects

FLUSH_BACKOFF_EVERY: Final = 1.0
FLUSH_UNSCHEDULABLE_EVERY: Final = 30.0

NOT_LEADING_PAUSE: Final = 0.1
"""Seconds until an instance that may not schedule asks again."""

PODS_IN_A_ROW: Final = 32
"""Number of pods after which, or at the end of the time slice, other tasks get a turn of the event loop."""

FLUSHED_AT_ONCE: Final = 500
"""Number of pods flushed before other tasks get a turn."""

REST_WITHIN: Final = 2.0
"""Seconds that binding cycles are given to finish before the state is recorded although some have not."""


class Scheduler:
    """A scheduler of one or more profiles against one API server.

    `clock` is the time and `rng` the only source of randomness: with the same of both, the same client and
    the same events a run repeats itself. `timer` measures durations for metrics (default: the clock), `cpu`
    the CPU time of the process, which tells slow attempts from a busy machine.
    `events` is the client to write events with, if they shall not share the limits of everything else.
    `may_schedule` is called before every scheduling cycle and before every binding: if it returns False, as
    when another instance may lead by now, pods stay in the queue. `instruments` observe it. `replay_log`
    records or replays the order of everything that decisions depend on.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        clock: Clock,
        rng: Random,
        timer: Callable[[], float] | None = None,
        cpu: Callable[[], float] | None = None,
        extenders: Sequence[Extender] = (),
        logger: Logger | None = None,
        events: Writer | None = None,
        may_schedule: Callable[[], bool] | None = None,
        instruments: Sequence[Instrument] = (),
        replay_log: ReplayLog | None = None,
    ) -> None:
        self.settings = settings
        self.rngs = RandomSources.of(rng, len(settings.config.profiles))
        self._client = client
        self._turns = replay_log
        self._real_clock = clock
        self._extenders = extenders
        self._logger = logger = Logger() if logger is None else logger
        self._cpu = cpu
        self._timer = timer = clock.monotonic if timer is None else timer
        # In a replay everything but requests and watches goes by the time of the turns.
        self._clock = clock = clock if replay_log is None else replay_log.clock
        self._woken = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._ending = False
        self.waiting = WaitingPods()

        metrics = SchedulerMetrics(timer, settings.gates, self.rngs.metrics, legacy=settings.legacy_metrics)
        decisions = LastDecisions(settings.kept_decisions)
        self.hooks = following(metrics, decisions, clock, instruments)
        table = ClusterTable(settings.gates.release)
        sampler = NodeSampler(table, logger)
        cache = (GroupCache if settings.gates.pod_groups else Cache)(table, logger.error, sampler)
        plugins_client = client if replay_log is None else replay_log.wrapped(client)
        self._services = _Services(self, plugins_client, clock, logger)
        frameworks = frameworks_for(settings, table, self.rngs, self._services, self.hooks, timer)
        writer = client if events is None else events
        self.context = self._context(frameworks, cache, metrics, decisions, writer, may_schedule)
        table.devices.claims.freed = self._requeue_for_devices

        watched = events_of_interest(frameworks)
        self._unreadable = UnreadableObjects(
            self.context.recorder,
            logger,
            self._real_clock,
            frameworks[0].profile.scheduler_name if frameworks else "",
            self.context.may_schedule,
        )
        self.informers = self._informers(frameworks, watched)
        self.debugger = Debugger(self.context, self.informers)

        failures = FailureHandler(
            self.context, status_reporter(self.context), resizes=settings.gates[RESIZE_PREEMPTION]
        )
        self.binding = BindingCycle(
            self.context,
            failures,
            announcing=settings.gates["NominatedNodeNameForExpectation"],
            workers=max(WORKERS, settings.config.config.parallelism),
        )
        self.preemption = self._preemption()
        self.finder = NodeFinder(sampler, self.rngs.node_finder, logger, timer)
        self.cycle = SchedulingCycle(self.context, self.finder, failures, self.binding.start)
        self._driver = Driver(self.context, self.preemption, self.cycle.searches)
        self._install_own_instruments()
        # After the instruments: what a cycle keeps of groups goes by the hooks that are there.
        self.groups = self._group_cycle(failures)
        """The cycle of groups, if pods are scheduled in groups."""
        self._begin_cycle: Callable[[QueuedPod], Waited[None] | None]
        """Runs a scheduling cycle as far as it goes without waiting; returns what is left of it."""
        self._begin_cycle = (self.cycle if self.groups is None else self.groups).schedule_one
        self._show(metrics, frameworks)

    # The parts, in the order in which they are made

    def _context(
        self,
        frameworks: Sequence[Framework],
        cache: Cache,
        metrics: SchedulerMetrics,
        decisions: LastDecisions,
        writer: Writer,
        may_schedule: Callable[[], bool] | None,
    ) -> Context:
        """Cache, queue and what else the parts share."""
        settings, gates, logger = self.settings, self.settings.gates, self._logger
        config = settings.config.config
        recorder = EventRecorder(
            writer,
            self._real_clock,
            self.rngs.recorder,
            settings.hostname,
            logger.error,
            others_wait=self._has_backlog,
            gather=settings.gather_events,
        )
        # Measured time is not replayed, so a scheduler that records holds no pod back.
        holds = not self._extenders and self._turns is None
        context = Context(
            client=self._client,
            clock=self._clock,
            timer=self._timer,
            rng=self.rngs.context,
            cache=cache,
            queue=queue_for(
                frameworks,
                self._clock,
                gates,
                initial_backoff=config.pod_initial_backoff_seconds,
                max_backoff=config.pod_max_backoff_seconds,
                longest_wait=settings.longest_wait,
                extenders=bool(self._extenders),
                wake_failed_groups=settings.wake_failed_groups,
                find=self.pod,
                instrument=self.hooks,
                logger=logger,
            ),
            waiting=self.waiting,
            metrics=metrics,
            recorder=recorder,
            report_event=recorder.event,
            logger=logger,
            decisions=decisions,
            costs=CycleCosts(self._clock, logger, metrics.slow_attempt, holds=holds, cpu=self._cpu),
            find=self.pod,
            wake=self._wake,
            may_schedule=may_schedule or (lambda: True),
            extenders=self._extenders,
            hooks=self.hooks,
            turns=self._turns,
            profiles={one.profile.scheduler_name: Profile(one) for one in frameworks},
        )
        if gates["SchedulerAsyncAPICalls"]:
            keeps_conditions = gates.behaviour.calls.status_merges_conditions
            context.dispatcher = ApiDispatcher(context, keeps_conditions=keeps_conditions)
        return context

    def _informers(self, frameworks: Sequence[Framework], watched: Mapping[str, Action]) -> Informers:
        """Informers for the kinds of objects that the profiles need."""
        gates, logger = self.settings.gates, self._logger
        return Informers(
            self._client,
            Dispatcher(self.context, EventHandlers.of(self.context, watched, gates)),
            kinds_to_watch(
                watched,
                needed_objects(frameworks),
                groups=gates.built_in_pod_groups,
                composite_groups=gates.built_in_pod_groups and gates["CompositePodGroup"],
                coscheduling=gates.coscheduling,
                taint_rules=gates["DRADeviceTaintRules"],
                apis=gates.release.apis,
            ),
            clock=self._real_clock,
            rng=self.rngs.informers,
            wrap=None if self._turns is None else self._turns.handler,
            report=lambda text: logger.error("Failed to watch", err=text),
            unreadable=self._unreadable.found,
            inform=lambda text: logger.info(0, text),
            see_pod=see_pod(gates),
        )

    def _preemption(self) -> Preemption:
        gates = self.settings.gates
        return Preemption(
            self.context,
            self.binding,
            asynchronous=gates["SchedulerAsyncPreemption"],
            activates=gates.behaviour.preempting.activates_preemptor,
            measured=gates.behaviour.preempting.result_label == "real",
            parallelism=self.settings.config.config.parallelism,
        )

    def _install_own_instruments(self) -> None:
        """Install the instruments that need the parts. The metrics and decisions were there first."""
        if self.settings.gates["OpportunisticBatching"]:
            self.hooks.install(batches_for(self.context, self.settings.gates))
        self.hooks.install(CycleLog(self.context, self.finder))
        if self.settings.annotate_results:
            self.hooks.install(ResultAnnotations(self.context))

    def _group_cycle(self, failures: FailureHandler) -> PodGroupCycle | None:
        context = self.context
        if not isinstance(context.queue, GroupSchedulingQueue):
            return None
        return PodGroupCycle(
            context,
            context.queue,
            self.finder,
            self.cycle,
            failures,
            GroupStatusWriter(context).submit,
            self.settings.gates,
            self.rngs.node_finder,
            # A replay could not tell when other pods had their turn.
            puts_aside=self._turns is None,
            merges_rejectors=self.settings.wake_failed_groups,
        )

    def _show(self, metrics: SchedulerMetrics, frameworks: Sequence[Framework]) -> None:
        """Have the metrics read the parts, and log the plugins."""
        context = self.context
        metrics.watch_costs(context.costs.series)
        metrics.watch_queue(context.queue.counts, context.queue.entity_counts)
        metrics.watch_cache(context.cache.sizes)
        metrics.watch_informers(self.informers.resource_versions)
        metrics.watch_unreadable(self.informers.unreadable_counts)
        show_all(metrics, frameworks)
        for framework in frameworks if self._logger.enabled(2) else ():
            log_plugins(self._logger, framework)

    # Running

    async def run(self) -> None:
        """Watch and schedule until cancelled. Raises what must not be survived, as `CacheCorruptedError`."""
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Scheduler"]:
        """Run for as long as the block takes; entered once the caches have synced and scheduling begins."""
        async with self.watching():
            await self.synced()
            self.begin_scheduling()
            yield self
            await self.context.recorder.drain()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Scheduler"]:
        """Keep the caches in sync for as long as the block takes; `begin_scheduling` is up to the caller.

        Raises what must not be survived, as `CacheCorruptedError`.
        """
        async with self._with_tasks():
            self._begin_watching()
            yield self

    @asynccontextmanager
    async def driven(self) -> AsyncIterator["Scheduler"]:
        """Neither watch nor schedule: the caller tells of events and runs scheduling cycles itself."""
        async with self._with_tasks():
            yield self

    @asynccontextmanager
    async def _with_tasks(self) -> AsyncIterator[None]:
        context = self.context
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                context.tasks.begin(group)
                try:
                    yield
                except BaseException as cause:  # noqa: BLE001 - raised again below, when all has ended
                    failure = cause
                self._stop()
        except BaseExceptionGroup as several:
            raise _first(several) from None
        if failure is not None:
            raise failure

    def _begin_watching(self) -> None:
        tasks = self.context.tasks
        tasks.start(self.context.recorder.run(), "event recorder", lasting=True)
        if self._turns is not None:
            tasks.start(self._turns.run(), "recording", lasting=True)
        for reflector in self.informers.all:
            tasks.start(self._reflect(reflector), f"reflector {reflector.resource.qualified}", lasting=True)

    async def _reflect(self, reflector: Reflector[Any]) -> None:
        logger, about = self.context.logger, reflector_values(reflector)
        logger.info(3, "Starting reflector", resyncPeriod="0s", **about)
        try:
            await reflector.run()
        finally:
            logger.info(3, "Stopping reflector", resyncPeriod="0s", **about)

    async def synced(self) -> None:
        """Wait until the caches have synced."""
        await self.informers.synced()
        logger = self.context.logger
        for reflector in self.informers.all if logger.enabled(2) else ():
            if reflector.has_synced:
                logger.info(2, "Caches populated", **reflector_values(reflector))
        logger.info(3, "Handlers synced")

    def begin_scheduling(self) -> None:
        """Schedule pods from now on, also after `end_scheduling`. The caches must have synced."""
        tasks = self.context.tasks
        self._ending = False
        self._unreadable.announce(self.informers.pods.unreadable)
        self._loops = [
            tasks.start(self._flush_backoff(), "backoff flush", lasting=True),
            tasks.start(self._flush_unschedulable(), "unschedulable flush", lasting=True),
            tasks.start(self._schedule(), "scheduling", lasting=True),
        ]

    async def end_scheduling(self, grace: float) -> Unbound:
        """Schedule no more pods. Bindings have `grace` seconds to finish; then they are given up.

        Returns the pods that were assigned to nodes and are not bound. Watches continue.
        """
        self._ending = True
        self._woken.set()
        if self.hooks.scheduling_ended is not None:
            self.hooks.scheduling_ended()
        flushes, scheduling = self._loops[:-1], self._loops[-1:]
        for loop in flushes:
            loop.cancel()
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*self._loops, return_exceptions=True)
                await self.binding.finished()
                left = await self.binding.give_up()
                await self.context.tasks.settled()
                await self.context.recorder.drain()
        except TimeoutError:
            for loop in scheduling:
                loop.cancel()
            await asyncio.gather(*scheduling, return_exceptions=True)
            left = await self.binding.give_up()
        self._driver.give_up()
        self._loops = []
        return left

    async def _schedule(self) -> None:
        """The scheduling loop: pop a pod, run its scheduling cycle; now and then let everybody else run."""
        context, woken, begin, finish = self.context, self._woken, self._begin_cycle, self._driver.finish
        queue, hooks, turns = context.queue, self.hooks, context.turns
        time_slice, may_schedule = context.slice, context.may_schedule
        searches = self.cycle.searches
        in_a_row = 0
        time_slice.begin()
        while not self._ending:
            if not may_schedule():
                await asyncio.sleep(NOT_LEADING_PAUSE)
                continue
            if turns is not None and turns.rest_wanted and not searches.aside:
                await self._rest(turns)
            queued = searches.next_ready() if searches.aside else None
            if queued is None:
                queued = queue.pop()
            if queued is None:
                woken.clear()
                await woken.wait()
                in_a_row = 0
                time_slice.begin()
                continue
            if hooks.popped is not None:
                hooks.popped(queued)
            rest = begin(queued)
            if rest is not None:
                await finish(rest)
            if hooks.cycle_ended is not None:
                hooks.cycle_ended()
            in_a_row += 1
            if in_a_row >= PODS_IN_A_ROW or time_slice.is_over:
                await asyncio.sleep(0)
                in_a_row = 0
                time_slice.begin()

    def _wake(self) -> None:
        """A pod may have become ready; a recording looks at every event, whether or not there is one."""
        woken = self._woken
        if woken.is_set():
            return
        if self._turns is not None or self.context.queue.may_pop or self.cycle.searches.aside:
            woken.set()

    async def _rest(self, turns: ReplayLog) -> None:
        """Have nothing under way for a moment, so that the state can be recorded."""
        try:
            async with asyncio.timeout(REST_WITHIN):
                await self.binding.finished()
                await self.context.tasks.settled()
        except TimeoutError:
            self.context.logger.info(2, "The state is recorded while pods are being bound")
        turns.rest()

    async def schedule_one(self, queued: QueuedPod) -> None:
        """Schedule a pod or group that was popped from the queue, and wait for the end of its cycle."""
        rest = self._begin_cycle(queued)
        if rest is not None:
            await self._driver.finish(rest)

    async def _flush_backoff(self) -> None:
        """Make pods ready whose backoff is over. Backoffs end at whole seconds."""
        clock = self.context.clock
        while True:
            await asyncio.sleep(FLUSH_BACKOFF_EVERY - clock.monotonic() % FLUSH_BACKOFF_EVERY)
            while self.flush(FLUSH_BACKOFF):
                self._wake()
                await asyncio.sleep(0)
            self._wake()

    async def _flush_unschedulable(self) -> None:
        """Requeue pods that have waited for an event too long, and free what plugins keep of the past."""
        while True:
            await asyncio.sleep(FLUSH_UNSCHEDULABLE_EVERY)
            for profile in self.context.profiles.values():
                profile.framework.drop_stale()
            while self.flush(FLUSH_UNSCHEDULABLE):
                self._wake()
                await asyncio.sleep(0)
            self._wake()

    def flush(self, what: int) -> bool:
        """Flush some pods of a queue whose time has come; whether there may be more."""
        queue = self.context.queue
        if self.hooks.flushing is not None:
            self.hooks.flushing(what)
        return (queue.flush_backoff if what == FLUSH_BACKOFF else queue.flush_unschedulable)(FLUSHED_AT_ONCE)

    def _has_backlog(self) -> bool:
        """True if bindings or preemptions wait because the API server is busy with others of them."""
        return self.binding.has_backlog or self.preemption.has_backlog

    def _stop(self) -> None:
        self.context.tasks.stop()
        self.context.logger.info(2, "Scheduling queue is closed")
        for profile in self.context.profiles.values():
            for plugin in profile.framework.plugins.values():
                plugin.close()

    # Looking

    def install(self, instrument: Instrument) -> None:
        """Have an instrument follow the scheduler from now on."""
        self.hooks.install(instrument)

    def pod(self, key: str) -> Pod | None:
        """A pod as the API server last told of it, by `namespace/name`."""
        return self.informers.pods.objects.get(key)

    def _requeue_for_devices(self, claim: ResourceClaim) -> None:
        """Requeue pods that wait for devices: those of an allocation that came to nothing are free again."""
        without = replace(claim, status=replace(claim.status, allocation=None))
        self.context.queue.move_all(CLAIM_UPDATE, claim, without)
        self.context.wake()

    def explain(self, key: str) -> SchedulingDocument | None:
        """Why the pod `namespace/name` is where it is, or still waits; None if nothing is known of it."""
        return scheduling_document(self.context, key)


def _first(several: BaseExceptionGroup[Any]) -> BaseException:
    """The exception that ended everything."""
    one: BaseException = several.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one


class _Services:
    """The scheduler as its plugins see it."""

    def __init__(self, scheduler: Scheduler, client: Client, clock: Clock, logger: Logger) -> None:
        self._scheduler = scheduler
        self.client = client
        self.clock = clock
        self.logger = logger
        self.waiting = scheduler.waiting

    def activate(self, pods: Iterable[Pod]) -> None:
        self._scheduler.context.queue.activate(pods)
        self._scheduler.context.wake()

    def pod(self, key: str) -> Pod | None:
        return self._scheduler.pod(key)

    @property
    def deletions(self) -> AwaitedDeletions:
        return self._scheduler.context.deletions

    def objects(self, kind: str) -> Mapping[str, Object]:
        return self._scheduler.informers.objects(kind)

    async def in_turn(self, pod: Pod) -> None:
        turns = self._scheduler.context.turns
        if turns is not None:
            await turns.take(GOING_ON, pod.metadata.uid, None)

    def event(self, pod: Pod, **about: Any) -> None:
        self._scheduler.context.event(pod, **about)

    async def dispatch_binding(self, pod: Pod, send: Callable[[], Awaitable[None]]) -> None:
        dispatcher = self._scheduler.context.dispatcher
        if dispatcher is None:
            await send()
        else:
            await dispatcher.bind(pod.metadata.uid, send)

    def count_volume_error(self, operation: str) -> None:
        self._scheduler.context.metrics.volumes.failed(operation)

    @property
    def device_metrics(self) -> DeviceMetrics:
        return self._scheduler.context.metrics.devices
