"""Writing objects: create, replace, patch, apply, delete."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api import status
from stowplan.api.requests import Json, PatchType
from stowplan.embedded.apiserver.answers import answer, success
from stowplan.embedded.apiserver.bodies import (
    Decoded,
    as_json,
    decode_as,
    decode_object,
    read_body,
    yaml_as_json,
)
from stowplan.embedded.apiserver.deleting import deletion_body
from stowplan.embedded.apiserver.negotiation import wanted
from stowplan.embedded.apiserver.options import delete_options, flag, is_dry_run, list_options
from stowplan.embedded.apiserver.paths import Target
from stowplan.embedded.apiserver.views import Views
from stowplan.embedded.store import Store
from stowplan.embedded.store.patches import patched

Query = Mapping[str, str]
APPLY: Final = "application/apply-patch+yaml"
NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"
_PATCHES: Final = {kind.value: kind for kind in PatchType}


class Writing:
    """The verbs that change something. What comes back is shown in the form the writer asks for."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    async def create(self, request: web.BaseRequest, target: Target, query: Query) -> web.Response:
        resource = target.resource
        if resource.namespaced and not target.namespace:
            raise status.ApiError(405, "MethodNotAllowed", NOT_ALLOWED)
        text = as_json(await read_body(request), request.content_type)
        read = decode_object(resource, text, query.get("fieldValidation", ""))
        wire = self._views.wire(resource)
        with self._store.dry_run(is_dry_run(query)):
            obj = self._store.create(wire.stored, wire.inward(read.data), target.namespace)
        return self._shown(request, target, obj, 201, read)

    async def update(self, request: web.BaseRequest, target: Target, query: Query) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        read = decode_object(target.resource, text, query.get("fieldValidation", ""))
        wire = self._views.wire(target.resource)
        existed = self._store.find(wire.stored, target.namespace, target.name) is not None
        obj = self._replace(target, query, read)
        return self._shown(request, target, obj, 200 if existed else 201, read)

    async def patch(self, request: web.BaseRequest, target: Target, query: Query) -> web.Response:
        text = await read_body(request)
        if request.content_type == APPLY:
            return self._apply(request, target, query, yaml_as_json(text))
        kind = _PATCHES.get(request.content_type)
        if kind is None:
            raise status.unsupported_media_type([*_PATCHES, APPLY])
        change = decode_as(None, text, target.resource).data
        wire = self._views.wire(target.resource)
        old = self._store.get(wire.stored, target.namespace, target.name)
        new = msgspec.json.encode(patched(target.resource, wire.outward(old), change, kind))
        read = decode_object(target.resource, new, query.get("fieldValidation", ""))
        obj = self._replace(target, query, read, uid_precondition=False)
        return self._shown(request, target, obj, 200, read)

    async def delete(self, request: web.BaseRequest, target: Target, query: Query) -> web.Response:
        body = deletion_body(await read_body(request), request.content_type)
        wire = self._views.wire(target.resource)
        with self._store.dry_run(is_dry_run(query, body)):
            obj = self._store.delete(wire.stored, target.namespace, target.name, delete_options(query, body))
        metadata = obj["metadata"]
        gone = self._store.find(wire.stored, target.namespace, target.name) is None
        if not gone or target.resource.plural == "pods":
            return self._shown(request, target, obj, 200)
        resource = target.resource
        details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural}
        return success(**{key: value for key, value in details.items() if value}, uid=metadata["uid"])

    async def delete_collection(self, request: web.BaseRequest, target: Target, query: Query) -> web.Response:
        body = deletion_body(await read_body(request), request.content_type)
        options = list_options({key: value for key, value in query.items() if key != "watch"})
        wire = self._views.wire(target.resource)
        with self._store.dry_run(is_dry_run(query, body)):
            gone = self._store.delete_collection(
                wire.stored,
                target.namespace,
                wire.selection(options.selection),
                delete_options(query, body),
            )
        view = self._views.view(target.resource, wanted(request.headers.get("Accept", "")))
        return answer(view.listing([*gone], {"resourceVersion": str(self._store.version)}))

    def _replace(self, target: Target, query: Query, read: Decoded, *, uid_precondition: bool = True) -> Json:
        wire = self._views.wire(target.resource)
        data = wire.inward(read.data)
        named(target, data)
        with self._store.dry_run(is_dry_run(query)):
            return self._store.update(
                wire.stored,
                data,
                subresource=target.subresource,
                manager=query.get("fieldManager", ""),
                uid_precondition=uid_precondition,
            )

    def _apply(self, request: web.BaseRequest, target: Target, query: Query, text: bytes) -> web.Response:
        read = decode_object(target.resource, text, query.get("fieldValidation", ""))
        manager = query.get("fieldManager", "")
        if not manager:
            raise status.bad_request("fieldManager: expected a name: it is required for apply patch")
        wire = self._views.wire(target.resource)
        if wire.is_kept_otherwise:
            raise status.unsupported_media_type(list(_PATCHES))
        named(target, read.data)
        existed = self._store.find(wire.stored, target.namespace, target.name) is not None
        with self._store.dry_run(is_dry_run(query)):
            obj = self._store.apply(
                target.resource,
                read.data,
                manager,
                force=flag(query, "force"),
                subresource=target.subresource,
            )
        return self._shown(request, target, obj, 200 if existed else 201, read)

    def _shown(
        self, request: web.BaseRequest, target: Target, obj: Json, code: int, read: Decoded | None = None
    ) -> web.Response:
        view = self._views.view(target.resource, wanted(request.headers.get("Accept", "")))
        return answer(view.raw(obj), code, warnings=() if read is None else read.warnings)


def named(target: Target, data: Any) -> None:
    """See to it that a body is about the object its address names. Raises `ApiError` 400."""
    if not isinstance(data, dict) or not isinstance(data.setdefault("metadata", {}), dict):
        raise status.bad_request("the object provided is unrecognized: expected a map with metadata")
    metadata: Json = data["metadata"]
    for field, expected in (("name", target.name), ("namespace", target.namespace)):
        given = metadata.get(field)
        if given and given != expected:
            raise status.bad_request(
                f"the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            )
        if expected:
            metadata[field] = expected
