"""What a request says besides its body: which objects, from where, how long, for whom, just for a try."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api import status
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported
from stowplan.api.labels import SelectorError
from stowplan.api.requests import EVERY_OBJECT, DeleteOptions, Json, Selection
from stowplan.embedded.store.objects import Key
from stowplan.embedded.store.paging import Place

_MATCHES: Final = ("Exact", "NotOlderThan")
Query = Mapping[str, str]


class ListOptions(NamedTuple):
    """A list or a watch as asked for."""

    selection: Selection = EVERY_OBJECT
    place: Place = Place()
    version: int | None = None
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float | None = None


def list_options(query: Query) -> ListOptions:
    """Read what a list or watch is about. Raises `ApiError` 400 or 422."""
    if not query:
        return ListOptions()
    try:
        selection = Selection.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    except SelectorError as error:
        raise status.bad_request(str(error)) from None
    watch = flag(query, "watch")
    initial = flag(query, "sendInitialEvents")
    match, given = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    _check_match(match, given, query, watch, initial)
    version = version_of(given)
    after, at = _continued(query.get("continue", ""))
    if match == "Exact":
        at = version
    timeout = whole(query, "timeoutSeconds")
    return ListOptions(
        selection,
        Place(after, at, whole(query, "limit") or 0),
        version,
        watch,
        flag(query, "allowWatchBookmarks"),
        initial,
        float(timeout) if timeout else None,
    )


def _check_match(match: str, given: str, query: Query, watch: bool, initial: bool) -> None:
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
    elif initial:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match and match not in _MATCHES:
        errors.append(not_supported(path, match, [*_MATCHES, ""]))
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
    if errors:
        raise list_options_invalid(errors)


def list_options_invalid(errors: list[FieldError]) -> status.ApiError:
    causes = [{"message": error[len(error.path) + 2 :], "field": error.path} for error in errors]
    shown = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    return status.ApiError(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {shown}', details)


def version_of(text: str) -> int | None:
    """A version as a number; None for none and for `0`, which stands for any."""
    if not text or text == "0":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise list_options_invalid([invalid("resourceVersion", text, "must be an unsigned integer")])
    return int(text)


def continue_token(version: int, last: Key) -> str:
    """Where the next page begins, as the client gives it back."""
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": last})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: tuple[str, str]


def _continued(token: str) -> tuple[Key | None, int | None]:
    if not token:
        return None, None
    try:
        padded = token.encode() + b"=" * (-len(token) % 4)
        read = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
        if read.rv < 0 or read.v != "meta.k8s.io/v1":
            raise ValueError("unexpected content")
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise status.bad_request(f"continue key is not valid: {error}") from None
    return read.start, read.rv


def flag(query: Query, name: str) -> bool:
    """A boolean of the query: absent and everything that says no is false."""
    return name in query and query[name] not in ("false", "0", "False", "F", "f")


def whole(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 18:
        raise status.bad_request(f"{name}: expected a whole number, got {text[:40]!r}")
    return int(text)


def is_dry_run(query: Query, body: Any = None) -> bool:
    """Whether the request is only a try. Raises `ApiError` 422 for a kind of try that is unknown."""
    asked = [query["dryRun"]] if query.get("dryRun") else []
    if isinstance(body, dict) and isinstance(body.get("dryRun"), list):
        asked += body["dryRun"]
    for kind in asked:
        if kind != "All":
            raise list_options_invalid([not_supported("dryRun", str(kind), ["All"])])
    return bool(asked)


def delete_options(query: Query, body: Json) -> DeleteOptions:
    """How to delete, from the query and from the body, which counts for more."""
    grace = body.get("gracePeriodSeconds", whole(query, "gracePeriodSeconds"))
    conditions = body.get("preconditions") or {}
    uid, version = conditions.get("uid"), conditions.get("resourceVersion")
    return DeleteOptions(grace, uid, version, propagation(query, body))


def propagation(query: Query, body: Json) -> str:
    """What becomes of what the object owns: Background, Foreground or Orphan."""
    policy = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if policy not in ("", "Background", "Foreground", "Orphan"):
        raise list_options_invalid(
            [not_supported("propagationPolicy", str(policy), ["Background", "Foreground", "Orphan", ""])]
        )
    orphan = body.get("orphanDependents")
    if not policy and orphan is not None:
        return "Orphan" if orphan else "Background"
    return str(policy)
