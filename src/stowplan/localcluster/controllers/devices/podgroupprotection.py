"""Protection of pod groups: a group that is deleted stays until the last of its pods has ended."""

from typing import ClassVar

from stowplan.api.catalogue import POD_GROUPS, PODS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import finalizers_of, is_deleting, is_finished, key_of
from stowplan.localcluster.objects.groupclaims import GROUP_PROTECTION, group_key_of


class PodGroupProtectionController(Controller):
    """Takes the finalizer off deleted groups that no pod needs any more. Admission puts it on new ones."""

    name: ClassVar[str] = "podgroup-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._groups = self.informer(POD_GROUPS)
        self._groups.add_handler(self._group_changed)
        pods = self.informer(PODS)
        self._members = pods.index(group_key_of)
        pods.add_handler(self._pod_changed)

    def _group_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and is_deleting(new) and GROUP_PROTECTION in finalizers_of(new):
            self.queue.add(key_of(new))

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and (new is None or is_finished(new)):
            for key in group_key_of(old):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or not is_deleting(group) or GROUP_PROTECTION not in finalizers_of(group):
            return
        if any(not is_finished(pod) for pod in self._members[key].values()):
            return
        kept = [one for one in finalizers_of(group) if one != GROUP_PROTECTION]
        await self.change(POD_GROUPS, group, {"metadata": {"finalizers": kept}})
