"""Reserve, Permit, PreBind and PostBind in a cluster without a scheduler: at once, by a separate clock."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.gocompat.durations import SECOND, Duration
from stowplan.runtime.clock import DEFAULT_START
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.interface import DeviceMetrics, NoSchedulerError
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from stowplan.scheduler.framework.waiting_pods import LONGEST_WAIT
from stowplan.scheduler.table.podinfo import PodInfo

if TYPE_CHECKING:
    from stowplan.simulate.cluster import Cluster as SimulatedCluster
    from stowplan.testing.clusters import Cluster


class TestClock:
    """A clock that stands still until it is advanced."""

    __test__ = False

    def __init__(self) -> None:
        self._passed = 0.0

    def now(self) -> float:
        return DEFAULT_START + self._passed

    def monotonic(self) -> float:
        return DEFAULT_START + self._passed

    def advance(self, seconds: float) -> None:
        self._passed += seconds


class RecordedEvent(NamedTuple):
    """An event that a plugin recorded about a pod."""

    pod: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class HeldPod:
    """A pod that waits at Permit: `allow` and `reject` are what plugins may call."""

    pod: PodInfo
    node: str
    deadlines: dict[str, tuple[float, float]]
    cycle: Cycle
    framework: Framework
    verdict: Status | None = None

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins it waits for."""
        return list(self.deadlines)

    def allow(self, plugin: str) -> None:
        """A plugin has no objection any more."""
        self.deadlines.pop(plugin, None)
        if not self.deadlines and self.verdict is None:
            self.verdict = Status(Code.SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """A plugin turns the pod away."""
        if self.verdict is None:
            self.verdict = unschedulable(message).by(plugin)

    def time_out(self, now: float) -> None:
        """Reject it if a plugin has waited for too long."""
        for plugin, (deadline, seconds) in self.deadlines.items():
            if now >= deadline and self.verdict is None:
                waited = Duration(round(seconds * SECOND))
                self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


class HeldPods:
    """The pods that wait at Permit, as `handle.scheduler.waiting` shows them."""

    def __init__(self) -> None:
        self.by_uid: dict[str, HeldPod] = {}

    def __len__(self) -> int:
        return len(self.by_uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self.by_uid

    def __iter__(self) -> Iterator[HeldPod]:
        return iter([held for held in self.by_uid.values() if held.verdict is None])

    def get(self, uid: str) -> HeldPod | None:
        return self.by_uid.get(uid)


@dataclass(slots=True)
class TestServices:
    """Services in `handle.scheduler`: waiting pods, a clock, events; but no API server."""

    __test__ = False

    cluster: "Cluster"
    clock: TestClock = field(default_factory=TestClock)
    logger: Logger = field(default_factory=Logger)
    waiting: HeldPods = field(default_factory=HeldPods)
    events: list[RecordedEvent] = field(default_factory=list)
    deletions: AwaitedDeletions = field(default_factory=AwaitedDeletions)

    @property
    def client(self) -> NoReturn:
        raise NoSchedulerError("cluster() has no API server: use live_cluster() or a Scheduler")

    async def in_turn(self, pod: Pod) -> None:
        """No other tasks run."""

    def objects(self, kind: str) -> Mapping[str, Object]:
        return self.cluster.objects(kind)

    def pod(self, key: str) -> Pod | None:
        """A pod of the cluster, by `namespace/name`."""
        return next((info.pod for info in self.cluster.table.pods.values() if info.key == key), None)

    def activate(self, pods: Iterable[Pod]) -> None:
        """There is no queue: the test schedules again what it wants to."""

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        self.events.append(RecordedEvent(pod.key, type, reason, action, note))

    device_metrics = DeviceMetrics()

    async def dispatch_binding(self, pod: Pod, send: Callable[[], Awaitable[None]]) -> None:
        await send()

    def count_volume_error(self, operation: str) -> None:
        """Nothing is counted."""


class Binder:
    """Takes a pod from its node being chosen to its being bound, or back."""

    def __init__(self, services: TestServices, host: "SimulatedCluster", own: frozenset[str]) -> None:
        self._services = services
        self._host = host
        self._own = own
        self._lifecycles: dict[Framework, Lifecycle] = {}
        self.rejections: dict[str, str] = {}
        """Why pods were turned away that waited at Permit, by key."""

    def hold(self, framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """Reserve, Permit, and PreBind unless the pod has to wait. Undone if they do not succeed."""
        lifecycle = self._lifecycle(framework)
        status, waits = lifecycle.run_reserve_and_permit(cycle, pod, node)
        if status.code is Code.WAIT:
            now = self._services.clock.monotonic()
            limits = {name: min(seconds, LONGEST_WAIT) for name, seconds in waits.items()}
            deadlines = {name: (now + seconds, seconds) for name, seconds in limits.items()}
            self._services.waiting.by_uid[pod.uid] = HeldPod(pod, node, deadlines, cycle, framework)
            return status
        return (
            self._bind(framework, cycle, pod, node)
            if status.is_success
            else self._undo(lifecycle, cycle, pod, node, status)
        )

    def settle(self) -> None:
        """Bind the waiting pods that were allowed, and undo those that were rejected or waited too long."""
        now = self._services.clock.monotonic()
        for held in list(self._services.waiting.by_uid.values()):
            held.time_out(now)
            if held.verdict is None:
                continue
            del self._services.waiting.by_uid[held.pod.uid]
            status = held.verdict
            if status.is_success:
                status = self._bind(held.framework, held.cycle, held.pod, held.node)
            else:
                self._undo(self._lifecycle(held.framework), held.cycle, held.pod, held.node, status)
            if not status.is_success:
                self.rejections[held.pod.key] = status.message

    def _lifecycle(self, framework: Framework) -> Lifecycle:
        return self._lifecycles.setdefault(framework, Lifecycle(framework))

    def _bind(self, framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Status:
        """PreBind and PostBind. In-tree plugins, which would write to the API server, are not called."""
        lifecycle = self._lifecycle(framework)
        status, plugins = lifecycle.pre_flight(cycle, pod, node)
        busy = [plugin for plugin in plugins if plugin.name not in self._own]
        if status.is_success and busy:
            status = run_now(lifecycle.pre_bind(busy, cycle, pod, node))
        if not status.is_success and status.code is not Code.SKIP:
            return self._undo(lifecycle, cycle, pod, node, status)
        if lifecycle.tells_of_bindings:
            run_now(lifecycle.post_bind(cycle, pod, node))
        return Status(Code.SUCCESS)

    def _undo(self, lifecycle: Lifecycle, cycle: Cycle, pod: PodInfo, node: str, status: Status) -> Status:
        lifecycle.unreserve(cycle, pod, node)
        self._host.forget(pod)
        return status


def run_now(coroutine: Any) -> Any:
    """Result of a coroutine, also for a caller inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
