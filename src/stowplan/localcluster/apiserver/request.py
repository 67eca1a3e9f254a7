"""A request without its body: the target of its path, its options, the format it accepts."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import EnumText, FieldError, Kind, forbidden, invalid, not_supported
from stowplan.api.labels import SelectorError
from stowplan.api.requests import EVERY_OBJECT, DeleteOptions, Json, Selection
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apiserver.discovery import ServedKinds
from stowplan.localcluster.store.attempts import WriteAttempts
from stowplan.localcluster.store.objects import Key
from stowplan.localcluster.store.selection import PageRequest
from stowplan.localcluster.store.writer import UserInfo, WriteContext


class RequestTarget(NamedTuple):
    """Target of a request. Without a name it is all objects (of a namespace, or everywhere)."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


class PathResolver:
    """Finds the target of a path among the resources that are served."""

    def __init__(self, served: ServedKinds) -> None:
        self._served = served
        self._revision = served.revision
        self._found: dict[tuple[str, str, str], Resource] = {}

    def target(self, path: str) -> RequestTarget | None:
        """Target of a path, None if it is not the address of objects."""
        parts = path.split("/")
        if "%" in path:
            parts = [unquote(part) for part in parts]
        if parts[-1] == "":
            parts.pop()
        if path.startswith("/api/"):
            return self._within("", parts[2] if len(parts) > 2 else "", parts[3:])
        if path.startswith("/apis/") and len(parts) > 4:
            return self._within(parts[2], parts[3], parts[4:])
        return None

    def _within(self, group: str, version: str, rest: list[str]) -> RequestTarget | None:
        """The target below a group and version: [namespaces, namespace,] plural [, name [, subresource]]."""
        if not rest or not all(rest):
            return None
        if rest[0] == "watch" and rest[1:2] != ["watch"]:
            found = self._within(group, version, rest[1:])
            return None if found is None or found.subresource else found._replace(watch=True)
        if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_itself(rest):
            return self._named(group, version, rest[2], rest[1], rest[3:])
        return self._named(group, version, rest[0], "", rest[1:])

    def _named(
        self, group: str, version: str, plural: str, namespace: str, rest: list[str]
    ) -> RequestTarget | None:
        resource = self._resource(group, version, plural)
        if len(rest) > 2 and rest[1] == "proxy":
            rest = rest[:2]
        if resource is None or len(rest) > 2 or (namespace and not resource.namespaced):
            return None
        if rest and resource.namespaced and not namespace:
            return None
        return RequestTarget(resource, namespace, "".join(rest[:1]), "".join(rest[1:]))

    def _resource(self, group: str, version: str, plural: str) -> Resource | None:
        key = (group, version, plural)
        if self._revision != self._served.revision:
            self._revision = self._served.revision
            self._found.clear()
        resource = self._found.get(key)
        if resource is None:
            resource = self._served.named(f"{plural}.{version}.{group}")
            if resource is not None:
                self._found[key] = resource
        return resource


def _is_namespace_itself(rest: list[str]) -> bool:
    """True if `namespaces/x/y` is a subresource of the namespace x rather than a resource within it."""
    return len(rest) == 3 and rest[2] in ("status", "finalize")


Query = Mapping[str, str]
_VERSION_MATCHES: Final = ("Exact", "NotOlderThan")


class ListOptions(NamedTuple):
    """A list or a watch as asked for."""

    selection: Selection = EVERY_OBJECT
    place: PageRequest = PageRequest()
    version: int | None = None
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float | None = None


def list_options(query: Query) -> ListOptions:
    """Read what a list or watch is about. Raises `ApiError` 400 or 422."""
    if not query:
        return ListOptions()
    if "\0" in query.get("labelSelector", "") or "\0" in query.get("fieldSelector", ""):
        expected = "!, identifier, or 'end of string'"
        raise status.bad_request(f"unable to parse requirement: found '\\x00', expected: {expected}")
    try:
        selection = Selection.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    except SelectorError as error:
        raise status.bad_request(str(error)) from None
    watch = flag(query, "watch")
    initial = flag(query, "sendInitialEvents")
    match, given = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    _check_version_match(match, given, query, watch, initial)
    version = version_of(given, of_list=not watch)
    after, at = _continue_from(query.get("continue", ""))
    if after is not None and version is not None:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    if match == "Exact":
        at = version
    timeout = integer(query, "timeoutSeconds")
    return ListOptions(
        selection,
        PageRequest(after, at, _limit(query, given, match)),
        version,
        watch,
        flag(query, "allowWatchBookmarks"),
        initial,
        float(timeout) if timeout else None,
    )


