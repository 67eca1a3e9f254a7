"""Access reviews: the groups authentication.k8s.io and authorization.k8s.io, answered and not stored."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, aggregate, invalid, required
from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.bodies import as_json, decode_object, read_body
from stowplan.localcluster.apiserver.discovery import REVIEW_KINDS
from stowplan.localcluster.apiserver.request import RequestOptions, negotiated, write_context
from stowplan.localcluster.apiserver.responses import json_response
from stowplan.localcluster.apiserver.tokenrequests import managed_by
from stowplan.localcluster.auth.authentication import Authenticator
from stowplan.localcluster.auth.rbac import AccessRules, Attributes
from stowplan.localcluster.auth.tokens import TokenError
from stowplan.localcluster.auth.users import User
from stowplan.runtime.clock import Clock

_AUTHENTICATION: Final = ("tokenreviews", "selfsubjectreviews")
_LOCAL: Final = "localsubjectaccessreviews"


class Reviews:
    """Reviews of users and their rights."""

    def __init__(self, authenticator: Authenticator, access: AccessRules, clock: Clock) -> None:
        self._authenticator = authenticator
        self._access = access
        self._clock = clock

    def resource(self, path: str) -> tuple[Resource, str] | None:
        """The kind of review that a path is for and the namespace it is in, None if it is for none."""
        parts = path.strip("/").split("/")
        namespace = ""
        if len(parts) == 6 and parts[3] == "namespaces" and parts[5] == _LOCAL:
            namespace, parts = parts[4], [*parts[:3], parts[5]]
        if len(parts) != 4 or parts[0] != "apis" or parts[2] != "v1" or parts[3] not in REVIEW_KINDS:
            return None
        expected = "authentication.k8s.io" if parts[3] in _AUTHENTICATION else "authorization.k8s.io"
        if parts[1] != expected or (parts[3] == _LOCAL) != bool(namespace):
            return None
        return Resource(parts[1], parts[2], parts[3], REVIEW_KINDS[parts[3]]), namespace

    async def answer(
        self,
        request: web.BaseRequest,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        user: User,
    ) -> web.Response:
        negotiated(request.headers.get("Accept", ""), tables=False)
        text = as_json(await read_body(request), request.content_type)
        data = decode_object(resource, text, query.get("fieldValidation", "")).data
        if not isinstance(data, dict):
            raise status.bad_request(f"{resource.kind}: expected a map")
        by = write_context(RequestOptions.CREATE, request.headers, query, user)
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        spec: Json = data.get("spec") or {}
        if resource.kind == "SelfSubjectReview":
            metadata: Json = {"creationTimestamp": timestamp(self._clock.now())}
            return json_response({**head, "metadata": metadata, "status": {"userInfo": user.info()}}, 201)
        if resource.kind == "SelfSubjectRulesReview":
            rules = self._rules_status(user, spec.get("namespace") or "")
            return json_response({**head, "metadata": {}, "spec": {}, "status": rules}, 201)
        metadata = {**(data.get("metadata") or {})}
        if namespace:
            metadata.setdefault("namespace", namespace)
        if resource.kind == "TokenReview":
            shown = self._token_status(spec)
        else:
            _check(resource, metadata, spec, namespace)
            shown = self._access_status(resource.kind, spec, user)
        managed = managed_by(resource, {"spec": spec}, by.field_manager, timestamp(self._clock.now()))
        metadata["managedFields"] = managed
        return json_response({**head, "metadata": metadata, "spec": spec, "status": shown}, 201)

    def _token_status(self, spec: Json) -> Json:
        token, audiences = spec.get("token") or "", spec.get("audiences") or ()
        if not token:
            raise status.bad_request("token is required for TokenReview in authentication")
        try:
            found = self._authenticator.identify(token, audiences)
        except TokenError as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}

    def _access_status(self, kind: str, spec: Json, user: User) -> Json:
        if kind != "SelfSubjectAccessReview":
            extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
            user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
        decision = self._access.decide(_attributes(user, spec))
        return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})

    def _rules_status(self, user: User, namespace: str) -> Json:
        if not namespace:
            raise status.bad_request("no namespace on request")
        rules, missing = self._access.rules_for(user, namespace)
        shown: Json = {
            "resourceRules": [
                _only(rule, ("verbs", "apiGroups", "resources", "resourceNames"))
                for rule in rules
                if rule.get("resources")
            ],
            "nonResourceRules": [
                _only(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        return {**shown, "evaluationError": aggregate(missing)} if missing else shown


def _attributes(user: User, spec: Json) -> Attributes:
    what = spec.get("resourceAttributes")
    if what is None:
        path = spec["nonResourceAttributes"]
        return Attributes(user, path.get("verb") or "", path=path.get("path") or "")
    named = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(user, *((what.get(field) or "") for field in named))


def _check(resource: Resource, metadata: Json, spec: Json, namespace: str) -> None:
    """Raises `ApiError` 422, which (unlike others) does not name the kind, or 400."""
    errors: list[FieldError] = []
    what, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if what is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", path, text))
    if what is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, text))
    is_self = resource.kind == "SelfSubjectAccessReview"
    if not is_self and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for selector in ("fieldSelector", "labelSelector"):
        errors += _selector_errors((what or {}).get(selector), f"spec.resourceAttributes.{selector}")
    allowed = {"namespace"} if namespace else set()
    if set(metadata) - allowed:
        text = "must be empty except for namespace" if namespace else "must be empty"
        errors.append(invalid("metadata", metadata, text))
    if namespace:
        within = (what or {}).get("namespace") or ""
        if what is not None and within != metadata["namespace"]:
            text = "must match metadata.namespace"
            errors.append(invalid("spec.resourceAttributes.namespace", within, text))
        if path is not None:
            text = "disallowed on this kind of request"
            errors.append(invalid("spec.nonResourceAttributes", path, text))
    if errors:
        raise status.invalid(Resource(resource.group, resource.version, "", ""), "", errors)
    if namespace and metadata["namespace"] != namespace:
        raise status.bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")


def _selector_errors(selector: Any, path: str) -> list[FieldError]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        text = "may not specified at the same time as requirements"
        return [invalid(f"{path}.rawSelector", raw, text)]
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        return [required(f"{path}.requirements", text)]
    return []


def _only(rule: Json, fields: tuple[str, ...]) -> Json:
    return {field: rule[field] for field in fields if rule.get(field)}
