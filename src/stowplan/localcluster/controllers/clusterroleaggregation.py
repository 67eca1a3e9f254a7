"""Cluster roles whose rules are those of other cluster roles, found by their labels."""

from typing import ClassVar

import msgspec

from stowplan.api.catalogue import CLUSTER_ROLES
from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import key_of, labels_of, name_of


class ClusterRoleAggregationController(Controller):
    """Keeps the rules of every cluster role with an `aggregationRule`."""

    name: ClassVar[str] = "clusterrole-aggregation-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.roles = self.informer(CLUSTER_ROLES)
        self._aggregated: dict[str, list[Selector]] = {}
        self.roles.add_handler(self._role_changed)

    def _role_changed(self, old: Json | None, new: Json | None) -> None:
        """Work on the role if it is aggregated, and on those that select it, now or before."""
        for role in (old, new):
            if role is not None:
                self._aggregated.pop(key_of(role), None)
        if new is not None and new.get("aggregationRule"):
            self._aggregated[key_of(new)] = _selectors(new)
            self.queue.add(key_of(new))
        seen = [labels_of(role) for role in (old, new) if role is not None]
        for key, selectors in self._aggregated.items():
            if any(selector.matches(labels) for selector in selectors for labels in seen):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        role, selectors = self.roles.get(key), self._aggregated.get(key)
        if role is None or selectors is None:
            return
        others = sorted((other for other in self.roles if other is not role), key=name_of)
        rules: list[Json] = []
        for selector in selectors:
            for other in others:
                if selector.matches(labels_of(other)):
                    rules += [rule for rule in other.get("rules") or () if rule not in rules]
        if rules != list(role.get("rules") or ()):
            await self.change(CLUSTER_ROLES, role, {"rules": rules})


def _selectors(role: Json) -> list[Selector]:
    """Selectors of the role; one that cannot be read selects nothing."""
    found = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            found.append(compile_selector(msgspec.convert(selector, LabelSelector)))
        except SelectorError:
            continue
    return found
