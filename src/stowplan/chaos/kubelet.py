"""What kubelets do in a run: pods begin to run, end, and leave when they are deleted."""

import asyncio

from stowplan.api.catalogue import PODS
from stowplan.api.meta import timestamp
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.chaos.world import World
from stowplan.embedded.store import DELETED, Change


class Kubelets:
    """Deals with all pods on nodes, through timers; they write to the store directly and never fail."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng("kubelets")
        self._ending: set[str] = set()
        world.store.watch(PODS, self._saw)

    def _saw(self, change: Change) -> None:
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
        asyncio.get_running_loop().call_later(seconds, self._quietly, do, *args)

    def _quietly(self, do: object, *args: object) -> None:
        """Do something to a pod that may be gone or another one by now."""
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
