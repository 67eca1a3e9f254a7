"""The check that writers of roles and bindings hand on no rights but their own."""

from typing import Final

from stowplan.api.catalogue import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from stowplan.api.requests import Json
from stowplan.embedded.auth.escalation import check_escalation
from stowplan.embedded.auth.rbac import AccessRules
from stowplan.embedded.auth.users import MASTERS, User
from stowplan.embedded.store import Store
from stowplan.embedded.store.registry import Lookup
from stowplan.embedded.store.writer import WriteContext

_GUARDED: Final = frozenset((CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES))


class RoleGuard:
    """Knows the roles of one store, from the first time that somebody who is no administrator writes one."""

    def __init__(self) -> None:
        self._access: AccessRules | None = None

    def check(
        self, lookup: Lookup, resource: Resource, old: Json | None, new: Json, by: WriteContext
    ) -> None:
        """Raises `ApiError` 403."""
        if resource not in _GUARDED or MASTERS in by.user.groups or not isinstance(lookup, Store):
            return
        if self._access is None:
            self._access = AccessRules(lookup)
        user = User(by.user.name, by.user.groups)
        name = "" if old is None else old["metadata"]["name"]
        check_escalation(self._access, user, resource, new, old, name)
