"""Protection: claims that pods use and volumes that claims use are not deleted under them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import (
    finalizers_of,
    is_deleting,
    is_finished,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


def claims_of(pod: Json) -> list[str]:
    """The keys of the claims that a pod uses; those made for it alone are named after it."""
    found: list[str] = []
    for volume in spec_of(pod).get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source:
            found.append(f"{namespace_of(pod)}/{source.get('claimName', '')}")
        elif volume.get("ephemeral"):
            found.append(f"{namespace_of(pod)}/{name_of(pod)}-{volume['name']}")
    return found


def finalizers_wanted(obj: Json, finalizer: str, in_use: bool) -> Sequence[str] | None:
    """The finalizers an object should have now, None if it has them."""
    held = finalizers_of(obj)
    if is_deleting(obj):
        return [one for one in held if one != finalizer] if finalizer in held and not in_use else None
    return None if finalizer in held else [*held, finalizer]


class _ProtectionController(Controller):
    """Puts a finalizer on every object of a kind and takes it off when a deleted one is used no more."""

    resource: ClassVar[Resource]
    finalizer: ClassVar[str]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.objects = self.follow(self.resource)

    @abstractmethod
    def is_used(self, obj: Json) -> bool:
        """True if an object that is being deleted is still in use."""

    async def sync(self, key: str) -> None:
        obj = self.objects.get(key)
        if obj is None:
            return
        wanted = finalizers_wanted(obj, self.finalizer, is_deleting(obj) and self.is_used(obj))
        if wanted is not None:
            await self.change(self.resource, obj, {"metadata": {"finalizers": list(wanted)}})


class ClaimProtectionController(_ProtectionController):
    """A deleted claim stays while a pod on a node that uses it is there and not finished.

    A pod without a node does not count: kubelets do not start a pod whose claim is being deleted.
    """

    name: ClassVar[str] = "pvc-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUME_CLAIMS
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        pods = self.informer(PODS)
        self._users = pods.index(claims_of)
        pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and (new is None or is_finished(new)):
            for key in claims_of(old):
                self.queue.add(key)

    def is_used(self, obj: Json) -> bool:
        users = self._users[key_of(obj)].values()
        return any(spec_of(pod).get("nodeName") and not is_finished(pod) for pod in users)


class VolumeProtectionController(_ProtectionController):
    """A deleted volume stays while it is bound."""

    name: ClassVar[str] = "pv-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUMES
    finalizer: ClassVar[str] = VOLUME_FINALIZER

    def is_used(self, obj: Json) -> bool:
        return status_of(obj).get("phase") == "Bound"
