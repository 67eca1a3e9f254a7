"""Loading manifests into a store before anything runs on it.

An object with a uid comes from a cluster and is loaded unchanged: with its uid, times, status and managed
fields, and without admission plugins, which ran there. Then a loaded cluster is that cluster: owners find
their objects, volumes their claims, and pods stay on their nodes. Objects without a uid are created as
kubectl would create them, with their status if they have one.

Objects that cannot be loaded are left out, with a reason, and the rest is loaded nevertheless.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.catalogue import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Catalogue,
    Resource,
)
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import create_bootstrap_objects, create_default_account
from stowplan.localcluster.admission.devicefeatures import dropped_fields
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.conversion import from_served, stored_as
from stowplan.localcluster.up.kinds import define_missing_kinds
from stowplan.localcluster.up.manifests import Manifest

FIRST_KINDS: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "CSIDriver",
    "Node",
    "CSINode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ServiceAccount",
    "LimitRange",
    "ConfigMap",
    "Secret",
    "Service",
)
"""Kinds that others may need, in the order in which they are created; the rest follows, pods come last."""

_LAST_KIND: Final = "Pod"
_NO_OWNER: Final = "the owner was not loaded, so the owner reference is left out"
_NO_NODE: Final = "the node was not loaded, so the pod will be garbage collected; load the nodes, too"
_NO_VOLUME: Final = "the volume was not loaded, so the claim will be Lost; load the volumes, too"
_SHOWN: Final = 3
"""Number of objects named with a reason; the others are counted."""


@dataclass(slots=True)
class LoadReport:
    """Number of loaded objects, skipped ones, and missing ones; by reason, with the objects."""

    loaded: int = 0
    existing: int = 0
    skipped: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, reason: str, what: str) -> None:
        self.skipped.setdefault(reason, []).append(what)

    def lines(self) -> list[str]:
        """The report for people; one line if everything was loaded."""
        count = sum(map(len, self.skipped.values()))
        lines = [f"loaded {_objects(self.loaded)}" + (f", skipped {count:,}:" if count else "")]
        lines += [f"  {_named(names)}: {reason}" for reason, names in self.skipped.items()]
        if self.existing:
            lines.append(f"  {_objects(self.existing)} existed already and stayed")
        lines += [f"note: {_named(names)}: {problem}" for problem, names in self.missing.items()]
        return lines


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count:,} objects"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def load_cluster(
    store: Store, manifests: Iterable[Manifest], nodes: Iterable[str] = (), add_ons: Collection[AddOn] = ()
) -> LoadReport:
    """Load manifests into a store, and create what every cluster has. `nodes` will register themselves.

    Kinds of `add_ons` that no manifest defines get our definitions.
    """
    report = LoadReport()
    ordered = sorted(manifests, key=lambda manifest: _rank(manifest.kind))
    defining = [one for one in ordered if _defines(one) and not one.is_dumped]
    for manifest in defining:
        _create(store, manifest, report)
    define_missing_kinds(store, add_ons, (one.metadata.get("name") for one in ordered if _defines(one)))
    for manifest in ordered:
        if manifest.is_dumped:
            _take_in(store, manifest, report)
    create_bootstrap_objects(store)
    for manifest in ordered:
        if manifest.is_dumped:
            _create_namespace(store, manifest)
        elif manifest not in defining:
            _create(store, manifest, report)
    _drop_missing_owners(store, ordered, report)
    _note_missing(store, frozenset(nodes), report)
    return report


def _defines(manifest: Manifest) -> bool:
    return manifest.kind == FIRST_KINDS[0]


def _rank(kind: str) -> int:
    if kind in FIRST_KINDS:
        return FIRST_KINDS.index(kind)
    return len(FIRST_KINDS) + (kind == _LAST_KIND)


def _take_in(store: Store, manifest: Manifest, report: LoadReport) -> None:
    """Load an object as it was in its cluster."""
    resource = _resource(store, manifest, report)
    if resource is not None:
        with _outcome(manifest, report):
            store.load(resource, _located(resource, manifest), handed_over=True)


def _create(store: Store, manifest: Manifest, report: LoadReport) -> None:
    """Create an object, with the status it came with."""
    resource = _resource(store, manifest, report)
    if resource is None:
        return
    body = _located(resource, manifest)
    _create_namespace(store, manifest)
    with _outcome(manifest, report):
        if resource == PODS and store.find(NAMESPACES, "", body["metadata"]["namespace"]) is not None:
            create_default_account(store, body["metadata"]["namespace"])
        created = store.create(resource, body)
        dropped = dropped_fields(resource, body, created)
        status = body.get("status")
        if resource.status and isinstance(status, dict) and status:
            updated = store.update(resource, {**created, "status": status}, subresource="status")
            dropped += dropped_fields(resource, body, updated, status=True)
        for problem in dropped:
            report.missing.setdefault(problem, []).append(_name(manifest))


def _resource(store: Store, manifest: Manifest, report: LoadReport) -> Resource | None:
    """The resource of an object; without one it is skipped."""
    if not manifest.api_version or not manifest.kind:
        report.skip("expected apiVersion and kind", manifest.place)
        return None
    if not isinstance(manifest.body.get("metadata"), dict):
        report.skip("metadata: expected a map", manifest.place)
        return None
    resource = store.catalogue.of_kind(manifest.api_version, manifest.kind)
    if resource is None:
        hint = " without --gangs" if Catalogue().of_kind(manifest.api_version, manifest.kind) else ""
        report.skip(f"{manifest.api_version} {manifest.kind} is not served here{hint}", _name(manifest))
        return None
    return stored_as(resource)


def _located(resource: Resource, manifest: Manifest) -> Json:
    """The body in the form that it is stored in, in the default namespace if it says nothing of one."""
    body = manifest.body
    if manifest.api_version != resource.api_version:
        served = _SERVED.of_kind(manifest.api_version, manifest.kind)
        body = body if served is None else from_served(served, body)
    if not resource.namespaced or manifest.metadata.get("namespace"):
        return body
    return {**body, "metadata": {**body["metadata"], "namespace": "default"}}


_SERVED: Final = Catalogue()
"""The built-in kinds, in all their versions."""


@contextmanager
def _outcome(manifest: Manifest, report: LoadReport) -> Iterator[None]:
    """Counts what becomes of an object."""
    try:
        yield
    except ApiError as error:
        if error.is_already_exists:
            report.existing += 1
        else:
            report.skip(error.message, _name(manifest))
    else:
        report.loaded += 1


def _name(manifest: Manifest) -> str:
    metadata = manifest.metadata
    name, namespace = metadata.get("name") or metadata.get("generateName"), metadata.get("namespace")
    if not name:
        return manifest.place
    return f"{manifest.kind} {namespace}/{name}" if namespace else f"{manifest.kind} {name}"


def _create_namespace(store: Store, manifest: Manifest) -> None:
    namespace = manifest.metadata.get("namespace")
    if isinstance(namespace, str) and namespace and store.find(NAMESPACES, "", namespace) is None:
        with suppress(ApiError):  # a name that is none: then its objects are refused as well
            store.create(NAMESPACES, {"metadata": {"name": namespace}})


# Missing objects


def _drop_missing_owners(store: Store, manifests: Iterable[Manifest], report: LoadReport) -> None:
    """Let objects stay whose owner was not loaded, for the garbage collector would delete them."""
    for manifest in manifests:
        owners = manifest.metadata.get("ownerReferences")
        resource = store.catalogue.of_kind(manifest.api_version, manifest.kind)
        if not owners or not manifest.is_dumped or resource is None:
            continue
        resource = stored_as(resource)
        namespace, name = manifest.metadata.get("namespace", ""), manifest.metadata["name"]
        loaded = store.find(resource, namespace, name)
        if loaded is None:
            continue
        kept = [owner for owner in owners if _owner_exists(store, owner, namespace)]
        if len(kept) < len(owners):
            patch = {"metadata": {"ownerReferences": kept or None}}
            store.patch(resource, namespace, name, patch, PatchType.MERGE)
            report.missing.setdefault(_NO_OWNER, []).append(_name(manifest))


def _owner_exists(store: Store, owner: Json, namespace: str) -> bool:
    """True if an owner exists; one of a kind that is not served counts as existing."""
    resource = store.catalogue.of_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
    if resource is None:
        return True
    found = store.find(resource, namespace if resource.namespaced else "", str(owner.get("name")))
    return found is not None and found["metadata"].get("uid") == owner.get("uid")


def _note_missing(store: Store, nodes: frozenset[str], report: LoadReport) -> None:
    for pod in store.all(PODS):
        node = pod["spec"].get("nodeName")
        if node and node not in nodes and store.find(NODES, "", node) is None:
            report.missing.setdefault(_NO_NODE, []).append(f"Pod {_key(pod)}")
    for claim in store.all(PERSISTENT_VOLUME_CLAIMS):
        volume = claim["spec"].get("volumeName")
        if volume and store.find(PERSISTENT_VOLUMES, "", volume) is None:
            report.missing.setdefault(_NO_VOLUME, []).append(f"PersistentVolumeClaim {_key(claim)}")


def _key(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
