"""Locks: one object that all candidates read and write, each write based on the state that was read."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from stowplan.api.catalogue import LEASES, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.election.record import (
    ANNOTATION,
    Record,
    UnreadableRecordError,
    annotation_text,
    lease_spec,
    of_annotation,
    of_lease_spec,
)

FAILURES = (ApiError, UnreadableRecordError)
"""All that can go wrong with a lock."""


class Seen(NamedTuple):
    """A record, and the text that shows whether it has changed."""

    record: Record
    raw: str


class Lock(Protocol):
    """Something only one candidate at a time can hold.

    `get` fails with `ApiError` 404 if it does not exist; `update` is refused if anybody wrote since it was
    last read or written here.
    """

    @property
    def identity(self) -> str:
        """Who we are."""
        ...

    @property
    def description(self) -> str:
        """`namespace/name`, for the log."""
        ...

    async def get(self) -> Seen: ...

    async def create(self, record: Record) -> None: ...

    async def update(self, record: Record) -> None: ...

    def references(self) -> tuple[Json, ...]:
        """The objects it consists of, in their last known state, as events refer to them."""
        ...


class LeaseLock:
    """A coordination.k8s.io/v1 Lease. `labels` are put on it by whoever holds it."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._labels = dict(labels or {})
        self.identity = identity
        self.known: Json | None = None

    @property
    def description(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def get(self) -> Seen:
        found = await self._client.get(LEASES, self._namespace, self._name)
        spec = _mapping(found, "spec")
        record = of_lease_spec(spec)
        self.known = found
        return Seen(record, json.dumps(spec, sort_keys=True))

    async def create(self, record: Record) -> None:
        metadata: Json = {"name": self._name, "namespace": self._namespace}
        if self._labels:
            metadata["labels"] = self._labels
        body = _body(LEASES, metadata, spec=lease_spec(record))
        self.known = await self._client.create(LEASES, body, namespace=self._namespace)

    async def update(self, record: Record) -> None:
        known = _known(self.known, "lease")
        metadata = known["metadata"]
        if self._labels:
            metadata = {**metadata, "labels": {**_mapping(metadata, "labels"), **self._labels}}
        body = {**known, **_body(LEASES, metadata, spec=lease_spec(record))}
        self.known = await self._client.update(LEASES, body)

    def references(self) -> tuple[Json, ...]:
        return _references(LEASES, self.known)


class AnnotationLock:
    """An object of any kind with the record in an annotation: what clients used before there were Leases."""

    def __init__(self, client: Client, resource: Resource, namespace: str, name: str, identity: str) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self.known: Json | None = None

    @property
    def description(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def get(self) -> Seen:
        found = await self._client.get(self._resource, self._namespace, self._name)
        text = _mapping(found["metadata"], "annotations").get(ANNOTATION)
        record = Record() if text is None else of_annotation(text)
        self.known = found
        return Seen(record, text or "")

    async def create(self, record: Record) -> None:
        metadata = {
            "name": self._name,
            "namespace": self._namespace,
            "annotations": {ANNOTATION: annotation_text(record)},
        }
        body = _body(self._resource, metadata)
        self.known = await self._client.create(self._resource, body, namespace=self._namespace)

    async def update(self, record: Record) -> None:
        known = _known(self.known, self._resource.kind.lower())
        metadata = known["metadata"]
        annotations = {**_mapping(metadata, "annotations"), ANNOTATION: annotation_text(record)}
        body = {**known, **_body(self._resource, {**metadata, "annotations": annotations})}
        self.known = await self._client.update(self._resource, body)

    def references(self) -> tuple[Json, ...]:
        return _references(self._resource, self.known)


def _body(resource: Resource, metadata: Json, **parts: Json) -> Json:
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, **parts}


def _known(known: Json | None, what: str) -> Json:
    if known is None:
        raise UnreadableRecordError(f"{what} not initialized, call get or create first")
    return known


def _mapping(data: Json, field: str) -> dict[str, Any]:
    value = data.get(field) or {}
    if not isinstance(value, dict):
        raise UnreadableRecordError(f"{field}: expected a mapping, got {value!r}")
    return value


def _references(resource: Resource, known: Json | None) -> tuple[Json, ...]:
    if known is None:
        return ()
    metadata = known["metadata"]
    reference = {
        "kind": resource.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "apiVersion": resource.api_version,
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return (reference,)
