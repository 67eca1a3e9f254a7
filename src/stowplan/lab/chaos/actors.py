"""Everybody in a run but the scheduler: users, kubelets, volume controllers, extenders, a plugin that fails.

Users and kubelets write to the store directly. The others inject the faults of the current phase.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

from stowplan.api.catalogue import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.meta import ObjectMeta, timestamp
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.lab.chaos.deviceobjects import BROKEN, READY
from stowplan.lab.chaos.invariants import Bindings
from stowplan.lab.chaos.objects import NAMESPACE, TAINT, Body
from stowplan.lab.chaos.plan import ChaosAction, ExtenderPlan, FaultPhase
from stowplan.lab.chaos.server import ChaosClient
from stowplan.lab.chaos.world import NO_FAULTS, ChaosWorld
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    ControllerManager,
)
from stowplan.localcluster.controllers.devices.devicetainteviction import DeviceTaintEvictionController
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.manager import volume_controllers
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerBehaviour, ProvisionerSettings
from stowplan.localcluster.store import DELETED, Store, StoreChange
from stowplan.scheduler.extenders import ExtenderError
from stowplan.scheduler.extenders.interface import Filtered
from stowplan.scheduler.extenders.requests import FindPod
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Handle, Plugin, Victims, Wait
from stowplan.scheduler.framework.status import SKIP, Status, error, unschedulable
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing.extenders import letters
from stowplan.testing.faults import Faults, FaultyClient

ActionHandler = Callable[[str, Body], object]
DeviceKey = tuple[str, str, str]
"""Driver, pool and name."""


class Users:
    """Carries out actions. Requests the store refuses are noted and dropped."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._store = world.store
        self._handlers: dict[str, ActionHandler] = {
            "create-pod": self._create_pod,
            "recreate-pod": self._recreate_pod,
            "delete-pod": self._delete_pod,
            "label-pod": self._label_pod,
            "tolerate": self._tolerate,
            "ungate": self._ungate,
            "finish": self._finish,
            "bind-pod": self._bind_pod,
            "put-node": self._put_node,
            "delete-node": self._delete_node,
            "cordon": lambda name, body: self._set_node(name, {"spec": {"unschedulable": True}}),
            "uncordon": lambda name, body: self._set_node(name, {"spec": {"unschedulable": None}}),
            "taint": lambda name, body: self._set_node(name, {"spec": {"taints": [body]}}),
            "untaint": lambda name, body: self._set_node(name, {"spec": {"taints": None}}),
            "label-node": lambda name, body: self._set_node(name, {"metadata": {"labels": body}}),
            "beat": self._beat,
            "resize": self._resize,
            "put-budget": self._put_budget,
            **StorageUsers(world.store).handlers,
            **DeviceUsers(world.store).handlers,
            **GroupUsers(world.store).handlers,
        }

    @property
    def can_do(self) -> Set[str]:
        """The actions users carry out; the others concern the scheduler itself."""
        return self._handlers.keys()

    def do(self, action: ChaosAction) -> None:
        self._world.note(f"do {action.what} {action.name}")
        try:
            self._handlers[action.what](action.name, action.body)
        except ApiError as refusal:
            self._world.note(f"refused: {refusal.message}")

    def release_all(self) -> None:
        """Remove all finalizers of pods."""
        for pod in self._store.list(PODS).items:
            if pod["metadata"].get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                self._store.patch(PODS, NAMESPACE, pod["metadata"]["name"], patch, PatchType.MERGE)

    # Pods

    def _create_pod(self, name: str, body: Body) -> None:
        self._store.create(PODS, body)

    def _recreate_pod(self, name: str, body: Body) -> None:
        """Replace a pod by another of the same name, at once if no finalizer holds it."""
        if any(pod["metadata"]["name"] == name for pod in self._store.list(PODS).items):
            self._delete_pod(name, {"grace": 0})
        self._create_pod(name, body)

    def _delete_pod(self, name: str, body: Body) -> None:
        self._store.delete(PODS, NAMESPACE, name, DeleteOptions(grace_period_seconds=body["grace"]))

    def _label_pod(self, name: str, body: Body) -> None:
        self._set_pod(name, {"metadata": {"labels": body}})

    def _tolerate(self, name: str, body: Body) -> None:
        had = self._store.get(PODS, NAMESPACE, name)["spec"].get("tolerations", ())
        self._set_pod(name, {"spec": {"tolerations": [*had, {"key": TAINT, "operator": "Exists"}]}})

    def _ungate(self, name: str, body: Body) -> None:
        self._set_pod(name, {"spec": {"schedulingGates": None}})

    def _finish(self, name: str, body: Body) -> None:
        """Set the phase of a pod that is on a node and has not ended."""
        pod = self._store.get(PODS, NAMESPACE, name)
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
            patch = {"status": body}
            self._store.patch(PODS, NAMESPACE, name, patch, PatchType.MERGE, subresource="status")

    def _bind_pod(self, name: str, body: Body) -> None:
        """Another scheduler binds the pod, regardless of its schedulerName."""
        self._store.bind(NAMESPACE, name, {"metadata": {"name": name}, "target": {"name": body["node"]}})

    def _set_pod(self, name: str, patch: Json) -> None:
        self._store.patch(PODS, NAMESPACE, name, patch, PatchType.MERGE)

    # Nodes

    def _put_node(self, name: str, body: Body) -> None:
        """Create the node; if it exists, replace it by another of that name."""
        if any(node["metadata"]["name"] == name for node in self._store.list(NODES).items):
            self._store.delete(NODES, "", name)
        self._store.create(NODES, body)

    def _delete_node(self, name: str, body: Body) -> None:
        self._store.delete(NODES, "", name)

    def _set_node(self, name: str, patch: Json) -> None:
        self._store.patch(NODES, "", name, patch, PatchType.MERGE)

    def _resize(self, name: str, body: Body) -> None:
        patch = {"status": {"allocatable": body}}
        self._store.patch(NODES, "", name, patch, PatchType.MERGE, subresource="status")

    def _beat(self, name: str, body: Body) -> None:
        """A heartbeat: an update that changes nothing of interest."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{self._world.second:.3f}"}
        patch = {"status": {"conditions": [ready]}}
        self._store.patch(NODES, "", name, patch, PatchType.STRATEGIC, subresource="status")

    # Budgets

    def _put_budget(self, name: str, body: Body) -> None:
        """Create or replace the budget, with one disruption allowed."""
        known = [held["metadata"]["name"] for held in self._store.list(POD_DISRUPTION_BUDGETS).items]
        if name in known:
            self._store.delete(POD_DISRUPTION_BUDGETS, NAMESPACE, name)
        self._store.create(POD_DISRUPTION_BUDGETS, body)
        patch = {"status": {"disruptionsAllowed": 1}}
        self._store.patch(
            POD_DISRUPTION_BUDGETS, NAMESPACE, name, patch, PatchType.MERGE, subresource="status"
        )


class GroupUsers:
    """The actions on pod groups. Refusals are raised to the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.handlers: dict[str, ActionHandler] = {
            "put-group": lambda name, body: store.create(POD_GROUPS, body),
            "delete-group": lambda name, body: store.delete(POD_GROUPS, NAMESPACE, name),
            "set-min-count": self._set_min_count,
        }

    def _set_min_count(self, name: str, body: Body) -> None:
        """Change the minimum of a gang; other groups have none."""
        group = self._store.get(POD_GROUPS, NAMESPACE, name)
        if "gang" in group["spec"]["schedulingPolicy"]:
            patch = {"spec": {"schedulingPolicy": {"gang": body}}}
            self._store.patch(POD_GROUPS, NAMESPACE, name, patch, PatchType.MERGE)


