"""Claims and volumes: who gets whom, and what becomes of a volume whose claim is gone."""

from typing import ClassVar

from stowplan.api.catalogue import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import (
    annotations_of,
    is_deleting,
    key_of,
    name_of,
    spec_of,
    status_of,
)
from stowplan.embedded.controllers.volumedecisions import (
    ClaimStep,
    VolumeStep,
    claim_binding,
    claim_status,
    claim_step,
    volume_binding,
    volume_step,
)
from stowplan.embedded.controllers.volumematching import (
    BETA_PROVISIONER,
    BOUND_BY_CONTROLLER,
    PROVISIONER,
    class_of,
    default_class,
)

CLAIM = "claim "
VOLUME = "volume "


class Volumes(Controller):
    """Binds claims and volumes. One worker: no two claims choose at the same time."""

    name: ClassVar[str] = "persistentvolume-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.volumes = self.informer(PERSISTENT_VOLUMES)
        self.classes = self.informer(STORAGE_CLASSES)
        self.promised = self.volumes.index(_claims_named)
        self.named = self.claims.index(_volumes_named)
        self.claims.listen(self._claim_changed)
        self.volumes.listen(self._volume_changed)
        self.classes.listen(lambda old, new: self._class_changed())

    async def sync(self, key: str) -> None:
        if key.startswith(VOLUME):
            volume = self.volumes.get(key.removeprefix(VOLUME))
            if volume is not None:
                await self._sync_volume(volume)
        else:
            claim = self.claims.get(key.removeprefix(CLAIM))
            if claim is not None:
                await self._sync_claim(claim)

    # News

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        for claim in (old, new):
            if claim is None:
                continue
            self.queue.add(CLAIM + key_of(claim))
            for name in (*_volumes_named(claim), *self.promised[key_of(claim)]):
                self.queue.add(VOLUME + name)

    def _volume_changed(self, old: Json | None, new: Json | None) -> None:
        for volume in (old, new):
            if volume is None:
                continue
            self.queue.add(VOLUME + name_of(volume))
            for key in (*_claims_named(volume), *self.named[name_of(volume)]):
                self.queue.add(CLAIM + key)
        if new is not None and status_of(new).get("phase") == "Available":
            self._wake_unbound(class_of(new))

    def _class_changed(self) -> None:
        for key, claim in self.claims.objects.items():
            if not spec_of(claim).get("volumeName"):
                self.queue.add(CLAIM + key)

    def _wake_unbound(self, class_name: str) -> None:
        for key in self.named[""]:
            if class_of(self.claims.objects[key]) == class_name:
                self.queue.add(CLAIM + key)

    # Claims

    async def _sync_claim(self, claim: Json) -> None:
        if "storageClassName" not in spec_of(claim) and not class_of(claim):
            default = default_class(self.classes)
            if default is not None and not spec_of(claim).get("volumeName"):
                claim = await self.change(
                    PERSISTENT_VOLUME_CLAIMS, claim, {"spec": {"storageClassName": name_of(default)}}
                )
        storage_class = self.classes.get(class_of(claim))
        named = self.volumes.get(spec_of(claim).get("volumeName") or "")
        candidates = [self.volumes.objects[name] for name in self.promised[key_of(claim)]]
        step = claim_step(claim, storage_class, named, candidates or self.volumes)
        if step.event is not None:
            kind, reason, note = step.event
            await self.tell(claim, reason, note, kind)
        if step.provisioner:
            claim = await self._ask_provisioner(claim, step.provisioner)
        if step.volume is not None:
            await self._bind(step.volume, claim)
        elif step.phase:
            await self._set_phase(claim, step)

    async def _ask_provisioner(self, claim: Json, provisioner: str) -> Json:
        if annotations_of(claim).get(PROVISIONER) == provisioner:
            return claim
        asked = {PROVISIONER: provisioner, BETA_PROVISIONER: provisioner}
        return await self.change(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"annotations": asked}})

    async def _set_phase(self, claim: Json, step: ClaimStep) -> None:
        if status_of(claim).get("phase") != step.phase:
            await self.set_status(PERSISTENT_VOLUME_CLAIMS, claim, {"phase": step.phase})

    async def _bind(self, volume: Json, claim: Json) -> None:
        """Both objects say so, and then their states do: volume first, whatever fails can be gone on with."""
        change = volume_binding(volume, claim)
        if change:
            volume = await self.change(PERSISTENT_VOLUMES, volume, change)
        await self.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Bound"})
        change = claim_binding(claim, volume)
        if change:
            claim = await self.change(PERSISTENT_VOLUME_CLAIMS, claim, change)
        await self.set_status(PERSISTENT_VOLUME_CLAIMS, claim, claim_status(volume))

    # Volumes

    async def _sync_volume(self, volume: Json) -> None:
        claims = _claims_named(volume)
        claim = self.claims.get(claims[0]) if claims else None
        step = volume_step(volume, claim)
        if step is VolumeStep.FREE:
            await self.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Available"})
        elif step is VolumeStep.BOUND:
            await self.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Bound"})
        elif step is VolumeStep.RELEASE and not await self._is_wanted(volume):
            await self.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Released"})
        elif step is VolumeStep.UNBIND:
            await self._unbind(volume)

    async def _is_wanted(self, volume: Json) -> bool:
        """Whether there is a claim that the picture lacks: no volume is given up by mistake."""
        ref = spec_of(volume)["claimRef"]
        try:
            claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, ref.get("namespace", ""), ref["name"])
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return volume_step(volume, claim) is not VolumeStep.RELEASE

    async def _unbind(self, volume: Json) -> None:
        """Take back what the scheduler or we promised; a promise that somebody else made stays, by name."""
        if BOUND_BY_CONTROLLER in annotations_of(volume):
            change: Json = {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            }
        else:
            change = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        volume = await self.change(PERSISTENT_VOLUMES, volume, change)
        if not is_deleting(volume):
            await self.set_status(PERSISTENT_VOLUMES, volume, {"phase": "Available"})


def _claims_named(volume: Json) -> list[str]:
    ref = spec_of(volume).get("claimRef")
    return [f"{ref.get('namespace', '')}/{ref.get('name', '')}"] if ref else []


def _volumes_named(claim: Json) -> list[str]:
    """The volume of a claim; claims without one are found under ""."""
    return [spec_of(claim).get("volumeName") or ""]
