"""One run: a plan carried out in virtual time, from the first node to the final checks."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgspec

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import release
from stowplan.config import LoadedConfig, load
from stowplan.config.types import API_VERSION, KIND
from stowplan.lab.chaos.actors import (
    FAULTY_PLUGIN,
    ChaosDriver,
    ChaosExtender,
    ChaosKubelets,
    Controllers,
    Users,
    faulty_plugin_for,
)
from stowplan.lab.chaos.devicechecks import DeviceOwnership, ReservationChecks
from stowplan.lab.chaos.final_checks import FinalChecks
from stowplan.lab.chaos.groupchecks import GangChecks, partly_bound
from stowplan.lab.chaos.invariants import Bindings, ClaimChecks, CycleChecks, VolumeOwnership
from stowplan.lab.chaos.plan import ChaosAction, ChaosPlan, FaultPhase
from stowplan.lab.chaos.server import FaultyConnection
from stowplan.lab.chaos.world import UNSEEN_CLAIMS, ChaosFinding, ChaosWorld
from stowplan.runtime.clock import LoopWatchdog, VirtualClock, VirtualTimeError
from stowplan.runtime.clock import run as run_virtual
from stowplan.runtime.clock.watchdog import LIMIT
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.recording import Recording, recorded_scheduler
from stowplan.scheduler.tasks import WatchedSlice

GROUP_GATES: Final = FeatureGates(
    {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}, release("1.37")
)
"""The gates of runs with groups."""

SETTLED: Final = 75.0
"""Seconds in which pending pods are bound once the informers have caught up."""

QUIET: Final = 480.0
"""Seconds after which every schedulable pod is bound: longer than the flush of unschedulable pods takes."""

QUIET_WITH_DEVICES: Final = QUIET + 330.0
"""QUIET with devices: a flush may delete an earlier claim, and no event reports its devices."""

WATCHED_FOR: Final = 3.0
WATCHED_EVERY: Final = 0.02
"""How long, and how often in seconds, it is looked whether a group is being bound."""
SLOW: Final = 1.0
"""Up to how many seconds requests take at that time."""
DEVICES_READY_WITHIN: Final = "20s"
"""Time devices have to become ready before a pod's binding fails."""

PATIENCE: Final = 200_000
"""Turns of the event loop without time passing before a run counts as stuck."""


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """The result of a run: broken invariants, counts, and a digest of every write in order."""

    seed: int
    findings: Sequence[ChaosFinding]
    counts: Mapping[str, int]
    digest: str
    log: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def execute(plan: ChaosPlan, *, keep_log: bool = False) -> ChaosOutcome:
    """Carry out a plan; a second time if the event loop was held, which a busy machine can do as well."""
    outcome, held = _execute_once(plan, keep_log)
    if held is not None:
        _, held = _execute_once(plan, keep_log)
    return outcome if held is None else replace(outcome, findings=[*outcome.findings, held])


def execute_recorded(plan: ChaosPlan, recording: Recording) -> ChaosOutcome:
    """Carry out a plan and record its schedulers, whose plugins and extenders must not fail at random."""
    assert not plan.faulty_profiles
    assert not plan.extenders
    return _execute_once(plan, keep_log=False, recording=recording)[0]


def _execute_once(
    plan: ChaosPlan, keep_log: bool, recording: Recording | None = None
) -> tuple[ChaosOutcome, ChaosFinding | None]:
    """Result of a run, and the longest hold of the event loop if it was too long."""
    watchdog = LoopWatchdog(by_cpu=True)

    async def main(clock: VirtualClock) -> ChaosOutcome:
        return await _Run(plan, ChaosWorld(plan, clock, watchdog, keep_log=keep_log), recording).run()

    try:
        with watchdog:
            outcome = run_virtual(main, patience=PATIENCE, watchdog=watchdog)
    except VirtualTimeError as stuck:
        return ChaosOutcome(
            plan.seed, [ChaosFinding("the scheduler comes to rest", str(stuck), plan.end)], {}, ""
        ), None
    longest = watchdog.longest
    if longest.cpu - longest.collecting < LIMIT:
        return outcome, None
    return outcome, ChaosFinding("the event loop is never held for long", str(longest.values()), plan.end)


