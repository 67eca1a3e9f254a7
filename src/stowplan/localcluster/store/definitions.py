"""The life of CustomResourceDefinitions: their names, their serving, their deletion.

Everything happens within the write of a definition, so it can be used with the next request after its
creation. There is no controller that has to run: the API server alone does it, as the real one does.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.customresources.conditions import (
    CLEANUP,
    ESTABLISHED,
    NAMES_ACCEPTED,
    TERMINATING,
    condition_of,
    is_true,
    names_after,
    with_crd_condition,
)
from stowplan.localcluster.customresources.defaulting import prune, set_defaults
from stowplan.localcluster.customresources.definitions import NOT_CONVERTED
from stowplan.localcluster.customresources.structural import StructuralSchema
from stowplan.localcluster.customresources.versions import (
    ServedVersion,
    copied,
    is_converted_by_webhook,
    schema_of,
)

if TYPE_CHECKING:
    from stowplan.localcluster.store.store import Store
    from stowplan.localcluster.store.watchcache import StoreChange

_log: Final = logging.getLogger(__name__)
_DELETED: Final = "DELETED"

_IN_PROGRESS: Final = {
    "type": TERMINATING,
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
_COMPLETED: Final = {
    "type": TERMINATING,
    "status": "False",
    "reason": "InstanceDeletionCompleted",
    "message": "removed all instances",
}
_NEVER: Final = {
    "type": TERMINATING,
    "status": "False",
    "reason": "NeverEstablished",
    "message": "resource was never established",
}
_ESTABLISHED: Final = {
    "type": ESTABLISHED,
    "status": "True",
    "reason": "InitialNamesAccepted",
    "message": "the initial names have been accepted",
}
_NOT_ACCEPTED: Final = {
    "type": ESTABLISHED,
    "status": "False",
    "reason": "NotAccepted",
    "message": "not all names are accepted",
}


class Converter(Protocol):
    """Has objects converted by the webhook of their definition."""

    def is_called(self, version: ServedVersion) -> bool: ...

    async def ask(
        self, version: ServedVersion, objects: Sequence[Json], api_version: str, seconds: float
    ) -> list[Json]: ...

    async def convert(
        self, version: ServedVersion, objects: Sequence[Json], api_version: str
    ) -> list[Json]: ...


class Definitions:
    """The custom resources of one store, kept in step with its CustomResourceDefinitions.

    All versions of a resource share one collection of objects, whichever version they were written in.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._served: dict[str, ServedVersion] = {}
        self._by_definition: dict[str, _Served] = {}
        self._emptied: set[str] = set()
        """Definitions whose objects are being deleted, by uid."""
        self.converter: Converter | None = None
        """Calls conversion webhooks, if somebody does."""
        self.revision = 0
        """Counts changes of what is served, for those who remember something about it."""
        self._follow()

    def version_of(self, resource: Resource) -> ServedVersion | None:
        """Definition of a resource, None if it has none."""
        return self._served.get(resource.dotted) if resource.defined else None

    def versions_of(self, resource: Resource) -> list[Resource]:
        """The resource in all versions in which it is served."""
        served = self._by_definition.get(resource.qualified)
        return [] if served is None else [one.resource for one in served.versions]

    def is_converted(self, version: ServedVersion) -> bool:
        """True if a webhook converts the objects of a version, and is called."""
        converter = self.converter
        return version.resource.keeps_versions and converter is not None and converter.is_called(version)

    def conversion_warnings(self, definition: Json) -> list[str]:
        """Warning for the writer of a definition whose conversion webhook is not called."""
        served = self._by_definition.get(definition["metadata"]["name"])
        if served is None or not is_converted_by_webhook(definition) or self.is_converted(served.stored):
            return []
        return [NOT_CONVERTED.format(name=definition["metadata"]["name"])]

    def as_written(self, obj: Json) -> Json:
        """A stored object in the version it was written in, without what other versions have left."""
        resource = self._store.catalogue.of_kind(obj["apiVersion"], obj["kind"])
        version = None if resource is None else self.version_of(resource)
        return obj if version is None else version.shown(obj)

    async def converted(self, resource: Resource, objects: Sequence[Json]) -> list[Json]:
        """Stored objects in a version, for readers: converted by their webhook if that is called.

        Raises `ApiError` 500 if it does not answer as it should.
        """
        version = self.version_of(resource)
        others = [obj for obj in objects if obj["apiVersion"] != resource.api_version]
        if not others or version is None or self.converter is None or not self.is_converted(version):
            return [*objects]
        written = [self.as_written(obj) for obj in others]
        made = iter(await self.converter.convert(version, written, resource.api_version))
        return [
            obj if obj["apiVersion"] == resource.api_version else version.settled(next(made))
            for obj in objects
        ]

    def restored(self) -> None:
        """Serve again what is defined in a store that was restored. Nothing is written yet: see `resume`."""
        store = self._store
        self._served.clear()
        self._by_definition.clear()
        self._emptied.clear()
        for resource in [one for one in store.catalogue if one.defined]:
            store.catalogue.remove(resource)
        self._follow()
        for definition in store.all(CUSTOM_RESOURCE_DEFINITIONS):
            self._serve(definition)

    def resume(self) -> None:
        """Go on with what an earlier process had not finished, now that writes are kept."""
        for definition in self._store.all(CUSTOM_RESOURCE_DEFINITIONS):
            self._settle(definition)

    def _follow(self) -> None:
        if CUSTOM_RESOURCE_DEFINITIONS in self._store.catalogue:
            self._store.watch(CUSTOM_RESOURCE_DEFINITIONS, self._changed)

    def _changed(self, change: "StoreChange") -> None:
        try:
            if change.type == _DELETED:
                self._withdraw(change.object)
                self._reconsider_names(change.object)
                return
            current = self._current(change.object)
            if current is not None:
                self._settle(current)
        except ApiError as error:
            _log.warning("%s: %s", change.object["metadata"]["name"], error)

    def _current(self, definition: Json) -> Json | None:
        """The definition as it is now: what is delivered may be out of date."""
        found = self._store.find(CUSTOM_RESOURCE_DEFINITIONS, "", definition["metadata"]["name"])
        same = found is not None and found["metadata"]["uid"] == definition["metadata"]["uid"]
        return found if same else None

    def _settle(self, definition: Json) -> None:
        """Do the next thing that is to be done about a definition. Its write brings us here again."""
        if self._set_names(definition):
            return
        self._serve(definition)
        metadata = definition["metadata"]
        if "deletionTimestamp" in metadata and CLEANUP in (metadata.get("finalizers") or ()):
            self._clean_up(definition)

    def _set_names(self, definition: Json) -> bool:
        """Accept names and establish the definition; True if that changed it."""
        spec, status = definition.get("spec") or {}, definition.get("status") or {}
        accepted, condition = names_after(definition, self._others(definition))
        new = {**definition, "status": {**status, "acceptedNames": accepted}}
        known = condition_of(definition, NAMES_ACCEPTED)
        if accepted == status.get("acceptedNames") and known is not None and _same(known, condition):
            return False
        stamp = self._store.stamp()
        new = with_crd_condition(new, condition, stamp)
        if condition["status"] == "True":
            if not is_true(definition, ESTABLISHED):
                new = with_crd_condition(new, _ESTABLISHED, stamp)
        elif condition_of(definition, ESTABLISHED) is None:
            new = with_crd_condition(new, _NOT_ACCEPTED, stamp)
        self._write_status(new)
        self._reconsider_names(definition)
        return bool(spec)

    def _others(self, definition: Json) -> Iterator[Json]:
        group = definition["spec"]["group"]
        for other in self._store.all(CUSTOM_RESOURCE_DEFINITIONS):
            is_self = other["metadata"]["uid"] == definition["metadata"]["uid"]
            if not is_self and (other.get("spec") or {}).get("group") == group:
                yield other

    def _reconsider_names(self, definition: Json) -> None:
        """Look at those again whose names were taken: some may have become free."""
        for other in [*self._others(definition)]:
            if not is_true(other, NAMES_ACCEPTED):
                current = self._current(other)
                if current is not None:
                    self._set_names(current)

    def _write_status(self, definition: Json) -> None:
        self._store.update(CUSTOM_RESOURCE_DEFINITIONS, definition, subresource="status")

    # Serving

    def _serve(self, definition: Json) -> None:
        """Serve the versions of an established definition as it says now."""
        name = definition["metadata"]["name"]
        before = self._by_definition.get(name)
        if not is_true(definition, ESTABLISHED) or (
            before and _serves_the_same(before.definition, definition)
        ):
            return
        if before is not None:
            self._unregister(before)
        now = self._by_definition[name] = _Served(definition)
        for version in now.versions:
            if _register(self._store.catalogue, version.resource):
                self._served[version.resource.dotted] = version
        self.revision += 1
        self._store.share_collection(now.stored.resource, [version.resource for version in now.versions])
        if now.stored.resource.keeps_versions:
            return
        if before is None or before.stored.schema.raw != now.stored.schema.raw:
            self._store.coerce(now.stored.resource, lambda obj: coerced(now.stored.schema, obj))

    def _unregister(self, served: "_Served") -> None:
        for version in served.versions:
            self._store.catalogue.remove(version.resource)
            self._served.pop(version.resource.dotted, None)

    def _withdraw(self, definition: Json) -> None:
        """Serve a resource no more."""
        self._emptied.discard(definition["metadata"]["uid"])
        served = self._by_definition.pop(definition["metadata"]["name"], None)
        if served is not None:
            self._unregister(served)
            self._store.drop_collection(served.stored.resource)
            self.revision += 1

    # Deletion

    def _clean_up(self, definition: Json) -> None:
        """Delete all objects of a definition that is deleted; when none is left, let it go."""
        name = definition["metadata"]["name"]
        served = self._by_definition.get(name)
        if served is None:
            self._finish(definition, _NEVER)
            return
        resource = served.stored.resource
        if not self._store.count(resource):
            self._finish(definition, _COMPLETED)
            return
        uid = definition["metadata"]["uid"]
        if uid not in self._emptied:
            self._emptied.add(uid)
            self._write_status(with_crd_condition(definition, _IN_PROGRESS, self._store.stamp()))
            self._store.watch(resource, lambda change: self._instance_changed(definition, change))
            self._delete_instances(resource)

    def _delete_instances(self, resource: Resource) -> None:
        for obj in self._store.all(resource):
            metadata = obj["metadata"]
            if "deletionTimestamp" not in metadata:
                try:
                    self._store.delete(resource, metadata.get("namespace", ""), metadata["name"])
                except ApiError as error:
                    if not error.is_not_found:
                        raise

    def _instance_changed(self, definition: Json, change: "StoreChange") -> None:
        if change.type == _DELETED:
            current = self._current(definition)
            if current is not None and "deletionTimestamp" in current["metadata"]:
                self._clean_up(current)

    def _finish(self, definition: Json, condition: Json) -> None:
        current = self._current(definition)
        if current is None or CLEANUP not in (current["metadata"].get("finalizers") or ()):
            return
        kept = [one for one in current["metadata"]["finalizers"] if one != CLEANUP]
        metadata = {key: value for key, value in current["metadata"].items() if key != "finalizers"}
        if kept:
            metadata["finalizers"] = kept
        new = with_crd_condition({**current, "metadata": metadata}, condition, self._store.stamp())
        self._write_status(new)


