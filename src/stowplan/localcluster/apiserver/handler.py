"""The handler chain of every request.

    authentication   who sends it, as whom            `authenticate`, `impersonated`: a `User`, or 401
    authorization    whether that user may do it      `attributes_of`, `AccessRules.decide`: nothing, or 403
    request info     what it is about                 `PathResolver.target`: a `RequestTarget`, or a document
    verb             decode, act, encode              `ReadVerbs`, `WriteVerbs`, `Subresources`, `Reviews`
      admission      defaults, plugins, validation    in the store, before a write: `ClusterAdmission`
      storage        version, history, watchers       in the store: `ObjectStorage`
    durability       answer once the write is kept    `_once_durable`

Whatever a stage raises becomes a Status; what it did not mean to raise, a 500 with a line in the log.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.quantity import QuantityError
from stowplan.api.releases import DEFAULT, Release
from stowplan.localcluster.admission.plugins.serviceaccount import NoDefaultAccountError
from stowplan.localcluster.apiserver import discovery
from stowplan.localcluster.apiserver.apiservices import ApiServices
from stowplan.localcluster.apiserver.health import HealthChecks
from stowplan.localcluster.apiserver.metrics import (
    CONTENT_TYPE,
    RequestLabels,
    RequestMetrics,
    labels_of,
)
from stowplan.localcluster.apiserver.openapi import OpenApi
from stowplan.localcluster.apiserver.request import (
    DISCOVERY,
    JSON,
    PROTOBUF,
    YAML,
    PathResolver,
    RequestTarget,
    check_acceptable,
    flag,
    negotiated,
    not_acceptable,
)
from stowplan.localcluster.apiserver.requestinfo import attributes_of
from stowplan.localcluster.apiserver.resourcemetrics import METRICS, ResourceMetricsApi
from stowplan.localcluster.apiserver.responses import (
    Views,
    error_response,
    in_media_type,
    json_response,
    warning_header,
)
from stowplan.localcluster.apiserver.reviews import Reviews
from stowplan.localcluster.apiserver.sending import sent
from stowplan.localcluster.apiserver.subresources import Subresources
from stowplan.localcluster.apiserver.tokenrequests import TokenRequests
from stowplan.localcluster.apiserver.verbs import Notices, ReadVerbs, WriteVerbs
from stowplan.localcluster.auth.authentication import Authenticator, impersonated
from stowplan.localcluster.auth.certificates import certificate_user
from stowplan.localcluster.auth.rbac import AccessRules, Attributes, forbidden
from stowplan.localcluster.auth.tokens import JWKS_PATH, OPENID_PATH, TokenIssuer
from stowplan.localcluster.auth.users import User
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.conversion import served_error
from stowplan.localcluster.store.registry import is_part
from stowplan.runtime.clock import Clock

_log: Final = logging.getLogger(__name__)
_ACCOUNT_WAITS: Final = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6)
"""How long to wait for the default account of a namespace: a second in all, as kube-apiserver does."""

_SHOWN: Final = 100
_HEALTH: Final = frozenset(("/healthz", "/livez", "/readyz"))
"""Paths that need no rights, so that probes without credentials work."""

_TARGET: Final = web.RequestKey("target", RequestTarget)
_NONE: Final[Mapping[str, str]] = {}
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


MayRead = Callable[[str, str], Awaitable[bool]]
"""True if the user of a request may read objects of a resource (its plural) in a namespace."""


class HandlerExtension(Protocol):
    """Something else that the server serves, such as the API of a scheduler that runs with it."""

    def serves(self, path: str) -> bool: ...

    async def respond(self, request: web.BaseRequest, may_read: MayRead) -> web.StreamResponse: ...


class RequestHandler:
    """Answers every request to the server. `extension` answers what is not Kubernetes'."""

    def __init__(
        self,
        store: Store,
        authenticator: Authenticator,
        issuer: TokenIssuer,
        clock: Clock,
        rng: random.Random,
        watch_limit: int,
        stored_only: Collection[Resource] = (),
        usage: PretendUsage | None = None,
        release: Release = DEFAULT,
        notices: Notices = lambda resource, obj: (),
    ) -> None:
        views = Views(clock, store.definitions)
        self._store = store
        self._clock = clock
        self._served = discovery.ServedKinds(store.catalogue, release)
        self._authenticator = authenticator
        self._paths = PathResolver(self._served)
        self._issuer = issuer
        self._access = AccessRules(store)
        self._subresources = Subresources(store, views, TokenRequests(store, issuer, clock))
        self._reviews = Reviews(authenticator, self._access, clock)
        self._metrics = None if usage is None else ResourceMetricsApi(store, usage, clock)
        self._version = discovery.version_info(release)
        self._openapi = OpenApi(self._served, store.definitions, release)
        self._writes = WriteVerbs(store, views, frozenset(stored_only), notices)
        self.reads = ReadVerbs(store, views, rng, watch_limit)
        self.health = HealthChecks(store)
        self.api_services = ApiServices(store, self._served)
        self.metrics = RequestMetrics(store)
        self.extension: HandlerExtension | None = None

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await sent(request, await self.respond(request))
        except ConnectionError:
            # The client has disconnected: the response is not read.
            return web.Response()
        except web.HTTPException:
            raise
        except Exception:  # noqa: BLE001 - logged, with one line to the client
            _log.exception("%s %s", request.method, request.path)
            return error_response(
                status.ApiError(500, "InternalError", "Internal error occurred: see the server's log")
            )

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """The response; one that is long and known as a whole is not sent yet."""
        method, begun = request.method, self._clock.monotonic()
        self.metrics.begin(method)
        try:
            found = await self._responded(request)
        finally:
            self.metrics.end(method)
        self.metrics.count(_labels_of(request), found.status, self._clock.monotonic() - begun)
        return found

    async def _responded(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._once_durable(
                request, await self._encoded(request, await self._answer(request))
            )
        except status.ApiError as error:
            return await self._once_durable(request, await self._refusal(request, error))
        except QuantityError as error:
            # Upstream's decoder refuses these; ours leaves suffixes to the reader of the amount.
            return await self._once_durable(
                request, await self._refusal(request, status.bad_request(str(error)))
            )

    async def _encoded(self, request: web.BaseRequest, found: web.StreamResponse) -> web.StreamResponse:
        """The response in the media type that the client accepts."""
        accept = request.headers.get("Accept", "")
        if not isinstance(found, web.Response) or (YAML not in accept and PROTOBUF not in accept):
            return found
        return await in_media_type(found, negotiated(accept).media)

    async def _refusal(self, request: web.BaseRequest, error: status.ApiError) -> web.StreamResponse:
        response = error_response(error)
        try:
            return await self._encoded(request, response)
        except status.ApiError:
            return response

    async def _once_durable(self, request: web.BaseRequest, found: web.StreamResponse) -> web.StreamResponse:
        """The response, once every write it may show is durable; a write that is not has failed."""
        if not found.prepared:
            lost = await self._store.settled()
            if lost is not None and request.method != "GET" and found.status < 400:
                return error_response(lost)
        return found

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Authentication, request info, authorization, verb."""
        path = request.rel_url.raw_path
        if not path.startswith("/"):
            raise status.bad_request(f"expected a path, got {path[:_SHOWN]!r}")
        text = request.rel_url.raw_query_string
        if path in _HEALTH:
            return self.health.answer(path, text) or self._nothing_at(path)
        query = _query(text) if text else _NONE
        user = self._authorized_user(request, path, query)
        target = self._paths.target(path)
        if target is None:
            return await self._answer_other(request, path, query, user)
        request[_TARGET] = target
        is_list = request.method == "GET" and not target.name
        check_acceptable(request.headers.get("Accept", ""), is_list=is_list)
        if target.watch:
            query = {**query, "watch": "true"}
        try:
            response = await self._verb(request, target, query, user)
        except status.ApiError as error:
            raise served_error(target.resource, error) from None
        if target.resource.deprecation and not response.prepared:
            response.headers.add("Warning", warning_header(target.resource.deprecation))
        return response

    def _authorized_user(self, request: web.BaseRequest, path: str, query: Mapping[str, str]) -> User:
        """As whom the request is done. Raises `ApiError` 401, or 403 if that user may not do it."""
        user = self._authenticator.authenticate(request.headers, _certificate_user(request))
        wanted = None if user.is_admin else attributes_of(user, request.method, path, query)
        user = impersonated(user, request.headers, self._access, wanted)
        if not user.is_admin:
            wanted = attributes_of(user, request.method, path, query)
            decision = self._access.decide(wanted)
            if not decision.allowed:
                raise forbidden(wanted, decision.reason)
        return user

    async def _verb(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str], user: User
    ) -> web.StreamResponse:
        method = request.method
        if method != "GET":
            self._store.admit_writes()
        if target.subresource and not is_part(target.resource, target.subresource):
            return await self._subresources.handler(method, target)(request, target, query, user)
        if not target.subresource and _verb_of(method, target, query) not in target.resource.verbs:
            raise status.method_not_allowed()
        if self._metrics is not None and target.resource in METRICS:
            return self._metrics.answer(target, query)
        if method == "GET":
            if not target.name or target.watch:
                if flag(query, "watch"):
                    return await self._watch(request, target, query)
                return await self.reads.list(request, target, query)
            return await self.reads.get(request, target, query)
        if method == "POST" and not target.name:
            return await self._create(request, target, query, user)
        if method == "PUT" and target.name:
            return await self._writes.update(request, target, query, user)
        if method == "PATCH" and target.name:
            return await self._writes.patch(request, target, query, user)
        if method == "DELETE" and not target.subresource:
            if target.name:
                return await self._writes.delete(request, target, query, user)
            return await self._writes.delete_collection(request, target, query, user)
        raise status.method_not_allowed()

    async def _watch(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str]
    ) -> web.StreamResponse:
        labels = _labels_of(request)
        self.metrics.watch_begins(labels)
        try:
            return await self.reads.list(request, target, query)
        finally:
            self.metrics.watch_ends(labels)

    async def _create(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str], user: User
    ) -> web.Response:
        """Create an object; a pod in a new namespace waits a little for the account that it runs as."""
        for seconds in _ACCOUNT_WAITS:
            try:
                return await self._writes.create(request, target, query, user)
            except NoDefaultAccountError:
                await asyncio.sleep(seconds)
        return await self._writes.create(request, target, query, user)

    async def _answer_other(
        self, request: web.BaseRequest, path: str, query: Mapping[str, str], user: User
    ) -> web.StreamResponse:
        """Answer requests that are not about stored objects: reviews, documents that describe the API, and
        extensions."""
        if self.extension is not None and self.extension.serves(path):
            return await self.extension.respond(request, self._reading_rights(user))
        review = self._reviews.resource(path)
        if review is not None:
            if request.method != "POST":
                raise status.method_not_allowed()
            return await self._reviews.answer(request, *review, query, user)
        binding = _binding_namespace(path)
        if binding and request.method == "POST":
            return await self._subresources.bind(request, RequestTarget(PODS, binding), query, user)
        if path == "/metrics":
            return web.Response(body=self.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})
        if self.health.serves(path):
            return self.health.answer(path, request.rel_url.raw_query_string) or self._nothing_at(path)
        document = self._document(request, path)
        if document is None:
            return self._nothing_at(path)
        if request.method != "GET" and path != "/apis":
            raise status.method_not_allowed()
        return document

    def _reading_rights(self, user: User) -> MayRead:
        async def may_read(resource: str, namespace: str) -> bool:
            plural, _, group = resource.partition(".")
            return self._access.decide(Attributes(user, "get", group, plural, namespace=namespace)).allowed

        return may_read

    def _document(self, request: web.BaseRequest, path: str) -> web.Response | None:
        document = self._openapi.answer(path, request.headers.get("Accept", ""))
        if document is not None:
            return document
        if path == OPENID_PATH:
            return json_response(self._issuer.openid_configuration(f"{request.scheme}://{request.host}"))
        if path == JWKS_PATH:
            return json_response(self._issuer.jwks(), content_type="application/jwk-set+json")
        parts = [part for part in path.split("/") if part]
        found = None
        is_discovery = parts[:1] in (["api"], ["apis"]) and len(parts) < 4
        form = negotiated(request.headers.get("Accept", "")) if is_discovery else None
        match parts:
            case ["version"]:
                accept = request.headers.get("Accept", "")
                if accept and negotiated(accept).media != JSON:
                    raise not_acceptable((JSON,))
                found = self._version
            case ["api" | "apis"] if form is not None and form.form == DISCOVERY:
                names = [""] if parts == ["api"] else list(discovery.groups(self._served))
                return _aggregated(discovery.aggregated(self._served, names, form.version), form.version)
            case ["api"]:
                found = discovery.legacy_versions(request.host)
            case ["apis"]:
                found = discovery.group_list(self._served)
            case ["apis", group]:
                found = discovery.one_group(self._served, group)
            case ["api", version]:
                found = discovery.resource_list(self._served, "", version)
            case ["apis", group, version]:
                found = discovery.resource_list(self._served, group, version)
        return None if found is None else json_response(found)

    def _nothing_at(self, path: str) -> web.Response:
        """The answer for a path at which there is nothing: a Status only where a built-in API is served."""
        parts = path.split("/")
        groups = discovery.groups(self._served)
        in_group = parts[1] == "apis" and len(parts) > 3 and parts[2] in groups
        if in_group and all(one.defined for one in self._served if one.group == parts[2]):
            in_group = False
        if in_group or (parts[1] == "api" and len(parts) > 2):
            raise status.unknown_resource()
        return web.Response(text="404 page not found\n", status=404)


def _certificate_user(request: web.BaseRequest) -> User | None:
    """The user of the client's certificate, which the TLS layer has verified."""
    transport = request.transport
    peer = None if transport is None else transport.get_extra_info("peercert")
    if not peer:
        return None
    assert transport is not None
    return certificate_user(peer, transport.get_extra_info("ssl_object").getpeercert(binary_form=True))


def _labels_of(request: web.BaseRequest) -> RequestLabels:
    text = request.rel_url.raw_query_string
    try:
        query = _query(text) if text else _NONE
    except status.ApiError:
        query = _NONE
    content_type = request.content_type if request.method == "PATCH" else ""
    return labels_of(request.method, request.rel_url.raw_path, request.get(_TARGET), query, content_type)


def _aggregated(data: object, version: str) -> web.Response:
    response = json_response(data)
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


def _verb_of(method: str, target: RequestTarget, query: Mapping[str, str]) -> str:
    """Verb of a request, as in discovery."""
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and (not target.name or target.watch):
        return "watch" if flag(query, "watch") else "list"
    return "deletecollection" if verb == "delete" and not target.name else verb
