"""The rules of create, update and delete that hold for every resource, as functions from object to object.

These are the fields the server sets on a new object, immutable fields, preconditions, and the effects of a
deletion: pods are given time to end; every other kind is removed at once. An object with finalizers stays
until they are gone, marked as being deleted. A namespace has such finalizers in its spec too, for its
contents. Additional rules of a cluster are its admission.
"""

import random
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stowplan.api import status
from stowplan.api.catalogue import (
    API_SERVICES,
    CERTIFICATE_SIGNING_REQUESTS,
    CSI_DRIVERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.fielderrors import FieldError, forbidden, invalid
from stowplan.api.meta import seconds_of, timestamp
from stowplan.api.requests import DeleteOptions, Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.customresources.conditions import (
    initial_status,
    marked_for_deletion,
    with_stored_version,
)
from stowplan.localcluster.store.objects import Key, pod_condition, with_metadata
from stowplan.localcluster.store.writer import WriteContext
from stowplan.runtime.clock import Clock

if TYPE_CHECKING:
    from stowplan.localcluster.store.definitions import Definitions
    from stowplan.localcluster.store.store import Store


class Lookup(Protocol):
    """Lookup of other objects for rules."""

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def all(self, resource: Resource) -> list[Json]: ...

    def within(self, resource: Resource, namespace: str) -> list[Json]: ...

    def rewrite(self, resource: Resource, old: Json, new: Json) -> None:
        """Replace an object as the server itself does, without admission."""

    def stamp(self) -> str:
        """The current time as objects carry it."""
        ...

    @property
    def definitions(self) -> "Definitions":
        """Definitions of custom resources."""
        ...


Commit = Callable[[], None]


class Admission(Protocol):
    """Sets defaults and validates objects before they are written; a refusal is an `ApiError`.

    The object to write belongs to the store alone and may be changed in place (but not if it is for a
    subresource); the old one must not be. `by` is the writer, and tells if it is a dry run. The returned
    function, if any, is called just before the object is written: it changes other objects, such as the
    quotas that are charged. If admission needs an answer from elsewhere it raises `UnansweredError` and is
    called again, with the same request. `is_extended` is true if objects of the cluster configure more
    admission. `stamp` is the time as objects carry it.
    """

    def connect(self, store: "Store") -> None:
        """Follow the objects of a store that configure admission; again when it has been restored."""
        ...

    def is_extended(self) -> bool: ...

    def set_defaults(self, resource: Resource, obj: Json, stamp: str) -> None: ...

    def admit_create(
        self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext, *, generated: bool = False
    ) -> Commit | None:
        """`generated`: the server gave the object its name, and admission may give it another one."""
        ...

    def admit_loaded(self, resource: Resource, obj: Json) -> None:
        """An object of another cluster is taken in as it is."""
        ...

    def admit_update(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> Commit | None: ...

    def admit_delete(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> None: ...

    def admit_part(
        self,
        lookup: Lookup,
        operation: str,
        resource: Resource,
        subresource: str,
        kind: Resource,
        obj: Json,
        by: WriteContext,
    ) -> None:
        """Admit something that is done to an object by a subresource with a kind of its own."""
        ...


_IMMUTABLE: Final = ("name", "namespace", "uid")

SERVER_METADATA: Final = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    )
)
"""Metadata that only the server sets, also when an object is created."""

_NOT_UPDATABLE: Final = SERVER_METADATA.union(_IMMUTABLE)
"""Metadata that an update cannot set."""

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_MAX_BASE: Final = 63 - _SUFFIX

_VERSION_4: Final = 0x4 << 76 | 0x8 << 60
"""Version and variant bits of a random UUID."""

_RANDOM_BITS: Final = (1 << 128) - 1 - (0xF << 76 | 0xC << 60)
"""The bits that are left to chance."""


class MetadataFactory:
    """Hands out uids, name suffixes and timestamps, from a given source of chance and a given clock."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self.latest = -inf
        """When the last new metadata was made."""
        self._stamp = ""
        self._since = self._next_stamp = -inf

    def reseed_after(self, version: int) -> None:
        """Give out other uids and names than the process that ended at a version, also with the same seed."""
        self._rng.seed(f"{self._rng.getrandbits(64)}/{version}")

    def now(self) -> float:
        return self._clock.now()

    def stamp(self) -> str:
        """The current time as objects carry it, written out once a second."""
        now = self._clock.now()
        return self._stamp if self._since <= now < self._next_stamp else self._stamp_of(now)

    def _stamp_of(self, now: float) -> str:
        self._stamp = timestamp(now)
        self._since = now // 1
        self._next_stamp = self._since + 1
        return self._stamp

    def new_metadata(self, resource: Resource, metadata: Json, key: Key) -> Json:
        """The metadata of a new object: what its creator may say, and what is the server's to say.

        Its uid is a random (version 4) UUID.
        """
        created = {**metadata}
        for field in SERVER_METADATA.intersection(metadata):
            del created[field]
        namespace, created["name"] = key
        if namespace:
            created["namespace"] = namespace
        else:
            created.pop("namespace", None)
        digits = (self._rng.getrandbits(128) & _RANDOM_BITS | _VERSION_4).to_bytes(16).hex("-", 6)
        created["uid"] = f"{digits[:13]}-{digits[13:17]}-{digits[17:]}"
        if resource.generation and resource != CSI_DRIVERS:
            created["generation"] = 1
        self.latest = now = self._clock.now()
        created["creationTimestamp"] = (
            self._stamp if self._since <= now < self._next_stamp else self._stamp_of(now)
        )
        return created

    def name(self, base: str) -> str:
        """A name that begins with `base`, cut to what names may be long, and ends by chance."""
        return base[:_MAX_BASE] + "".join(self._rng.choices(_LETTERS, k=_SUFFIX))


_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_LOCAL: Final = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
"""The condition of an APIService that the server itself serves."""

_PHASES: Final = {
    PODS: "Pending",
    NAMESPACES: "Active",
    PERSISTENT_VOLUMES: "Pending",
    PERSISTENT_VOLUME_CLAIMS: "Pending",
}


def set_initial_status(resource: Resource, obj: Json, stamp: str) -> None:
    """Give a new object the status that is the server's to give.

    Only for kinds with a status subresource: others keep what they came with. So do nodes, which register
    themselves with their capacity.
    """
    if resource == NODES:
        return
    obj.pop("status", None)
    if resource == CUSTOM_RESOURCE_DEFINITIONS:
        obj["status"] = initial_status(obj)
        return
    if resource == API_SERVICES and not (obj.get("spec") or {}).get("service"):
        obj["status"] = {"conditions": [{**_LOCAL, "lastTransitionTime": stamp}]}
        return
    phase = _PHASES.get(resource)
    if phase is None:
        return
    obj["status"] = {"phase": phase}
    if resource == PODS and obj.get("spec", {}).get("schedulingGates"):
        held = pod_condition("PodScheduled", "False", stamp, reason="SchedulingGated", message=_GATED)
        obj["status"]["conditions"] = [held]


def check_uid(resource: Resource, obj: Json, uid: str | None) -> None:
    """Raises `ApiError` 409 if a writer means another object of the same name."""
    metadata = obj["metadata"]
    if uid and uid != metadata["uid"]:
        raise other_uid(resource, metadata.get("namespace", ""), metadata["name"], uid, metadata["uid"])


def other_uid(resource: Resource, namespace: str, name: str, expected: str, found: str) -> status.ApiError:
    key = "/".join(part for part in ("/registry", resource.plural, namespace, name) if part)
    return status.conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {expected}, UID in object meta: {found}",
    )


def no_such_uid(resource: Resource, name: str, uid: str) -> status.ApiError:
    """An object that is to be created, but whose writer means one that exists."""
    return status.conflict(
        resource,
        name,
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
    )


def check_version(resource: Resource, obj: Json, version: str | None) -> None:
    """Raises `ApiError` 409 if the object has changed since the writer read it."""
    metadata = obj["metadata"]
    if version and version != metadata["resourceVersion"]:
        raise status.conflict(resource, metadata["name"], status.MODIFIED_MEANWHILE)


def check_deletion(resource: Resource, obj: Json, options: DeleteOptions) -> None:
    """Raises `ApiError` 409 if the object is not the one that was to be deleted."""
    metadata = obj["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid is not None and options.uid != uid:
        raise _failed_precondition(
            resource,
            name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != version:
        raise _failed_precondition(
            resource,
            name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified",
        )


def _failed_precondition(resource: Resource, name: str, why: str) -> status.ApiError:
    """Unlike other conflicts, one of a deletion names the kind and not the resource."""
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    return status.ApiError(
        409,
        "Conflict",
        f"Operation cannot be fulfilled on {qualified} {quote(name)}: {why}",
        {field: value for field, value in details.items() if value},
    )


def prepared_update(resource: Resource, old: Json, new: Json, subresource: str) -> Json:
    """The object to write when `new` is requested in place of `old`, with the version of `old`.

    Raises `ApiError` 422 for changes of immutable fields.
    """
    check_metadata(resource, old, new["metadata"])
    if subresource == "finalize":
        return _with_section(old, "spec", new)
    if subresource == "status":
        kept = _with_section(old, "status", new)
        same = new["metadata"] is old["metadata"]
        return kept if same else {**kept, "metadata": _metadata_with_status(resource, old, new)}
    if subresource == APPROVAL:
        conditions = (new.get("status") or {}).get("conditions") or []
        metadata = _metadata_with_status(resource, old, new)
        shown = {**(old.get("status") or {}), "conditions": conditions}
        return {**old, "metadata": metadata, "status": shown}
    if subresource in POD_PARTS:
        metadata = old["metadata"]
        if old.get("spec") != new.get("spec"):
            metadata = {**metadata, "generation": metadata.get("generation", 0) + 1}
        return {**_with_section(old, "spec", new), "metadata": metadata}
    kept = _with_section(new, "status", old) if resource.status else new
    if resource == CUSTOM_RESOURCE_DEFINITIONS:
        kept = with_stored_version(kept)
    metadata = _updated_metadata(old, new)
    if resource.generation and _spec_changed(resource, old, kept):
        metadata["generation"] = metadata.get("generation", 0) + 1
    return {**kept, "metadata": metadata}


SCALED: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
"""Kinds that make a number of pods."""

APPROVAL: Final = "approval"
"""The subresource of certificate signing requests by which they are approved or denied."""

POD_PARTS: Final = ("ephemeralcontainers", "resize")
"""Subresources of pods by which alone some fields of a pod can be changed."""

_OWN_METADATA: Final = frozenset(
    (
        "compositepodgroups",
        "csinodes",
        "devicetaintrules",
        "podcertificaterequests",
        "podgroups",
        "resourceclaims",
        "servicecidrs",
        "validatingadmissionpolicies",
        "volumeattachments",
    )
)
"""Kinds whose metadata is not changed with their status."""


def is_part(resource: Resource, subresource: str) -> bool:
    """True if a subresource is read and written like the object it is a part of."""
    if subresource == "status":
        return resource.status
    if subresource == APPROVAL:
        return resource == CERTIFICATE_SIGNING_REQUESTS
    return resource == PODS and subresource in POD_PARTS


def has_scale(resource: Resource) -> bool:
    """True if a kind has the subresource `scale`."""
    return resource in SCALED or resource.scaled


def _metadata_with_status(resource: Resource, old: Json, new: Json) -> Json:
    """The metadata after a write of the status, which may change labels and annotations of most kinds."""
    before, given = old["metadata"], new["metadata"]
    if resource.custom or resource.defined or resource.plural in _OWN_METADATA:
        return dict(before)
    kept = {*_NOT_UPDATABLE}
    if resource == PODS:
        kept.add("ownerReferences")
    elif resource == DEPLOYMENTS:
        kept.add("labels")
    metadata = {field: value for field, value in before.items() if field in kept}
    return metadata | {field: value for field, value in given.items() if field not in kept}


def _updated_metadata(old: Json, new: Json) -> Json:
    metadata = {field: value for field, value in old["metadata"].items() if field in _NOT_UPDATABLE}
    metadata |= {field: value for field, value in new["metadata"].items() if field not in _NOT_UPDATABLE}
    return metadata


def _with_section(obj: Json, section: str, source: Json) -> Json:
    """The object with one section taken from another, absent if it is absent there."""
    result = {**obj, section: source.get(section)}
    if result[section] is None:
        del result[section]
    return result


def _spec_changed(resource: Resource, old: Json, new: Json) -> bool:
    """True if more has changed than metadata and status."""
    if resource == ENDPOINT_SLICES and old["metadata"].get("labels") != new["metadata"].get("labels"):
        return True
    if resource == PRIORITY_CLASSES:
        return False
    if resource == DEPLOYMENTS and old["metadata"].get("annotations") != new["metadata"].get("annotations"):
        return True
    if not resource.custom and ("spec" in old or "spec" in new):
        return bool(old.get("spec") != new.get("spec"))
    described = ("metadata", "status") if resource.status else ("metadata",)
    return any(old.get(part) != new.get(part) for part in old.keys() | new.keys() if part not in described)


def check_metadata(resource: Resource, old: Json, metadata: Json) -> None:
    """Raises `ApiError` 422 with each cause twice: for any object, and for one of its kind."""
    before = old["metadata"]
    errors: list[FieldError] = []
    if "deletionTimestamp" in before:
        added = sorted(set(metadata.get("finalizers", ())) - set(before.get("finalizers", ())))
        if added:
            shown = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(forbidden("metadata.finalizers", text + shown))
    for field in _IMMUTABLE:
        given = metadata.get(field)
        if given and given != before.get(field):
            errors.append(invalid(f"metadata.{field}", given, "field is immutable"))
    if errors:
        raise status.invalid(resource, before["name"], errors * 2)


_DEFAULT_PROPAGATION: Final = {JOBS: "Orphan", REPLICATION_CONTROLLERS: "Orphan"}
"""Kinds whose dependents stay if a request to delete does not say what becomes of them."""

_PROPAGATION: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_ENDED: Final = ("Succeeded", "Failed")


class Deletion(NamedTuple):
    """The object as it is to be written (itself if it stays as it is), and whether to remove it then."""

    marked: Json
    remove: bool


def deletion_of(resource: Resource, obj: Json, options: DeleteOptions, now: float) -> Deletion:
    """Effect of deleting an object. Raises `ApiError` 409 if another object is meant."""
    check_deletion(resource, obj, options)
    propagation = options.propagation or _DEFAULT_PROPAGATION.get(resource, "")
    obj = _with_propagation_finalizer(obj, propagation)
    held = bool(obj["metadata"].get("finalizers"))
    if resource == CUSTOM_RESOURCE_DEFINITIONS and "deletionTimestamp" not in obj["metadata"]:
        return Deletion(marked_for_deletion(obj, timestamp(now)), remove=False)
    if resource == NAMESPACES and _contents_held(obj):
        return Deletion(_terminating(obj, now), remove=False)
    if resource == PODS:
        grace = _pod_grace(obj, options, now)
        if grace is not None:
            marked, seconds = grace
            return Deletion(marked, remove=not held and seconds == 0)
    return Deletion(_mark(obj, now), remove=False) if held else Deletion(obj, remove=True)


def _with_propagation_finalizer(obj: Json, propagation: str) -> Json:
    """The object with the finalizer that holds it until owned objects are deleted or orphaned, if any."""
    finalizer = _PROPAGATION.get(propagation)
    held = obj["metadata"].get("finalizers") or []
    if finalizer is None or finalizer in held or "deletionTimestamp" in obj["metadata"]:
        return obj
    return with_metadata(obj, finalizers=[*held, finalizer])


def ends_with_update(obj: Json, updated: Json) -> bool:
    """True if an update takes the last finalizer of an object that only waited for that."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or updated["metadata"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds") and not _contents_held(updated)


