"""The JSON of extender requests and responses."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stowplan.api.decode import DecodeError, decode
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import TextError, parse_json
from stowplan.gocompat.numbers import fits_int64
from stowplan.gocompat.types import Cursor
from stowplan.scheduler.framework.interface import Victims

_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_CONTAINER_STATUS: Json = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
_Change = Callable[[Any], Any]

RawPod = Callable[[Pod], Json | None]
RawNode = Callable[[Node], Json | None]
"""Gives an object with all its fields, None if it is unknown; then the typed one is sent."""

_NODE_CACHE_SLACK = 1000

_LONGEST_TEXT = 1024
"""Characters of a reason or an error: what an event can have. They are kept for each pod."""

_HOST_PRIORITY = ("Host", "Score")
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


# Pods and nodes as kube-scheduler sends them: some fields even if empty, quantities in canonical form


def extender_pod(data: Mapping[str, Any]) -> Json:
    """The pod of an extender request."""
    return _converted(data, _pod_spec, _pod_status)


def extender_node(data: Mapping[str, Any]) -> Json:
    """The node of an extender request."""
    return _converted(data, dict, _node_status)


def _converted(data: Mapping[str, Any], spec: _Change, status: _Change) -> Json:
    """Without kind, apiVersion and managedFields."""
    metadata = {key: value for key, value in (data.get("metadata") or {}).items() if key != "managedFields"}
    rest = {key: value for key, value in data.items() if key not in ("apiVersion", "kind")}
    return {
        **rest,
        "metadata": metadata,
        "spec": spec(data.get("spec") or {}),
        "status": status(data.get("status") or {}),
    }


def _pod_spec(spec: Json) -> Json:
    changed = {"containers": None, **spec}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        _change_each(changed, group, _container)
    _change_map(changed, "resources", _requirements)
    _change_map(changed, "overhead", _quantities)
    return changed


def _container(container: Json) -> Json:
    return {**container, "resources": _requirements(container.get("resources") or {})}


def _requirements(resources: Json) -> Json:
    changed = dict(resources)
    _change_map(changed, "requests", _quantities)
    _change_map(changed, "limits", _quantities)
    return changed


def _pod_status(status: Json) -> Json:
    changed = dict(status)
    _change_each(
        changed, "conditions", lambda each: {"lastProbeTime": None, "lastTransitionTime": None, **each}
    )
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _change_each(changed, group, lambda each: {**_CONTAINER_STATUS, **each})
    return changed


def _node_status(status: Json) -> Json:
    changed = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, **status}
    changed["nodeInfo"] = {**_NODE_INFO, **(status.get("nodeInfo") or {})}
    _change_map(changed, "capacity", _quantities)
    _change_map(changed, "allocatable", _quantities)
    _change_each(
        changed, "conditions", lambda each: {"lastHeartbeatTime": None, "lastTransitionTime": None, **each}
    )
    return changed


def _quantities(amounts: Json) -> Json:
    return {name: _quantity(amount) for name, amount in amounts.items()}


def _quantity(amount: Any) -> Any:
    """The canonical form; invalid quantities are sent as they are."""
    try:
        return quantity_of(amount).canonical()
    except (QuantityError, TypeError):
        return amount


def _change_map(data: Json, key: str, change: _Change) -> None:
    """Change the map in a field, if it is one."""
    if isinstance(data.get(key), dict):
        data[key] = change(data[key])


def _change_each(data: Json, key: str, change: _Change) -> None:
    """Change the maps in a list, if it is one."""
    if isinstance(data.get(key), list | tuple):
        data[key] = [change(each) if isinstance(each, dict) else each for each in data[key]]


# Requests


class ObjectEncoder:
    """Pods and nodes as JSON.

    Typed objects have only the fields that matter for scheduling, while an extender may use any, so the host
    can supply whole objects. The JSON of a node is cached as long as the node is the same object: it is sent
    for every pod.
    """

    def __init__(self, raw_pod: RawPod | None = None, raw_node: RawNode | None = None) -> None:
        self._raw_pod = raw_pod
        self._raw_node = raw_node
        self._nodes: dict[str, tuple[Node, msgspec.Raw]] = {}

    def pod(self, pod: Pod) -> msgspec.Raw:
        raw = self._raw_pod(pod) if self._raw_pod is not None else None
        return _encode(extender_pod(msgspec.to_builtins(pod) if raw is None else raw))

    def nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        if len(self._nodes) > 2 * len(nodes) + _NODE_CACHE_SLACK:
            self._nodes.clear()
        return [self._node(node) for node in nodes]

    def remember(self, node: Node, text: msgspec.Raw) -> None:
        """Cache the JSON of a node that an extender changed, for the extenders after it."""
        self._nodes[node.name] = node, text.copy()

    def _node(self, node: Node) -> msgspec.Raw:
        known = self._nodes.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        raw = self._raw_node(node) if self._raw_node is not None else None
        text = _encode(extender_node(msgspec.to_builtins(node) if raw is None else raw))
        self._nodes[node.name] = node, text
        return text


def nodes_body(pod: Pod, nodes: Sequence[Node], objects: ObjectEncoder, *, names_only: bool) -> Json:
    """The request of filter and prioritize: nodes as objects or as names, null for the other."""
    body: Json = {"Pod": objects.pod(pod), "Nodes": None, "NodeNames": None}
    if names_only:
        body["NodeNames"] = [node.name for node in nodes]
    else:
        body["Nodes"] = {"metadata": {}, "items": objects.nodes(nodes) or None}
    return body


def victims_body(
    pod: Pod, victims: Mapping[str, Victims], objects: ObjectEncoder, *, names_only: bool
) -> Json:
    """The request of preempt: victims as objects or as uids, null for the other."""
    body: Json = {"Pod": objects.pod(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}

    def told(victim: Pod) -> Any:
        return {"UID": victim.metadata.uid} if names_only else objects.pod(victim)

    body["NodeNameToMetaVictims" if names_only else "NodeNameToVictims"] = {
        node: {"Pods": [told(victim) for victim in found.pods], "NumPDBViolations": found.violations}
        for node, found in sorted(victims.items())
    }
    return body


def binding_body(pod: Pod, node: str) -> Json:
    """The request of bind."""
    meta = pod.metadata
    return {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}


def _encode(data: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(data))


# Responses, decoded as Go's encoding/json decodes them


class AnswerError(ValueError):
    """An invalid response."""


def _no_number(name: str) -> float:
    """NaN and infinities, which Python would accept, are not JSON."""
    raise ValueError(name)


_LENIENT = json.JSONDecoder(parse_constant=_no_number)


class FilterAnswer(NamedTuple):
    """The response to filter. None means absent, which is not the same as empty.

    Nodes come with their JSON.
    """

    nodes: list[tuple[Node, msgspec.Raw]] | None
    node_names: list[str] | None
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class VictimsAnswer(NamedTuple):
    """The uids of the victims on a node; None stands for a null pod."""

    uids: list[str | None]
    violations: int


def read_filtered(body: bytes) -> FilterAnswer:
    """Decode the response to filter."""
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
        None if names is None else [_string(name, at["NodeNames"]) for name in _list(names, at["NodeNames"])],
        _reasons(values, "FailedNodes", at),
        _reasons(values, "FailedAndUnresolvableNodes", at),
        _told(values["Error"], at["Error"]) if "Error" in values else "",
    )


def read_scores(body: bytes) -> dict[str, int]:
    """Decode the response to prioritize. The scores of a host that is named twice are added."""
    scores: dict[str, int] = {}
    entries = _plain(_value(body))
    if entries is not None and not isinstance(entries, list):
        raise _mismatch(entries, "v1.HostPriorityList", Cursor())
    top = Cursor()
    host_at, score_at = (top.member("HostPriority", (), field) for field in _HOST_PRIORITY)
    for entry in entries or ():
        found = _members(_object_members(entry, "v1.HostPriority", top), _HOST_PRIORITY)
        host = _string(found.get("Host"), host_at)
        scores[host] = scores.get(host, 0) + _int64(found.get("Score"), score_at)
    return scores


def read_bound(body: bytes) -> str:
    """Decode the response to bind: the error, empty if there is none."""
    struct = "ExtenderBindingResult"
    found = _members(_parts(body, f"v1.{struct}"), ("Error",))
    return _told(_plain(found["Error"]), Cursor().member(struct, (), "Error")) if found else ""


def read_victims(body: bytes) -> dict[str, VictimsAnswer]:
    """Decode the response to preempt: victims by node."""
    struct, field = "ExtenderPreemptionResult", "NodeNameToMetaVictims"
    found = _members(_parts(body, f"v1.{struct}"), (field,))
    if not found:
        return {}
    at = Cursor().member(struct, (), field)
    by_node = _object_members(_plain(found[field]), "map[string]*v1.MetaVictims", at)
    return {node: _victims(victims, at) for node, victims in by_node.items()}


def _victims(victims: Any, at: Cursor) -> VictimsAnswer:
    found = _members(_object_members(victims, "v1.MetaVictims", at), ("Pods", "NumPDBViolations"))
    pods_at = at.member("MetaVictims", (), "Pods")
    uids: list[str | None] = []
    for pod in _list(found.get("Pods"), pods_at, "[]*v1.MetaPod"):
        members = _members(_object_members(pod, "v1.MetaPod", pods_at), ("UID",))
        uid = _string(members.get("UID"), pods_at.member("MetaPod", (), "UID"))
        uids.append(None if pod is None else uid)
    violations = _int64(found.get("NumPDBViolations"), at.member("MetaVictims", (), "NumPDBViolations"))
    return VictimsAnswer(uids, violations)


def _nodes(raw: msgspec.Raw, at: Cursor) -> list[tuple[Node, msgspec.Raw]]:
    """The nodes of a list, decoded directly from their JSON: there can be thousands."""
    try:
        found = _members(_RAW_OBJECT.decode(raw), ("items",))
    except msgspec.ValidationError:
        raise _mismatch(_plain(raw), "v1.NodeList", at) from None
    except RecursionError:
        raise AnswerError("exceeded max depth") from None
    at = at.member("NodeList", (), "items")
    try:
        items = _RAW_LIST.decode(found["items"]) if found else []
    except msgspec.ValidationError:
        raise _mismatch(_plain(found["items"]), "[]v1.Node", at) from None
    except RecursionError:
        raise AnswerError("exceeded max depth") from None
    try:
        return [(decode(bytes(item), Node), item) for item in items]
    except DecodeError as error:
        raise AnswerError(f"reading the nodes an extender gave back: {error}") from None


def _reasons(values: dict[str, Any], name: str, at: dict[str, Cursor]) -> dict[str, str]:
    if name not in values:
        return {}
    reasons = _object_members(values[name], "v1.FailedNodesMap", at[name])
    return {node: _told(reason, at[name]) for node, reason in reasons.items()}


def _value(body: bytes) -> msgspec.Raw:
    """The first JSON value of a body; the rest is ignored."""
    try:
        body.decode()
        return msgspec.json.decode(body, type=msgspec.Raw)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return _odd_value(body)
    except RecursionError:
        raise AnswerError("exceeded max depth") from None


def _odd_value(body: bytes) -> msgspec.Raw:
    """A value with trailing data, or with invalid Unicode, which is replaced."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise AnswerError("EOF")
    try:
        value, _ = _LENIENT.raw_decode(text)
        written = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    except ValueError:
        raise AnswerError(_syntax_error(body)) from None
    except RecursionError:
        raise AnswerError("exceeded max depth") from None
    return msgspec.Raw(written.decode("utf-16", "replace").encode())


