"""TokenRequest: tokens of service accounts for permitted users (`kubectl create token`)."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from stowplan.api.fielderrors import FieldError, invalid
from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.bodies import as_json, decode_object, read_body
from stowplan.localcluster.apiserver.request import RequestOptions, RequestTarget, write_context
from stowplan.localcluster.apiserver.responses import json_response
from stowplan.localcluster.apply import after_creation
from stowplan.localcluster.auth.tokens import BoundObject, TokenIssuer
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import UserInfo
from stowplan.runtime.clock import Clock

TOKEN_REQUEST: Final = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_DEFAULT_SECONDS: Final = 3600
_MIN_SECONDS: Final = 600
_PROJECTED_SECONDS: Final = 3607
"""Lifetime that kubelets request; such a token is valid for longer, for clients that do not read it again."""

_EXTENDED_SECONDS: Final = 365 * 24 * 3600
_BINDABLE: Final = {resource.kind: resource for resource in (PODS, NODES, SECRETS)}


class TokenRequests:
    """The subresource `token` of service accounts."""

    def __init__(self, store: Store, issuer: TokenIssuer, clock: Clock) -> None:
        self._store = store
        self._issuer = issuer
        self._clock = clock

    async def create(
        self, request: web.BaseRequest, target: RequestTarget, query: Mapping[str, str], user: UserInfo
    ) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data: Any = decode_object(TOKEN_REQUEST, text, query.get("fieldValidation", "")).data
        if not isinstance(data, dict):
            raise status.bad_request("TokenRequest: expected a map")
        by = write_context(RequestOptions.CREATE, request.headers, query, user)
        metadata: Json = data.get("metadata") or {}
        for field, expected in (("name", target.name), ("namespace", target.namespace)):
            given = metadata.get(field)
            if given and given != expected:
                text_ = f"must match the service account {field} if specified"
                raise status.invalid(TOKEN_REQUEST, target.name, [invalid(f"metadata.{field}", given, text_)])
        account = self._store.get(SERVICE_ACCOUNTS, target.namespace, target.name)
        spec: Json = {"expirationSeconds": _DEFAULT_SECONDS, **(data.get("spec") or {})}
        if spec["expirationSeconds"] is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        now = self._clock.now()
        kept = {"name": target.name, "namespace": target.namespace, "uid": account["metadata"]["uid"]}
        managed = managed_by(TOKEN_REQUEST, {"spec": spec}, by.field_manager, timestamp(now), "token")
        shown = {
            "kind": TOKEN_REQUEST.kind,
            "apiVersion": TOKEN_REQUEST.api_version,
            "metadata": {**kept, "creationTimestamp": timestamp(now), "managedFields": managed},
        }
        spec = {**spec, "audiences": spec.get("audiences") or list(self._issuer.audiences)}
        spec.setdefault("boundObjectRef", None)
        _check(spec)
        _check_uid(metadata.get("uid"), account)
        token = self._token(account, spec)
        ends = timestamp(now + spec["expirationSeconds"])
        return json_response(
            {**shown, "spec": spec, "status": {"token": token, "expirationTimestamp": ends}}, 201
        )

    def _token(self, account: Json, spec: Json) -> str:
        seconds, audiences = spec["expirationSeconds"], spec["audiences"]
        ref = spec["boundObjectRef"]
        bound = None if ref is None else self._bound(account, ref)
        is_projected = bound is not None and bound.kind == "Pod" and seconds == _PROJECTED_SECONDS
        if is_projected and set(audiences) <= set(self._issuer.audiences):
            return self._issuer.sign(account, audiences, _EXTENDED_SECONDS, bound, seconds)
        return self._issuer.sign(account, audiences, seconds, bound)

    def _bound(self, account: Json, ref: Json) -> BoundObject:
        """The object a token is to be bound to. Raises `ApiError` 400, 404 or 409."""
        group, _, version = (ref.get("apiVersion") or "").rpartition("/")
        kind, name = ref.get("kind") or "", ref.get("name") or ""
        resource = _BINDABLE.get(kind)
        if resource is None or group:
            raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        namespace = account["metadata"]["namespace"] if resource.namespaced else ""
        obj = self._store.get(resource, namespace, name)
        uid, node = obj["metadata"]["uid"], None
        if resource == PODS:
            runs_as = obj["spec"].get("serviceAccountName", "")
            if runs_as != account["metadata"]["name"]:
                raise status.bad_request(
                    f'cannot bind token for serviceaccount "{account["metadata"]["name"]}" to pod running '
                    "with different serviceaccount name."
                )
            node = self._node(obj["spec"].get("nodeName", ""))
        if ref.get("uid") and ref["uid"] != uid:
            raise status.conflict(
                Resource(group, version, kind, kind),
                name,
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return BoundObject(kind, name, uid, node)

    def _node(self, name: str) -> tuple[str, str] | None:
        if not name:
            return None
        node = self._store.find(NODES, "", name)
        return name, "" if node is None else node["metadata"]["uid"]


def _check(spec: Json) -> None:
    """Raises `ApiError` 422."""
    seconds = spec["expirationSeconds"]
    errors: list[FieldError] = []
    path = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        errors.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        errors.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
    if errors:
        raise status.invalid(TOKEN_REQUEST, "", errors)


def _check_uid(uid: str | None, account: Json) -> None:
    """Raises `ApiError` 409 if the request is for another account of that name."""
    actual = account["metadata"]["uid"]
    if uid and uid != actual:
        raise status.conflict(
            Resource(TOKEN_REQUEST.group, "v1", TOKEN_REQUEST.kind, TOKEN_REQUEST.kind),
            account["metadata"]["name"],
            f"the UID in the token request ({uid}) does not match the UID of the service account ({actual})",
        )


def managed_by(resource: Resource, obj: Json, manager: str, stamp: str, subresource: str = "") -> list[Json]:
    """Managed fields of an object that is shown to its writer and not stored."""
    type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
    shown = {**obj, "apiVersion": resource.api_version}
    managed = after_creation(type_, shown, manager, stamp, has_status=True)
    return [{**entry, "subresource": subresource} if subresource else entry for entry in managed.entries()]
