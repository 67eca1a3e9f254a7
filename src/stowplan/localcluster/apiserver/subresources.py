"""Subresources that are verbs or views of their own: binding, eviction, scale, finalize, log, exec.

Pods are simulated, so there are no processes for log, exec, attach, portforward and proxy. A wrong request is
refused as by an API server; otherwise `log` returns one line that explains this, and the rest refuse with one
line.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, SERVICES, Resource
from stowplan.api.fielderrors import FieldError, invalid, required
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_int64
from stowplan.localcluster.apiserver.bodies import as_json, decode_object, read_body
from stowplan.localcluster.apiserver.request import (
    RequestOptions,
    RequestTarget,
    delete_options,
    write_context,
)
from stowplan.localcluster.apiserver.responses import Views, add_warnings, json_response
from stowplan.localcluster.apiserver.scale import Scales
from stowplan.localcluster.apiserver.tokenrequests import TokenRequests
from stowplan.localcluster.apiserver.verbs import check_address
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.attempts import carried_out
from stowplan.localcluster.store.pods import BINDINGS, EVICTIONS
from stowplan.localcluster.store.registry import has_scale
from stowplan.localcluster.store.writer import UserInfo, WriteContext

Query = Mapping[str, str]
Handler = Callable[[web.BaseRequest, RequestTarget, Query, UserInfo], Awaitable[web.Response]]


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
        data = decode_object(BINDINGS, text, query.get("fieldValidation", "")).data
        named = (data.get("metadata") or {}).get("name", "")
        name = target.name or named
        _check_name(name, named, "Binding")
        check_address(RequestTarget(PODS, target.namespace, name), data)
        by = write_context(RequestOptions.CREATE, request.headers, query, user)
        await carried_out(lambda by: self._store.bind(target.namespace, name, data, by=by), by)
        return _created(by)

    async def _evict(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(EVICTIONS, text.replace(b'"policy/v1beta1"', b'"policy/v1"')).data
        _check_name(target.name, (data.get("metadata") or {}).get("name", ""), "Eviction")
        check_address(target, data)
        options: Json = data.get("deleteOptions") or {}
        by = write_context(RequestOptions.CREATE, request.headers, query, user, options)
        deletion = delete_options(query, options)
        await carried_out(
            lambda by: self._store.evict(target.namespace, target.name, deletion, eviction=data, by=by), by
        )
        return _created(by)

    async def _finalize(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(NAMESPACES, text).data
        check_address(target, data)
        by = write_context(RequestOptions.UPDATE, request.headers, query, user)
        obj = await carried_out(
            lambda by: self._store.update(NAMESPACES, data, subresource="finalize", by=by), by
        )
        response = json_response(obj)
        add_warnings(response, by.attempts)
        return response


def _check_name(expected: str, given: str, kind: str) -> None:
    """Raises `ApiError` 400 if a body names another pod than its address."""
    if given and given != expected:
        raise status.bad_request(f"name in URL does not match name in {kind} object")


def _created(by: WriteContext) -> web.Response:
    """Answer to a binding or an eviction: unlike other successes it has a code."""
    body: Any = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    response = json_response(body, 201)
    add_warnings(response, by.attempts)
    return response


PROCESSES: Final = ("log", "exec", "attach", "portforward", "proxy")
_LOG_OPTIONS: Final = Resource("", "v1", "podlogoptions", "PodLogOptions")
_NEEDS_CONTAINER: Final = ("log", "exec", "attach")
_LEAST: Final = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
_SERVED: Final = {PODS: PROCESSES, SERVICES: ("proxy",), NODES: ("proxy",)}


def is_connection(resource: Resource, subresource: str) -> bool:
    """True if a subresource of a kind leads to processes."""
    return subresource in _SERVED.get(resource, ())


class ServedConnections:
    """Answers for processes that do not exist."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def log(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        errors = [*_log_errors(query)]
        if errors:
            raise status.invalid(_LOG_OPTIONS, target.name, errors)
        pod = await self._store.read_committed(lambda: self._store.get(PODS, target.namespace, target.name))
        container = _container(pod, query.get("container", ""))
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            return web.Response(status=204)
        if self._store.find(NODES, "", node) is None:
            raise status.not_found(PODS, node)
        name = pod["metadata"]["name"]
        text = f"{name}/{container}: this pod is simulated: no container runs, so there is no log\n"
        return web.Response(text=text)

    async def connect(
        self, request: web.BaseRequest, target: RequestTarget, query: Query, user: UserInfo
    ) -> web.Response:
        """exec, attach, portforward, and proxy of pods, services and nodes."""
        obj = self._store.get(target.resource, target.namespace, target.name)
        name, what = target.name, target.subresource
        if target.resource == SERVICES:
            raise status.not_found(SERVICES, name)
        if target.resource == PODS:
            if what in _NEEDS_CONTAINER:
                _container(obj, query.get("container", ""))
            if what == "proxy":
                raise status.bad_request("address not allowed")
            if not (obj.get("spec") or {}).get("nodeName"):
                raise status.bad_request(f"pod {name} does not have a host assigned")
        kind = target.resource.kind.lower()
        raise status.bad_request(f"{what} is not possible: {kind} {name} is simulated and runs no processes")


def _container(pod: Json, wanted: str) -> str:
    """The container that is meant. Raises `ApiError` 400 if there is no such one, or if several could be."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    by_kind = [
        [container["name"] for container in spec.get(kind) or ()]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    ]
    if wanted:
        if not any(wanted in names for names in by_kind):
            raise status.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(by_kind[0]) == 1:
        return str(by_kind[0][0])
    labels = ("choose one of: ", "or one of the init containers: ", "or one of the ephemeral containers: ")
    shown = [f"{label}[{' '.join(names)}]" for label, names in zip(labels, by_kind, strict=True) if names]
    raise status.bad_request(f"a container name must be specified for pod {name}, {' '.join(shown)}")


def _log_errors(query: Query) -> list[FieldError]:
    errors: list[FieldError] = []
    numbers: dict[str, int] = {}
    for field in _LEAST:
        if query.get(field):
            number = parse_int64(query[field])
            if number is None:
                raise status.bad_request(f"{field}: expected a whole number, got {query[field][:40]!r}")
            numbers[field] = number
    for field, number in numbers.items():
        if number < _LEAST[field]:
            text = "must be greater than or equal to 0" if not _LEAST[field] else "must be greater than 0"
            errors.append(invalid(field, number, text))
    if query.get("sinceTime") and "sinceSeconds" in numbers:
        errors.append(required("sinceTime", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    return errors
