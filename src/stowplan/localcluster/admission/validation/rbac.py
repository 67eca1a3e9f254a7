"""Validation of roles and role bindings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import RBAC, Resource
from stowplan.api.fielderrors import FieldError, invalid, not_supported, required
from stowplan.api.names import path_segment_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import name_errors, selector_errors

_ACCOUNT: Final = "ServiceAccount"
_SUBJECTS: Final = (_ACCOUNT, "User", "Group")


def role_errors(obj: Json) -> list[FieldError]:
    return list(_rules_errors(obj, namespaced=True))


def cluster_role_errors(obj: Json) -> list[FieldError]:
    errors = list(_rules_errors(obj, namespaced=False))
    if "aggregationRule" in obj:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = obj["aggregationRule"].get("clusterRoleSelectors") or ()
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(path, text))
        for i, selector in enumerate(selectors):
            errors += selector_errors(selector, f"{path}[{i}]")
    return errors


def role_binding_errors(obj: Json) -> list[FieldError]:
    return list(_binding_errors(obj, ("Role", "ClusterRole"), namespaced=True))


def cluster_role_binding_errors(obj: Json) -> list[FieldError]:
    return list(_binding_errors(obj, ("ClusterRole",), namespaced=False))


def binding_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Whoever may bind one role must not get at another by changing the binding."""
    after = new.get("roleRef") or {}
    if old.get("roleRef") == after:
        return []
    shown = {name[:1].upper() + name[1:]: after.get(name, "") for name in ("kind", "name")}
    shown = {"APIGroup": after.get("apiGroup", ""), **shown}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _rules_errors(obj: Json, *, namespaced: bool) -> Iterator[FieldError]:
    for i, rule in enumerate(obj.get("rules") or ()):
        yield from _rule_errors(rule, f"rules[{i}]", namespaced=namespaced)


def _rule_errors(rule: Json, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    paths = rule.get("nonResourceURLs")
    if not paths:
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")
        return
    if namespaced:
        text = "namespaced rules cannot apply to non-resource URLs"
        yield invalid(f"{path}.nonResourceURLs", paths, text)
    if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid(f"{path}.nonResourceURLs", paths, text)


def _binding_errors(obj: Json, kinds: Sequence[str], *, namespaced: bool) -> Iterator[FieldError]:
    role = obj.get("roleRef") or {}
    if role.get("apiGroup") != RBAC:
        yield not_supported("roleRef.apiGroup", role.get("apiGroup") or "", [RBAC])
    if role.get("kind") not in kinds:
        yield not_supported("roleRef.kind", role.get("kind") or "", kinds)
    yield from name_errors("roleRef.name", role.get("name"), path_segment_problems)
    for i, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject_errors(subject, f"subjects[{i}]", namespaced=namespaced)


def _subject_errors(subject: Json, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    is_account = kind == _ACCOUNT
    problems = subdomain_problems if is_account else lambda name: []
    yield from name_errors(f"{path}.name", subject.get("name"), problems)
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif group != ("" if is_account else RBAC):
        yield not_supported(f"{path}.apiGroup", group, ["" if is_account else RBAC])
    if is_account and not namespaced and not subject.get("namespace"):
        yield required(f"{path}.namespace")


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.ROLES: role_errors,
    catalogue.ROLE_BINDINGS: role_binding_errors,
    catalogue.CLUSTER_ROLES: cluster_role_errors,
    catalogue.CLUSTER_ROLE_BINDINGS: cluster_role_binding_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.ROLE_BINDINGS: binding_update_errors,
    catalogue.CLUSTER_ROLE_BINDINGS: binding_update_errors,
}
