"""The verbs of the API: get, list, watch, create, update, patch, apply, delete, deletecollection.

Each decodes what the request says, calls the store (admission, then storage) and encodes the result.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, JOBS, PODS, Resource
from stowplan.api.fielderrors import forbidden, required
from stowplan.api.requests import DeleteOptions, FieldTerm, Json, PatchType, Selection
from stowplan.localcluster.admission.devicefeatures import OPTIONAL_FIELDS_OF, dropped_fields
from stowplan.localcluster.apiserver.bodies import (
    Decoded,
    as_json,
    decode_custom,
    decode_object,
    decode_patch,
    deletion_body,
    read_body,
    undecodable_patch,
    yaml_as_json,
)
from stowplan.localcluster.apiserver.request import (
    METADATA,
    PROTOBUF,
    YAML,
    ListOptions,
    RequestOptions,
    RequestTarget,
    continue_token,
    delete_options,
    flag,
    list_options,
    negotiated,
    options_invalid,
    propagation,
    version_of,
    write_context,
)
from stowplan.localcluster.apiserver.responses import (
    ResponseView,
    Views,
    add_warnings,
    encode,
    response_of,
    success_response,
    warning_header,
)
from stowplan.localcluster.apiserver.sending import stream
from stowplan.localcluster.apiserver.watch import HEADERS, ConvertedChanges, WatchResponse
from stowplan.localcluster.customresources.definitions import definition_warnings
from stowplan.localcluster.objects.groupfeatures import DROPPED
from stowplan.localcluster.store import Store, Watcher
from stowplan.localcluster.store.attempts import WriteAttempts, carried_out
from stowplan.localcluster.store.fieldmanager import without_managed_fields
from stowplan.localcluster.store.patches import apply_patch
from stowplan.localcluster.store.selection import ListPage
from stowplan.localcluster.store.writer import UserInfo, WriteContext

MIN_WATCH_SECONDS: Final = 1800.0
_SHORT: Final = 256 * 1024
"""Bytes of a list up to which it is made as a whole, and has a length."""
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new "
    "list without the continue parameter."
)


class ReadVerbs:
    """The verbs that change nothing."""

    def __init__(self, store: Store, views: Views, rng: random.Random, watch_limit: int) -> None:
        self._store = store
        self._views = views
        self._rng = rng
        self._watch_limit = watch_limit
        self._watches: dict[WatchResponse, Watcher] = {}
        self._watches_ended = 0

    async def get(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str]
    ) -> web.Response:
        conversion = self._views.conversion(target.resource)
        version = version_of(query.get("resourceVersion", ""), of_list=False)
        if version is not None and version > self._store.version:
            raise status.too_large_version(version, self._store.version)
        obj = await self._store.read_committed(
            lambda: self._store.get(conversion.stored, target.namespace, target.name)
        )
        if target.resource.keeps_versions:
            [obj] = await self._store.definitions.converted(target.resource, [obj])
        return response_of(self._view(request, target, query).raw(obj))

    async def list(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """A list, or the watch of it."""
        options = list_options(query)
        if options.watch:
            return await self._watch(request, target, query, options)
        if options.version is not None and options.version > self._store.version:
            raise status.too_large_version(options.version, self._store.version)
        page = await self._store.read_committed(lambda: self._page(target, options))
        metadata: Json = {"resourceVersion": str(page.version)}
        if page.last is not None:
            metadata["continue"] = continue_token(page.version, page.last)
            if page.remaining is not None and options.selection.is_empty:
                metadata["remainingItemCount"] = page.remaining
        view = self._view(request, target, query)
        items = page.items
        if target.resource.keeps_versions:
            items = await self._store.definitions.converted(target.resource, items)
        pieces = view.pieces(items, metadata)
        if not _takes_json(request) or target.resource.deprecation:
            return response_of(b"".join(pieces))
        first: list[bytes] = []
        size = 0
        for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > _SHORT:
                return await stream(request, chain(first, pieces), headers=HEADERS)
        return response_of(b"".join(first))

    def end_watches(self) -> None:
        """End all watches, as a server does that stops."""
        for watch in list(self._watches):
            watch.end()

    def take_ended_watches(self) -> int:
        """Number of watches that have ended since the last call."""
        ended, self._watches_ended = self._watches_ended, 0
        return ended

    def _page(self, target: RequestTarget, options: ListOptions) -> ListPage:
        conversion = self._views.conversion(target.resource)
        try:
            return self._store.page(
                conversion.stored, target.namespace, conversion.selection(options.selection), options.place
            )
        except status.ApiError as error:
            if error.is_expired and options.place.after is not None:
                raise status.expired(_TOO_OLD) from None
            raise

    async def _watch(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str], options: ListOptions
    ) -> web.StreamResponse:
        conversion = self._views.conversion(target.resource)
        view = self._view(request, target, query)
        watch = WatchResponse(view, self._store.kept, self._watch_limit)
        selection = conversion.selection(options.selection)
        if target.name:
            selection = by_name(selection, target.name)
        any_version = options.version is None
        converting = None
        if target.resource.keeps_versions:
            convert = partial(self._store.definitions.converted, target.resource)
            converting = ConvertedChanges(watch, convert)
        try:
            watcher = self._store.watch_committed(
                conversion.stored,
                watch.send if converting is None else converting.send,
                namespace=target.namespace,
                selection=selection,
                since=options.version,
                initial_events=options.initial_events or any_version,
                bookmarks=options.bookmarks,
                waits=True,
            )
        except status.ApiError as error:
            if not error.is_expired:
                raise
            return await _ended_with(request, error)
        backlog = list(watcher.backlog)
        watcher.backlog = ()
        watcher.on_end = watch.end
        if backlog and backlog[-1].ends_initial_state and not (options.initial_events and options.bookmarks):
            backlog.pop()
        if converting is not None:
            try:
                backlog = await converting.converted(backlog)
            except BaseException:
                watcher.close()
                converting.close()
                raise
        self._watches[watch] = watcher
        seconds = options.timeout or MIN_WATCH_SECONDS * (1 + self._rng.random())
        try:
            return await watch.serve(request, backlog, asyncio.get_running_loop().time() + seconds)
        finally:
            del self._watches[watch]
            watcher.close()
            if converting is not None:
                converting.close()
            self._watches_ended += 1

    def _view(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str]
    ) -> ResponseView:
        form = negotiated(request.headers.get("Accept", ""))
        if form.form == METADATA and not target.name and not flag(query, "watch"):
            listed = f"*{target.resource.group.partition('.')[0] or 'core'}.{target.resource.kind}List"
            text = f"you requested {METADATA}, but the requested object is a list ({listed})"
            raise status.ApiError(406, "NotAcceptable", text)
        return self._views.view(target.resource, form, query.get("includeObject", ""))


def _takes_json(request: web.BaseRequest) -> bool:
    accept = request.headers.get("Accept", "")
    return YAML not in accept and PROTOBUF not in accept


async def _ended_with(request: web.BaseRequest, error: status.ApiError) -> web.StreamResponse:
    """A watch that says only why there is nothing to watch."""
    line = b'{"type":"ERROR","object":' + encode(error.status()) + b"}\n"
    return await stream(request, [line], headers=HEADERS)


def by_name(selection: Selection, name: str) -> Selection:
    """The selection, of one object only."""
    return Selection(selection.labels, (*selection.fields, FieldTerm("metadata.name", name)))


Query = Mapping[str, str]
APPLY: Final = "application/apply-patch+yaml"
_PODS_PRESERVED: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
_PATCH_TYPES: Final = {kind.value: kind for kind in PatchType}


Notices = Callable[[Resource, Json], Sequence[str]]
"""Warnings for the writer of an object about what has no effect here."""


class WriteVerbs:
    """The writing verbs. The result is shown in the form the writer requests."""

    def __init__(
        self,
        store: Store,
        views: Views,
        stored_only: frozenset[Resource] = frozenset(),
        notices: Notices = lambda resource, obj: (),
    ) -> None:
        self._store = store
        self._notices = notices
        self._views = views
        self._stored_only = stored_only

    def _decoded(self, target: RequestTarget, text: bytes, query: Query) -> Decoded:
        """A body as an object of the target's kind."""
        validation = query.get("fieldValidation", "")
        custom = self._store.definitions.version_of(target.resource)
        if custom is not None:
            read = decode_custom(custom, text, validation)
        else:
            read = decode_object(target.resource, text, validation)
        if target.name and (custom is not None or target.resource == CUSTOM_RESOURCE_DEFINITIONS):
            read.before = self._store.find(target.resource, target.namespace, target.name)
        return read

    async def create(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        resource = target.resource
        if resource.namespaced and not target.namespace:
            raise status.method_not_allowed()
        by = write_context(RequestOptions.CREATE, request.headers, query, user)
        text = as_json(await read_body(request), request.content_type, resource)
        read = self._decoded(target, text, query)
        dedup_owners(read)
        if isinstance(read.data, dict) and (read.data.get("metadata") or {}).get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        conversion = self._views.conversion(resource)
        data = conversion.to_stored(read.data)
        obj = await carried_out(
            lambda by: self._store.create(conversion.stored, data, target.namespace, by=by),
            conversion.context(by),
        )
        return await self._shown(request, target, obj, 201, read, by)

    async def update(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type, target.resource)
        read = self._decoded(target, text, query)
        conversion = self._views.conversion(target.resource)
        existed = self._store.find(conversion.stored, target.namespace, target.name) is not None
        by = write_context(RequestOptions.UPDATE, request.headers, query, user)
        obj = await carried_out(lambda by: self._replace(target, read, by), by)
        return await self._shown(request, target, obj, 200 if existed else 201, read, by)

    async def patch(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = await read_body(request)
        by = write_context(RequestOptions.PATCH, request.headers, query, user)
        if request.content_type == APPLY:
            return await self._apply(request, target, query, yaml_as_json(text), by)
        kind = _PATCH_TYPES.get(request.content_type)
        if kind is None:
            raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if kind is PatchType.STRATEGIC and target.resource.custom:
            known = [name for name in _PATCH_TYPES if "strategic" not in name]
            raise status.unsupported_media_type([*known, APPLY])
        if "force" in query:
            wrong = forbidden("force", "may not be specified for non-apply patch")
            raise options_invalid(RequestOptions.PATCH, [wrong])
        change = decode_patch(text)
        obj, read = await carried_out(lambda by: self._patched(target, query, text, change, kind, by), by)
        return await self._shown(request, target, obj, 200, read, by)

    def _patched(
        self,
        target: RequestTarget,
        query: Query,
        text: bytes,
        change: Any,
        kind: PatchType,
        by: WriteContext,
    ) -> tuple[Json, Decoded]:
        """Write the result of a patch; gives back the object, and the result as it was read."""
        conversion = self._views.conversion(target.resource)
        old = self._store.get(conversion.stored, target.namespace, target.name)
        if target.resource.keeps_versions:
            old = self._store.in_version(target.resource, old, by, "seen", old)
        if b"managedFields" not in text:
            old = without_managed_fields(old)
        new = encode(apply_patch(target.resource, conversion.to_served(old), change, kind))
        try:
            read = self._decoded(target, new, query)
        except status.ApiError as error:
            raise undecodable_patch(error, target.resource, new) from None
        return self._replace(target, read, by, uid_precondition=False), read

    async def delete(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        body = deletion_body(await read_body(request), request.content_type)
        conversion = self._views.conversion(target.resource)
        by = write_context(RequestOptions.DELETE, request.headers, query, user, body)
        options = delete_options(query, body)
        obj = await carried_out(
            lambda by: self._store.delete(conversion.stored, target.namespace, target.name, options, by=by),
            by,
        )
        resource, metadata = target.resource, obj["metadata"]
        stays = "deletionTimestamp" in metadata
        if stays or resource.returns_deleted:
            response = await self._shown(request, target, obj, 200, by=by)
        else:
            details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural}
            response = success_response(
                **{key: value for key, value in details.items() if value}, uid=metadata["uid"]
            )
            add_warnings(response, by.attempts)
        if resource == JOBS and not propagation(query, body):
            response.headers.add("Warning", warning_header(_PODS_PRESERVED))
        return response

    async def delete_collection(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        if target.resource.namespaced and not target.namespace:
            raise status.method_not_allowed()
        body = deletion_body(await read_body(request), request.content_type)
        options = list_options({key: value for key, value in query.items() if key != "watch"})
        conversion = self._views.conversion(target.resource)
        gone = await self._delete_all(
            conversion.stored,
            self._store.list(
                conversion.stored, target.namespace, conversion.selection(options.selection)
            ).items,
            delete_options(query, body),
            write_context(RequestOptions.DELETE, request.headers, query, user, body),
        )
        view = self._views.view(target.resource, negotiated(request.headers.get("Accept", "")))
        return response_of(view.listing([*gone], {"resourceVersion": str(self._store.version)}))

    async def _delete_all(
        self, resource: Resource, found: Sequence[Json], deletion: DeleteOptions, by: WriteContext
    ) -> Sequence[Json]:
        """Delete objects one after the other; gives back what they were before.

        Webhooks are called for each. One that is gone meanwhile needs no deletion.
        """
        for obj in found:
            metadata = obj["metadata"]
            delete = partial(
                self._store.delete, resource, metadata.get("namespace", ""), metadata["name"], deletion
            )
            try:
                await carried_out(_with_context(delete), by._replace(attempts=WriteAttempts()))
            except status.ApiError as error:
                if not error.is_not_found:
                    raise
        return found

    def _replace(
        self, target: RequestTarget, read: Decoded, by: WriteContext, *, uid_precondition: bool = True
    ) -> Json:
        dedup_owners(read)
        conversion = self._views.conversion(target.resource)
        data = conversion.to_stored(read.data)
        check_address(target, data)
        return self._store.update(
            conversion.stored,
            data,
            subresource=target.subresource,
            uid_precondition=uid_precondition,
            by=conversion.context(by),
        )

    async def _apply(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, text: bytes, by: WriteContext
    ) -> web.Response:
        if not query.get("fieldManager"):
            missing = required("fieldManager", "is required for apply patch")
            raise options_invalid(RequestOptions.PATCH, [missing])
        conversion = self._views.conversion(target.resource)
        existed = self._store.find(conversion.stored, target.namespace, target.name) is not None
        read = self._configuration(target, text, query, creates=not existed)
        obj = await carried_out(
            lambda by: self._store.apply(
                conversion.stored,
                read.data,
                by,
                namespace=target.namespace,
                name=target.name,
                force=flag(query, "force"),
                subresource=target.subresource,
            ),
            conversion.context(by),
        )
        return await self._shown(request, target, obj, 200 if existed else 201, read, by)

    def _configuration(self, target: RequestTarget, text: bytes, query: Query, *, creates: bool) -> Decoded:
        """An apply configuration, all of whose fields its kind has: the merge needs their types."""
        read = self._decoded(target, text, {**query, "fieldValidation": "Warn"})
        unknown = [one.split('"')[1] for one in read.warnings if one.startswith('unknown field "')]
        if len(unknown) < len(read.warnings):
            self._decoded(target, text, {**query, "fieldValidation": "Strict"})
        check_configuration(target, read.data, creates=creates)
        if unknown:
            lines = [f".{path}: field not declared in schema" for path in unknown]
            shown = lines[0] if len(lines) == 1 else "errors:\n  " + "\n  ".join(lines)
            kind = f"{target.resource.api_version}, Kind={target.resource.kind}"
            of = f"{target.namespace}/{target.name}; {kind}"
            # Upstream has no better code for this error.
            raise status.ApiError(500, "", f"failed to create typed patch object ({of}): {shown}")
        return read

    async def _shown(
        self,
        request: web.BaseRequest,
        target: RequestTarget,
        obj: Json,
        code: int,
        read: Decoded | None = None,
        by: WriteContext | None = None,
    ) -> web.Response:
        view = self._views.view(target.resource, negotiated(request.headers.get("Accept", "")))
        warnings = [] if read is None else [*read.warnings]
        if by is not None and by.attempts is not None:
            warnings += by.attempts.warnings
        if read is not None and target.resource in self._stored_only and not target.subresource:
            warnings.append(f"stored only: nothing acts on {target.resource.kind} here")
        if read is not None and not target.subresource:
            warnings += self._notices(target.resource, obj)
        if read is not None and target.resource == PODS and _lost_its_group(read.data, obj):
            warnings.append(DROPPED)
        if read is not None:
            warnings += self._dropped(target, read, obj)
        if read is not None and target.resource == CUSTOM_RESOURCE_DEFINITIONS and not target.subresource:
            warnings += definition_warnings(obj, read.before)
            warnings += self._store.definitions.conversion_warnings(obj)
        custom = self._store.definitions.version_of(target.resource)
        if read is not None and custom is not None and not target.subresource:
            warnings += custom.finalizer_warnings(obj, read.before)
        if target.resource.keeps_versions:
            [obj] = await self._store.definitions.converted(target.resource, [obj])
        return response_of(view.raw(obj), code, warnings=warnings)

    def _dropped(self, target: RequestTarget, read: Decoded, obj: Json) -> list[str]:
        """Fields of devices that were given and not taken."""
        conversion = self._views.conversion(target.resource)
        if conversion.stored not in OPTIONAL_FIELDS_OF or not isinstance(read.data, dict):
            return []
        given, of_status = conversion.to_stored(read.data), target.subresource == "status"
        return dropped_fields(conversion.stored, given, obj, status=of_status)


def _with_context(write: Callable[..., Json]) -> Callable[[WriteContext], Json]:
    return lambda by: write(by=by)


def _lost_its_group(given: Json, pod: Json) -> bool:
    spec = given.get("spec")
    return (
        isinstance(spec, dict) and bool(spec.get("schedulingGroup")) and "schedulingGroup" not in pod["spec"]
    )


def check_address(target: RequestTarget, data: Any) -> None:
    """See to it that a body is about the object its address names. Raises `ApiError` 400."""
    if not isinstance(data, dict) or not isinstance(data.setdefault("metadata", {}), dict):
        raise status.bad_request("the object provided is unrecognized: expected a map with metadata")
    metadata: Json = data["metadata"]
    if metadata.get("name") and metadata["name"] != target.name:
        raise status.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    if metadata.get("namespace") and metadata["namespace"] != target.namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    for field, value in (("name", target.name), ("namespace", target.namespace)):
        if value:
            metadata[field] = value


def dedup_owners(read: Decoded) -> None:
    """Leave out references to the same owner, with a warning."""
    metadata = read.data.get("metadata") if isinstance(read.data, dict) else None
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    if not owners or not isinstance(metadata, dict):
        return
    kept = {owner.get("uid"): owner for owner in reversed(owners)}
    if len(kept) == len(owners):
        return
    twice = sorted(
        str(uid) for uid, count in Counter(owner.get("uid") for owner in owners).items() if count > 1
    )
    metadata["ownerReferences"] = list(reversed(kept.values()))
    read.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(twice)
    )


def check_configuration(target: RequestTarget, data: Any, *, creates: bool) -> None:
    """See to it that what is applied says what it is. Raises `ApiError` 400."""
    if not isinstance(data, dict):
        raise status.bad_request("the object provided is unrecognized: expected a map")
    version, kind = data.get("apiVersion") or "", data.get("kind") or ""
    if not version or not kind:
        raise status.bad_request(
            f"invalid object type: {version if '/' in version else '/' + version}, Kind={kind}"
        )
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise status.bad_request("metadata.managedFields must be nil")
    if creates and not metadata.get("name"):
        raise status.bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    check_address(target, {"metadata": {**metadata}})
