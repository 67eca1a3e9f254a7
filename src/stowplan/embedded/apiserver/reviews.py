"""Reviews: who somebody is, and whether they may do something. They are answered and not kept."""

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.access import ADMINISTRATORS, Access, User, may_read_path
from stowplan.embedded.apiserver.answers import json_answer
from stowplan.embedded.apiserver.bodies import as_json, decode_object, read_body
from stowplan.embedded.apiserver.discovery import REVIEW_KINDS


class Reviews:
    """Answers to the groups authentication.k8s.io and authorization.k8s.io."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def resource(self, path: str) -> Resource | None:
        """The kind of review that a path is for, None if it is for none."""
        parts = path.strip("/").split("/")
        if len(parts) == 6 and parts[3] == "namespaces" and parts[5] == "localsubjectaccessreviews":
            parts = [*parts[:3], parts[5]]
        if len(parts) != 4 or parts[0] != "apis" or parts[2] != "v1" or parts[3] not in REVIEW_KINDS:
            return None
        expected = "authentication.k8s.io" if parts[3] in _AUTHENTICATION else "authorization.k8s.io"
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
        return json_answer({**body, "status": self._status(resource.kind, spec, user)}, 201)

    def _status(self, kind: str, spec: Json, user: User) -> Json:
        if kind == "TokenReview":
            return self._token_status(str(spec.get("token") or ""))
        if kind == "SelfSubjectReview":
            return {"userInfo": {"username": user.name, "groups": user.groups}}
        if kind == "SelfSubjectRulesReview":
            return _rules(user)
        if kind != "SelfSubjectAccessReview":
            user = User(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
        return _access(user, spec)

    def _token_status(self, token: str) -> Json:
        owner = self._access.owner_of(token)
        if owner is None:
            return {"user": {}, "error": "the token is not known"}
        return {"authenticated": True, "user": {"username": owner.name, "groups": owner.groups}}


_AUTHENTICATION = ("tokenreviews", "selfsubjectreviews")


def _access(user: User, spec: Json) -> Json:
    path = spec.get("nonResourceAttributes")
    if path is not None and not user.may_all:
        allowed = path.get("verb") == "get" and may_read_path(user, str(path.get("path") or ""))
        return {"allowed": allowed}
    return {"allowed": True, "reason": f"member of {ADMINISTRATORS}"} if user.may_all else {"allowed": False}


def _rules(user: User) -> Json:
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    return {
        "resourceRules": everything if user.may_all else [],
        "nonResourceRules": [{"verbs": ["*"] if user.may_all else ["get"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
