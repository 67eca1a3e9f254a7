"""Requests in, answers out: who asks, what about, who answers, and no surprise gets through."""

import logging
import random
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import PODS
from stowplan.clock import Clock
from stowplan.embedded.apiserver import discovery
from stowplan.embedded.apiserver.access import Access, User, forbidden, may_read_path
from stowplan.embedded.apiserver.answers import answer, json_answer, refusal
from stowplan.embedded.apiserver.negotiation import DISCOVERY, wanted
from stowplan.embedded.apiserver.openapi import OpenApi
from stowplan.embedded.apiserver.options import flag
from stowplan.embedded.apiserver.paths import Addresses, Target, namespace_of
from stowplan.embedded.apiserver.reading import Reading
from stowplan.embedded.apiserver.reviews import Reviews
from stowplan.embedded.apiserver.subresources import Subresources
from stowplan.embedded.apiserver.views import Views
from stowplan.embedded.apiserver.writing import NOT_ALLOWED, Writing
from stowplan.embedded.store import Store

_log: Final = logging.getLogger(__name__)
_HEALTH: Final = frozenset(("/healthz", "/livez", "/readyz"))
_NONE: Final[Mapping[str, str]] = {}
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Handler:
    """Answers every request to the server."""

    def __init__(
        self, store: Store, access: Access, clock: Clock, rng: random.Random, watch_limit: int
    ) -> None:
        views = Views(clock)
        self._store = store
        self._catalogue = store.catalogue
        self._access = access
        self._addresses = Addresses(store.catalogue)
        self._subresources = Subresources(store)
        self._reviews = Reviews(access)
        self._openapi = OpenApi(store.catalogue)
        self._writing = Writing(store, views)
        self.reading = Reading(store, views, rng, watch_limit)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._once_kept(request, await self._answer(request))
        except status.ApiError as error:
            return await self._once_kept(request, refusal(error))
        except (ConnectionError, web.HTTPException):
            raise
        except Exception:  # noqa: BLE001 - told in the log, and in no more than a line to the client
            _log.exception("%s %s", request.method, request.path)
            return refusal(
                status.ApiError(500, "InternalError", "Internal error occurred: see the server's log")
            )

    async def _once_kept(self, request: web.BaseRequest, found: web.StreamResponse) -> web.StreamResponse:
        """The answer, when all that it can tell of is kept; a write that could not be kept has failed."""
        if not found.prepared:
            lost = await self._store.settled()
            if lost is not None and request.method != "GET" and found.status < 400:
                return refusal(lost)
        return found

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in _HEALTH:
            return answer(b"ok", content_type="text/plain")
        user = self._access.user(request.headers)
        target = self._addresses.target(path)
        if target is None:
            return await self._answer_other(request, path, user)
        text = request.rel_url.raw_query_string
        query = _query(text) if text else _NONE
        if not user.may_all:
            raise _forbidden(user, request.method, target, query)
        return await self._answer_about(request, target, query)

    async def _answer_about(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> web.StreamResponse:
        method = request.method
        if target.subresource and (target.subresource != "status" or not target.resource.status):
            return await self._subresources.handler(method, target)(request, target, query)
        if method == "GET":
            if not target.name or flag(query, "watch"):
                return await self.reading.list(request, target, query)
            return self.reading.get(request, target, query)
        if method == "POST" and not target.name:
            return await self._writing.create(request, target, query)
        if method == "PUT" and target.name:
            return await self._writing.update(request, target, query)
        if method == "PATCH" and target.name:
            return await self._writing.patch(request, target, query)
        if method == "DELETE" and not target.subresource:
            if target.name:
                return await self._writing.delete(request, target, query)
            return await self._writing.delete_collection(request, target, query)
        raise status.ApiError(405, "MethodNotAllowed", NOT_ALLOWED)

    async def _answer_other(self, request: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        """What is not about objects that are kept."""
        review = self._reviews.resource(path)
        if review is not None and request.method == "POST":
            return await self._reviews.answer(request, review, user)
        binding = _binding_namespace(path)
        if binding and request.method == "POST" and user.may_all:
            return await self._subresources.bind(request, Target(PODS, binding), _NONE)
        if not may_read_path(user, path):
            raise status.ApiError(
                403,
                "Forbidden",
                f'forbidden: User "{user.name}" cannot {request.method.lower()} path "{path}"',
            )
        if request.method != "GET":
            raise status.ApiError(405, "MethodNotAllowed", NOT_ALLOWED)
        return self._document(request, path)

    def _document(self, request: web.BaseRequest, path: str) -> web.Response:
        document = self._openapi.answer(path, request.headers.get("Accept", ""))
        if document is not None:
            return document
        parts = [part for part in path.split("/") if part]
        found = None
        form = wanted(request.headers.get("Accept", "")) if parts[:1] in (["api"], ["apis"]) else None
        match parts:
            case ["version"]:
                found = discovery.VERSION
            case ["api" | "apis"] if form is not None and form.form == DISCOVERY:
                names = [""] if parts == ["api"] else list(discovery.groups(self._catalogue))
                return _aggregated(discovery.aggregated(self._catalogue, names, form.version), form.version)
            case ["api"]:
                found = discovery.legacy_versions(request.host)
            case ["apis"]:
                found = discovery.group_list(self._catalogue)
            case ["apis", group]:
                found = discovery.one_group(self._catalogue, group)
            case ["api", version]:
                found = discovery.resource_list(self._catalogue, "", version)
            case ["apis", group, version]:
                found = discovery.resource_list(self._catalogue, group, version)
        if found is None:
            raise status.ApiError(404, "NotFound", "the server could not find the requested resource")
        return json_answer(found)


def _aggregated(data: object, version: str) -> web.Response:
    response = json_answer(data)
    response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={version};as={DISCOVERY}"
    return response


def _query(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise status.bad_request(f"query: {error}") from None


def _binding_namespace(path: str) -> str:
    """The namespace in whose `bindings` something is posted, empty for any other path."""
    parts = path.split("/")
    is_bindings = len(parts) == 6 and parts[:4] == ["", "api", "v1", "namespaces"] and parts[5] == "bindings"
    return parts[4] if is_bindings else ""


def _forbidden(user: User, method: str, target: Target, query: Mapping[str, str]) -> status.ApiError:
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "watch" if flag(query, "watch") else "list"
    elif verb == "delete" and not target.name:
        verb = "deletecollection"
    resource = target.resource
    plural = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    return forbidden(user, verb, resource.group, plural, namespace_of(target), target.name)
