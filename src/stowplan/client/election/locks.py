"""Resource locks: objects that all candidates read and write, each write based on the state read before.

`lock_for` makes the lock that a configuration asks for.
"""

import json
import random
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from stowplan.api.catalogue import CONFIG_MAPS, ENDPOINTS, LEASES, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.client.election.record import (
    ANNOTATION,
    ElectionError,
    Record,
    UnreadableRecordError,
    annotation_text,
    lease_spec,
    of_annotation,
    of_lease_spec,
)

LOCK_ERRORS = (ApiError, UnreadableRecordError)
"""All that can go wrong with a lock."""


class Seen(NamedTuple):
    """A record, and the text that shows whether it has changed."""

    record: Record
    raw: str


class Lock(Protocol):
    """A lock that only one candidate at a time can hold.

    `get` fails with `ApiError` 404 if it does not exist; `update` is refused after another write since it was
    last read or written here.
    """

    @property
    def identity(self) -> str:
        """Our identity."""
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
    """A coordination.k8s.io/v1 Lease. Its holder puts `labels` on it."""

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


# Two locks held together


UNKNOWN_LEADER: Final = "leaderelection.k8s.io/unknown"
"""Holder of the pair when the two locks are held by different candidates."""


class MultiLock:
    """Held when both are. A candidate that uses only one of the two is kept out, and keeps us out, by that
    one.

    The second lock is read before it is written, as old clients do; but if it changed hands since the last
    read, it is left alone, also by a leader that was suspended for too long.
    """

    def __init__(self, primary: Lock, secondary: Lock) -> None:
        self._primary = primary
        self._secondary = secondary
        self._primary_is_ours = False
        self._secondary_seen: Seen | None = None

    @property
    def identity(self) -> str:
        return self._primary.identity

    @property
    def description(self) -> str:
        return self._primary.description

    async def get(self) -> Seen:
        self._primary_is_ours = False
        primary = await self._primary.get()
        self._primary_is_ours = primary.record.holder == self.identity
        self._secondary_seen = None
        try:
            secondary = await self._secondary.get()
        except ApiError as error:
            if error.is_not_found and not self._primary_is_ours:
                return primary
            raise
        self._secondary_seen = secondary
        raw = f"{primary.raw},{secondary.raw}"
        if primary.record.holder == secondary.record.holder:
            return Seen(primary.record, raw)
        return Seen(
            Record(
                UNKNOWN_LEADER,
                max(primary.record.seconds, secondary.record.seconds),
                primary.record.acquired,
                primary.record.renewed,
                primary.record.transitions,
            ),
            raw,
        )

    async def create(self, record: Record) -> None:
        """Create what is missing.

        The first lock may be there already only if it is ours. Then it is renewed: who knows only that one
        must not think that we are gone.
        """
        try:
            await self._primary.create(record)
        except ApiError as error:
            if not error.is_already_exists or not self._primary_is_ours:
                raise
            await self._primary.update(record)
        await self._secondary.create(record)

    async def update(self, record: Record) -> None:
        await self._primary.update(record)
        try:
            found = await self._secondary.get()
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._secondary.create(record)
        else:
            self._refuse_if_taken(found)
            await self._secondary.update(record)
        self._secondary_seen = None

    def references(self) -> tuple[Json, ...]:
        return self._primary.references() + self._secondary.references()

    def _refuse_if_taken(self, found: Seen) -> None:
        holder = found.record.holder
        if holder in ("", self.identity) or found == self._secondary_seen:
            return
        raise ApiError(409, "Conflict", f"lock {self._secondary.description} is held by {holder!r} now")


# The lock of a configuration


LEASES_LOCK: Final = "leases"
LOCK_KINDS: Final = (LEASES_LOCK, "endpoints", "configmaps", "endpointsleases", "configmapsleases")
"""Values of `resourceLock`: today's Lease, the locks before it, and each combined with a Lease."""

_OLD: Final = {"endpoints": ENDPOINTS, "configmaps": CONFIG_MAPS}


def identity(hostname: str, rng: random.Random) -> str:
    """Our identity among the candidates. Two processes of one host have different ones.

    `rng` has to be different in every process, as `random.SystemRandom` is.
    """
    return f"{hostname}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


def lock_for(kind: str, client: Client, namespace: str, name: str, identity: str) -> Lock:
    """A lock of one of `LOCK_KINDS`. Raises `ElectionError` for another kind."""
    if not identity:
        raise ElectionError("couldn't create leader elector: Lock identity is empty")
    lease = LeaseLock(client, namespace, name, identity)
    if kind == LEASES_LOCK:
        return lease
    resource = _OLD.get(kind.removesuffix(LEASES_LOCK))
    if resource is None:
        expected = ", ".join(LOCK_KINDS)
        raise ElectionError(
            f"couldn't create resource lock: Invalid lock-type {kind} (expected one of {expected})"
        )
    old = AnnotationLock(client, resource, namespace, name, identity)
    return MultiLock(old, lease) if kind.endswith(LEASES_LOCK) else old