class _Run:
    def __init__(self, plan: ChaosPlan, world: ChaosWorld, recording: Recording | None = None) -> None:
        self._plan = plan
        self._world = world
        self._users = Users(self._world)
        ChaosKubelets(self._world)
        self._host = SchedulerHost(self._world, recording)
        needs_controllers = plan.storage is not None or plan.devices
        self._controllers = Controllers(self._world) if needs_controllers else None
        self._ownership = VolumeOwnership(self._world) if plan.storage is not None else None
        if plan.devices:
            DeviceOwnership(self._world)
            ChaosDriver(self._world)

    async def run(self) -> ChaosOutcome:
        world = self._world
        for action in self._plan.actions:
            if action.at <= 0 and action.what in self._users.can_do:
                self._users.do(action)
        if self._controllers is not None:
            self._controllers.start()
        self._host.start()
        await self._carry_out([action for action in self._plan.actions if action.at > 0])
        world.enter_phase()
        self._users.release_all()
        await self._settle()
        await self._until(self._plan.end + (QUIET_WITH_DEVICES if self._plan.devices else QUIET))
        if self._host.alive:
            FinalChecks(world, self._host.scheduler).check()
        if self._ownership is not None:
            self._ownership.check_at_rest()
        await self._host.stop()
        if self._controllers is not None:
            await self._controllers.stop()
        self._check_tasks()
        lines = world.log.lines or ()
        return ChaosOutcome(
            self._plan.seed, world.findings.found, dict(world.counts), world.log.digest(), lines
        )

    async def _carry_out(self, actions: Sequence[ChaosAction]) -> None:
        """Perform actions and enter fault phases, each at its time."""
        timeline: list[tuple[float, ChaosAction | FaultPhase]] = [(action.at, action) for action in actions]
        timeline += [(phase.start, phase) for phase in self._plan.phases]
        for at, what in sorted(timeline, key=lambda entry: entry[0]):
            await self._until(at)
            if isinstance(what, FaultPhase):
                self._world.enter_phase(what)
            else:
                await self._act(what)
        await self._until(self._plan.end)

    async def _settle(self) -> None:
        """Let the scheduler catch up, and check that events have requeued the pods they help."""
        await asyncio.sleep(SETTLED)
        while self._host.alive and self._world.second < self._plan.end + QUIET / 2:
            if FinalChecks(self._world, self._host.scheduler).has_caught_up():
                await asyncio.sleep(SETTLED)
                FinalChecks(self._world, self._host.scheduler).check_requeued()
                return
            await asyncio.sleep(SETTLED / 5)

    async def _act(self, action: ChaosAction) -> None:
        if action.what == "restart":
            await self._host.restart()
        elif action.what == "change-leader":
            await self._change_leader()
        elif action.what == "hang-up":
            self._host.cut_watches()
        else:
            self._users.do(action)

    async def _change_leader(self) -> None:
        """Another scheduler takes over while a group is being bound, if one is within a few seconds.

        Requests are slow meanwhile, or else all bindings would be there at the same moment.
        """
        world = self._world
        until = min(world.second + WATCHED_FOR, self._plan.end)
        delay, world.faults.delay = world.faults.delay, max(world.faults.delay, SLOW)
        while world.second < until and not self._host.binds_group():
            await asyncio.sleep(WATCHED_EVERY)
        world.counts["leader changes in gangs"] += self._host.binds_group()
        world.faults.delay = delay
        await self._host.restart()

    async def _until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, second - self._world.second))

    def _check_tasks(self) -> None:
        """No task of the scheduler outlives it."""
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            self._world.violated("no task is left over", f"after the scheduler's end: {left}")


