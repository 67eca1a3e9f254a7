"""Reading the answers of extenders: keys in any case, nulls as good as absent, refusals in Go's words."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from stowplan.api.decode import DecodeError, decode
from stowplan.api.node import Node
from stowplan.gocompat.jsontext import TextError, parse_json
from stowplan.gocompat.numbers import fits_int64
from stowplan.gocompat.types import Cursor

_HOST_PRIORITY = ("Host", "Score")
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class AnswerError(ValueError):
    """An answer that cannot be read."""


def _no_number(name: str) -> float:
    """NaN and the infinities, which Python would read, are no JSON."""
    raise ValueError(name)


_LENIENT = json.JSONDecoder(parse_constant=_no_number)


class FilterAnswer(NamedTuple):
    """The answer to filter. None: not mentioned, which is not the same as empty.

    Nodes come with their text.
    """

    nodes: list[tuple[Node, msgspec.Raw]] | None
    node_names: list[str] | None
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class VictimsAnswer(NamedTuple):
    """The uids of the pods that have to go from a node; None stands for a pod that is null."""

    uids: list[str | None]
    violations: int


def read_filtered(body: bytes) -> FilterAnswer:
    """Read the answer to filter."""
    struct = "ExtenderFilterResult"
    found = _members(
        _parts(body, f"v1.{struct}"),
        ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"),
    )
    at = {name: Cursor().member(struct, (), name) for name in found}
    values = {name: _plain(raw) for name, raw in found.items() if name != "Nodes"}
    nodes, names = found.get("Nodes"), values.get("NodeNames")
    return FilterAnswer(
        None if nodes is None else _nodes(nodes, at["Nodes"]),
        None if names is None else [_text(name, at["NodeNames"]) for name in _list(names, at["NodeNames"])],
        _reasons(values, "FailedNodes", at),
        _reasons(values, "FailedAndUnresolvableNodes", at),
        _text(values["Error"], at["Error"]) if "Error" in values else "",
    )


def read_scores(body: bytes) -> dict[str, int]:
    """Read the answer to prioritize. A host that is named twice has both scores."""
    scores: dict[str, int] = {}
    entries = _plain(_value(body))
    if entries is not None and not isinstance(entries, list):
        raise _mismatch(entries, "v1.HostPriorityList", Cursor())
    top = Cursor()
    host_at, score_at = (top.member("HostPriority", (), field) for field in _HOST_PRIORITY)
    for entry in entries or ():
        found = _members(_object(entry, "v1.HostPriority", top), _HOST_PRIORITY)
        host = _text(found.get("Host"), host_at)
        scores[host] = scores.get(host, 0) + _int64(found.get("Score"), score_at)
    return scores


def read_bound(body: bytes) -> str:
    """Read the answer to bind: what went wrong, or nothing."""
    struct = "ExtenderBindingResult"
    found = _members(_parts(body, f"v1.{struct}"), ("Error",))
    return _text(_plain(found["Error"]), Cursor().member(struct, (), "Error")) if found else ""


def read_victims(body: bytes) -> dict[str, VictimsAnswer]:
    """Read the answer to preempt: victims by node."""
    struct, field = "ExtenderPreemptionResult", "NodeNameToMetaVictims"
    found = _members(_parts(body, f"v1.{struct}"), (field,))
    if not found:
        return {}
    at = Cursor().member(struct, (), field)
    by_node = _object(_plain(found[field]), "map[string]*v1.MetaVictims", at)
    return {node: _victims(victims, at) for node, victims in by_node.items()}


def _victims(victims: Any, at: Cursor) -> VictimsAnswer:
    found = _members(_object(victims, "v1.MetaVictims", at), ("Pods", "NumPDBViolations"))
    pods_at = at.member("MetaVictims", (), "Pods")
    uids: list[str | None] = []
    for pod in _list(found.get("Pods"), pods_at, "[]*v1.MetaPod"):
        members = _members(_object(pod, "v1.MetaPod", pods_at), ("UID",))
        uid = _text(members.get("UID"), pods_at.member("MetaPod", (), "UID"))
        uids.append(None if pod is None else uid)
    violations = _int64(found.get("NumPDBViolations"), at.member("MetaVictims", (), "NumPDBViolations"))
    return VictimsAnswer(uids, violations)


def _nodes(raw: msgspec.Raw, at: Cursor) -> list[tuple[Node, msgspec.Raw]]:
    """The nodes of a list, decoded straight from their text: there can be thousands."""
    try:
        found = _members(_RAW_OBJECT.decode(raw), ("items",))
    except msgspec.ValidationError:
        raise _mismatch(_plain(raw), "v1.NodeList", at) from None
    at = at.member("NodeList", (), "items")
    try:
        items = _RAW_LIST.decode(found["items"]) if found else []
    except msgspec.ValidationError:
        raise _mismatch(_plain(found["items"]), "[]v1.Node", at) from None
    try:
        return [(decode(bytes(item), Node), item) for item in items]
    except DecodeError as error:
        raise AnswerError(f"reading the nodes an extender gave back: {error}") from None


def _reasons(values: dict[str, Any], name: str, at: dict[str, Cursor]) -> dict[str, str]:
    if name not in values:
        return {}
    reasons = _object(values[name], "v1.FailedNodesMap", at[name])
    return {node: _text(reason, at[name]) for node, reason in reasons.items()}


def _value(body: bytes) -> msgspec.Raw:
    """The first JSON value of a body; whatever follows it is not looked at."""
    try:
        body.decode()
        return msgspec.json.decode(body, type=msgspec.Raw)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return _odd_value(body)
    except RecursionError:
        raise AnswerError("exceeded max depth") from None


def _odd_value(body: bytes) -> msgspec.Raw:
    """A value with something behind it, or with text that is not quite Unicode, which is mended."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise AnswerError("EOF")
    try:
        value, _ = _LENIENT.raw_decode(text)
    except ValueError:
        raise AnswerError(_syntax_error(body)) from None
    except RecursionError:
        raise AnswerError("exceeded max depth") from None
    written = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return msgspec.Raw(written.decode("utf-16", "replace").encode())


