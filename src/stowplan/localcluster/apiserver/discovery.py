"""Discovery: served groups, versions and resources, in the older form and in the aggregated one."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import (
    BUILT_IN,
    CERTIFICATE_SIGNING_REQUESTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Catalogue,
    Resource,
)
from stowplan.api.releases import Release
from stowplan.api.requests import Json
from stowplan.localcluster.schema import schema_of
from stowplan.localcluster.store.registry import SCALED

_STATUS_VERBS: Final = ("get", "patch", "update")
_PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")
_STREAM_VERBS: Final = ("create", "get")
_GROUP_ORDER: Final = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
)
"""Groups by priority, as kube-apiserver has them; all others come after these, by name."""


def _create_only(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=namespaced, verbs=("create",))


_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"
REVIEWS: Final = (
    _create_only(_AUTHENTICATION, "tokenreviews", "TokenReview"),
    _create_only(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    _create_only(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _create_only(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _create_only(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    _create_only(_AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
)
CREATE_ONLY: Final = (_create_only("", "bindings", "Binding", namespaced=True), *REVIEWS)
"""Kinds that can be created but are not stored."""

REVIEW_KINDS: Final = {resource.plural: resource.kind for resource in REVIEWS}


class ServedKinds:
    """Kinds of a catalogue that a server of a release serves: all but kinds of other releases.

    The catalogue has them nevertheless: objects may be stored in a version that is not served yet.
    """

    def __init__(self, catalogue: Catalogue, release: Release) -> None:
        schema = schema_of(release)
        self._catalogue = catalogue
        self._hidden = frozenset(
            one for one in BUILT_IN if schema.of_kind(one.group, one.version, one.kind) is None
        )

    @property
    def revision(self) -> int:
        """Counts changes, for those who remember what they found."""
        return self._catalogue.revision

    def named(self, dotted: str) -> Resource | None:
        """The resource called `plural.version.group`."""
        found = self._catalogue.named(dotted)
        return None if found in self._hidden else found

    def __iter__(self) -> Iterator[Resource]:
        return (resource for resource in self._catalogue if resource not in self._hidden)


class Subresource(NamedTuple):
    """A part of an object that is served by itself. Its kind is of the same group unless it says another."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


_SUBRESOURCES: Final[Mapping[Resource, Sequence[Subresource]]] = {
    PODS: (
        Subresource("attach", "PodAttachOptions", _STREAM_VERBS),
        Subresource("binding", "Binding", ("create",)),
        Subresource("ephemeralcontainers", "Pod", _STATUS_VERBS),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", _STREAM_VERBS),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", _STREAM_VERBS),
        Subresource("proxy", "PodProxyOptions", _PROXY_VERBS),
        Subresource("resize", "Pod", _STATUS_VERBS),
    ),
    NODES: (Subresource("proxy", "NodeProxyOptions", _PROXY_VERBS),),
    SERVICES: (Subresource("proxy", "ServiceProxyOptions", _PROXY_VERBS),),
    NAMESPACES: (Subresource("finalize", "Namespace", ("update",)),),
    SERVICE_ACCOUNTS: (Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    CERTIFICATE_SIGNING_REQUESTS: (Subresource("approval", "CertificateSigningRequest", _STATUS_VERBS),),
}
"""Subresources besides status and scale."""


