"""The kubelet of the nodes that the stories make: a pod's annotations say how it starts, ends and stops.

stories/start          auto (running and ready, the default), notready (running), hold (never starts)
stories/end            Succeeded or Failed:<exit code>, `stories/run` seconds (1) after the start
stories/fail-indexes   completion indexes of an indexed Job that fail
stories/stop           seconds until a deleted pod is gone (0.3)
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from localcluster.controllers.stories.transports import MERGE, STRATEGIC, Answer, Transport, path_of
from stowplan.api.meta import micro_timestamp, timestamp
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    annotations_of,
    is_deleting,
    is_finished,
    node_of,
    uid_of,
)
from stowplan.runtime.clock import Clock

POOL = "stories/pool"
START_DELAY = 0.25
HEARTBEAT = 2.0
LEASES = "kube-node-lease"
AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "100Gi"}
HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}
_NODE_INFO = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
]


class StoryKubelet:
    """Keeps nodes alive, and starts, ends and removes their pods."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._nodes: set[str] = set()
        self._silent: set[str] = set()
        self._woken = asyncio.Event()
        self._pods: dict[str, Json] = {}
        self._planned: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses = 0

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    # Nodes

    async def add_node(self, name: str, pool: str) -> None:
        labels = {"kubernetes.io/hostname": name, POOL: pool}
        node = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": self._node_status({})}
        await self._transport.call("POST", path_of("nodes"), {"apiVersion": "v1", "kind": "Node", **node})
        await self.report(name, {})
        self._nodes.add(name)
        self._start(self._beat(name))

    async def remove_node(self, name: str) -> None:
        self._nodes.discard(name)
        await self._transport.call("DELETE", path_of("nodes", name=name))

    async def report(self, name: str, conditions: dict[str, Any]) -> Answer:
        """Write the node's status; conditions that are not given are healthy."""
        path = path_of("nodes", name=name, subresource="status")
        return await self._transport.call("PATCH", path, {"status": self._node_status(conditions)}, MERGE)

    def fall_silent(self, name: str) -> None:
        self._silent.add(name)

    def come_back(self, name: str) -> None:
        self._silent.discard(name)
        self._woken.set()
        self._woken = asyncio.Event()

    async def _beat(self, name: str) -> None:
        path = path_of("leases", LEASES, name)
        while name in self._nodes:
            if name not in self._silent:
                spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
                lease = {"spec": {**spec, "renewTime": micro_timestamp(self._clock.now())}}
                code, _ = await self._transport.call("PATCH", path, lease, MERGE)
                if code == 404:
                    whole = {"metadata": {"name": name, "namespace": LEASES}, **lease}
                    await self._transport.call("POST", path_of("leases", LEASES), whole)
            await asyncio.sleep(HEARTBEAT)

    def _node_status(self, conditions: dict[str, Any]) -> Json:
        now = timestamp(self._clock.now())
        info = {**dict.fromkeys(_NODE_INFO, ""), "operatingSystem": "linux", "architecture": "amd64"}
        return {
            "capacity": AMOUNTS,
            "allocatable": AMOUNTS,
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": "told by the player",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, (status, reason) in {**HEALTHY, **conditions}.items()
            ],
            "addresses": [{"type": "InternalIP", "address": "10.250.0.1"}],
            "nodeInfo": {**info, "kubeletVersion": "v1.36.4"},
        }

    # Pods

    def hear(self, what: str, pod: Json) -> None:
        """A pod has changed."""
        if what == "DELETED" or node_of(pod) not in self._nodes:
            return
        self._pods[uid_of(pod)] = pod
        notes = annotations_of(pod)
        if is_deleting(pod):
            self._plan(pod, "stop", float(notes.get("stories/stop", "0.3")))
        elif notes.get("stories/start", "auto") != "hold":
            self._plan(pod, "start", START_DELAY)

    def takes_no_start(self, pod: Json) -> None:
        """The story itself determines this pod's progress."""
        self._planned.add((uid_of(pod), "start"))

    def _plan(self, pod: Json, action: str, delay: float) -> None:
        if (uid_of(pod), action) not in self._planned:
            self._planned.add((uid_of(pod), action))
            self._start(self._act_later(uid_of(pod), action, delay))

    async def _act_later(self, uid: str, action: str, delay: float) -> None:
        await asyncio.sleep(delay)
        while node_of(self._pods[uid]) in self._silent:
            await self._woken.wait()
        pod = self._pods[uid]
        if action == "stop":
            await self._remove(pod)
        elif is_deleting(pod):
            return
        elif action == "start":
            await self.write_status(pod, "Running", ready=_start_of(pod) == "auto")
            if end := _end_of(pod):
                self._plan(pod, end, float(annotations_of(pod).get("stories/run", "1")))
        else:
            phase, _, code = action.partition(":")
            await self.write_status(pod, phase, ready=False, exit_code=int(code or 0))

    async def _remove(self, pod: Json) -> None:
        if pod["spec"].get("restartPolicy") != "Always" and not is_finished(pod):
            await self.write_status(pod, "Failed", ready=False, exit_code=137)
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._transport.call("DELETE", path_of("pods", meta["namespace"], meta["name"]), options)

    async def write_status(self, pod: Json, phase: str, *, ready: bool, exit_code: int = 0) -> Answer:
        meta, old, now = pod["metadata"], pod.get("status") or {}, timestamp(self._clock.now())
        over = phase in ("Succeeded", "Failed")
        reason = "Error" if exit_code else "Completed"
        ended = {"exitCode": exit_code, "reason": reason, "startedAt": now, "finishedAt": now}
        state = {"terminated": ended} if over else {"running": {"startedAt": now}}
        conditions = {"Initialized": True, "Ready": ready, "ContainersReady": ready}
        address = old.get("podIP") or self._next_address()
        status = {
            "phase": phase,
            "startTime": old.get("startTime") or now,
            "podIP": address,
            "podIPs": old.get("podIPs") or [{"ip": address}],
            "hostIP": "10.250.0.1",
            "conditions": [
                {"type": kind, "status": str(value), "lastTransitionTime": now, "lastProbeTime": None}
                for kind, value in conditions.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container.get("image", ""),
                    "imageID": "",
                    "ready": ready,
                    "started": not over,
                    "restartCount": 0,
                    "state": state,
                    "lastState": {},
                }
                for container in pod["spec"]["containers"]
            ],
        }
        path = path_of("pods", meta["namespace"], meta["name"], "status")
        return await self._transport.call("PATCH", path, {"status": status}, STRATEGIC)

    def _next_address(self) -> str:
        self._addresses += 1
        return f"10.77.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()


def _start_of(pod: Json) -> str:
    return annotations_of(pod).get("stories/start", "auto")


def _end_of(pod: Json) -> str:
    """How a pod ends, empty if it does not."""
    notes = annotations_of(pod)
    index = notes.get("batch.kubernetes.io/job-completion-index")
    failing = notes.get("stories/fail-indexes", "").split(",")
    return "Failed:1" if index is not None and index in failing else notes.get("stories/end", "")
