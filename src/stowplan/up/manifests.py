"""Manifests to start from: as people write them, and as `kubectl get -o yaml` prints those of a cluster."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.store import Store

FIRST_KINDS: Final = (
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "CSIDriver",
    "Node",
    "CSINode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
    "Service",
)
"""Kinds that others may need, in the order in which they are created; the rest follows, pods come last."""

_LAST_KIND: Final = "Pod"
_SERVER_FIELDS: Final = ("resourceVersion", "uid", "selfLink", "managedFields", "generation")


class LoadError(ValueError):
    """A file that cannot be loaded; the message is one line that names it and what was expected."""


class Manifest(NamedTuple):
    """An object from a file, and where it stood."""

    place: str
    resource: Resource
    body: Json


def read_manifests(paths: Sequence[Path]) -> list[Manifest]:
    """Read manifests, in the order in which they are to be created. Raises LoadError."""
    found = [loaded for path in paths for loaded in _read_file(path)]
    return sorted(found, key=lambda loaded: _rank(loaded.resource.kind))


def _rank(kind: str) -> int:
    if kind in FIRST_KINDS:
        return FIRST_KINDS.index(kind)
    return len(FIRST_KINDS) + (kind == _LAST_KIND)


def _read_file(path: Path) -> Iterator[Manifest]:
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader))
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: not YAML or JSON: {' '.join(str(error).split())}") from None
    catalogue = Catalogue()
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _objects(f"{path}: document {number}", document, catalogue)


def _objects(place: str, document: Any, catalogue: Catalogue) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise LoadError(f"{place}: expected an object, got {type(document).__name__}")
    kind, version = document.get("kind"), document.get("apiVersion")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"]):
            if isinstance(item, dict) and kind != "List":
                item = {"apiVersion": version, "kind": kind.removesuffix("List"), **item}
            yield from _objects(f"{place}: items[{number}]", item, catalogue)
        return
    if not isinstance(kind, str) or not isinstance(version, str):
        raise LoadError(f"{place}: expected apiVersion and kind")
    resource = catalogue.of_kind(version, kind)
    if resource is None:
        raise LoadError(f"{place}: kind: {version} {kind} is not served here")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise LoadError(f"{place}: metadata: expected a map")
    if resource.namespaced and not metadata.get("namespace"):
        metadata = {**metadata, "namespace": "default"}
    yield Manifest(place, resource, {**document, "metadata": metadata})


def create_manifests(store: Store, loaded: Sequence[Manifest]) -> None:
    """Create objects with the status they came with. What exists already stays. Raises LoadError."""
    for place, resource, body in loaded:
        metadata = {field: value for field, value in body["metadata"].items() if field not in _SERVER_FIELDS}
        if "deletionTimestamp" in metadata:
            continue
        try:
            created = store.create(resource, {**body, "metadata": metadata})
            _restore_status(store, resource, created, body.get("status"))
        except ApiError as error:
            if not error.is_already_exists:
                raise LoadError(f"{place}: {error.message}") from None


def _restore_status(store: Store, resource: Resource, created: Json, status: Any) -> None:
    if resource.status and isinstance(status, dict) and status:
        store.update(resource, {**created, "status": status}, subresource="status")


class _Loader(yaml.SafeLoader):
    """YAML in which times stay the text that they are."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