def _contents_held(obj: Json) -> bool:
    return obj["kind"] == NAMESPACES.kind and bool(obj.get("spec", {}).get("finalizers"))


def _terminating(namespace: Json, now: float) -> Json:
    """A namespace as being deleted. It is emptied first, so there is no grace period."""
    if "deletionTimestamp" not in namespace["metadata"]:
        namespace = with_metadata(namespace, deletionTimestamp=timestamp(now))
    if namespace.get("status", {}).get("phase") == "Terminating":
        return namespace
    return {**namespace, "status": {**namespace.get("status", {}), "phase": "Terminating"}}


def _pod_grace(pod: Json, options: DeleteOptions, now: float) -> tuple[Json, int] | None:
    """The pod with its time to end, and that time; None if it has had its time already."""
    asked = options.grace_period_seconds
    if asked is not None and asked < 0:
        asked = 1
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        seconds = _grace_seconds(pod, asked)
        marked = _with_deadline(pod, now + seconds, seconds)
        return _next_generation(marked), seconds
    current = metadata.get("deletionGracePeriodSeconds")
    if not current:
        return None
    if asked is None or asked >= current:
        return pod, current
    begun = seconds_of(metadata["deletionTimestamp"]) - current
    if begun + asked < now:
        return _with_deadline(pod, now, min(asked, 1)), min(asked, 1)
    return _with_deadline(pod, begun + asked, asked), asked


