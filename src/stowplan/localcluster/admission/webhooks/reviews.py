"""AdmissionReviews: what a webhook is sent, and what it may answer, in versions v1 and v1beta1."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.expressions import admission_request
from stowplan.localcluster.apply import plain_json

_GROUP: Final = "admission.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")
_encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode
_BAD_REQUEST: Final = 400


class InvalidAnswerError(Exception):
    """An answer that is no AdmissionReview for the request."""


class Review(NamedTuple):
    """An AdmissionReview to send."""

    uid: str
    version: str
    request: Json

    def encoded(self) -> bytes:
        body = {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{self.version}", "request": self.request}
        return _encode(body)


class Verdict(msgspec.Struct, frozen=True):
    """The response of a webhook. `patch` is a JSON patch, as text."""

    allowed: bool = False
    result: Json | None = None
    patch: bytes = b""
    annotations: dict[str, str] = {}
    warnings: list[str] = []


def review_version(accepted: Sequence[str]) -> str:
    """The first version that a webhook accepts and we can send, empty if there is none."""
    return next((version for version in accepted if version in _VERSIONS), "")


def review_of(
    write: AdmissionAttributes, matched: Resource, version: str, obj: Json | None, old: Json | None
) -> Review:
    """The review of a write, for a webhook whose rules matched it as one for `matched`, with the objects in
    that version."""
    uid = str(uuid4())
    request = admission_request(write, matched)
    request |= {
        "uid": uid,
        "object": obj,
        "oldObject": old,
    }
    return Review(uid, version, request)


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str = ""
    patch_type: str | None = None
    audit_annotations: dict[str, str] = {}
    warnings: list[str] = []


def verdict_of(answer: Any, review: Review, *, mutating: bool) -> Verdict:
    """The verdict in the answer to a review. Raises `InvalidAnswerError`, in kube-apiserver's words."""
    if not isinstance(answer, dict):
        raise InvalidAnswerError("couldn't get version/kind; the response is not an object")
    given = answer.get("response")
    if given is None:
        raise InvalidAnswerError("webhook response was absent")
    try:
        plain = {key: value for key, value in given.items() if value is not None}
        response = msgspec.convert(plain, _Response)
        patch = base64.b64decode(response.patch, validate=True)
    except (msgspec.ValidationError, AttributeError, binascii.Error) as error:
        raise InvalidAnswerError(f"response: {error}") from None
    if review.version == "v1":
        _check_v1(answer, response, review.uid, mutating=mutating)
    return Verdict(
        response.allowed,
        response.status,
        patch if mutating else b"",
        response.audit_annotations,
        response.warnings,
    )


def _check_v1(answer: Json, response: _Response, uid: str, *, mutating: bool) -> None:
    if response.uid != uid:
        raise InvalidAnswerError(f"expected response.uid={quote(uid)}, got {quote(response.uid)}")
    group, _, version = str(answer.get("apiVersion") or "").rpartition("/")
    found = f"{group}/{version}, Kind={answer.get('kind') or ''}"
    wanted = f"{_GROUP}/v1, Kind=AdmissionReview"
    if found != wanted:
        raise InvalidAnswerError(f"expected webhook response of {wanted}, got {found}")
    if not mutating:
        for field, value in (("patch", response.patch), ("patchType", response.patch_type)):
            if value:
                raise InvalidAnswerError(f"validating webhook may not return response.{field}")
        return
    if response.patch and response.patch_type is None:
        raise InvalidAnswerError("webhook returned response.patch but not response.patchType")
    if not response.patch and response.patch_type is not None:
        raise InvalidAnswerError("webhook returned response.patchType but not response.patch")
    if response.patch_type == "":
        raise InvalidAnswerError('webhook returned invalid response.patchType of ""')
    if response.patch and response.patch_type != "JSONPatch":
        raise InvalidAnswerError(f"unsupported patch type {quote(response.patch_type or '')}")


def denial(name: str, result: Json | None) -> ApiError:
    """The error of a request that a webhook has denied: its own Status, if it gave one."""
    status = result or {}
    code = status.get("code")
    code = code if isinstance(code, int) and code >= _BAD_REQUEST else _BAD_REQUEST
    denied = f"admission webhook {quote(name)} denied the request"
    why = status.get("message") or status.get("reason")
    text = f"{denied}: {why}" if why else f"{denied} without explanation"
    details = status.get("details")
    return ApiError(
        code, str(status.get("reason") or ""), text, details if isinstance(details, dict) else None
    )