class StorageUsers:
    """The actions on storage objects. Refusals are raised to the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.handlers: dict[str, ActionHandler] = {
            "put-class": lambda name, body: self._put(STORAGE_CLASSES, body),
            "put-volume": lambda name, body: self._put(PERSISTENT_VOLUMES, body),
            "put-claim": lambda name, body: self._put(PERSISTENT_VOLUME_CLAIMS, body),
            "delete-volume": lambda name, body: store.delete(PERSISTENT_VOLUMES, "", name),
            "delete-claim": lambda name, body: store.delete(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name),
            "drop-volume": lambda name, body: self._drop(PERSISTENT_VOLUMES, "", name),
            "replace-claim": self._replace_claim,
            "free-volume": self._free_volume,
        }

    def _put(self, resource: Resource, body: Body) -> None:
        self._store.create(resource, body)

    def _drop(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object though it is in use."""
        self._store.patch(resource, namespace, name, {"metadata": {"finalizers": None}}, PatchType.MERGE)
        self._store.delete(resource, namespace, name)

    def _replace_claim(self, name: str, body: Body) -> None:
        """Replace a claim by another of the same name though it is in use."""
        if self._store.find(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name) is not None:
            self._drop(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, name)
        self._put(PERSISTENT_VOLUME_CLAIMS, body)

    def _free_volume(self, name: str, body: Body) -> None:
        """Make a released volume available again."""
        volume = self._store.get(PERSISTENT_VOLUMES, "", name)
        if volume.get("status", {}).get("phase") == "Released":
            self._store.patch(PERSISTENT_VOLUMES, "", name, {"spec": {"claimRef": None}}, PatchType.MERGE)


