"""Manifests: workloads and what stands beside them, with the defaults and the validation of the API server.

A mistake is one line with file, line and field. What depends on the cluster (limits, classes, quotas) comes
later, when the objects are created in one: `creation`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.coscheduling import POD_GROUPS
from stowplan.api.decode import KINDS, DecodeError, convert_any
from stowplan.api.meta import Object
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.strict import struct_of
from stowplan.simulate.creation.admission import AdmissionStore
from stowplan.simulate.creation.workloads import RESOURCES, Workload
from stowplan.simulate.snapshot.places import Place
from stowplan.simulate.snapshot.sources import documents, documents_of_text

_POD_GROUP: Final = "PodGroup"


class Document(NamedTuple):
    """An object of a manifest that makes no pods."""

    resource: Resource | None
    """None: a kind that the API server has no rules for."""
    body: Json
    place: Place

    def typed(self) -> Object:
        """The object as the scheduler reads it. Raises SnapshotError."""
        try:
            obj = convert_any(self.body)
        except DecodeError as error:
            raise self.place.says(str(error)) from None
        assert obj is not None
        return obj


@dataclass(slots=True)
class Manifests:
    """Contents of files: workloads, other objects that matter to the scheduler, and what was left out."""

    workloads: list[Workload] = field(default_factory=list)
    others: list[Document] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def objects(self) -> list[Object]:
        """Objects that make no pods, as the scheduler reads them."""
        return [one.typed() for one in self.others]

    def extend(self, other: "Manifests") -> None:
        """Add what other files have."""
        self.workloads += other.workloads
        self.others += other.others
        self.notes += other.notes


class ManifestReader:
    """Reads objects into manifests. Objects without a namespace are of `namespace`."""

    def __init__(self, namespace: str = "default") -> None:
        self._namespace = namespace
        self._rules = AdmissionStore(plugins=False)
        self.found = Manifests()

    def take_in(self, document: Json, place: Place) -> bool:
        """Read one object; whether it matters to the scheduler. Raises SnapshotError."""
        kind = document["kind"]
        workload = RESOURCES.get(kind)
        if workload is not None:
            body = self._checked(document, workload, place)
            self.found.workloads.append(Workload(kind, body, place))
            return True
        if kind not in KINDS:
            return False
        known = next((one for one in catalogue.BUILT_IN if one.kind == kind), None)
        if kind == _POD_GROUP and document.get("apiVersion") == POD_GROUPS.api_version:
            # A custom resource of scheduler-plugins.
            known = None
            document = {**document, "metadata": {"namespace": self._namespace, **document["metadata"]}}
        elif kind == _POD_GROUP and document.get("apiVersion") == catalogue.POD_GROUPS_V1ALPHA3.api_version:
            document = {**document, "apiVersion": catalogue.POD_GROUPS.api_version}
        body = document if known is None else self._checked(document, known, place)
        one = Document(known, body, place)
        one.typed()
        self.found.others.append(one)
        return True

    def _checked(self, document: Json, resource: Resource, place: Place) -> Json:
        """An object as the API server would store it before it looks at others."""
        type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
        version = document.get("apiVersion")
        if version != resource.api_version:
            raise place.wrong("apiVersion", f"expected {resource.api_version}, got {version!r}")
        if type_ is not None:
            try:
                msgspec.convert(document, struct_of(type_.full_name))
            except msgspec.ValidationError as error:
                raise place.says(str(error)) from None
        body: Json = msgspec.json.decode(msgspec.json.encode(document))
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
            raise place.wrong("metadata.name", "required field is missing")
        metadata.setdefault("name", str(metadata.get("generateName", "")).rstrip("-"))
        if resource.namespaced:
            metadata.setdefault("namespace", self._namespace)
        try:
            return self._rules.admitted(resource, body)
        except ApiError as error:
            raise mistake(error, place) from None


def mistake(error: ApiError, place: Place) -> Exception:
    """A refusal as a mistake at its place in a file."""
    causes = error.details.get("causes") or [{"field": "", "message": error.message}]
    return place.wrong(str(causes[0].get("field", "")), str(causes[0].get("message", "")))


def read_manifests(paths: Sequence[Path], namespace: str = "default") -> Manifests:
    """The objects of manifests. Raises SnapshotError with file, line and field."""
    return _read(chain.from_iterable(map(documents, paths)), namespace)


def manifests_of_text(name: str, text: str, namespace: str = "default") -> Manifests:
    """The objects of a text, which errors call `name`. Raises SnapshotError."""
    return _read(documents_of_text(name, text), namespace)


def _read(objects: Iterable[tuple[Place, Json]], namespace: str) -> Manifests:
    reader = ManifestReader(namespace)
    left_out: dict[str, int] = {}
    for place, document in objects:
        if not reader.take_in(document, place):
            kind = document["kind"]
            left_out[kind] = left_out.get(kind, 0) + 1
    if left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        reader.found.notes.append(f"not needed for scheduling: {kinds}")
    return reader.found
