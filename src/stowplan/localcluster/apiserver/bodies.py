"""Bodies of requests: read within a limit, decoded and checked against the fields of their kind."""

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import invalid
from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import TextError, kind_of, parse_json, to_python
from stowplan.gocompat.yamltext import ExpansionLimit, yaml_to_json
from stowplan.localcluster.customresources.versions import ServedVersion
from stowplan.localcluster.schema import TypeDef, TypeMismatchError, decode_body, the_schema
from stowplan.localcluster.schema.protobuf import ProtobufError, decoded, envelope

BODY_LIMIT: Final = 3 * 1024 * 1024
"""The longest body that is read, in bytes. It is not inflated: like kube-apiserver, the server ignores
Content-Encoding."""

BODY_SECONDS: Final = 60.0
"""Seconds that a body may take to arrive: kube-apiserver's limit for a whole request."""

YAML_LIMIT: Final = 64 * 1024
"""The longest YAML that is read: reading it is slow, and everybody else waits meanwhile."""

_YAML_EXPANDED: Final = ExpansionLimit(nodes=20_000, text=BODY_LIMIT)
"""Limit of expanded YAML: about a tenth of a second, and as much text as JSON could have."""

_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_READABLE: Final = ("application/json", _YAML, _PROTOBUF)
_MAX_DEPTH: Final = 100
_MOST_REPEATED: Final = 100
"""Paths of fields that are there twice; Go's decoder collects no more."""
_MOST_OBJECTS: Final = 1_000
"""Objects whose repeated fields are looked for: the paths that are shown are those in the first of them."""
_MOST_VISITED: Final = 20_000
"""Fields that are visited for the order of messages."""
_STRINGS: Final = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_AS_LISTS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(sorted({*range(256)} - {*b"{}[]"}))


def too_large() -> status.ApiError:
    text = f"Request entity too large: limit is {BODY_LIMIT}"
    return status.ApiError(413, "RequestEntityTooLarge", text)


async def read_body(request: web.BaseRequest) -> bytes:
    """The body as it is. Raises `ApiError` 413 if it is too long."""
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        raise too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large() from None
    except TimeoutError:
        text = f"the request body did not arrive within {BODY_SECONDS:g}s"
        raise status.ApiError(504, "Timeout", f"Timeout: {text}") from None


class JsonText(bytes):
    """JSON text, and what was wrong with the text it was made from: keys that were there twice."""

    repeated: tuple[str, ...] = ()


def as_json(text: bytes, content_type: str, resource: Resource | None = None) -> bytes:
    """The body as JSON text, whichever of the readable types it has. Raises `ApiError` 415 or 400."""
    if content_type == "application/json" or content_type == "application/octet-stream":
        return text
    if content_type == _PROTOBUF:
        return protobuf_as_json(text)
    if content_type != _YAML:
        raise status.unsupported_media_type(_READABLE)
    return yaml_as_json(text, resource)


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


def yaml_as_json(text: bytes, resource: Resource | None = None) -> bytes:
    """JSON text of what YAML says. JSON is YAML too, and much faster read as what it is."""
    if text.lstrip()[:1] == b"{":
        return text
    if len(text) > YAML_LIMIT:
        why = f"Request entity too large: limit is {YAML_LIMIT} for YAML; send JSON"
        raise status.ApiError(413, "RequestEntityTooLarge", why)
    try:
        document = yaml_to_json(text, _YAML_EXPANDED)
        read = JsonText(msgspec.json.encode(to_python(document.tree)))
    except (TextError, RecursionError, ValueError, msgspec.MsgspecError) as error:
        if resource is None:
            raise status.bad_request(f"error converting YAML to JSON: {error}") from None
        raise _unrecognized(resource, str(error), text) from None
    read.repeated = document.repeated_keys
    return read


_SHOWN: Final = 30


def _unrecognized(resource: Resource, why: str, text: bytes) -> status.ApiError:
    """A body that cannot be read, with the beginning of it."""
    shown = "<empty>"
    if text:
        begins = text[:_SHOWN].decode("utf-8", "replace") if text[:1] == b"{" else text[:_SHOWN].hex()
        shown = f"{begins} ..." if len(text) > _SHOWN else begins
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({shown})"
    )