class SchedulerHost:
    """Runs the scheduler of a run with its faulty connection, and restarts it. It may be recorded."""

    def __init__(self, world: ChaosWorld, recording: Recording | None = None) -> None:
        self._world = world
        self._recording = recording
        claims = (
            ClaimChecks(world, lambda: self.scheduler.context.cache.table) if world.plan.storage else None
        )
        reservations = ReservationChecks(world) if world.plan.devices else None
        gangs = GangChecks(world, lambda: self.scheduler) if world.plan.groups else None
        self._bindings = Bindings(world, claims, reservations, gangs)
        self._settings = Settings.of(_config(world.plan), (faulty_plugin_for(world),))
        self._number = 0
        self._task: asyncio.Task[None] | None = None
        self.scheduler: Scheduler
        self.checks: CycleChecks
        self._connection: FaultyConnection

    def start(self) -> None:
        self._number += 1
        number, world = self._number, self._world
        self._connection = FaultyConnection(world, self._bindings, number, world.rng(f"line {number}"))
        extenders = [
            ChaosExtender(plan, world, self._bindings, number, world.rng(f"{plan.name} {number}"))
            for plan in sorted(world.plan.extenders, key=lambda plan: plan.ignorable)
        ]
        self.scheduler = recorded_scheduler(
            self._recording,
            self._connection,
            self._settings,
            clock=world.clock,
            seed=Random(f"scheduler {number} {world.plan.seed}").getrandbits(64),
            report=self._cannot_record,
            extenders=extenders,
            logger=Logger(self._log),
        )
        self.scheduler.context.slice = WatchedSlice(world.watchdog)
        self.checks = CycleChecks(self.scheduler, number, world, self._bindings)
        self._task = asyncio.create_task(self.scheduler.run(), name="the scheduler")

    def _cannot_record(self, why: str) -> None:
        self._world.violated("the run is recorded", why)

    def _log(self, level: int, message: str, values: Mapping[str, object]) -> None:
        """Note log lines of the scheduler. An unexpected exception is a finding."""
        self._world.note(f"log {message} {_shown(values)}")
        self._world.counts[UNSEEN_CLAIMS] += message == "Claim not stored in assume cache"
        if "traceback" in values:
            self._world.violated("nothing fails unexpectedly", f"{message}: {values['traceback']}")

    async def stop(self) -> None:
        """Cancel the scheduler as a signal would. Having ended by itself is a finding."""
        task, self._task = self._task, None
        assert task is not None
        self._world.counts["faults"] += self._connection.struck
        if task.done():
            self._world.violated("the scheduler survives", _ending(task))
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def restart(self) -> None:
        self._world.counts["restarts"] += 1
        await self.stop()
        self.start()

    def binds_group(self) -> bool:
        """True if some but not all members of a group are bound, and more are about to be."""
        if not self._world.plan.groups or not partly_bound(self._world):
            return False
        return any(state.assumed for state in self.scheduler.context.cache.groups)

    def cut_watches(self) -> None:
        self._connection.recording.cut_watches()

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()


def _ending(task: "asyncio.Task[None]") -> str:
    failure = None if task.cancelled() else task.exception()
    return "it ended" if failure is None else f"{type(failure).__name__}: {failure}"


def _shown(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _config(plan: ChaosPlan) -> LoadedConfig:
    profiles = [
        {
            "schedulerName": name,
            **(_faulty_profile() if name in plan.faulty_profiles else {}),
            **_plugin_args(plan),
        }
        for name in plan.profiles
    ]
    config = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
    gates = GROUP_GATES if plan.groups else DEFAULT_GATES
    return load(msgspec.json.encode(config), gates)


def _plugin_args(plan: ChaosPlan) -> dict[str, Any]:
    """bindTimeoutSeconds of VolumeBinding, bindingTimeout of DynamicResources."""
    args: list[dict[str, Any]] = []
    if plan.storage is not None:
        args.append({"name": "VolumeBinding", "args": {"bindTimeoutSeconds": plan.storage.bind_timeout}})
    if plan.devices:
        args.append({"name": "DynamicResources", "args": {"bindingTimeout": DEVICES_READY_WITHIN}})
    return {"pluginConfig": args} if args else {}


def _faulty_profile() -> dict[str, Any]:
    """A profile with the faulty plugin at all its points, ahead of DefaultBinder."""
    bind = {"disabled": [{"name": "*"}], "enabled": [{"name": FAULTY_PLUGIN}, {"name": "DefaultBinder"}]}
    return {"plugins": {"multiPoint": {"enabled": [{"name": FAULTY_PLUGIN}]}, "bind": bind}}
