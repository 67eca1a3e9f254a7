"""Events of containers, in the kubelet's words and from its source."""

from collections.abc import Iterable
from typing import Final

from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import ControllerContext
from stowplan.localcluster.controllerruntime.events import NORMAL, WARNING
from stowplan.localcluster.kubelets.images import Pull, all_containers, pull_error, seconds_text
from stowplan.localcluster.kubelets.probes import FailedProbe
from stowplan.localcluster.objects.fields import node_of, spec_of

COMPONENT: Final = "kubelet"
BURST: Final = 400
"""Pods that begin or end at once with events. A real kubelet has a limit, too, of 50 events a second."""

REFILL: Final = 10.0
"""Pods a second after that."""


class ContainerEvents:
    """Writes the events of containers.

    Those of a pod that starts or stops as it should are left out when very many do at once: four events for
    each of 10,000 pods would take longer than starting them. Warnings are always written.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._left = float(BURST)
        self._since = 0.0

    async def starting(self, pod: Json, pulls: Iterable[Pull], seconds: float) -> None:
        """The images are there and all containers start; those of `pulls` took that many seconds."""
        if not self._has_budget():
            return
        pulled = {pull.container.get("name") for pull in pulls}
        took = seconds_text(seconds)
        for one in all_containers(pod):
            image = one.get("image", "")
            if one.get("name") in pulled:
                await self._about(pod, one, "Pulling", f'Pulling image "{image}"')
                note = f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
                await self._about(pod, one, "Pulled", note)
            else:
                await self._present(pod, one)
            await self._begun(pod, one)

    async def restarting(self, pod: Json) -> None:
        """The containers start again, with images that are there."""
        if self._has_budget():
            for one in spec_of(pod).get("containers") or ():
                await self._present(pod, one)
                await self._begun(pod, one)

    async def _present(self, pod: Json, container: Json) -> None:
        image = container.get("image", "")
        note = f'Container image "{image}" already present on machine and can be accessed by the pod'
        await self._about(pod, container, "Pulled", note)

    async def _begun(self, pod: Json, container: Json) -> None:
        await self._about(pod, container, "Created", "Container created")
        await self._about(pod, container, "Started", "Container started")

    async def pulling(self, pod: Json, pulls: Iterable[Pull]) -> None:
        for pull in pulls:
            await self._about(pod, pull.container, "Pulling", f'Pulling image "{pull.image}"')

    async def failed_pulls(self, pod: Json, pulls: Iterable[Pull]) -> None:
        for pull in pulls:
            error = pull_error(pull.image)
            note = f'Failed to pull image "{pull.image}": {error}'
            await self._about(pod, pull.container, "Failed", note, WARNING)
            await self._about(pod, pull.container, "Failed", "Error: ErrImagePull", WARNING)

    async def backing_off(self, pod: Json, pulls: Iterable[Pull]) -> None:
        for pull in pulls:
            await self._about(pod, pull.container, "BackOff", f'Back-off pulling image "{pull.image}"')
            await self._about(pod, pull.container, "Failed", "Error: ImagePullBackOff", WARNING)

    async def stopping(self, pod: Json) -> None:
        if self._has_budget():
            for one in spec_of(pod).get("containers") or ():
                await self._about(pod, one, "Killing", f"Stopping container {one.get('name')}")

    async def unhealthy(self, pod: Json, name: str, kind: str) -> None:
        note = f"{kind.capitalize()} probe failed: "
        await self._about(pod, {"name": name}, "Unhealthy", note, WARNING)

    async def killed(self, pod: Json, probe: FailedProbe) -> None:
        await self.unhealthy(pod, probe.container, probe.kind)
        note = f"Container {probe.container} failed {probe.kind} probe, will be restarted"
        await self._about(pod, {"name": probe.container}, "Killing", note)

    async def _about(self, pod: Json, container: Json, reason: str, note: str, type: str = NORMAL) -> None:
        initial = any(
            one.get("name") == container.get("name") for one in spec_of(pod).get("initContainers") or ()
        )
        part = "initContainers" if initial else "containers"
        await self._context.events.record(
            pod,
            type,
            reason,
            note,
            by=COMPONENT,
            host=node_of(pod),
            field_path=f"spec.{part}{{{container.get('name')}}}",
        )

    def _has_budget(self) -> bool:
        now = self._context.clock.monotonic()
        self._left = min(self._left + (now - self._since) * REFILL, BURST)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
