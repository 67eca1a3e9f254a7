"""Subresources that lead to a container's processes: log, exec, attach, portforward, proxy.

Pods are simulated, so there are no processes. A wrong request is refused as by an API server; otherwise `log`
returns one line that explains this, and the rest refuse with one line.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import NODES, PODS, SERVICES, Resource
from stowplan.api.fielderrors import FieldError, invalid, required
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_int64
from stowplan.localcluster.apiserver.request import RequestTarget
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import UserInfo

Query = Mapping[str, str]
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