def _limit(query: Query, version: str, match: str) -> int:
    """Maximum number of objects. A request for any version gets all objects, from the watch cache."""
    limit = integer(query, "limit") or 0
    return 0 if version == "0" and match != "Exact" else limit


def _check_version_match(match: str, given: str, query: Query, watch: bool, initial: bool) -> None:
    errors: list[FieldError] = []
    path = "resourceVersionMatch"
    if watch:
        if "sendInitialEvents" in query and match != "NotOlderThan":
            errors.append(
                forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            )
        elif match and "sendInitialEvents" not in query:
            errors.append(
                forbidden(
                    path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
    if match and match not in _VERSION_MATCHES:
        errors.append(not_supported(path, match, [*_VERSION_MATCHES, ""]))
    elif match and not watch:
        if not given:
            errors.append(
                forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        elif query.get("continue"):
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        elif match == "Exact" and given == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden(path, text))
    if initial and not watch:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise list_options_invalid(errors)


def options_invalid(options: str, errors: list[FieldError]) -> status.ApiError:
    """Options of a request that are not acceptable."""
    return status.invalid(Resource("meta.k8s.io", "v1", "", options), "", errors)


def list_options_invalid(errors: list[FieldError]) -> status.ApiError:
    return options_invalid("ListOptions", errors)


def version_of(text: str, *, of_list: bool = True) -> int | None:
    """A version as a number; None for none and for `0`, which stands for any. Raises `ApiError` 400."""
    if not text or text == "0":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        wrong = invalid("resourceVersion", text, f"{_unparsed('ParseUint', text)}")
        raise status.bad_request(f"invalid resource version: {wrong}" if of_list else str(wrong))
    return int(text)


def _unparsed(function: str, text: str) -> str:
    return f"strconv.{function}: parsing {quote(text[:100])}: invalid syntax"


def continue_token(version: int, last: Key) -> str:
    """Where the next page begins, as the client gives it back."""
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": last})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


class _ContinueToken(msgspec.Struct):
    v: str
    rv: int
    start: tuple[str, str]


def _continue_from(token: str) -> tuple[Key | None, int | None]:
    if not token:
        return None, None
    try:
        padded = token.encode() + b"=" * (-len(token) % 4)
        read = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_ContinueToken)
        if read.rv < 0 or read.v != "meta.k8s.io/v1":
            raise ValueError("unexpected content")
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    return read.start, read.rv


def flag(query: Query, name: str) -> bool:
    """A boolean of the query: absent and everything that says no is false."""
    return name in query and query[name] not in ("false", "0", "False", "F", "f")


def integer(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 18:
        raise status.bad_request(_unparsed("ParseInt", text))
    return int(text)


class RequestOptions(StrEnum):
    """The options that a verb takes, by the name their mistakes are reported under."""

    CREATE = "CreateOptions"
    UPDATE = "UpdateOptions"
    PATCH = "PatchOptions"
    DELETE = "DeleteOptions"


_MAX_MANAGER: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


def write_context(
    options: RequestOptions,
    headers: Mapping[str, str],
    query: Query,
    user: UserInfo,
    body: Json | None = None,
) -> WriteContext:
    """The writer, its field manager, and if it is a dry run. Raises `ApiError` 422.

    `body` has options too where the verb's body is nothing but options.
    """
    asked = [query["dryRun"]] if query.get("dryRun") else []
    if body is not None and isinstance(body.get("dryRun"), list):
        asked = body["dryRun"]
    manager = query.get("fieldManager", "")
    errors: list[FieldError] = []
    if any(kind != "All" for kind in asked):
        errors.append(FieldError("dryRun", Kind.NOT_SUPPORTED, asked, 'supported values: "All"'))
    errors += _manager_errors(manager)
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        errors.append(not_supported("fieldValidation", validation, [*_VALIDATIONS]))
    if errors:
        raise options_invalid(options, errors)
    verb = options.removesuffix("Options").lower()
    return WriteContext(
        user,
        manager or _agent(headers),
        bool(asked),
        verb=verb,
        options=_shown_options(options, query, body, asked),
        attempts=WriteAttempts(),
    )


def _shown_options(options: str, query: Query, body: Json | None, asked: Sequence[str]) -> Json:
    """The options of a request as admission sees them."""
    shown: Json = {"kind": str(options), "apiVersion": "meta.k8s.io/v1"}
    if body is not None:
        shown |= {field: value for field, value in body.items() if field not in shown}
    if asked:
        shown["dryRun"] = list(asked)
    if "force" in query:
        shown["force"] = flag(query, "force")
    for field in ("fieldManager", "fieldValidation"):
        if query.get(field):
            shown[field] = query[field]
    return shown


def _manager_errors(manager: str) -> list[FieldError]:
    path = "fieldManager"
    if len(manager.encode("utf-8", "surrogatepass")) > _MAX_MANAGER:
        return [FieldError(path, Kind.TOO_LONG, "", f"may not be more than {_MAX_MANAGER} bytes")]
    for place, character in enumerate(manager):
        if not character.isprintable():
            text = f"invalid character U+{ord(character):04X} (at position {place})"
            return [invalid(path, manager, text)]
    return []


def _agent(headers: Mapping[str, str]) -> str:
    """The field manager of a client that names none: what its User-Agent says before the first slash."""
    return headers.get("User-Agent", "").partition("/")[0][:_MAX_MANAGER] or "unknown"


def delete_options(query: Query, body: Json) -> DeleteOptions:
    """How to delete, from the query and from the body, which counts for more."""
    grace = body.get("gracePeriodSeconds", integer(query, "gracePeriodSeconds"))
    conditions = body.get("preconditions") or {}
    uid, version = conditions.get("uid"), conditions.get("resourceVersion")
    return DeleteOptions(grace, uid, version, propagation(query, body))


def propagation(query: Query, body: Json) -> str:
    """Treatment of owned objects: Background, Foreground or Orphan; empty if not given."""
    policy = str(body.get("propagationPolicy") or query.get("propagationPolicy", ""))
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = flag(query, "orphanDependents")
    path = "propagationPolicy"
    if policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        raise options_invalid(RequestOptions.DELETE, [invalid(path, EnumText(policy), text)])
    if policy not in ("", *_POLICIES):
        raise options_invalid(RequestOptions.DELETE, [not_supported(path, policy, [*_POLICIES, "nil"])])
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return policy


_POLICIES: Final = ("Foreground", "Background", "Orphan")


OBJECT: Final = ""
TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"
JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_REPRESENTATIONS: Final = (JSON, YAML, PROTOBUF)
_STREAMS: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_FORMATS: Final = frozenset(
    (
        (TABLE, "meta.k8s.io", "v1"),
        (TABLE, "meta.k8s.io", "v1beta1"),
        (METADATA, "meta.k8s.io", "v1"),
        (METADATA, "meta.k8s.io", "v1beta1"),
        (METADATA_LIST, "meta.k8s.io", "v1"),
        (METADATA_LIST, "meta.k8s.io", "v1beta1"),
        (DISCOVERY, "apidiscovery.k8s.io", "v2"),
        (DISCOVERY, "apidiscovery.k8s.io", "v2beta1"),
    )
)


class ResponseFormat(NamedTuple):
    """A form and its version (the objects themselves if no form is named), and the media type."""

    form: str = OBJECT
    version: str = ""
    media: str = JSON


PLAIN_OBJECTS: Final = ResponseFormat()


@lru_cache(maxsize=256)
def negotiated(accept: str, *, tables: bool = True) -> ResponseFormat:
    """The first accepted format that is available. Raises `ApiError` 406 if there is none.

    `tables`: the resource can be shown as a table; reviews cannot. A client that accepts protobuf and another
    format gets the other one.
    """
    if not accept or accept == JSON:
        return PLAIN_OBJECTS
    found: ResponseFormat | None = None
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        media = JSON if media in ("application/*", "*/*") else media
        if media not in _REPRESENTATIONS:
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = given.get("as", OBJECT)
        if form != OBJECT and (form, given.get("g", ""), given.get("v", "")) not in _FORMATS:
            continue
        if form == TABLE and not tables:
            continue
        offered = ResponseFormat(form, given["v"] if form else "", media)
        if media != PROTOBUF:
            return offered
        found = found or offered
    if found is None:
        listed = ", ".join(_REPRESENTATIONS)
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {listed}")
    return found


def check_acceptable(accept: str, *, is_list: bool) -> None:
    """Raises `ApiError` 406 if a client accepts none of the available media types."""
    if not accept or JSON in accept:
        return
    accepted = {choice.partition(";")[0].strip() for choice in accept.split(",")}
    if accepted.isdisjoint((*_REPRESENTATIONS, "application/*", "*/*")):
        raise not_acceptable((*_REPRESENTATIONS, *_STREAMS) if is_list else _REPRESENTATIONS)


def not_acceptable(available: Sequence[str]) -> ApiError:
    listed = ", ".join(available)
    text = f"406: Not Acceptable\n\nAvailable representations: {listed}"
    return ApiError(406, "NotAcceptable", text, {})
