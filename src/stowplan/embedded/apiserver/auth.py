"""Authentication and authorization: who sends a request, and what they may do.

The owner of the token may do everything, everybody else may read what describes the API. The reviews of
authentication.k8s.io and authorization.k8s.io are answered from the same rules and not stored.
"""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.apiserver.bodies import as_json, decode_object, read_body
from stowplan.embedded.apiserver.discovery import REVIEW_KINDS
from stowplan.embedded.apiserver.responses import json_response

ADMINISTRATORS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_OPEN_PATHS: Final = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")


class User(NamedTuple):
    """Somebody who asks."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)

    @property
    def is_admin(self) -> bool:
        return ADMINISTRATORS in self.groups


class Authenticator:
    """Knows the one token there is. There are no roles: only administrators may do anything.

    An administrator may act as somebody else, and then is refused as that person would be.
    """

    def __init__(self, token: str | None) -> None:
        self._header = None if token is None else f"Bearer {token}".encode()
        self._token = token
        self._owner = User("stowplan-admin", (ADMINISTRATORS, AUTHENTICATED))

    @property
    def token(self) -> str | None:
        return self._token

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """Who asks. Raises `ApiError` 401 for a request without the right credentials."""
        if self._header is not None:
            given = headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._header):
                raise ApiError(401, "Unauthorized", "Unauthorized")
        if "Impersonate-User" in headers:
            return User(headers["Impersonate-User"], _impersonated_groups(headers))
        return self._owner

    def token_owner(self, token: str) -> User | None:
        """Whose token this is, None if it is nobody's."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        return self._owner


def can_read_path(user: User, path: str) -> bool:
    """Whether somebody may read something that is not an object."""
    return user.is_admin or any(path == open_ or path.startswith(f"{open_}/") for open_ in _OPEN_PATHS)


def forbidden(user: User, verb: str, group: str, plural: str, namespace: str, name: str = "") -> ApiError:
    """A refusal for lack of permission."""
    qualified = f"{plural}.{group}" if group else plural
    shown = f'{qualified} "{name}"' if name else qualified
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = (
        f'{shown} is forbidden: User "{user.name}" cannot {verb} resource "{plural}" '
        f'in API group "{group}" {scope}'
    )
    details = {"name": name, "group": group, "kind": plural}
    return ApiError(403, "Forbidden", text, {key: value for key, value in details.items() if value})


def _impersonated_groups(headers: Mapping[str, str]) -> tuple[str, ...]:
    getall = getattr(headers, "getall", None)
    given = getall("Impersonate-Group", ()) if getall is not None else ()
    return (*given, AUTHENTICATED)


_AUTHENTICATION_REVIEWS = ("tokenreviews", "selfsubjectreviews")


class Reviews:
    """Answers to the groups authentication.k8s.io and authorization.k8s.io."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def resource(self, path: str) -> Resource | None:
        """The kind of review that a path is for, None if it is for none."""
        parts = path.strip("/").split("/")
        if len(parts) == 6 and parts[3] == "namespaces" and parts[5] == "localsubjectaccessreviews":
            parts = [*parts[:3], parts[5]]
        if len(parts) != 4 or parts[0] != "apis" or parts[2] != "v1" or parts[3] not in REVIEW_KINDS:
            return None
        expected = "authentication.k8s.io" if parts[3] in _AUTHENTICATION_REVIEWS else "authorization.k8s.io"
        if parts[1] != expected:
            return None
        return Resource(parts[1], parts[2], parts[3], REVIEW_KINDS[parts[3]])

    async def answer(self, request: web.BaseRequest, resource: Resource, user: User) -> web.Response:
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(resource, text).data
        if not isinstance(data, dict):
            raise status.bad_request(f"{resource.kind}: expected a map")
        spec: Json = data.get("spec") or {}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": spec}
        return json_response({**body, "status": self._status(resource.kind, spec, user)}, 201)

    def _status(self, kind: str, spec: Json, user: User) -> Json:
        if kind == "TokenReview":
            return self._token_status(str(spec.get("token") or ""))
        if kind == "SelfSubjectReview":
            return {"userInfo": {"username": user.name, "groups": user.groups}}
        if kind == "SelfSubjectRulesReview":
            return _rules_status(user)
        if kind != "SelfSubjectAccessReview":
            user = User(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
        return _access_status(user, spec)

    def _token_status(self, token: str) -> Json:
        owner = self._authenticator.token_owner(token)
        if owner is None:
            return {"user": {}, "error": "the token is not known"}
        return {"authenticated": True, "user": {"username": owner.name, "groups": owner.groups}}


def _access_status(user: User, spec: Json) -> Json:
    path = spec.get("nonResourceAttributes")
    if path is not None and not user.is_admin:
        allowed = path.get("verb") == "get" and can_read_path(user, str(path.get("path") or ""))
        return {"allowed": allowed}
    return {"allowed": True, "reason": f"member of {ADMINISTRATORS}"} if user.is_admin else {"allowed": False}


def _rules_status(user: User) -> Json:
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    return {
        "resourceRules": everything if user.is_admin else [],
        "nonResourceRules": [{"verbs": ["*"] if user.is_admin else ["get"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