def _grace_seconds(pod: Json, asked: int | None) -> int:
    """How long a pod may take to end: one that never ran or has ended needs no time."""
    spec = pod.get("spec", {})
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in _ENDED:
        return 0
    seconds = spec.get("terminationGracePeriodSeconds") if asked is None else asked
    if not isinstance(seconds, int):
        return 0
    return 1 if seconds < 0 else seconds


def _mark(obj: Json, now: float) -> Json:
    """The object as being deleted, for those who hold it by a finalizer to see."""
    metadata = obj["metadata"]
    since = metadata.get("deletionTimestamp")
    if since is None:
        return _next_generation(_with_deadline(obj, now, 0))
    if seconds_of(since) > now:
        return _with_deadline(obj, now, 0)
    return obj if metadata.get("deletionGracePeriodSeconds") == 0 else _with_grace(obj, 0)


def _with_deadline(obj: Json, deadline: float, seconds: int) -> Json:
    return with_metadata(obj, deletionTimestamp=timestamp(deadline), deletionGracePeriodSeconds=seconds)


def _with_grace(obj: Json, seconds: int) -> Json:
    return with_metadata(obj, deletionGracePeriodSeconds=seconds)


def _next_generation(obj: Json) -> Json:
    generation = obj["metadata"].get("generation")
    return with_metadata(obj, generation=generation + 1) if generation else obj