class DeviceUsers:
    """The actions on devices and claims of users, admins and drivers. Refusals are raised to the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.handlers: dict[str, ActionHandler] = {
            "put-device-class": lambda name, body: store.create(DEVICE_CLASSES, body),
            "delete-device-class": lambda name, body: store.delete(DEVICE_CLASSES, "", name),
            "put-template": lambda name, body: store.create(RESOURCE_CLAIM_TEMPLATES, body),
            "put-taint-rule": lambda name, body: store.create(DEVICE_TAINT_RULES, body),
            "delete-taint-rule": lambda name, body: store.delete(DEVICE_TAINT_RULES, "", name),
            "put-resource-claim": lambda name, body: store.create(RESOURCE_CLAIMS, body),
            "delete-resource-claim": lambda name, body: store.delete(RESOURCE_CLAIMS, NAMESPACE, name),
            "delete-claim-of-pod": self._delete_claim_of_pod,
            "publish-slices": self._publish_slices,
            "delete-slices": lambda name, body: self._delete_slices(name),
        }

    def _delete_claim_of_pod(self, name: str, body: Body) -> None:
        """Delete a claim that was made for a pod."""
        for claim in self._store.list(RESOURCE_CLAIMS).items:
            owners = claim["metadata"].get("ownerReferences") or ()
            if any(owner["name"] == name for owner in owners):
                self._store.delete(RESOURCE_CLAIMS, NAMESPACE, claim["metadata"]["name"])
                return

    def _publish_slices(self, name: str, body: Body) -> None:
        """The driver publishes a new generation of a pool in the place of the one there is."""
        self._delete_slices(name)
        for one in body["slices"]:
            self._store.create(RESOURCE_SLICES, one)

    def _delete_slices(self, pool: str) -> None:
        for one in self._store.list(RESOURCE_SLICES).items:
            if one["spec"]["pool"]["name"] == pool:
                self._store.delete(RESOURCE_SLICES, "", one["metadata"]["name"])


class ChaosKubelets:
    """Run, finish and remove the pods on all nodes, after random delays."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._rng = world.rng("kubelets")
        self._ending: set[str] = set()
        world.store.watch(PODS, self._pod_changed)

    def _pod_changed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            return
        pod = change.object
        metadata = pod["metadata"]
        if not pod["spec"].get("nodeName"):
            return
        was = change.previous
        if was is None or not was["spec"].get("nodeName"):
            self._later(self._rng.random() * 3, self._set_phase, pod, "Running")
            if self._rng.random() < 0.2:
                self._later(5 + self._rng.random() * 40, self._set_phase, pod, "Succeeded")
        if "deletionTimestamp" in metadata and metadata["uid"] not in self._ending:
            self._ending.add(metadata["uid"])
            grace = metadata.get("deletionGracePeriodSeconds") or 0
            self._later(grace * self._rng.random(), self._end, pod)

    def _later(self, seconds: float, do: object, *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, self._ignoring_refusals, do, *args)

    def _ignoring_refusals(self, do: object, *args: object) -> None:
        """Act on a pod that may be deleted or replaced by now."""
        assert callable(do)
        try:
            do(*args)
        except ApiError as failure:
            self._world.note(f"kubelet: {failure.message}")

    def _set_phase(self, pod: Json, phase: str) -> None:
        metadata = pod["metadata"]
        now = self._world.store.get(PODS, metadata["namespace"], metadata["name"])
        if now["metadata"]["uid"] != metadata["uid"] or now["status"].get("phase") not in (
            "Pending",
            "Running",
        ):
            return
        patch: Json = {"status": {"phase": phase}}
        if phase == "Running":
            patch["status"]["startTime"] = timestamp(self._world.clock.now())
        self._world.store.patch(
            PODS, metadata["namespace"], metadata["name"], patch, PatchType.STRATEGIC, subresource="status"
        )

    def _end(self, pod: Json) -> None:
        metadata = pod["metadata"]
        options = DeleteOptions(grace_period_seconds=0, uid=metadata["uid"])
        self._world.store.delete(PODS, metadata["namespace"], metadata["name"], options)