class DiscoveryEntry(NamedTuple):
    """A line of discovery: a resource, or (with a slash in its name) a subresource."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_hash: str = ""
    is_custom: bool = False


def entries(served: ServedKinds, group: str, version: str) -> list[DiscoveryEntry]:
    """Everything a group serves in a version, by name."""
    found: list[DiscoveryEntry] = []
    custom: list[DiscoveryEntry] = []
    for resource in (*served, *CREATE_ONLY):
        if (resource.group, resource.version) == (group, version):
            if resource.defined:
                custom += entries_of(resource)
            else:
                found += entries_of(resource)
    return [*sorted(found), *custom]


def groups(served: ServedKinds) -> dict[str, list[str]]:
    """The versions of every named group, the preferred one first."""
    found: dict[str, list[str]] = {}
    for resource in (*served, *REVIEWS):
        if resource.group:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
    return {group: sorted(found[group], key=_preference) for group in sorted(found, key=_priority)}


def legacy_versions(address: str) -> Json:
    """The answer to /api."""
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def group_list(served: ServedKinds) -> Json:
    """The answer to /apis."""
    shown = [_group(group, versions) for group, versions in groups(served).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}


def one_group(served: ServedKinds, group: str) -> Json | None:
    """The answer to /apis/group, None if there is no such group."""
    versions = groups(served).get(group)
    return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def resource_list(served: ServedKinds, group: str, version: str) -> Json | None:
    """The answer to /apis/group/version, None if there is no such version."""
    found = entries(served, group, version)
    if not found:
        return None
    shown: Json = {"kind": "APIResourceList"}
    if group:
        shown["apiVersion"] = "v1"
    shown["groupVersion"] = f"{group}/{version}" if group else version
    shown["resources"] = [_resource(entry) for entry in found]
    return shown


def aggregated(served: ServedKinds, names: Iterable[str], version: str) -> Json:
    """Everything some groups serve, in one answer."""
    known = {"": ["v1"], **groups(served)}
    items = []
    for group in names:
        versions = [
            {
                "version": name,
                "resources": _aggregated_resources(entries(served, group, name), group, name),
                "freshness": "Current",
            }
            for name in known[group]
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def entries_of(resource: Resource) -> Iterable[DiscoveryEntry]:
    """A resource, and its subresources after it."""
    name, kind, namespaced = resource.plural, resource.kind, resource.namespaced
    yield DiscoveryEntry(
        name,
        kind,
        namespaced,
        resource.verbs,
        singular=resource.singular or kind.lower(),
        short_names=resource.short_names,
        categories=resource.categories,
        storage_hash=_storage_hash(resource) if "update" in resource.verbs else "",
        is_custom=resource.defined,
    )
    if resource.status:
        yield DiscoveryEntry(f"{name}/status", kind, namespaced, _STATUS_VERBS, is_custom=resource.defined)
    if resource in SCALED or resource.scaled:
        yield DiscoveryEntry(f"{name}/scale", "Scale", namespaced, _STATUS_VERBS, "autoscaling", "v1")
    for part in _SUBRESOURCES.get(resource, ()):
        yield DiscoveryEntry(
            f"{name}/{part.name}", part.kind, namespaced, part.verbs, part.group, part.version
        )


def _storage_hash(resource: Resource) -> str:
    """Hash that tells clients if objects are stored in another version than before."""
    stored = resource.storage_version or resource.api_version
    if "/" not in stored:
        stored = f"/{stored}"
    digest = hashlib.sha256(f"{stored}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _group(group: str, versions: list[str]) -> Json:
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, "preferredVersion": shown[0]}


def _resource(entry: DiscoveryEntry) -> Json:
    shown: Json = {
        "name": entry.name,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
    }
    if entry.version:
        shown |= {"group": entry.group, "version": entry.version}
    shown |= {"kind": entry.kind, "verbs": entry.verbs, **_extras(entry)}
    if entry.storage_hash:
        shown["storageVersionHash"] = entry.storage_hash
    return shown


def _extras(entry: DiscoveryEntry) -> Json:
    extras: Json = {}
    if entry.short_names:
        extras["shortNames"] = entry.short_names
    if entry.categories:
        extras["categories"] = entry.categories
    return extras


def _aggregated_resources(found: list[DiscoveryEntry], group: str, version: str) -> list[Json]:
    shown: dict[str, Json] = {}
    for entry in found:
        name, _, subresource = entry.name.partition("/")
        kind = {"group": entry.group, "version": entry.version, "kind": entry.kind}
        if entry.is_custom:
            kind = {"group": group, "version": version, "kind": entry.kind}
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


def _priority(group: str) -> tuple[int, str]:
    return (_GROUP_ORDER.index(group) if group in _GROUP_ORDER else len(_GROUP_ORDER)), group


_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {None: 0, "beta": 1, "alpha": 2}


def _preference(version: str) -> tuple[int, int, int, str]:
    """The order of versions: stable before beta before alpha, and of these the newest first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return _STABILITY[match[2]], -int(match[1]), -int(match[3] or 0), version


def version_info(release: Release) -> dict[str, Any]:
    """The version of the API, as /version shows it."""
    return {
        "major": str(release.minor.major),
        "minor": str(release.minor.minor),
        "emulationMajor": str(release.emulated.major),
        "emulationMinor": str(release.emulated.minor),
        "minCompatibilityMajor": str(release.compatible.major),
        "minCompatibilityMinor": str(release.compatible.minor),
        "gitVersion": f"v{release.version}+stowplan",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }
