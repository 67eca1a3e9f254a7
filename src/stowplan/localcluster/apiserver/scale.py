"""The scale subresource: how many pods an object makes, as one view of all kinds that make pods."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import SCALES as SCALE
from stowplan.api.fielderrors import invalid
from stowplan.api.requests import Json, PatchType
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apiserver.bodies import as_json, decode_as, read_body, yaml_as_json
from stowplan.localcluster.apiserver.request import (
    RequestOptions,
    RequestTarget,
    flag,
    negotiated,
    write_context,
)
from stowplan.localcluster.apiserver.responses import Views, add_warnings, json_response, response_of
from stowplan.localcluster.apiserver.verbs import APPLY, check_address
from stowplan.localcluster.objects.scales import scale_of
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.attempts import carried_out
from stowplan.localcluster.store.patches import patched
from stowplan.localcluster.store.writer import UserInfo, WriteContext

Query = Mapping[str, str]
_PATCHES: Final = {kind.value: kind for kind in PatchType}


class Scales:
    """Reads and changes the number of replicas of the kinds that have one."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    async def get(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        obj = await self._store.read_committed(
            lambda: self._store.get(target.resource, target.namespace, target.name)
        )
        custom = self._store.definitions.version_of(target.resource)
        if custom is not None and not custom.scale_of(obj)[1]:
            path = (custom.scale or {}).get("specReplicasPath", "")
            raise status.internal_error(f"the spec replicas field {quote(path)} does not exist")
        return self._shown(request, target, obj)

    async def put(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        by = write_context(RequestOptions.UPDATE, request.headers, query, user)
        obj = await carried_out(lambda by: self._rescale(target, text, by), by)
        return self._shown(request, target, obj, by)

    async def patch(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = await read_body(request)
        by = write_context(RequestOptions.PATCH, request.headers, query, user)
        if request.content_type == APPLY and not target.resource.defined:
            wanted, force = yaml_as_json(text), flag(query, "force")
            applied = await carried_out(lambda by: self._apply(target, wanted, by, force=force), by)
            return self._shown(request, target, applied, by)
        kind = _PATCHES.get(request.content_type)
        if kind is None:
            raise status.unsupported_media_type(list(_PATCHES))
        change = decode_as(None, text, SCALE).data
        obj = await carried_out(lambda by: self._patched(target, change, kind, by), by)
        return self._shown(request, target, obj, by)

    def _patched(self, target: RequestTarget, change: Any, kind: PatchType, by: WriteContext) -> Json:
        old = self._scale_of(target, self._store.get(target.resource, target.namespace, target.name))
        return self._rescale(target, msgspec.json.encode(patched(SCALE, old, change, kind)), by)

    def _rescale(self, target: RequestTarget, text: bytes, by: WriteContext) -> Json:
        scale = _read(target, text)
        old = self._store.get(target.resource, target.namespace, target.name)
        metadata = {**old["metadata"]}
        metadata.update(
            {key: scale["metadata"][key] for key in ("uid", "resourceVersion") if key in scale["metadata"]}
        )
        custom = self._store.definitions.version_of(target.resource)
        if custom is not None:
            shown = custom.shown({**old, "metadata": metadata})
            scaled = custom.with_replicas(shown, _replicas(scale))
            return self._store.update(target.resource, scaled, tracked=False, by=by)
        spec = {**old.get("spec", {}), "replicas": _replicas(scale)}
        new = {**old, "metadata": metadata, "spec": spec}
        return self._store.update(target.resource, new, subresource="scale", by=by)

    def _scale_of(self, target: RequestTarget, obj: Json) -> Json:
        custom = self._store.definitions.version_of(target.resource)
        return scale_of(obj) if custom is None else custom.scale_of(obj)[0]

    def _apply(self, target: RequestTarget, text: bytes, by: WriteContext, *, force: bool) -> Json:
        scale, resource = _read(target, text), target.resource
        wanted = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": {"replicas": _replicas(scale)},
        }
        return self._store.apply(resource, wanted, by, force=force, subresource="scale")

    def _shown(
        self, request: web.BaseRequest, target: RequestTarget, obj: Json, by: WriteContext | None = None
    ) -> web.Response:
        form = negotiated(request.headers.get("Accept", ""))
        scale = self._scale_of(target, obj)
        response = (
            response_of(self._views.view(SCALE, form).raw(scale)) if form.form else json_response(scale)
        )
        add_warnings(response, None if by is None else by.attempts)
        return response


def _read(target: RequestTarget, text: bytes) -> Any:
    scale: Any = decode_as(the_schema().types["autoscaling.v1.Scale"], text, SCALE).data
    check_address(target, scale)
    if _replicas(scale) < 0:
        wrong = invalid("spec.replicas", _replicas(scale), "must be greater than or equal to 0")
        raise status.invalid(SCALE, target.name, [wrong])
    return scale


def _replicas(scale: Any) -> int:
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    return replicas
