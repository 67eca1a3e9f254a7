"""Prevention of privilege escalation: users only grant rights they have.

The writer of a role must hold every right in it, or the right `escalate`; the writer of a binding must hold
every right of its role, or the right `bind`. Members of system:masters need neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stowplan.api.catalogue import CLUSTER_ROLES, RBAC, ROLES, Resource
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.auth.rbac import AccessRules, Attributes, forbidden_object, url_covers
from stowplan.localcluster.auth.users import User

_EVERYTHING: Final[Sequence[Json]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_AGGREGATION: Final = "must have cluster-admin privileges to use the aggregationRule"
_GARBAGE_COLLECTORS: Final = ("ownerReferences", "finalizers", "managedFields")


def check_escalation(
    access: AccessRules, user: User, resource: Resource, new: Json, old: Json | None = None, name: str = ""
) -> None:
    """Judge the writing of a role or binding. `name` is the one in the request's path.

    Raises `ApiError` 403, or 404 if a binding is for a role that does not exist.
    """
    if user.is_admin or (old is not None and _only_for_garbage_collector(old, new)):
        return
    metadata = new["metadata"]
    namespace = metadata.get("namespace", "") if resource.namespaced else ""
    if resource in (ROLES, CLUSTER_ROLES):
        escalate = Attributes(user, "escalate", RBAC, resource.plural, "", namespace, name)
        if not access.decide(escalate).allowed:
            _check_role(access, user, resource, namespace, new, old)
        return
    role = new.get("roleRef") or {}
    kind, role_name = role.get("kind", ""), role.get("name", "")
    bound = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}.get(kind)
    if bound is None:
        return
    bind = Attributes(user, "bind", role.get("apiGroup", ""), bound.plural, "", namespace, role_name)
    if not access.decide(bind).allowed:
        granted = access.role_rules(kind, role_name, namespace)
        _check_held(access, user, namespace, granted, resource, metadata.get("name", ""))


def _check_role(
    access: AccessRules, user: User, resource: Resource, namespace: str, new: Json, old: Json | None
) -> None:
    name = new["metadata"].get("name", "")
    _check_held(access, user, namespace, new.get("rules") or (), resource, name)
    aggregates = any(role is not None and _selectors(role) for role in (new, old))
    if aggregates and list(_missing(access.rules_for(user, namespace)[0], _EVERYTHING)):
        raise forbidden_object(RBAC, resource.plural, name, _AGGREGATION)


def _selectors(role: Json) -> Sequence[Json]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()


def _check_held(
    access: AccessRules, user: User, namespace: str, wanted: Iterable[Json], resource: Resource, name: str
) -> None:
    """Raises `ApiError` 403 if rules go beyond those that apply to the user."""
    held, problems = access.rules_for(user, namespace)
    missing = _compacted(_missing(held, wanted))
    if not missing:
        return
    groups = " ".join(quote(group) for group in user.groups)
    why = (
        f"user {quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently "
        "held:\n" + "\n".join(sorted({_shown(part) for part in missing}))
    )
    if problems:
        why += f"; resolution errors: [{' '.join(problems)}]"
    raise forbidden_object(RBAC, resource.plural, name, why)


class _Part(NamedTuple):
    """A rule about one verb and one thing. `name` is None where it is for all names."""

    verbs: tuple[str, ...]
    group: str | None = None
    resource: str = ""
    name: str | None = None
    url: str = ""


def _parts(rule: Json) -> Iterator[_Part]:
    verbs = rule.get("verbs") or ()
    names: Sequence[str | None] = rule.get("resourceNames") or (None,)
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                for name in names:
                    yield _Part((verb,), group, resource, name)
    for url in rule.get("nonResourceURLs") or ():
        for verb in verbs:
            yield _Part((verb,), url=url)


def _missing(held: Sequence[Json], wanted: Iterable[Json]) -> Iterator[_Part]:
    """Wanted rights that no held rule covers."""
    for rule in wanted:
        for part in _parts(rule):
            if not any(_covers(owned, part) for owned in held):
                yield part


def _covers(rule: Json, part: _Part) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and part.verbs[0] not in verbs:
        return False
    if part.group is None:
        return any(url_covers(url, part.url) for url in rule.get("nonResourceURLs") or ())
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    if "*" not in groups and part.group not in groups:
        return False
    names = rule.get("resourceNames") or ()
    if names and part.name not in names:
        return False
    slash, subresource = part.resource.partition("/")[1:]
    any_of = f"*/{subresource}" if slash else part.resource
    return "*" in resources or part.resource in resources or any_of in resources


def _compacted(parts: Iterable[_Part]) -> list[_Part]:
    """The verbs of the same thing together; paths stay as they are."""
    paths: list[_Part] = []
    things: dict[_Part, list[str]] = {}
    for part in parts:
        if part.group is None:
            paths.append(part)
        else:
            things.setdefault(part._replace(verbs=()), []).extend(part.verbs)
    return paths + [thing._replace(verbs=tuple(verbs)) for thing, verbs in things.items()]


def _shown(part: _Part) -> str:
    fields: list[tuple[str, Sequence[str]]] = []
    if part.group is not None:
        fields += [("APIGroups", [part.group]), ("Resources", [part.resource])]
    else:
        fields.append(("NonResourceURLs", [part.url]))
    if part.name is not None:
        fields.append(("ResourceNames", [part.name]))
    fields.append(("Verbs", part.verbs))
    return "{" + ", ".join(f"{name}:[{' '.join(map(quote, values))}]" for name, values in fields) + "}"


def _only_for_garbage_collector(old: Json, new: Json) -> bool:
    """True if an update changes only fields that a garbage collector may have to change."""
    return _comparable(old) == _comparable(new)


def _comparable(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _GARBAGE_COLLECTORS}
    return {**obj, "metadata": metadata}
