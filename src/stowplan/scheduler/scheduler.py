"""The scheduler itself: its parts put together, and its loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from stowplan.api.coscheduling import see_pod
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
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.costs import CycleCosts
from stowplan.scheduler.cycle.failure_handler import FailureHandler
from stowplan.scheduler.cycle.instrument import Hooks, Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder, SchedulingCycle
from stowplan.scheduler.debugger import Debugger
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.driver import Driver
from stowplan.scheduler.event_handlers import Dispatcher, EventHandlers
from stowplan.scheduler.events import EventRecorder, not_scheduled
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.events import Action
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.interface import DeviceMetrics
from stowplan.scheduler.framework.pod_groups.placement import Waited
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.informers import Informers, kinds_to_watch, needed_objects
from stowplan.scheduler.instruments.annotations import ResultAnnotations
from stowplan.scheduler.instruments.batching import Batch, BatchInstrument
from stowplan.scheduler.instruments.decisions import DecisionsInstrument
from stowplan.scheduler.instruments.log import CycleLog, log_plugins, reflector_values
from stowplan.scheduler.instruments.metrics import MetricsInstrument
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.pod_groups.cycle import PodGroupCycle
from stowplan.scheduler.pod_groups.status import GroupStatusWriter
from stowplan.scheduler.preemption import Preemption
from stowplan.scheduler.queue.build import queue_for, rules_of
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.random_sources import RandomSources
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.status_writer import StatusWriter
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.turns import FLUSH_BACKOFF, FLUSH_UNSCHEDULABLE, GOING_ON, ReplayLog
from stowplan.scheduler.unreadable import UnreadableObjects

FLUSH_BACKOFF_EVERY: Final = 1.0
FLUSH_UNSCHEDULABLE_EVERY: Final = 30.0

NOT_LEADING_PAUSE: Final = 0.1
"""Seconds until an instance that may not schedule asks again."""

PODS_IN_A_ROW: Final = 32
"""After so many pods, or when the time slice is over, everybody else gets a turn of the event loop."""

FLUSHED_AT_ONCE: Final = 500
"""How many pods are flushed before everybody else gets a turn."""

REST_WITHIN: Final = 2.0
"""Seconds that binding cycles are given to finish before the state is recorded although some have not."""


class Scheduler:
    """A scheduler of one or more profiles against one API server.

    `clock` says what time it is and `rng` is all the chance there is: with the same of both, the same client
    and the same news a run repeats itself. `timer` measures durations for metrics (default: the clock).
    `events` is the client to write events with, if they shall not share the limits of everything else.
    `may_schedule` is asked before every scheduling cycle and before every binding: where it says no, as when
    another instance may lead by now, pods stay in the queue. `instruments` follow what it does. `replay_log`
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
        extenders: Sequence[Extender] = (),
        logger: Logger | None = None,
        events: Writer | None = None,
        may_schedule: Callable[[], bool] | None = None,
        instruments: Sequence[Instrument] = (),
        replay_log: ReplayLog | None = None,
    ) -> None:
        self.settings = settings
        gates = settings.gates
        logger = Logger() if logger is None else logger
        timer = clock.monotonic if timer is None else timer
        table = ClusterTable(gates.release)
        self.rngs = rngs = RandomSources.of(rng, len(settings.config.profiles))
        self._turns = replay_log
        real_clock = clock
        if replay_log is not None:
            clock = replay_log.clock
        metrics = SchedulerMetrics(timer, gates, rngs.metrics, legacy=settings.legacy_metrics)
        self._woken = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._ending = False
        self.waiting = WaitingPods()
        self._services = _Services(
            self, client if replay_log is None else replay_log.wrapped(client), clock, logger
        )
        decisions = LastDecisions(settings.kept_decisions)
        counting = MetricsInstrument(metrics)
        following: list[Instrument | SchedulerMetrics] = [metrics, counting]
        if decisions.wanted:
            following.append(DecisionsInstrument(decisions, clock))
        self.hooks = hooks = Hooks(*following, *instruments)
        frameworks = [
            Framework(
                profile,
                table,
                settings.registry,
                gates,
                rng=plugins_rng,
                services=self._services,
                probe=hooks.probe(profile.scheduler_name, timer),
            )
            for profile, plugins_rng in zip(settings.config.profiles, rngs.frameworks, strict=True)
        ]
        config = settings.config.config
        sampler = NodeSampler(table, logger)
        self.context = context = Context(
            client=client,
            clock=clock,
            timer=timer,
            rng=rngs.context,
            cache=(GroupCache if gates.pod_groups else Cache)(table, logger.error, sampler),
            queue=queue_for(
                frameworks,
                clock,
                gates,
                initial_backoff=config.pod_initial_backoff_seconds,
                max_backoff=config.pod_max_backoff_seconds,
                longest_wait=settings.longest_wait,
                extenders=bool(extenders),
                wake_failed_groups=settings.wake_failed_groups,
                find=self.pod,
                instrument=hooks,
                logger=logger,
            ),
            waiting=self.waiting,
            metrics=metrics,
            recorder=EventRecorder(
                client if events is None else events,
                real_clock,
                rngs.recorder,
                settings.hostname,
                logger.error,
                others_wait=self._has_backlog,
                gather=settings.gather_events,
            ),
            logger=logger,
            decisions=decisions,
            # Measured time is not replayed, so a scheduler that records holds no pod back.
            costs=CycleCosts(clock, logger, metrics.slow_attempt, holds=not extenders and replay_log is None),
            find=self.pod,
            wake=self._wake,
            may_schedule=may_schedule or (lambda: True),
            extenders=extenders,
            hooks=hooks,
            turns=replay_log,
            profiles={one.profile.scheduler_name: Profile(one) for one in frameworks},
        )
        metrics.watch_costs(context.costs.series)
        if gates["SchedulerAsyncAPICalls"]:
            keeps_conditions = gates.behaviour.calls.status_merges_conditions
            context.dispatcher = ApiDispatcher(context, keeps_conditions=keeps_conditions)
        metrics.watch_queue(context.queue.counts, context.queue.entity_counts)
        metrics.watch_cache(context.cache.sizes)
        watched = self._events_of_interest(frameworks)
        self._unreadable = UnreadableObjects(
            context.recorder,
            logger,
            real_clock,
            frameworks[0].profile.scheduler_name if frameworks else "",
            context.may_schedule,
        )
        self.informers = Informers(
            client,
            Dispatcher(context, EventHandlers.of(context, watched, gates)),
            kinds_to_watch(
                watched,
                needed_objects(frameworks),
                groups=gates.built_in_pod_groups,
                composite_groups=gates.built_in_pod_groups and gates["CompositePodGroup"],
                coscheduling=gates.coscheduling,
                taint_rules=gates["DRADeviceTaintRules"],
                apis=gates.release.apis,
            ),
            clock=real_clock,
            rng=rngs.informers,
            wrap=None if replay_log is None else replay_log.handler,
            report=lambda text: logger.error("Failed to watch", err=text),
            unreadable=self._unreadable.found,
            inform=lambda text: logger.info(0, text),
            see_pod=see_pod(gates),
        )
        metrics.watch_informers(self.informers.resource_versions)
        metrics.watch_unreadable(self.informers.unreadable_counts)
        self.debugger = Debugger(context, self.informers)
        failures = FailureHandler(context, self._status_reporter(), resizes=gates[RESIZE_PREEMPTION])
        self.binding = BindingCycle(
            context,
            failures,
            announcing=gates["NominatedNodeNameForExpectation"],
            workers=max(WORKERS, config.parallelism),
        )
        self.preemption = preemption = Preemption(
            context,
            self.binding,
            asynchronous=gates["SchedulerAsyncPreemption"],
            activates=gates.behaviour.preempting.activates_preemptor,
            measured=gates.behaviour.preempting.result_label == "real",
            parallelism=config.parallelism,
        )
        self.finder = NodeFinder(sampler, rngs.node_finder, logger, timer)
        self.cycle = SchedulingCycle(context, self.finder, failures, self.binding.start)
        self._driver = Driver(context, preemption, self.cycle.searches)
        if gates["OpportunisticBatching"]:
            hooks.install(self._batches(extenders=bool(extenders)))
        hooks.install(CycleLog(context, self.finder))
        if settings.annotate_results:
            hooks.install(ResultAnnotations(context))
        self.groups: PodGroupCycle | None = None
        """The cycle of groups, if pods are scheduled in groups."""
        if isinstance(context.queue, GroupSchedulingQueue):
            self.groups = PodGroupCycle(
                context,
                context.queue,
                self.finder,
                self.cycle,
                failures,
                GroupStatusWriter(context).submit,
                gates,
                rngs.node_finder,
            )
        self._begin_cycle: Callable[[QueuedPod], Waited[None] | None]
        """Runs a scheduling cycle as far as it goes without waiting; returns what is left of it."""
        self._begin_cycle = (self.cycle if self.groups is None else self.groups).schedule_one
        counting.show_all(frameworks)
        for framework in frameworks:
            if logger.enabled(2):
                log_plugins(logger, framework)

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
        """Schedule no more pods. Bindings have so many seconds to finish; then they are given up.

        Returns the pods that were assigned to nodes and are not bound. Watching goes on.
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
        if self._turns is not None or self.context.queue.may_pop or self.cycle.searches.aside:
            self._woken.set()

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

    def _batches(self, *, extenders: bool) -> BatchInstrument:
        """What follows the batches of all profiles."""
        context, gates = self.context, self.settings.gates
        batches = {
            name: Batch(
                profile.framework,
                gates.behaviour.batching,
                context.metrics.batches.of(name),
                clock=context.clock,
                timer=context.timer,
                logger=context.logger,
                extenders=extenders,
            )
            for name, profile in context.profiles.items()
        }
        return BatchInstrument(batches, context.queue)

    def _status_reporter(self) -> Callable[[Pod, str, str, str | None], None]:
        """Who writes why pods could not be placed."""
        dispatcher = self.context.dispatcher
        if dispatcher is None:
            return StatusWriter(self.context).submit

        def report(pod: Pod, reason: str, message: str, nominated_node: str | None) -> None:
            dispatcher.patch_status(pod, (not_scheduled(pod, reason, message),), nominated_node)

        return report

    async def _flush_backoff(self) -> None:
        """Make pods ready whose backoff is over. Backoffs end at whole seconds."""
        clock = self.context.clock
        while True:
            await asyncio.sleep(FLUSH_BACKOFF_EVERY - clock.monotonic() % FLUSH_BACKOFF_EVERY)
            while self.flush(FLUSH_BACKOFF):
                self._woken.set()
                await asyncio.sleep(0)
            self._woken.set()

    async def _flush_unschedulable(self) -> None:
        """Requeue pods that have waited for an event too long, and free what plugins keep of the past."""
        while True:
            await asyncio.sleep(FLUSH_UNSCHEDULABLE_EVERY)
            for profile in self.context.profiles.values():
                profile.framework.drop_stale()
            while self.flush(FLUSH_UNSCHEDULABLE):
                self._woken.set()
                await asyncio.sleep(0)
            self._woken.set()

    def flush(self, what: int) -> bool:
        """Flush some pods of a queue whose time has come; whether there may be more."""
        queue = self.context.queue
        if self.hooks.flushing is not None:
            self.hooks.flushing(what)
        return (queue.flush_backoff if what == FLUSH_BACKOFF else queue.flush_unschedulable)(FLUSHED_AT_ONCE)

    def _has_backlog(self) -> bool:
        """Whether bindings or preemptions wait because the API server is busy with others of them."""
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

    def explain(self, key: str) -> SchedulingDocument | None:
        """Why the pod `namespace/name` is where it is, or still waits; None if nothing is known of it."""
        return scheduling_document(self.context, key)

    @staticmethod
    def _events_of_interest(frameworks: Iterable[Framework]) -> dict[str, Action]:
        found: dict[str, Action] = {}
        for framework in frameworks:
            for resource, action in rules_of(framework).hints.watched().items():
                found[resource] = found.get(resource, Action(0)) | action
        return found


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