class ChaosDriver:
    """Makes allocated devices ready, after a while. While there are faults it may fail or forget."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._rng = world.rng("driver")
        world.store.watch(RESOURCE_CLAIMS, self._claim_changed)

    def _claim_changed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            return
        before = {} if change.previous is None else change.previous
        wanted = _to_make_ready(change.object)
        if not wanted or wanted == _to_make_ready(before):
            return
        fate = self._rng.random() if self._world.phase is not NO_FAULTS else 0.0
        if fate < 0.8:
            seconds = self._rng.random() * 4
            condition = READY if fate < 0.7 else BROKEN
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, self._report, change.object["metadata"], wanted, condition)

    def _report(self, metadata: Json, devices: list[DeviceKey], condition: str) -> None:
        store, name = self._world.store, metadata["name"]
        claim = store.find(RESOURCE_CLAIMS, NAMESPACE, name)
        if claim is None or claim["metadata"]["uid"] != metadata["uid"] or _to_make_ready(claim) != devices:
            return
        self._world.counts["devices reported"] += 1
        reported = {"type": condition, "status": "True", "reason": "ChaosDriver", "message": ""}
        reported["lastTransitionTime"] = timestamp(self._world.clock.now())
        entries = [
            {"driver": driver, "pool": pool, "device": device, "conditions": [reported]}
            for driver, pool, device in devices
        ]
        patch = {"status": {"devices": entries}}
        store.patch(RESOURCE_CLAIMS, NAMESPACE, name, patch, PatchType.MERGE, subresource="status")


def _to_make_ready(claim: Json) -> list[DeviceKey]:
    """The devices of a claim that the driver has to make ready."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [(one["driver"], one["pool"], one["device"]) for one in results if one.get("bindingConditions")]


class FaultyProvisioner(ProvisionerSettings):
    """A provisioner that fails at random; half of its failures ask for another node."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng
        self.phase = NO_FAULTS

    def of(self, class_name: str) -> ProvisionerBehaviour:
        delay, failures = self.phase.provision_delay, self.phase.provision_failures
        if failures <= 0 or self._rng.random() >= failures:
            return ProvisionerBehaviour(delay=delay)
        return ProvisionerBehaviour(delay, "no space left", reschedule=self._rng.random() < 0.5)


class Controllers:
    """The controllers of volumes and claims of a run. They keep running while the scheduler restarts."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._faults = Faults()
        self._provisioner = FaultyProvisioner(world.rng("provisioner"))
        client = FaultyClient(
            InProcessClient(world.store, buffer=world.plan.buffer),
            self._faults,
            world.rng("controllers' line"),
        )
        context = ControllerContext.of(client, world.clock, world.rng("controllers"), self._note)
        controllers: list[Controller] = []
        if world.plan.storage is not None:
            controllers += volume_controllers(context, self._provisioner)
        if world.plan.devices:
            controllers.append(ResourceClaimController(context))
            controllers.append(DeviceTaintEvictionController(context))
            controllers.append(GarbageCollector(context, (PODS, RESOURCE_CLAIMS)))
        self._manager = ControllerManager(context, controllers)
        self._task: asyncio.Task[None] | None = None
        world.phase_listeners.append(self._enter_phase)

    def start(self) -> None:
        self._task = asyncio.create_task(self._manager.run(), name="the controllers")

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def _enter_phase(self, phase: FaultPhase) -> None:
        self._provisioner.phase = phase
        faults = self._faults
        faults.refused, faults.lost = phase.refused / 2, phase.lost / 2
        faults.cut, faults.forgotten = phase.cut, phase.forgotten
        faults.lifetime, faults.delay = phase.lifetime, phase.controllers

    def _note(self, text: str) -> None:
        self._world.note(f"controllers: {text}")


LONGEST_DELAY = 3.0
REASON = "rejected by the rule of the extender"


