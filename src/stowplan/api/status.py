"""Errors of an API server: one exception, shaped like a Kubernetes Status.

People and programs match these texts and reasons, so they are reproduced to the letter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, aggregate
from stowplan.gocompat.quoting import quote

_CAUSES: Final = {
    Kind.NOT_FOUND: "FieldValueNotFound",
    Kind.REQUIRED: "FieldValueRequired",
    Kind.DUPLICATE: "FieldValueDuplicate",
    Kind.INVALID: "FieldValueInvalid",
    Kind.NOT_SUPPORTED: "FieldValueNotSupported",
    Kind.FORBIDDEN: "FieldValueForbidden",
    Kind.TOO_LONG: "FieldValueTooLong",
    Kind.TOO_MANY: "FieldValueTooMany",
    Kind.TOO_FEW: "FieldValueTooFew",
    Kind.TOO_SHORT: "FieldValueTooShort",
    Kind.INTERNAL: "InternalError",
    Kind.TYPE_INVALID: "FieldValueTypeInvalid",
}

MODIFIED_MEANWHILE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ApiError(Exception):
    """A request that was not fulfilled: HTTP code, reason, message and details of a Status.

    Details that are given are shown even if they are empty. Code 0 means that no answer came at all (see
    `unreachable`).
    """

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self._has_details = details is not None
        self.warnings: list[str] = []
        """Warnings for the client, besides the error."""

    @property
    def is_not_found(self) -> bool:
        return self.reason == "NotFound"

    @property
    def is_already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """The object was changed meanwhile, or it is another object of that name."""
        return self.reason == "Conflict"

    @property
    def is_expired(self) -> bool:
        """The version asked for is no longer kept: list again."""
        return self.reason in ("Expired", "Gone") or self.code == 410

    @property
    def is_version_too_large(self) -> bool:
        """The server has not reached the requested version, and perhaps never will: request any version."""
        return self.code == 504 and "Too large resource version" in self.message

    @property
    def is_unreachable(self) -> bool:
        """No answer came: whether the request had an effect is unknown."""
        return self.code == 0

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait before the next try; None if it does not."""
        seconds = self.details.get("retryAfterSeconds")
        return seconds if isinstance(seconds, int | float) and 0 <= seconds < float("inf") else None

    def status(self) -> dict[str, Any]:
        """The error as a Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details or self._has_details:
            body["details"] = self.details
        return {**body, "code": self.code}


def from_status(status: Mapping[str, Any]) -> ApiError:
    """The error a Status object stands for."""
    return ApiError(
        int(status.get("code") or 0),
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
        status.get("details"),
    )


def not_found(resource: Resource, name: str) -> ApiError:
    text = f"{resource.qualified} {quote(name)} not found"
    return ApiError(404, "NotFound", text, _details(resource, name))


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> ApiError:
    text = f"{resource.qualified} {quote(name)} already exists"
    if deleting:
        text = f"object is being deleted: {text}"
    return ApiError(409, "AlreadyExists", text, _details(resource, name))


def no_free_name(resource: Resource, name: str) -> ApiError:
    """Every generated name was taken already."""
    text = (
        f"{resource.qualified} {quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return ApiError(409, "AlreadyExists", text, {**_details(resource, name), "retryAfterSeconds": 1})


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> ApiError:
    details = _details(resource, name)
    shown = resource.qualified
    if subresource:
        details["kind"] = shown = f"{resource.plural}/{subresource}"
    text = f"Operation cannot be fulfilled on {shown} {quote(name)}: {why}"
    return ApiError(409, "Conflict", text, details)


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Fields of an object that are not acceptable."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    causes = [
        {"reason": _CAUSES[error.kind], "message": error[len(error.path) + 2 :], "field": error.path}
        for error in errors
    ]
    details = {**_details(resource, name), "causes": causes}
    if resource.kind:
        details["kind"] = resource.kind
    return ApiError(422, "Invalid", f"{kind} {quote(name)} is invalid: {aggregate(errors)}", details)


def no_version(resource: Resource, name: str) -> ApiError:
    """An update that does not say which version of the object it replaces."""
    error = FieldError("metadata.resourceVersion", Kind.INVALID, 0, "must be specified for an update")
    causes = [{"reason": _CAUSES[Kind.INVALID], "message": error[len(error.path) + 2 :], "field": error.path}]
    text = f"{resource.qualified} {quote(name)} is invalid: {error}"
    return ApiError(422, "Invalid", text, {**_details(resource, name), "causes": causes})


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def internal_error(why: str) -> ApiError:
    """An error of the server itself."""
    return ApiError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def unprocessable(why: str = "") -> ApiError:
    """A well-formed patch that does not fit the object; why not is kept as a cause."""
    text = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", text, {"causes": [{"message": why}]} if why else {})


def unknown_resource() -> ApiError:
    """A path below a served group at which there is nothing."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", text + ", ".join(accepted))


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unresumable(message: str) -> ApiError:
    """A watch that would go wrong at the same place if it were resumed: list again."""
    return ApiError(0, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """A version from the future, as a client may have that used another server."""
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(message: str, retry_after: int, cause: str = "", cause_reason: str = "") -> ApiError:
    details: dict[str, Any] = {"causes": [{"reason": cause_reason, "message": cause}]} if cause else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", message, details)


def unreachable(message: str) -> ApiError:
    """The server did not answer: a refused or broken connection, or a deadline that passed."""
    return ApiError(0, "Unreachable", message)


def _details(resource: Resource, name: str) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {field: value for field, value in details.items() if value}
