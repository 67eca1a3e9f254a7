"""Role-based access control: which rules apply to a user, and whether they allow something.

Bindings are indexed by subject as they are written, and the rules of a role are compiled when they are first
asked for, so that a request costs a few lookups however many roles there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stowplan.api.catalogue import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from stowplan.api.fielderrors import aggregate
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.auth.users import User, account_username
from stowplan.localcluster.store import BOOKMARK, DELETED, Store, StoreChange
from stowplan.localcluster.store.objects import Key

_ROLE_KINDS: Final[Mapping[str, Resource]] = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Attributes(NamedTuple):
    """Attributes of a request: a verb on a resource or, if `path` is given, on a path."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None

    def refusal(self) -> str:
        """Why it is not done, as people read it."""
        user = quote(self.user.name)
        if self.path is not None:
            return f"User {user} cannot {self.verb} path {quote(self.path)}".translate(_HTML)
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        scope = f"in the namespace {quote(self.namespace)}" if self.namespace else "at the cluster scope"
        what = f"resource {quote(resource)} in API group {quote(self.group)}"
        return f"User {user} cannot {self.verb} {what} {scope}".translate(_HTML)


class RbacDecision(NamedTuple):
    """Result of an authorization. `reason` names the rule, or the roles that could not be found."""

    allowed: bool
    reason: str = ""


ALLOWED: Final = RbacDecision(allowed=True)


def forbidden(attributes: Attributes, reason: str = "") -> ApiError:
    """The refusal of a request."""
    why = attributes.refusal() + (f": {reason}" if reason else "")
    if attributes.path is not None:
        return ApiError(403, "Forbidden", f"forbidden: {why}", {})
    return forbidden_object(attributes.group, attributes.resource, attributes.name, why)


def forbidden_object(group: str, plural: str, name: str, why: str) -> ApiError:
    """A refusal that concerns an object, or objects if it has no name."""
    qualified = f"{plural}.{group}" if group else plural
    shown = f"{qualified} {quote(name)}" if name else qualified
    details = {"name": name, "group": group, "kind": plural}
    kept = {key: value for key, value in details.items() if value}
    return ApiError(403, "Forbidden", f"{shown} is forbidden: {why}", kept)


class RbacRule:
    """A rule of a role, ready to be asked."""

    __slots__ = ("groups", "names", "resources", "urls", "verbs")

    def __init__(self, rule: Json) -> None:
        self.verbs = frozenset(rule.get("verbs") or ())
        self.groups = frozenset(rule.get("apiGroups") or ())
        self.resources = frozenset(rule.get("resources") or ())
        self.names = frozenset(rule.get("resourceNames") or ())
        self.urls: tuple[str, ...] = tuple(rule.get("nonResourceURLs") or ())

    def allows(self, wanted: Attributes) -> bool:
        if wanted.verb not in self.verbs and "*" not in self.verbs:
            return False
        if wanted.path is not None:
            return any(url_covers(url, wanted.path) for url in self.urls)
        if wanted.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and wanted.name not in self.names:
            return False
        if "*" in self.resources:
            return True
        if not wanted.subresource:
            return wanted.resource in self.resources
        whole, any_of = f"{wanted.resource}/{wanted.subresource}", f"*/{wanted.subresource}"
        return whole in self.resources or any_of in self.resources


def url_covers(pattern: str, path: str) -> bool:
    """True if a path of a rule covers a path: itself, or any path with the prefix before its `*`."""
    if pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


class Role(NamedTuple):
    """The rules of a role: as they were written, and compiled."""

    written: Sequence[Json]
    rules: Sequence[RbacRule]


class Grant(NamedTuple):
    """A role that a binding gives to a subject. `namespace` is the binding's, empty if it is for all."""

    binding: Key
    namespace: str
    role_kind: str
    role: str
    description: str


