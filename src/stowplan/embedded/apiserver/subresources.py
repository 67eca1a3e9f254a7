"""Subresources that are verbs or views of their own: binding, eviction, scale, finalize."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.fielderrors import invalid
from stowplan.api.requests import Json, PatchType
from stowplan.embedded.apiserver.bodies import as_json, decode_as, decode_object, read_body
from stowplan.embedded.apiserver.request import Options, Target, delete_options, write_context
from stowplan.embedded.apiserver.responses import json_response, success_response
from stowplan.embedded.apiserver.tokenrequests import TokenRequests
from stowplan.embedded.apiserver.verbs import check_address
from stowplan.embedded.schema import the_schema
from stowplan.embedded.store import Store
from stowplan.embedded.store.patches import patched
from stowplan.embedded.store.writer import UserInfo, WriteContext
from stowplan.gocompat.quoting import quote

Query = Mapping[str, str]
Handler = Callable[[web.BaseRequest, Target, Query, UserInfo], Awaitable[web.Response]]
SCALED: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
SCALE: Final = Resource("autoscaling", "v1", "scales", "Scale")
_BINDING: Final = Resource("", "v1", "bindings", "Binding")
_EVICTION: Final = Resource("policy", "v1", "evictions", "Eviction")
_PATCHES: Final = {kind.value: kind for kind in PatchType}
_PROCESSES: Final = ("log", "exec", "attach", "portforward", "proxy")


class Subresources:
    """What can be asked of parts of an object, besides its status."""

    def __init__(self, store: Store, tokens: TokenRequests) -> None:
        self._store = store
        self._tokens = tokens

    def handler(self, method: str, target: Target) -> Handler:
        """Who answers. Raises `ApiError` 404 or 405 if nobody does."""
        resource, name = target.resource, target.subresource
        if resource == PODS and name in _PROCESSES:
            raise status.bad_request(f"pods have no processes here, so there is nothing for {name}")
        ways = self._ways(resource, name)
        if not ways and resource.defined:
            raise status.not_found(resource, target.name)
        if not ways:
            raise status.unknown_resource()
        if method not in ways:
            raise status.method_not_allowed()
        return ways[method]

    def _ways(self, resource: Resource, name: str) -> dict[str, Handler]:
        if resource == PODS and name == "binding":
            return {"POST": self.bind}
        if resource == PODS and name == "eviction":
            return {"POST": self._evict}
        if resource == NAMESPACES and name == "finalize":
            return {"PUT": self._finalize}
        if resource == SERVICE_ACCOUNTS and name == "token":
            return {"POST": self._tokens.create}
        if (resource in SCALED or resource.scaled) and name == "scale":
            return {"GET": self._get_scale, "PUT": self._put_scale, "PATCH": self._patch_scale}
        return {}

    async def bind(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(_BINDING, text, query.get("fieldValidation", "")).data
        name = target.name or (data.get("metadata") or {}).get("name", "")
        check_address(Target(PODS, target.namespace, name), data)
        by = write_context(Options.CREATE, request.headers, query, user)
        self._store.bind(target.namespace, name, data, by=by)
        return success_response(201)

    async def _evict(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(_EVICTION, text.replace(b'"policy/v1beta1"', b'"policy/v1"')).data
        check_address(target, data)
        options: Json = data.get("deleteOptions") or {}
        by = write_context(Options.CREATE, request.headers, query, user, options)
        self._store.evict(target.namespace, target.name, delete_options(query, options), by=by)
        return success_response(201)

    async def _finalize(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(NAMESPACES, text).data
        check_address(target, data)
        by = write_context(Options.UPDATE, request.headers, query, user)
        obj = self._store.update(NAMESPACES, data, subresource="finalize", by=by)
        return json_response(obj)

    async def _get_scale(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        obj = self._store.get(target.resource, target.namespace, target.name)
        scale, is_set = self._scale_of(target.resource, obj)
        if not is_set:
            path = self._custom_scale(target.resource).get("specReplicasPath", "")
            raise status.internal_error(f"the spec replicas field {quote(path)} does not exist")
        return json_response(scale)

    def _custom_scale(self, resource: Resource) -> Json:
        custom = self._store.definitions.version_of(resource)
        return {} if custom is None or custom.scale is None else custom.scale

    def _scale_of(self, resource: Resource, obj: Json) -> tuple[Json, bool]:
        """The Scale of an object, and whether the object says how many there shall be."""
        custom = self._store.definitions.version_of(resource)
        return (scale_of(obj), True) if custom is None else custom.scale_of(obj)

    async def _put_scale(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        by = write_context(Options.UPDATE, request.headers, query, user)
        return self._rescale(target, text, by)

    async def _patch_scale(
        self, request: web.BaseRequest, target: Target, query: Query, user: UserInfo
    ) -> web.Response:
        kind = _PATCHES.get(request.content_type)
        if kind is None:
            raise status.unsupported_media_type(list(_PATCHES))
        change = decode_as(None, await read_body(request), SCALE).data
        old, _ = self._scale_of(
            target.resource, self._store.get(target.resource, target.namespace, target.name)
        )
        by = write_context(Options.PATCH, request.headers, query, user)
        return self._rescale(target, msgspec.json.encode(patched(SCALE, old, change, kind)), by)

    def _rescale(self, target: Target, text: bytes, by: WriteContext) -> web.Response:
        scale: Any = decode_as(the_schema().types["autoscaling.v1.Scale"], text, SCALE).data
        check_address(target, scale)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            wrong = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise status.invalid(SCALE, target.name, [wrong])
        old = self._store.get(target.resource, target.namespace, target.name)
        metadata = {**old["metadata"]}
        metadata.update(
            {key: scale["metadata"][key] for key in ("uid", "resourceVersion") if key in scale["metadata"]}
        )
        custom = self._store.definitions.version_of(target.resource)
        new = {**old, "metadata": metadata}
        if custom is None:
            new["spec"] = {**old.get("spec", {}), "replicas": replicas}
        else:
            new = custom.with_replicas(custom.shown(new), replicas)
        updated = self._store.update(target.resource, new, by=by)
        return json_response(self._scale_of(target.resource, updated)[0])


def scale_of(obj: Json) -> Json:
    """How many there are and shall be of what an object makes, and how to find them."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    shown: Json = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    selector = _selector_text(spec.get("selector") or {})
    if selector:
        shown["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": shown,
    }


def _selector_text(selector: Json) -> str:
    labels = selector.get("matchLabels", {})
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        labels = selector
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator", ""), term.get("key", "")
        values = ",".join(term.get("values") or ())
        written = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append(written.get(operator, f"!{key}"))
    return ",".join(terms)
