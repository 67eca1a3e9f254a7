"""Defaults of rbac.authorization.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import RBAC, Resource
from stowplan.api.requests import Json


def default_role_binding(obj: Json) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC)


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.ROLE_BINDINGS: default_role_binding,
    catalogue.CLUSTER_ROLE_BINDINGS: default_role_binding,
}
