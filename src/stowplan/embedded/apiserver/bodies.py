"""Bodies of requests: read within a limit, decoded and checked against the fields of their kind."""

import re
from typing import Any, Final

import msgspec
import yaml
from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.customresources.versions import ServedVersion
from stowplan.embedded.schema import TypeDef, TypeMismatchError, decode_body, the_schema
from stowplan.embedded.schema.protobuf import ProtobufError, decoded, envelope

BODY_LIMIT: Final = 3 * 1024 * 1024
"""The longest body that is read, in bytes."""

YAML_LIMIT: Final = 64 * 1024
"""The longest YAML that is read: reading it is slow, and everybody else waits meanwhile."""

_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_READABLE: Final = ("application/json", _YAML, _PROTOBUF)
_MAX_DEPTH: Final = 100
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_LENIENT: Final = ("", "Warn", "Ignore")


def too_large() -> status.ApiError:
    text = f"Request entity too large: limit is {BODY_LIMIT}"
    return status.ApiError(413, "RequestEntityTooLarge", text)


async def read_body(request: web.BaseRequest) -> bytes:
    """The body as it is. Raises `ApiError` 413 if it is too long."""
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        raise too_large()
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large() from None


def as_json(text: bytes, content_type: str) -> bytes:
    """The body as JSON text, whichever of the readable types it has. Raises `ApiError` 415 or 400."""
    if content_type == "application/json" or content_type == "application/octet-stream":
        return text
    if content_type == _PROTOBUF:
        return protobuf_as_json(text)
    if content_type != _YAML:
        raise status.unsupported_media_type(_READABLE)
    return yaml_as_json(text)


def protobuf_as_json(body: bytes) -> bytes:
    """JSON text of an object that comes as protobuf, whichever it says it is."""
    try:
        api_version, kind, raw = envelope(body)
        group, _, version = api_version.rpartition("/")
        type_ = the_schema().of_kind(group, version, kind) or the_schema().types.get(f"meta.v1.{kind}")
        if type_ is None:
            raise ProtobufError(f"no kind {kind!r} is registered for version {api_version!r}")
        return msgspec.json.encode({**decoded(type_, raw), "apiVersion": api_version, "kind": kind})
    except ProtobufError as error:
        raise status.bad_request(f"the object provided is not protobuf: {error}") from None


def yaml_as_json(text: bytes) -> bytes:
    """JSON text of what YAML says. JSON is YAML too, and much faster read as what it is."""
    if text.lstrip()[:1] == b"{":
        return text
    if len(text) > YAML_LIMIT:
        why = f"Request entity too large: limit is {YAML_LIMIT} for YAML; send JSON"
        raise status.ApiError(413, "RequestEntityTooLarge", why)
    try:
        return msgspec.json.encode(yaml.load(text, _PlainLoader))
    except (
        yaml.YAMLError,
        RecursionError,
        UnicodeDecodeError,
        TypeError,
        ValueError,
        msgspec.MsgspecError,
    ) as error:
        raise status.bad_request(f"error converting YAML to JSON: {' '.join(str(error).split())}") from None


def check_depth(text: bytes) -> None:
    """Refuse JSON (it has to be JSON) that is nested deeper than any object is. Raises `ApiError` 400.

    Few texts have so many brackets that one has to look where they are.
    """
    if text.count(b"{") + text.count(b"[") <= _MAX_DEPTH:
        return
    depth = 0
    for bracket in _BRACKETS.findall(text):
        if bracket in (b"{", b"["):
            depth += 1
            if depth > _MAX_DEPTH:
                raise status.bad_request(f"the object provided is nested more than {_MAX_DEPTH} levels deep")
        elif bracket in (b"}", b"]"):
            depth -= 1


class Decoded:
    """A body as data, what its sender should be warned of, and what it replaces if that matters."""

    __slots__ = ("before", "data", "warnings")

    def __init__(self, data: Any, warnings: list[str]) -> None:
        self.data = data
        self.warnings = warnings
        self.before: Json | None = None


def decode_object(resource: Resource, text: bytes, validation: str = "") -> Decoded:
    """JSON text as an object of one kind.

    `validation` says what becomes of unknown fields: they are left out in any case; with `Strict` that is
    an error, with `Warn` (the default) a warning. Raises `ApiError` 400.
    """
    type_ = None if resource.custom else the_schema().of_kind(resource.group, resource.version, resource.kind)
    return decode_as(type_, text, resource, validation)


def decode_custom(custom: ServedVersion, text: bytes, validation: str = "") -> Decoded:
    """JSON text as a custom object, without the fields that its schema does not know.

    Raises `ApiError` 400, or 422 if it says to be of another kind.
    """
    read = decode_object(custom.resource, text, validation)
    if not isinstance(read.data, dict):
        raise status.bad_request("the object provided is unrecognized: expected a map")
    wrong = custom.type_error(read.data)
    if wrong is not None:
        raise wrong
    read.warnings += check_unknown_fields(custom.resource, custom.prune(read.data), validation)
    return read


def decode_as(type_: TypeDef | None, text: bytes, resource: Resource, validation: str = "") -> Decoded:
    """JSON text as a type of the table (None: whatever it is)."""
    if validation not in (*_LENIENT, "Strict"):
        allowed = 'fieldValidation: Unsupported value: "{}": supported values: "", "Ignore", "Strict", "Warn"'
        raise status.ApiError(
            422, "Invalid", f'{resource.kind}.meta.k8s.io "" is invalid: {allowed.format(validation)}'
        )
    try:
        unknown: list[str] = []
        if type_ is None:
            data = msgspec.json.decode(text)
        else:
            data, unknown = decode_body(type_, text)
    except TypeMismatchError as error:
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(f"the object provided is not JSON: {error}") from None
    check_depth(text)
    return Decoded(data, check_unknown_fields(resource, unknown, validation))


def check_unknown_fields(resource: Resource, unknown: list[str], validation: str) -> list[str]:
    messages = [f'unknown field "{path}"' for path in unknown]
    if validation == "Strict" and messages:
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(messages)}"
        )
    return [] if validation == "Ignore" else messages


class _PlainLoader(yaml.SafeLoader):
    """YAML with text for dates, as JSON has it, and without aliases that multiply."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_OPTIONS: Final = Resource("meta.k8s.io", "v1", "deleteoptions", "DeleteOptions")


def deletion_body(text: bytes, content_type: str) -> Json:
    """How to delete, as data. Raises `ApiError` 400."""
    if not text.strip():
        return {}
    type_ = the_schema().types["meta.v1.DeleteOptions"]
    data = decode_as(type_, as_json(text, content_type), _OPTIONS).data
    if not isinstance(data, dict):
        raise status.bad_request("DeleteOptions: expected a map")
    return data