def _malformed(resource: Resource, text: bytes) -> status.ApiError:
    """JSON that is none, in Go's words."""
    try:
        check_depth(text)
        found = kind_of(parse_json(text))
        why = (
            f"json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string "
            '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    except TextError as error:
        why = str(error)
    return _unrecognized(resource, f"couldn't get version/kind; json parse error: {why}", text)


def decode_patch(text: bytes) -> Any:
    """A patch as data. Raises `ApiError` 400."""
    try:
        patch = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        check_depth(text)
        try:
            parse_json(text)
        except TextError as error:
            raise status.bad_request(f"error decoding patch: {error}") from None
        raise status.bad_request("error decoding patch: invalid text") from None
    check_depth(text)
    return patch


def undecodable_patch(error: status.ApiError, resource: Resource, text: bytes) -> status.ApiError:
    """The error of a patch whose result is no object of its kind."""
    if error.code != 400:
        return error
    why = error.message.removeprefix(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    )
    wrong = invalid("patch", text.decode("utf-8", "replace"), why)
    return status.invalid(Resource("", "", "", ""), "", [wrong])


def check_depth(text: bytes) -> None:
    """Refuse JSON (it has to be JSON) that is nested deeper than any object is. Raises `ApiError` 400.

    Few texts have enough brackets to need a look at their places.
    """
    if text.count(b"{") + text.count(b"[") <= _MAX_DEPTH:
        return
    brackets = _STRINGS.sub(b"", text).translate(_AS_LISTS, _NO_BRACKETS)
    for _ in range(_MAX_DEPTH):
        # Each round takes away the innermost level of everything.
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise status.bad_request(f"the object provided is nested more than {_MAX_DEPTH} levels deep")


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
    if resource.custom:
        return decode_as(None, text, resource, validation)
    type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
    read = decode_as(type_, text, resource, validation)
    check_kind(resource, read.data)
    return read


def decode_custom(custom: ServedVersion, text: bytes, validation: str = "") -> Decoded:
    """JSON text as a custom object, without the fields that its schema does not know.

    Raises `ApiError` 400, or 422 if it says to be of another kind.
    """
    resource = custom.resource
    read = decode_as(None, text, resource, validation if getattr(text, "repeated", ()) else "Warn")
    if not isinstance(read.data, dict):
        raise _malformed(resource, text)
    if not read.data.get("kind"):
        shown = text.decode("utf-8", "replace")
        raise _cannot_be_handled(
            resource, resource.version, resource.kind, f"Object 'Kind' is missing in '{shown}'"
        )
    wrong = custom.type_error(read.data)
    if wrong is not None:
        raise wrong
    unknown = [f'unknown field "{path}"' for path in custom.prune(read.data)]
    read.warnings = check_strictly(resource, [*read.warnings, *unknown], validation)
    return read


def decode_as(type_: TypeDef | None, text: bytes, resource: Resource, validation: str = "") -> Decoded:
    """Decode JSON text as a type of the table (None: as any data)."""
    if text.strip() == b"null":
        return Decoded({}, [])
    try:
        unknown: list[str] = []
        if type_ is None:
            data = msgspec.json.decode(text)
        else:
            data, unknown = decode_body(type_, text)
    except TypeMismatchError as error:
        if not text.lstrip().startswith(b"{"):
            raise _malformed(resource, text) from None
        raise _cannot_be_handled(resource, resource.version, resource.kind, str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _malformed(resource, text) from None
    check_depth(text)
    repeated = [*getattr(text, "repeated", ())]
    if repeated and validation == "Strict":
        why = "strict decoding error: yaml: unmarshal errors:\n  " + "\n  ".join(repeated)
        raise _cannot_be_handled(resource, resource.version, resource.kind, why)
    if not repeated and has_repeated_fields(text):
        merged, paths = merged_repeated_fields(text)
        data = merged if type_ is None else decode_body(type_, msgspec.json.encode(merged))[0]
        repeated = [f'duplicate field "{path}"' for path in paths]
    messages = [*repeated, *(f'unknown field "{path}"' for path in unknown)]
    if len(messages) > 1 and not getattr(text, "repeated", ()):
        messages = in_order_of_text(text, messages)
    return Decoded(data, check_strictly(resource, messages, validation))


def _cannot_be_handled(resource: Resource, version: str, kind: str, why: str) -> status.ApiError:
    return status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')


def check_strictly(resource: Resource, messages: list[str], validation: str) -> list[str]:
    """Warnings for the sender. Raises `ApiError` 400 if everything has to be right."""
    if validation == "Strict" and messages:
        why = f"strict decoding error: {', '.join(messages)}"
        raise _cannot_be_handled(resource, resource.version, resource.kind, why)
    return [] if validation == "Ignore" else messages


def has_repeated_fields(text: bytes) -> bool:
    """True if any object within JSON text has a field twice."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) != len(pairs)

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return False
    return found


def merged_repeated_fields(text: bytes) -> tuple[Any, list[str]]:
    """The data as Go reads fields that are there twice (maps are merged), and the paths of these fields.

    Of the paths as many as Go's decoder collects, each once.
    """
    found = _Repeated()
    data = json.loads(text, object_pairs_hook=found.merged)
    return data, found.paths_in(data)


class _Repeated:
    """Objects of a text that have fields twice, innermost first, and the paths of the fields in each."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[Json, list[str]]] = {}
        """By identity of the object, which is kept so that no other one gets it."""

    def merged(self, pairs: list[tuple[str, Any]]) -> Json:
        """An object of which these are the members."""
        data = dict(pairs)
        if len(data) == len(pairs) and not self._paths:
            return data
        data = {}
        paths: dict[str, None] = {}
        own: set[str] = set()
        inner = 0
        for name, value in pairs:
            if isinstance(value, dict | list) and self._paths and len(paths) < _MOST_REPEATED:
                within = self.paths_in(value)
                inner += len(within)
                paths.update(dict.fromkeys(_joined(name, path) for path in within))
            if name not in data:
                data[name] = value
                continue
            if len(paths) < _MOST_REPEATED:
                paths[name] = None
            if isinstance(value, dict) and isinstance(data[name], dict):
                if name not in own:
                    # One copy, however often the field is repeated.
                    own.add(name)
                    data[name] = dict(data[name])
                data[name].update(value)
            else:
                own.discard(name)
                data[name] = value
        if inner or (paths and len(self._paths) < _MOST_OBJECTS):
            self._paths[id(data)] = (data, [*paths][:_MOST_REPEATED])
        return data

    def paths_in(self, value: Any) -> list[str]:
        """The paths of repeated fields in a value, from there."""
        if isinstance(value, dict):
            return self._paths.get(id(value), (value, []))[1]
        if not isinstance(value, list) or not self._paths:
            return []
        found: list[str] = []
        for place, element in enumerate(value):
            if isinstance(element, dict | list):
                found += (_joined(f"[{place}]", path) for path in self.paths_in(element))
                if len(found) >= _MOST_REPEATED:
                    break
        return found


def in_order_of_text(text: bytes, messages: list[str]) -> list[str]:
    """Messages about unknown and duplicate fields, in the order in which Go's decoder finds them.

    Only the first fields of a long text are visited; messages about others follow as they were.
    """
    left = dict.fromkeys(messages)
    found: list[str] = []
    pairs = json.loads(text, object_pairs_hook=_Members)
    for path, is_repeated in islice(_field_paths(pairs, ""), _MOST_VISITED):
        message = f'{"duplicate" if is_repeated else "unknown"} field "{path}"'
        if message in left:
            del left[message]
            found.append(message)
            if not left:
                break
    return [*found, *left]


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object, in order, with those that are there twice."""


def _field_paths(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Paths of all fields in a value, and if an object had the field before."""
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, part in value:
            here = f"{path}.{name}" if path else name
            yield here, name in seen
            seen.add(name)
            yield from _field_paths(part, here)
    elif isinstance(value, list):
        for place, element in enumerate(value):
            yield from _field_paths(element, f"{path}[{place}]")


def _joined(path: str, rest: str) -> str:
    return f"{path}{rest}" if rest.startswith("[") else f"{path}.{rest}"


def check_kind(resource: Resource, data: Any) -> None:
    """Raises `ApiError` 400 if an object says that it is of another kind."""
    if not isinstance(data, dict):
        return
    api_version, kind = data.get("apiVersion") or resource.api_version, data.get("kind") or resource.kind
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    group, _, version = str(api_version).rpartition("/")
    why = (
        f'no kind "{kind}" is registered for version "{api_version}" in scheme '
        '"pkg/api/legacyscheme/scheme.go:30"'
    )
    if the_schema().of_kind(group, version, str(kind)) is not None:
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    raise _cannot_be_handled(resource, str(version), str(kind), why)


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