def _syntax_error(body: bytes) -> str:
    try:
        parse_json(body)
    except TextError as error:
        text = str(error)
        return "unexpected EOF" if text == "unexpected end of JSON input" else text
    return "invalid JSON"


def _parts(body: bytes, type_name: str) -> dict[str, msgspec.Raw]:
    """The members of an answer that is an object, still as text; null is an empty one."""
    raw = _value(body)
    try:
        return _RAW_OBJECT.decode(raw)
    except msgspec.ValidationError:
        value = _plain(raw)
    if value is None:
        return {}
    raise _mismatch(value, type_name, Cursor())


def _plain(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise AnswerError(str(error)) from None


def _members(data: dict[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The members that are fields, under their proper names, without nulls."""
    names = {name.lower(): name for name in fields}
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = names.get(key.lower())
        if name is not None and value is not None and not _is_null(value):
            found[name] = value
    return found


def _is_null(value: Any) -> bool:
    return isinstance(value, msgspec.Raw) and bytes(value).strip() == b"null"


def _object(value: Any, type_name: str, at: Cursor) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise _mismatch(value, type_name, at)


def _list(value: Any, at: Cursor, type_name: str = "[]string") -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise _mismatch(value, type_name, at)


def _text(value: Any, at: Cursor) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _mismatch(value, "string", at)


def _int64(value: Any, at: Cursor) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, "int64", at)
    if isinstance(value, int) and fits_int64(value):
        return value
    raise AnswerError(at.mismatch_text(f"number {value}", "int64"))


def _mismatch(value: Any, type_name: str, at: Cursor) -> AnswerError:
    return AnswerError(at.mismatch_text(_kind(value), type_name))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), (int | float, "number"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null"
