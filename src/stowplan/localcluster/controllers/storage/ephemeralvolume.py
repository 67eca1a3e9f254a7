"""The ephemeral volume controller: claims for one pod alone, from the templates in its volumes."""

from typing import ClassVar

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PODS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, RetryLater
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.objects.fields import (
    controller_reference,
    is_active,
    is_controlled_by,
    key_of,
    name_of,
    namespace_of,
    spec_of,
)


def claims_for(pod: Json) -> dict[str, Json]:
    """The claims a pod brings along, by the names of their volumes; they go when it goes."""
    return {
        volume["name"]: {
            "metadata": {
                **(volume["ephemeral"]["volumeClaimTemplate"].get("metadata") or {}),
                "name": f"{name_of(pod)}-{volume['name']}",
                "namespace": namespace_of(pod),
                "ownerReferences": [controller_reference(PODS, pod)],
            },
            "spec": volume["ephemeral"]["volumeClaimTemplate"].get("spec") or {},
        }
        for volume in spec_of(pod).get("volumes") or ()
        if (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    }


class EphemeralVolumeController(Controller):
    """Creates the claims of pods with generic ephemeral volumes."""

    name: ClassVar[str] = "ephemeral-volume-controller"
    event_source: ClassVar[str] = "ephemeral_volume"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.pods = self.informer(PODS)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if old is None and new is not None and any(map(_is_ephemeral, spec_of(new).get("volumes") or ())):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or not is_active(pod):
            return
        for volume, claim in claims_for(pod).items():
            found = self.claims.get(key_of(claim))
            if found is None:
                await self._create(pod, volume, claim)
            elif not is_controlled_by(found, pod):
                problem = f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"
                raise await self._failed(pod, volume, problem)

    async def _create(self, pod: Json, volume: str, claim: Json) -> None:
        try:
            await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except ApiError as error:
            problem = f"create PVC {name_of(claim)}: {error.message}"
            raise await self._failed(pod, volume, problem) from error

    async def _failed(self, pod: Json, volume: str, problem: str) -> RetryLater:
        note = f"ephemeral volume {volume}: {problem}"
        await self.record_event(pod, "FailedBinding", note, WARNING)
        return RetryLater(note)


def _is_ephemeral(volume: Json) -> bool:
    return bool(volume.get("ephemeral"))