def _same(one: Json, other: Json) -> bool:
    return all(one.get(field) == other[field] for field in ("status", "reason", "message"))


def _serves_the_same(old: Json, new: Json) -> bool:
    deleting = "deletionTimestamp"
    return (
        old.get("spec") == new.get("spec")
        and (old.get("status") or {}).get("acceptedNames") == (new.get("status") or {}).get("acceptedNames")
        and (deleting in old["metadata"]) is (deleting in new["metadata"])
    )


class _Served:
    """The versions of a definition: the one that objects are stored in, and those that are served."""

    def __init__(self, definition: Json) -> None:
        versions = definition["spec"]["versions"]
        storage = next(one for one in versions if one.get("storage"))
        self.definition = definition
        self.stored = ServedVersion(definition, storage, schema_of(storage))
        self.versions = [
            self.stored if one is storage else ServedVersion(definition, one, self.stored.schema)
            for one in versions
            if one.get("served")
        ]


def _register(catalogue: Catalogue, resource: Resource) -> bool:
    """Serve a resource, unless a built-in one of that name or another one of that kind is served."""
    if catalogue.named(resource.dotted) or catalogue.of_kind(resource.api_version, resource.kind):
        return False
    catalogue.register(resource)
    return True


def coerced(schema: StructuralSchema, obj: Json) -> Json:
    """A stored object as it is read after its schema has changed: pruned, and with new defaults."""
    new: Json = copied(obj)
    prune(schema, new)
    if schema.has_defaults:
        set_defaults(schema, new)
    return obj if new == obj else new