class ChaosExtender:
    """One extender of one scheduler."""

    def __init__(
        self, plan: ExtenderPlan, world: ChaosWorld, bindings: Bindings, scheduler: int, rng: Random
    ) -> None:
        self.plan = plan
        self._world = world
        self._bindings = bindings
        self._scheduler = scheduler
        self._rng = rng
        self._api = ChaosClient(world, bindings)
        self.name = plan.name
        self.weight = 1
        self.is_ignorable = plan.ignorable
        self.is_filter = plan.filters
        self.is_prioritizer = True
        self.is_binder = plan.binds
        self.supports_preemption = plan.preempts

    def is_interested(self, pod: Pod) -> bool:
        return self.plan.is_interested(pod.name)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        await self._maybe_fail()
        kept = [node.name for node in nodes if self.plan.accepts(pod.name, node.name)]
        failed = {node.name: REASON for node in nodes if node.name not in kept}
        return Filtered(kept, failed)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        await self._maybe_fail()
        return {node.name: (letters(node.name) + self.plan.salt) % 11 for node in nodes}

    async def bind(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        self._bindings.begin(uid, node, self._scheduler)
        acknowledged = False
        try:
            await self._maybe_fail()
            metadata = ObjectMeta(namespace=pod.namespace, name=pod.name, uid=uid)
            await self._api.bind(Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node)))
            await self._maybe_fail()
            acknowledged = True
        except ApiError as failure:
            raise ExtenderError(failure.message) from None
        finally:
            self._bindings.end(uid, acknowledged=acknowledged)

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        await self._maybe_fail()
        kept = {node: found for node, found in victims.items() if self.plan.accepts(pod.name, node)}
        for node, found in kept.items():
            for victim in found.pods:
                find(node, victim.metadata.uid)
        return kept

    async def close(self) -> None:
        """Nothing to close."""

    async def _maybe_fail(self) -> None:
        likely = self._world.phase.extenders
        if likely <= 0:
            return
        if self._rng.random() < likely:
            await asyncio.sleep(self._rng.random() * LONGEST_DELAY)
        if self._rng.random() < likely * 0.5:
            self._world.counts["extender failures"] += 1
            raise ExtenderError("injected extender failure")


FAULTY_PLUGIN = "FaultyPlugin"
LONGEST_WAIT = 6.0
"""Seconds a call takes at most; a wait at Permit may take twice as long."""


class FaultyPlugin(Plugin):
    """Fails, rejects, waits or is slow from Reserve to PostBind. `held` are its reservations."""

    name = FAULTY_PLUGIN
    world: ClassVar[ChaosWorld]

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._rng = handle.rng
        self.held: dict[str, str] = {}

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        self.held[pod.uid] = node
        return self._failure("reserve") if self._chance(0.2) else None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.pop(pod.uid, None)
        if self._chance(0.1):
            raise RuntimeError("injected failure of unreserve")

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | Wait | None:
        if not self._chance(0.6):
            return None
        if self._rng.random() < 0.2:
            return self._failure("permit")
        seconds = self._rng.random() * LONGEST_WAIT
        asyncio.get_running_loop().call_later(seconds, self._end_wait, pod.uid, self._rng.random())
        return Wait(self._rng.random() * 2 * LONGEST_WAIT)

    def _end_wait(self, uid: str, fate: float) -> None:
        """Allow or reject a waiting pod, or let its timeout expire."""
        waiting = self.handle.scheduler.waiting.get(uid)
        if waiting is None:
            return
        if fate < 0.6:
            waiting.allow(self.name)
        elif fate < 0.8:
            waiting.reject(self.name, "injected rejection of a waiting pod")

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if self._chance(0.05):
            return error("injected failure of pre-flight")
        return None if self._chance(0.6) else SKIP

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        await asyncio.sleep(self._rng.random() * LONGEST_WAIT)
        return self._failure("pre-bind") if self._chance(0.4) else None

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if self._chance(0.3):
            await asyncio.sleep(self._rng.random() * LONGEST_WAIT)
        return error("injected failure of bind") if self._chance(0.2) else SKIP

    async def post_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.pop(pod.uid, None)
        if self._chance(0.2):
            raise RuntimeError("injected failure of post-bind")

    def _chance(self, share: float) -> bool:
        likely = self.world.phase.plugins * share
        return likely > 0 and self._rng.random() < likely

    def _failure(self, where: str) -> Status:
        self.world.counts["plugin refusals"] += 1
        kind = self._rng.randrange(3)
        if kind == 0:
            raise RuntimeError(f"injected failure of {where}")
        return (
            error(f"injected error of {where}")
            if kind == 1
            else unschedulable(f"injected rejection by {where}")
        )


def faulty_plugin_for(world: ChaosWorld) -> type[FaultyPlugin]:
    """The plugin for one run."""
    return type(FAULTY_PLUGIN, (FaultyPlugin,), {"name": FAULTY_PLUGIN, "world": world})