class AccessRules:
    """The roles and bindings of a store, indexed by whom they apply to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[tuple[str, str], dict[Key, Grant]] = {}
        self._roles: dict[tuple[str, str, str], tuple[Json, Role]] = {}
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            watcher = store.watch(resource, self._binding_changed, initial_events=True)
            for change in watcher.backlog:
                self._binding_changed(change)
            watcher.backlog = ()

    def decide(self, wanted: Attributes) -> RbacDecision:
        """Decide if a user may do something."""
        if wanted.user.is_admin:
            return ALLOWED
        missing: list[str] = []
        for grant, role in self._granted(wanted.user, wanted.namespace):
            if role is None:
                missing.append(_not_found(grant.role_kind, grant.role))
            elif any(rule.allows(wanted) for rule in role.rules):
                return RbacDecision(True, f"RBAC: allowed by {grant.description}")
        return RbacDecision(False, f"RBAC: {aggregate(missing)}" if missing else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[Json], list[str]]:
        """The rules that apply to a user in a namespace, and what went wrong in looking for them."""
        rules: list[Json] = []
        missing: list[str] = []
        for grant, role in self._granted(user, namespace):
            if role is None:
                missing.append(_not_found(grant.role_kind, grant.role))
            else:
                rules += role.written
        return rules, missing

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Json]:
        """The rules of a role that a binding refers to. Raises `ApiError` 404."""
        role = self._role(kind, name, namespace)
        if role is None:
            singular = kind.lower()
            details = {"name": name, "group": RBAC, "kind": singular}
            raise ApiError(404, "NotFound", _not_found(kind, name), details)
        return role.written

    def _granted(self, user: User, namespace: str) -> Iterator[tuple[Grant, Role | None]]:
        """The roles of a user, each binding once; None stands for a role that does not exist."""
        subjects = (f"User/{user.name}", *(f"Group/{group}" for group in user.groups))
        for scope in ("", namespace) if namespace else ("",):
            seen: set[Key] = set()
            for subject in subjects:
                for grant in tuple(self._grants.get((scope, subject), {}).values()):
                    if grant.binding not in seen:
                        seen.add(grant.binding)
                        yield grant, self._role(grant.role_kind, grant.role, grant.namespace)

    def _role(self, kind: str, name: str, namespace: str) -> Role | None:
        resource = _ROLE_KINDS.get(kind)
        if resource is None:
            return None
        key = (kind, namespace if resource.namespaced else "", name)
        obj = self._store.find(resource, key[1], name)
        if obj is None:
            self._roles.pop(key, None)
            return None
        known = self._roles.get(key)
        if known is not None and known[0] is obj:
            return known[1]
        written = obj.get("rules") or ()
        role = Role(written, tuple(RbacRule(rule) for rule in written))
        self._roles[key] = (obj, role)
        return role

    def _binding_changed(self, change: StoreChange) -> None:
        if change.type == BOOKMARK:
            return
        before = change.object if change.previous is None else change.previous
        for subject, grant in _grants_of(before):
            held = self._grants.get((grant.namespace, subject))
            if held is not None:
                held.pop(grant.binding, None)
                if not held:
                    del self._grants[grant.namespace, subject]
        if change.type != DELETED:
            for subject, grant in _grants_of(change.object):
                self._grants.setdefault((grant.namespace, subject), {}).setdefault(grant.binding, grant)


def _grants_of(binding: Json) -> Iterator[tuple[str, Grant]]:
    """Grants of a binding for each of its subjects, by the names of users and groups."""
    metadata, role = binding["metadata"], binding.get("roleRef") or {}
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    kind, role_name = role.get("kind", ""), role.get("name", "")
    shown = (
        f"RoleBinding {quote(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {quote(name)}"
    )
    shown = f"{shown} of {kind} {quote(role_name)} to "
    for subject in binding.get("subjects") or ():
        what, who = subject.get("kind", ""), subject.get("name", "")
        key, described = f"{what}/{who}", f"{what} {quote(who)}"
        if what == "ServiceAccount":
            within = subject.get("namespace") or namespace
            if not within:
                continue
            key, described = f"User/{account_username(within, who)}", f"{what} {quote(f'{who}/{within}')}"
        yield key, Grant((namespace, name), namespace, kind, role_name, shown + described)


def _not_found(kind: str, name: str) -> str:
    return f"{kind.lower()}.{RBAC} {quote(name)} not found"
