"""Subresources that are verbs or views of their own: binding, eviction, scale, finalize, log, exec."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.bodies import as_json, decode_object, read_body
from stowplan.localcluster.apiserver.connections import ServedConnections, is_connection
from stowplan.localcluster.apiserver.request import (
    RequestOptions,
    RequestTarget,
    delete_options,
    write_context,
)
from stowplan.localcluster.apiserver.responses import Views, json_response
from stowplan.localcluster.apiserver.scale import Scales
from stowplan.localcluster.apiserver.tokenrequests import TokenRequests
from stowplan.localcluster.apiserver.verbs import check_address
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.registry import has_scale
from stowplan.localcluster.store.writer import UserInfo

Query = Mapping[str, str]
Handler = Callable[[web.BaseRequest, RequestTarget, Query, UserInfo], Awaitable[web.Response]]
_BINDING: Final = Resource("", "v1", "bindings", "Binding")
_EVICTION: Final = Resource("policy", "v1", "evictions", "Eviction")


class Subresources:
    """Requests for parts of an object, besides its status."""

    def __init__(self, store: Store, views: Views, tokens: TokenRequests) -> None:
        self._store = store
        self._tokens = tokens
        self._scales = Scales(store, views)
        self._connections = ServedConnections(store)

    def handler(self, method: str, target: RequestTarget) -> Handler:
        """Handler of a request. Raises `ApiError` 404 or 405 if there is none."""
        ways = self._ways(target.resource, target.subresource)
        if not ways and target.resource.defined:
            raise status.not_found(target.resource, target.name)
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
        if name == "scale" and has_scale(resource):
            return {"GET": self._scales.get, "PUT": self._scales.put, "PATCH": self._scales.patch}
        if is_connection(resource, name):
            if name == "log":
                return {"GET": self._connections.log}
            methods = ("GET", "POST", "PUT", "PATCH", "DELETE") if name == "proxy" else ("GET", "POST")
            return dict.fromkeys(methods, self._connections.connect)
        return {}

    async def bind(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(_BINDING, text, query.get("fieldValidation", "")).data
        named = (data.get("metadata") or {}).get("name", "")
        name = target.name or named
        _check_name(name, named, "Binding")
        check_address(RequestTarget(PODS, target.namespace, name), data)
        by = write_context(RequestOptions.CREATE, request.headers, query, user)
        self._store.bind(target.namespace, name, data, by=by)
        return _created()

    async def _evict(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(_EVICTION, text.replace(b'"policy/v1beta1"', b'"policy/v1"')).data
        _check_name(target.name, (data.get("metadata") or {}).get("name", ""), "Eviction")
        check_address(target, data)
        options: Json = data.get("deleteOptions") or {}
        by = write_context(RequestOptions.CREATE, request.headers, query, user, options)
        self._store.evict(target.namespace, target.name, delete_options(query, options), by=by)
        return _created()

    async def _finalize(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(NAMESPACES, text).data
        check_address(target, data)
        by = write_context(RequestOptions.UPDATE, request.headers, query, user)
        obj = self._store.update(NAMESPACES, data, subresource="finalize", by=by)
        return json_response(obj)


def _check_name(expected: str, given: str, kind: str) -> None:
    """Raises `ApiError` 400 if a body names another pod than its address."""
    if given and given != expected:
        raise status.bad_request(f"name in URL does not match name in {kind} object")


def _created() -> web.Response:
    """Answer to a binding or an eviction: unlike other successes it has a code."""
    body: Any = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_response(body, 201)
