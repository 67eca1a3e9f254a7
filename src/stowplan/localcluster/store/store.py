"""The store: the verbs of an API server as methods."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, Catalogue, Resource
from stowplan.api.fielderrors import required
from stowplan.api.meta import ObjectMeta
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, PatchType, Selection
from stowplan.localcluster.apply import Applier, ManagedFields
from stowplan.localcluster.customresources.kept import stored_after, with_metadata_of
from stowplan.localcluster.customresources.versions import ServedVersion
from stowplan.localcluster.store.attempts import Question, UnansweredError
from stowplan.localcluster.store.definitions import Definitions
from stowplan.localcluster.store.fieldmanager import FieldManager, with_managed_fields
from stowplan.localcluster.store.objects import Body, Key, checked, key_of, owned, owned_object, with_metadata
from stowplan.localcluster.store.patches import patched
from stowplan.localcluster.store.pods import (
    BINDINGS,
    EVICTIONS,
    bound_pod,
    budget_for,
    charged_budget,
    costs_nothing,
    evicted_pod,
    needs_no_budget,
    read_binding,
)
from stowplan.localcluster.store.registry import (
    Admission,
    Commit,
    MetadataFactory,
    check_deletion,
    check_metadata,
    check_uid,
    check_version,
    deletion_of,
    ends_with_update,
    has_scale,
    is_part,
    no_such_uid,
    other_uid,
    prepared_update,
    set_initial_status,
)
from stowplan.localcluster.store.selection import FIRST_PAGE, ListPage, PageRequest, page_of, predicate
from stowplan.localcluster.store.storage import ObjectStorage, SavedState, as_stored
from stowplan.localcluster.store.watchcache import ADDED, MODIFIED, Collection
from stowplan.localcluster.store.writer import API_SERVER, WriteContext
from stowplan.runtime.clock import Clock

NAME_ATTEMPTS: Final = 8


class StoreListing(NamedTuple):
    """Objects, and the version of the store at which they were so."""

    items: list[Json]
    version: int


class Store(ObjectStorage):
    """Objects by resource, namespace and name, with one version counter for all of them.

    Returned objects belong to the store and must not be changed. A refused write raises an `ApiError`.
    Changes are delivered as `ObjectStorage` describes.

    `history` is the number of changes of each resource one can resume from; `event_limit` the maximum number
    of objects of a kind with a limited lifetime (events). `admission` sets defaults and validates all writes.
    `fields` is for stores behind an API server: objects are in the form in which Go writes them, with managed
    fields.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        catalogue: Catalogue | None = None,
        history: int = 8192,
        event_limit: int = 20_000,
        admission: Admission | None = None,
        fields: FieldManager | None = None,
    ) -> None:
        super().__init__(Catalogue() if catalogue is None else catalogue, history)
        self._metadata = MetadataFactory(clock, rng)
        self._event_limit = event_limit
        self._admission = admission
        self._fields = fields
        self.definitions = Definitions(self)
        if fields is not None:
            fields.definitions = self.definitions
        if admission is not None:
            admission.connect(self)

    def restore(self, saved: SavedState) -> None:
        super().restore(saved)
        if saved.version:
            self._metadata.reseed_after(saved.version)
        for collection in self._collections.values():
            if collection.resource.lifetime is not None:
                collection.schedule_all_expiries()
        self.definitions.restored()
        if self._admission is not None:
            self._admission.connect(self)

    def stamp(self) -> str:
        """The current time as objects carry it."""
        return self._metadata.stamp()

    def share_collection(self, stored: Resource, served: Iterable[Resource]) -> None:
        """Have the versions of a custom resource be the same objects."""
        self._collections.share(stored, served, self.version)

    def drop_collection(self, stored: Resource) -> None:
        """Forget a custom resource, in all its versions."""
        self._collections.drop(stored)

    def coerce(self, resource: Resource, change: Callable[[Json], Json]) -> None:
        """Have objects be read differently from now on: their schema has changed. No version is used."""
        collection = self._collection(resource)
        for key, obj in list(collection.objects.items()):
            new = change(obj)
            if new is not obj:
                collection.restore(key, new)

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return self._collection(resource).get((namespace, name))

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """The object, None if there is none."""
        return self._collection(resource).objects.get((namespace, name))

    def all(self, resource: Resource) -> list[Json]:
        """Every object of a resource, in no particular order."""
        return [*self._collection(resource).objects.values()]

    def within(self, resource: Resource, namespace: str) -> list[Json]:
        """Every object of a resource in a namespace, in no particular order."""
        objects = self._collection(resource).objects
        return [obj for key, obj in objects.items() if key[0] == namespace] if objects else []

    def rewrite(self, resource: Resource, old: Json, new: Json) -> None:
        metadata = old["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self._rewrite(
            self._collection(resource), key, self._with_status_of_server(resource, old, new), old, API_SERVER
        )

    def _with_status_of_server(self, resource: Resource, old: Json, new: Json) -> Json:
        """An object whose status the server itself has changed, with its managed fields."""
        if self._fields is None:
            return new
        new = self._fields.written(resource, new, old)
        stamp = self._metadata.stamp()
        return with_managed_fields(new, self._fields.changed(resource, old, new, API_SERVER, stamp, "status"))

    def page(
        self, resource: Resource, namespace: str, selection: Selection, place: PageRequest = FIRST_PAGE
    ) -> ListPage:
        """Some of the objects that match, and where the next ones begin."""
        chosen = predicate(resource, "", selection)
        return page_of(self._collection(resource), namespace, chosen, place, self.version)

    def list(
        self, resource: Resource, namespace: str = "", selection: Selection = EVERY_OBJECT
    ) -> StoreListing:
        """The objects in a namespace (empty: in all), ordered by namespace and name."""
        chosen = predicate(resource, namespace, selection)
        return StoreListing(self._collection(resource).selected(chosen), self.version)

    def count(self, resource: Resource) -> int:
        return len(self._collection(resource).objects)

    def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str = "",
        *,
        handed_over: bool = False,
        by: WriteContext = API_SERVER,
    ) -> Json:
        """Create an object; `handed_over`: the body is JSON data that its giver will not change any more."""
        is_ours = handed_over and isinstance(body, dict)
        obj = checked(resource, body) if is_ours else owned_object(resource, body)
        return self._create(resource, obj, namespace, by)

    def _create(
        self,
        resource: Resource,
        obj: Json,
        namespace: str,
        by: WriteContext,
        applied: ManagedFields | None = None,
    ) -> Json:
        collection = self._collection(resource)
        metadata = obj["metadata"]
        key = key_of(resource, metadata, namespace)
        generated = not key[1]
        if generated:
            key = (key[0], self._free_name(collection, metadata, key[0]))
        obj["metadata"] = created = self._metadata.new_metadata(resource, metadata, key)
        if by.attempts is not None and by.attempts.created is not None:
            # Webhooks have seen the object under its uid and name.
            created |= by.attempts.created
            key = (key[0], created["name"])
        if resource.status:
            set_initial_status(resource, obj, created["creationTimestamp"])
        self._set_defaults(resource, obj)
        if self._fields is not None:
            obj = self._fields.written(resource, obj)
            managed = applied
            if managed is None:
                given, stamp = metadata.get("managedFields"), created["creationTimestamp"]
                managed = self._fields.created(resource, obj, by, stamp, given)
            obj = with_managed_fields(obj, managed)
            created = obj["metadata"]
        elif applied is not None:
            created["managedFields"] = applied
        admission = self._admission
        commit = None
        if admission is not None:
            try:
                commit = admission.admit_create(self, resource, obj, by, generated=generated)
            except UnansweredError:
                if by.attempts is not None:
                    by.attempts.keep_created(created)
                raise
            if generated:
                key = (key[0], obj["metadata"]["name"])
        existing = collection.objects.get(key)
        if existing is not None:
            deleting = "deletionTimestamp" in existing["metadata"]
            raise status.already_exists(resource, key[1], deleting=deleting)
        obj = as_stored(collection, obj)
        if resource.keeps_versions:
            try:
                obj = self._to_store(resource, None, None, obj, by)
            except UnansweredError:
                if by.attempts is not None:
                    by.attempts.keep_created(created)
                raise
        if not by.dry_run:
            if commit is not None:
                commit()
            self._add(collection, key, obj, self._metadata.latest)
        return obj

    def _add(self, collection: Collection, key: Key, obj: Json, now: float) -> None:
        self._change(collection, key, ADDED, obj, None)
        if collection.resource.lifetime is not None:
            limit = self._event_limit
            if collection.schedule_expiry(key, obj["metadata"]["uid"], now, limit):
                self._remove_expired(collection, collection.expired(now, limit))

    def load(self, resource: Resource, body: Body, *, handed_over: bool = False) -> Json:
        """Take over an object of another cluster unchanged: uid, times, status, managed fields and all.

        It has to be valid, but rules that depend on other objects are skipped. Only its version is new.
        `handed_over` is as for `create`.
        """
        is_ours = handed_over and isinstance(body, dict)
        obj = checked(resource, body) if is_ours else owned_object(resource, body)
        collection, key = self._collection(resource), key_of(resource, obj["metadata"])
        if key in collection.objects:
            raise status.already_exists(resource, key[1])
        self._set_defaults(resource, obj)
        if self._admission is not None:
            self._admission.admit_loaded(resource, obj)
        if self._fields is not None:
            obj = with_metadata(self._fields.written(resource, obj))
        obj = as_stored(collection, obj)
        self._add(collection, key, obj, self._metadata.now())
        return obj

    def update(
        self,
        resource: Resource,
        body: Body,
        *,
        subresource: str = "",
        uid_precondition: bool = True,
        tracked: bool = True,
        by: WriteContext = API_SERVER,
    ) -> Json:
        """Replace an object, or a part of it only: its `status`, or a namespace's finalizers (`finalize`).

        A uid in the body is a precondition (409); without `uid_precondition`, as for the result of a patch,
        it is a field that must not change (422). A write that is not `tracked` leaves managed fields as they
        are.
        """
        collection = self._collection(resource)
        _check_subresource(resource, subresource)
        obj = owned_object(resource, body)
        metadata = obj["metadata"]
        key = key_of(resource, metadata)
        if not key[1]:
            raise status.invalid(resource, "", [required("metadata.name", "name is required")])
        old = self._seen(resource, collection.objects.get(key), by)
        if old is None:
            return self._update_of_nothing(resource, obj, key, subresource, by)
        if uid_precondition:
            check_uid(resource, old, metadata.get("uid"))
        version = metadata.get("resourceVersion")
        asked = resource if by.served is None else by.served.resource
        if not version and not asked.blind_update:
            raise status.no_version(resource, key[1])
        check_version(resource, old, version)
        return self._update(resource, collection, key, old, obj, subresource, by, tracked=tracked)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
        by: WriteContext = API_SERVER,
    ) -> Json:
        """Change parts of an object, or of its status only (`subresource="status"`)."""
        collection, key = self._collection(resource), (namespace, name)
        _check_subresource(resource, subresource)
        old = self._seen(resource, collection.get(key), by) or {}
        new = patched(resource, old, owned(patch), kind)
        check_version(resource, old, new["metadata"].get("resourceVersion"))
        if self._admission is not None and (subresource != "status" or resource.defined):
            new = owned(new)
        return self._update(resource, collection, key, old, new, subresource, by)

    def _set_defaults(self, resource: Resource, obj: Json, subresource: str = "") -> None:
        """Fill in what does not depend on other objects; of custom objects, what is not specified goes.

        Of what a status update brings only a node's allocatable resources have defaults.
        """
        if self._admission is None:
            return
        if subresource not in ("status", "finalize") or resource is NODES:
            self._admission.set_defaults(resource, obj, self._metadata.stamp())
        custom = self.definitions.version_of(resource) if resource.defined else None
        if custom is not None:
            custom.prepare(obj)

    def _update(
        self,
        resource: Resource,
        collection: Collection,
        key: Key,
        old: Json,
        new: Json,
        subresource: str,
        by: WriteContext,
        *,
        tracked: bool = True,
    ) -> Json:
        """Admit and write the new version of an object."""
        fields = self._fields
        self._set_defaults(resource, new, subresource)
        managed = None
        if fields is not None:
            given, stamp = new["metadata"].get("managedFields"), self._metadata.stamp()
            new = fields.written(resource, new, old)
            if tracked and not subresource:
                managed = fields.changed(resource, old, new, by, stamp, given=given)
        commit = self._admit_update(resource, old, new, subresource, by)
        new = prepared_update(resource, old, new, subresource)
        if fields is not None and tracked and subresource:
            managed = fields.changed(resource, old, new, by, self._metadata.stamp(), subresource)
        if managed is not None and managed is not old["metadata"].get("managedFields"):
            new = with_managed_fields(new, managed)
        return self._replace(collection, key, old, new, by, commit)

    def apply(
        self,
        resource: Resource,
        body: Body,
        by: WriteContext,
        *,
        namespace: str = "",
        name: str = "",
        force: bool = False,
        subresource: str = "",
    ) -> Json:
        """Have an object be as one manager wants it, in what that manager says of it (server-side apply)."""
        collection = self._collection(resource)
        _check_subresource(resource, subresource)
        wanted = owned_object(resource if by.served is None else by.served.resource, body)
        metadata = wanted["metadata"]
        namespace, named = key_of(resource, metadata, namespace)
        key = (namespace, named or name)
        old = self._seen(resource, collection.objects.get(key), by)
        if old is None and metadata.get("uid") and not subresource:
            raise no_such_uid(resource, key[1], metadata["uid"])
        if old is None and (subresource or metadata.get("resourceVersion")):
            raise status.not_found(resource, key[1])
        if old is not None:
            check_version(resource, old, metadata.get("resourceVersion"))
        applier = Applier(by.field_manager, self._metadata.stamp(), force, subresource)
        found, managed = (self._fields or FieldManager()).applied(resource, old, wanted, applier, by)
        if old is None:
            return self._create(resource, found, key[0], by, managed)
        check_metadata(resource, old, metadata)
        new = owned(found)
        self._set_defaults(resource, new, subresource)
        if self._fields is not None:
            new = self._fields.written(resource, new)
        commit = self._admit_update(resource, old, new, subresource, by)
        new = prepared_update(resource, old, new, subresource)
        return self._replace(collection, key, old, with_managed_fields(new, managed), by, commit)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: DeleteOptions = ORDINARY_DELETION,
        *,
        by: WriteContext = API_SERVER,
    ) -> Json:
        """Delete an object, at once or in the end; gives back its last state."""
        collection, key = self._collection(resource), (namespace, name)
        old = collection.get(key)
        if self._admission is not None:
            seen = self._seen(resource, old, by) if resource.keeps_versions else old
            self._admission.admit_delete(self, resource, seen or old, by)
        return self._delete(resource, collection, key, options, by)

    def _delete(
        self, resource: Resource, collection: Collection, key: Key, options: DeleteOptions, by: WriteContext
    ) -> Json:
        """Delete an object that is admitted for it."""
        old = collection.get(key)
        marked, remove = deletion_of(resource, old, options, self._metadata.now())
        if marked is not old:
            marked = self._rewrite(collection, key, marked, old, by)
        return self._remove(collection, key, marked, by) if remove else marked

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        options: DeleteOptions = ORDINARY_DELETION,
        *,
        by: WriteContext = API_SERVER,
    ) -> Sequence[Json]:
        """Delete all objects that match; gives back what they were before."""
        found = self.list(resource, namespace, selection).items
        for obj in found:
            metadata = obj["metadata"]
            self.delete(resource, metadata.get("namespace", ""), metadata["name"], options, by=by)
        return found

    def bind(self, namespace: str, name: str, body: Body, *, by: WriteContext = API_SERVER) -> Json:
        """Put a pod on the node that a Binding names (the subresource `binding` of pods)."""
        pods, key = self._collection(PODS), (namespace, name)
        given, target = read_binding(body, name)
        if self._admission is not None and self._admission.is_extended():
            given, target = self._admitted_binding(body, key, by)
        pod = pods.objects.get(key)
        if pod is None:
            raise status.not_found(PODS, name)
        node = self._collection(NODES).objects.get(("", target))
        bound = bound_pod(pod, given, target, node, self._metadata.stamp())
        if not by.dry_run:
            self._change(pods, key, MODIFIED, bound, pod)
        return bound

    def _admitted_binding(self, body: Body, key: Key, by: WriteContext) -> tuple[ObjectMeta, str]:
        """A binding after admission."""
        assert self._admission is not None
        binding = owned_object(BINDINGS, body)
        binding["metadata"] = {**binding["metadata"], "namespace": key[0], "name": key[1]}
        self._admission.admit_part(self, "CREATE", PODS, "binding", BINDINGS, binding, by)
        return read_binding(binding, key[1])

    def evict(
        self,
        namespace: str,
        name: str,
        options: DeleteOptions = ORDINARY_DELETION,
        *,
        eviction: Json | None = None,
        by: WriteContext = API_SERVER,
    ) -> Json:
        """Delete a pod if its disruption budget allows that (the subresource `eviction` of pods).

        `eviction` is the body of the request, for admission. The deletion itself is not admitted again.
        """
        pods, key, stamp = self._collection(PODS), (namespace, name), self._metadata.stamp()
        pod = pods.get(key)
        if self._admission is not None and self._admission.is_extended():
            named = {"metadata": {"name": name, "namespace": namespace}}
            wanted = owned_object(EVICTIONS, {**named, **(eviction or {})})
            self._admission.admit_part(self, "CREATE", PODS, "eviction", EVICTIONS, wanted, by)
        if not needs_no_budget(pod):
            self._charge_budget(pod, stamp, by)
        check_deletion(PODS, pod, options)
        marked = self._rewrite(pods, key, evicted_pod(pod, stamp), pod, by)
        if options.resource_version is not None:
            version = marked["metadata"]["resourceVersion"]
            options = DeleteOptions(options.grace_period_seconds, options.uid, version, options.propagation)
        return self._delete(PODS, pods, key, options, by)

    def _free_name(self, collection: Collection, metadata: Json, namespace: str) -> str:
        """A name generated from what the object's shall begin with."""
        base = metadata.get("generateName", "")
        if not base:
            missing = required("metadata.name", "name or generateName is required")
            raise status.invalid(collection.resource, "", [missing])
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = self._metadata.name(base)
            if (namespace, name) not in collection.objects:
                return name
        raise status.no_free_name(collection.resource, name)

    def _update_of_nothing(
        self, resource: Resource, obj: Json, key: Key, subresource: str, by: WriteContext
    ) -> Json:
        """An update whose object does not exist: some kinds are created that way."""
        uid = obj["metadata"].get("uid")
        if subresource or not resource.create_on_update:
            raise status.not_found(resource, key[1])
        if uid:
            raise other_uid(resource, *key, uid, "")
        return self.create(resource, obj, by=by)

    def _admit_update(
        self, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> Commit | None:
        admission = self._admission
        if admission is None:
            return None
        return admission.admit_update(self, resource, old, new, subresource, by)

    def _replace(
        self,
        collection: Collection,
        key: Key,
        old: Json,
        new: Json,
        by: WriteContext,
        commit: Commit | None = None,
    ) -> Json:
        """Write an update, unless it changes nothing or was all that a deletion waited for."""
        if new == old:
            return old
        stored = collection.objects[key]
        if collection.resource.keeps_versions:
            resource = self.catalogue.of_kind(new["apiVersion"], new["kind"]) or collection.resource
            new = self._to_store(resource, stored, old, new, by)
        if commit is not None and not by.dry_run:
            commit()
        if ends_with_update(old, new):
            self._remove(collection, key, stored, by)
            return new
        return self._rewrite(collection, key, new, stored, by)

    def in_version(
        self, resource: Resource, obj: Json, by: WriteContext, key: str = "", about: Json | None = None
    ) -> Json:
        """A custom object in another version, as its webhook converts it if that is called.

        `key` names the conversion within its write, `about` is the object that is there. A caller that cannot
        wait gets the fields that the versions have in common. Raises `UnansweredError`, or `ApiError` 500.
        """
        version = self.definitions.version_of(resource) if resource.defined else None
        if version is None or not resource.keeps_versions:
            return _in_version(resource, obj) or obj
        if by.attempts is None or not self.definitions.is_converted(version):
            return version.shown(obj)
        if obj["apiVersion"] == resource.api_version:
            return version.shown(obj)
        written = self.definitions.as_written(obj)
        return version.settled(self._converted(version, written, resource.api_version, by, key, about))

    def _seen(self, resource: Resource, obj: Json | None, by: WriteContext) -> Json | None:
        """A stored object as a write sees it, in the version of the write."""
        if obj is None or not resource.keeps_versions:
            return _in_version(resource, obj)
        return self.in_version(resource, obj, by, "seen", obj)

    def _to_store(
        self,
        resource: Resource,
        stored: Json | None,
        shown: Json | None,
        new: Json,
        by: WriteContext,
    ) -> Json:
        """An object that was written in a version as it is stored: in the storage version, if a webhook
        converts it, else as it was written, with the fields that other versions have."""
        version, target = self.definitions.version_of(resource), resource.storage_version
        if version is not None and by.attempts is not None and self.definitions.is_converted(version):
            if new["apiVersion"] == target:
                return new
            return self._converted(version, new, target, by, "stored", stored)
        return new if stored is None or shown is None else stored_after(stored, shown, new)

    def _converted(
        self,
        version: ServedVersion,
        obj: Json,
        api_version: str,
        by: WriteContext,
        key: str,
        about: Json | None,
    ) -> Json:
        converter = self.definitions.converter
        assert converter is not None
        assert by.attempts is not None
        asked = converter

        async def call(seconds: float) -> Json | status.ApiError:
            try:
                return (await asked.ask(version, [obj], api_version, seconds))[0]
            except status.ApiError as error:
                return error

        [found] = by.attempts.answers([Question(("converted", key, api_version), about, call)])
        if isinstance(found, status.ApiError):
            raise found
        return with_metadata_of(obj, found)

    def _remove_expired(self, collection: Collection, expired: Sequence[Key]) -> None:
        for key in expired:
            self._remove(collection, key, collection.objects[key], API_SERVER)

    def _charge_budget(self, pod: Json, stamp: str, by: WriteContext) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        budgets = self._collection(POD_DISRUPTION_BUDGETS)
        budget = budget_for(pod, self.list(POD_DISRUPTION_BUDGETS, namespace).items)
        if budget is not None and not costs_nothing(pod, budget):
            charged = self._with_status_of_server(
                POD_DISRUPTION_BUDGETS, budget, charged_budget(budget, name, stamp)
            )
            self._rewrite(budgets, (namespace, budget["metadata"]["name"]), charged, budget, by)


def _in_version(resource: Resource, obj: Json | None) -> Json | None:
    """A stored object as one of the version it is written in."""
    if obj is None or obj["apiVersion"] == resource.api_version:
        return obj
    return {**obj, "apiVersion": resource.api_version}


def _check_subresource(resource: Resource, subresource: str) -> None:
    if not subresource or (subresource == "finalize" and resource == NAMESPACES):
        return
    if not is_part(resource, subresource) and not (subresource == "scale" and has_scale(resource)):
        raise status.unknown_resource()