def _syntax_error(body: bytes) -> str:
    try:
        parse_json(body)
    except TextError as error:
        text = str(error)
        return "unexpected EOF" if text == "unexpected end of JSON input" else text
    return "invalid JSON"


def _parts(body: bytes, type_name: str) -> dict[str, msgspec.Raw]:
    """The members of a response object as raw JSON; null is an empty object."""
    raw = _value(body)
    try:
        return _RAW_OBJECT.decode(raw)
    except msgspec.ValidationError:
        value = _plain(raw)
    except RecursionError:
        raise AnswerError("exceeded max depth") from None
    if value is None:
        return {}
    raise _mismatch(value, type_name, Cursor())


def _plain(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise AnswerError(str(error)) from None
    except RecursionError:
        raise AnswerError("exceeded max depth") from None


def _members(data: dict[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The members that are fields, matched without regard to case, without nulls."""
    names = {name.lower(): name for name in fields}
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = names.get(key.lower())
        if name is not None and value is not None and not _is_null(value):
            found[name] = value
    return found


def _is_null(value: Any) -> bool:
    return isinstance(value, msgspec.Raw) and bytes(value).strip() == b"null"


def _object_members(value: Any, type_name: str, at: Cursor) -> dict[str, Any]:
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


def _string(value: Any, at: Cursor) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _mismatch(value, "string", at)


def _told(value: Any, at: Cursor) -> str:
    """A text for people, cut where an event would be."""
    text = _string(value, at)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 4]} ..."


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
