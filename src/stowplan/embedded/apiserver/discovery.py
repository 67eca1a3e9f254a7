"""What is served where: groups, versions, resources, in the older form and in the aggregated one."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import NAMESPACES, PODS, Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.subresources import SCALED

OBJECT_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")
_SHORT: Final = {
    "configmaps": ("cm",),
    "controllerrevisions": (),
    "cronjobs": ("cj",),
    "daemonsets": ("ds",),
    "deployments": ("deploy",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "poddisruptionbudgets": ("pdb",),
    "pods": ("po",),
    "priorityclasses": ("pc",),
    "replicasets": ("rs",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "statefulsets": ("sts",),
    "storageclasses": ("sc",),
    "volumeattributesclasses": ("vac",),
}
_ALL: Final = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "deployments",
        "replicasets",
        "statefulsets",
        "daemonsets",
        "jobs",
        "cronjobs",
    )
)
_REVIEWS: Final = {
    ("authentication.k8s.io", "v1"): ("tokenreviews", "selfsubjectreviews"),
    ("authorization.k8s.io", "v1"): (
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "localsubjectaccessreviews",
    ),
}
REVIEW_KINDS: Final = {
    "tokenreviews": "TokenReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
}


class Entry(NamedTuple):
    """A line of discovery: a resource, or (with a slash in its name) a subresource."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""

    @property
    def singular(self) -> str:
        return "" if "/" in self.name else self.kind.lower()


def entries(catalogue: Catalogue, group: str, version: str) -> list[Entry]:
    """Everything a group serves in a version, by name."""
    found: list[Entry] = []
    for resource in catalogue:
        if (resource.group, resource.version) == (group, version):
            found += _entries_of(resource)
    if (group, version) == ("", "v1"):
        found.append(Entry("bindings", "Binding", True, ("create",)))
    for plural in _REVIEWS.get((group, version), ()):
        found.append(Entry(plural, REVIEW_KINDS[plural], plural.startswith("local"), ("create",)))
    return sorted(found)


def groups(catalogue: Catalogue) -> dict[str, list[str]]:
    """The versions of every named group, the preferred one first."""
    found: dict[str, list[str]] = {}
    for resource in catalogue:
        if resource.group:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
    for group, version in _REVIEWS:
        found.setdefault(group, [version])
    return {group: sorted(found[group], key=_preference) for group in sorted(found)}


def legacy_versions(address: str) -> Json:
    """The answer to /api."""
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def group_list(catalogue: Catalogue) -> Json:
    """The answer to /apis."""
    shown = [_group(group, versions) for group, versions in groups(catalogue).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}


def one_group(catalogue: Catalogue, group: str) -> Json | None:
    """The answer to /apis/group, None if there is no such group."""
    versions = groups(catalogue).get(group)
    return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def resource_list(catalogue: Catalogue, group: str, version: str) -> Json | None:
    """The answer to /apis/group/version, None if there is no such version."""
    found = entries(catalogue, group, version)
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [_resource(entry) for entry in found],
    }


def aggregated(catalogue: Catalogue, names: Iterable[str], version: str) -> Json:
    """Everything some groups serve, in one answer."""
    known = {"": ["v1"], **groups(catalogue)}
    items = []
    for group in names:
        versions = [
            {
                "version": served,
                "resources": _aggregated_resources(entries(catalogue, group, served), group, served),
                "freshness": "Current",
            }
            for served in known[group]
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _entries_of(resource: Resource) -> Iterable[Entry]:
    name, kind, namespaced = resource.plural, resource.kind, resource.namespaced
    yield Entry(name, kind, namespaced, OBJECT_VERBS)
    if resource.status:
        yield Entry(f"{name}/status", kind, namespaced, _STATUS_VERBS)
    if resource in SCALED:
        yield Entry(f"{name}/scale", "Scale", namespaced, _STATUS_VERBS, "autoscaling", "v1")
    if resource == PODS:
        yield Entry("pods/binding", "Binding", True, ("create",), "", "v1")
        yield Entry("pods/eviction", "Eviction", True, ("create",), "policy", "v1")
    if resource == NAMESPACES:
        yield Entry("namespaces/finalize", "Namespace", False, ("update",))


def _group(group: str, versions: list[str]) -> Json:
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, "preferredVersion": shown[0]}


def _resource(entry: Entry) -> Json:
    shown: Json = {
        "name": entry.name,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        "verbs": entry.verbs,
    }
    if entry.version:
        shown |= (
            {"group": entry.group, "version": entry.version} if entry.group else {"version": entry.version}
        )
    return shown | _extras(entry)


def _extras(entry: Entry) -> Json:
    extras: Json = {}
    if _SHORT.get(entry.name):
        extras["shortNames"] = _SHORT[entry.name]
    if entry.name in _ALL:
        extras["categories"] = ("all",)
    return extras


def _aggregated_resources(found: list[Entry], group: str, version: str) -> list[Json]:
    shown: dict[str, Json] = {}
    for entry in found:
        name, _, subresource = entry.name.partition("/")
        kind = {"group": entry.group or group, "version": entry.version or version, "kind": entry.kind}
        if entry.version and not entry.group:
            kind["group"] = ""
        if subresource:
            part: Json = {"subresource": subresource, "responseKind": kind, "verbs": entry.verbs}
            shown[name].setdefault("subresources", []).append(part)
            continue
        scope = "Namespaced" if entry.namespaced else "Cluster"
        shown[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": scope,
            "singularResource": entry.singular,
            "verbs": entry.verbs,
            **_extras(entry),
        }
    return list(shown.values())


def _preference(version: str) -> tuple[int, str]:
    return ("alpha" in version) * 2 + ("beta" in version), version


VERSION: Final[dict[str, Any]] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.4+stowplan",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
"""The version of the API, as /version shows it."""
