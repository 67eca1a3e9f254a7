"""The resource quota controller: what is used is counted again when something goes.

Admission charges quotas for what is created; this takes off what is deleted or ended, and counts everything
for a quota that is new or was changed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    Resource,
)
from stowplan.api.quantity import QuantityError
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.informers import EventHandler, Informer
from stowplan.localcluster.controllers.garbagecollector import WATCHED
from stowplan.localcluster.objects.fields import (
    is_deleting,
    is_finished,
    namespace_of,
    spec_of,
    status_of,
)
from stowplan.localcluster.quota import amounts_of, evaluator_for, is_quotable, total_usage

RESYNC: Final = 300.0
"""Seconds after which a quota is counted again although nothing is known to have changed."""

_COUNTED_BY_SPEC: Final = (SERVICES, PERSISTENT_VOLUME_CLAIMS)


class ResourceQuotaController(Controller):
    """Keeps the status of every ResourceQuota."""

    name: ClassVar[str] = "resourcequota-controller"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext, watched: Sequence[Resource] = WATCHED) -> None:
        super().__init__(context)
        self.quotas = self.informer(RESOURCE_QUOTAS)
        self.quotas.add_handler(self._quota_changed)
        self._counted: dict[Resource, Informer] = {}
        for resource in watched:
            if is_quotable(resource):
                informer = self._counted[resource] = self.informer(resource)
                informer.add_handler(self._listener(resource))

    def _quota_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and (old is None or spec_of(old) != spec_of(new) or _is_stale(new)):
            self.queue.add(_key(new))

    def _listener(self, resource: Resource) -> EventHandler:
        by_spec, is_pod = resource in _COUNTED_BY_SPEC, resource == PODS

        def handler(old: Json | None, new: Json | None) -> None:
            if old is None:
                return
            quotas = self.quotas.in_namespace[namespace_of(old)]
            if not quotas:
                return
            less = new is None or (is_pod and _has_ended(old) != _has_ended(new))
            if less or (by_spec and new is not None and spec_of(old) != spec_of(new)):
                evaluator = evaluator_for(resource)
                for key, quota in quotas.items():
                    if evaluator.counted(spec_of(quota).get("hard") or ()):
                        self.queue.add(key)

        return handler

    async def sync(self, key: str) -> None:
        quota = self.quotas.get(key)
        if quota is None:
            return
        self.queue.add_after(key, RESYNC)
        looked_at = 0

        def objects(resource: Resource) -> Iterable[Json]:
            nonlocal looked_at
            found = self._counted[resource].in_namespace[namespace_of(quota)]
            looked_at += len(found)
            return found.values()

        used = total_usage(quota, self._counted, objects, self.now())
        self.rest(key, looked_at)
        hard = dict(spec_of(quota).get("hard") or {})
        status = status_of(quota)
        if _differ(status.get("hard"), hard) or _differ(status.get("used"), used):
            await self.set_status(RESOURCE_QUOTAS, quota, {"hard": hard, "used": used})


def _key(quota: Json) -> str:
    return f"{namespace_of(quota)}/{quota['metadata']['name']}"


def _is_stale(quota: Json) -> bool:
    return _differ(status_of(quota).get("hard"), spec_of(quota).get("hard"))


def _has_ended(pod: Json) -> tuple[bool, bool]:
    return is_finished(pod), is_deleting(pod)


def _differ(left: Any, right: Any) -> bool:
    """True if two resource lists differ in amounts, not only in spelling."""
    try:
        return amounts_of(left) != amounts_of(right)
    except (QuantityError, TypeError):
        return True
