"""Targets for objects as servers and clients send them: lists, watches and protobuf."""

import base64
import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, cast

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.api.meta import AnyObject
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.client.http import decoder
from stowplan.client.http.connection import Connection, HttpStream
from stowplan.client.http.decoder import MORE, Decoding, Page
from stowplan.client.http.watch import HttpWatch
from stowplan.lab.fuzz.targets.framing import ManualLoop
from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation, expect, oracle, pieces, refused
from stowplan.localcluster.apiserver.bodies import protobuf_as_json
from stowplan.localcluster.schema import Form, SchemaField, TypeDef, the_schema
from stowplan.localcluster.schema.protobuf import ProtobufError, decoded, encoded_object, envelope

# Pages of lists

_SMALL_SLICE: Final = 200
"""Bytes of a page that are decoded at once here, so that small inputs are cut as large ones are."""

_TYPED: Final[Decoding[Pod]] = Decoding(PODS, Pod)
_UNTYPED: Final[Decoding[AnyObject]] = Decoding(PODS, AnyObject)


def _pages(decoding: Decoding[Any], parts: Iterable[bytes]) -> tuple[list[Any], list[Any], str, str]:
    """Items, what cannot be read, version and rest of a page that comes in pieces."""
    items: list[Any] = []
    unreadable: list[Any] = []
    version = rest = ""
    waiting = iter(parts)
    steps = decoding.parts()
    step: Any = next(steps)
    while True:
        if isinstance(step, Page):
            items += step.items
            unreadable += step.unreadable
            version, rest = step.resource_version, step.rest
        try:
            step = steps.send(next(waiting, b"") if step is MORE else b"") if step is MORE else next(steps)
        except StopIteration:
            return items, unreadable, version, rest


def _check_page(data: bytes) -> str:
    """The first byte says whether objects are typed, and how many of the others cut the rest."""
    if not data:
        return "nothing"
    cuts = data[1 : 1 + data[0] % 16]
    text = data[1 + len(cuts) :]
    decoding: Decoding[Any] = _TYPED if data[0] < 128 else _UNTYPED
    whole, problem = _page_of(decoding, [text] if text else [])
    before = decoder.SLICE
    try:
        setattr(decoder, "SLICE", _SMALL_SLICE)  # noqa: B010 - it is Final
        cut, _ = _page_of(decoding, pieces(text, cuts))
    finally:
        setattr(decoder, "SLICE", before)  # noqa: B010
    wanted = _readable_items(text)
    if whole is None or cut is None:
        if whole is not cut:
            raise Violation("a page can be read however it is cut", problem)
        if wanted is not None:
            raise Violation("a page is read whatever its items are", problem)
        return problem
    expect("a page is the same however it is cut", repr(cut), repr(whole))
    items, unreadable = whole[:2]
    if wanted is not None:
        expect("no item is lost", len(items) + len(unreadable), len(wanted))
        if not unreadable and all(isinstance(one, dict) for one in wanted):
            names = [(one.get("metadata") or {}).get("name") or "" for one in wanted]
            expect("items are those of the standard library", [one.metadata.name for one in items], names)
    return f"{min(len(items), 3)} {min(len(unreadable), 3)} {bool(whole[3])}"


def _page_of(decoding: Decoding[Any], parts: Iterable[bytes]) -> tuple[Any, str]:
    """The contents of a page, or why it cannot be read."""
    try:
        return _pages(decoding, parts), ""
    except (msgspec.MsgspecError, ValueError) as error:
        return None, refused(error)


def _readable_items(text: bytes) -> list[Any] | None:
    """The items of a page of which all but the items are as they should be, None for any other text."""
    try:
        page = json.loads(text.decode("utf-8", "replace"), parse_constant=refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    if not isinstance(page, dict) or not isinstance(page.get("items"), list):
        return None
    metadata = page.get("metadata", {})
    strings = [page.get("kind", ""), *(metadata.values() if isinstance(metadata, dict) else [None])]
    if not all(isinstance(one, str) and one.isascii() for one in strings):
        return None
    return cast(list[Any], page["items"])


def refuse(name: str) -> None:
    """Refuse values that only the standard library accepts as JSON, such as NaN."""
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs) or not all(name.isascii() for name, _ in pairs):
        raise ValueError("a name that readers may understand in several ways")
    return dict(pairs)


# Lines of a watch

_MOST_TURNS: Final = 10_000


def _check_watch(data: bytes) -> str:
    """Lines of a watch; the first byte says whether objects are typed, and how many others cut them."""
    if not data:
        return "nothing"
    cuts = data[1 : 1 + data[0] % 16]
    lines = data[1 + len(cuts) :]
    cls: type[Any] = Pod if data[0] < 128 else AnyObject
    together, ends = _watched(cls, [lines])
    *ended, last = lines.split(b"\n")
    if all(not line or (line.startswith(b"{") and line.endswith(b"}")) for line in (*ended, last)):
        # A value with line feeds in it, which no server sends, may be read when all of it comes at once.
        for parts in ([*(line + b"\n" for line in ended), last], pieces(lines, cuts)):
            cut, ends_cut = _watched(cls, parts)
            expect("a watch shows the same however it is cut", repr(cut), repr(together))
            expect("a watch ends the same however it is cut", ends_cut, ends)
    shown = {f"{event.type[:10]} {event.object is not None} {bool(event.problem)}" for event in together}
    return f"{','.join(sorted(shown))} {ends}"


def _watched(cls: type[Any], parts: Iterable[bytes]) -> tuple[list[Any], str]:
    """The events of a watch over which these pieces come, and how it ends."""
    loop = ManualLoop()
    events: list[Any] = []

    async def begin(stream: HttpStream) -> Connection:
        for piece in parts:
            stream.feed(piece)
        stream.end("")
        return Connection(lambda lost: None)

    async def follow() -> str:
        watch: HttpWatch[Any] = HttpWatch(begin, Decoding(PODS, cls), "/", 100.0)
        try:
            async for event in watch:
                events.append(event)
        except ApiError as error:
            return f"{min(error.code, 600)} {error.reason[:20]}"
        return ""

    with loop.running():
        steps = follow()
        for _ in range(_MOST_TURNS):
            try:
                steps.send(None)
            except StopIteration as end:
                return events, str(end.value)
            loop.run_ready()
        steps.close()
    raise Violation("a watch that has ended ends", f"{len(events)} events")


# Protobuf

_KINDS: Final = (
    ("v1", "Pod"),
    ("v1", "Node"),
    ("apps/v1", "Deployment"),
    ("coordination.k8s.io/v1", "Lease"),
    ("v1", "Event"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("v1", "Secret"),
    ("policy/v1", "PodDisruptionBudget"),
)


def _type_of(which: int) -> TypeDef:
    api_version, kind = _KINDS[which % len(_KINDS)]
    group, _, version = api_version.rpartition("/")
    found = the_schema().of_kind(group, version, kind)
    assert found is not None
    return found


_ALLOWED_REFUSALS: Final = (
    "expected bytes",
    "expected a number",
    "unknown wire type",
    "a time out of range",
    "text that is not UTF-8",
    "nested too deeply",
    "JSON",
    "wrong wire type",
)
"""Refused here though the library reads it: it skips fields of another wire type and takes any text."""


def _check_protobuf(data: bytes) -> str:
    """The first byte says which kind of object the others are."""
    if not data:
        return "nothing"
    type_ = _type_of(data[0])
    raw = data[1:]
    try:
        protobuf_as_json(raw)
    except ApiError as error:
        if error.code != 400:
            raise
    package = oracle("google.protobuf.message")
    message = None if package is None else _message_class(type_.full_name)()
    is_read = True
    if message is not None:
        try:
            message.ParseFromString(raw)
        except (package.DecodeError, UnicodeDecodeError):
            is_read = False
    try:
        found = decoded(type_, raw)
    except ProtobufError as error:
        if message is not None and is_read and not any(one in str(error) for one in _ALLOWED_REFUSALS):
            raise Violation("what protobuf reads is read", str(error)) from None
        return refused(error)
    if message is not None:
        if not is_read:
            raise Violation("what protobuf refuses is refused", repr(found))
        expect("fields are those of protobuf", _plain_object(found, type_), _plain_message(message, type_))
    return f"{sorted(found)[:4]}"


@cache
def _message_class(full_name: str) -> Any:
    """A message class of the library, made from the same table of fields."""
    pb2, pool, factory = (
        oracle(f"google.protobuf.{name}") for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = pb2.FileDescriptorProto(name="objects.proto", package="fuzz", syntax="proto2")
    made: set[str] = set()
    waiting = [full_name]
    while waiting:
        name = waiting.pop()
        if name not in made:
            made.add(name)
            waiting += _describe(file.message_type.add(name=_message_name(name)), the_schema().types[name])
    for name, fields in _PLAIN_MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            message.field.add(name=field, number=number, label=1, type=kind)
    found = pool.DescriptorPool()
    found.Add(file)
    return factory.GetMessageClass(found.FindMessageTypeByName(f"fuzz.{_message_name(full_name)}"))


_INT64, _INT32, _BOOL, _STRING, _MESSAGE, _BYTES = 3, 5, 8, 9, 11, 12
_PLAIN_MESSAGES: Final = {
    "Time": (("seconds", _INT64), ("nanos", _INT32)),
    "Quantity": (("string", _STRING),),
    "IntOrString": (("type", _INT64), ("number", _INT32), ("string", _STRING)),
    "Any": (("raw", _BYTES),),
}
_PLAIN_TYPES: Final = {"string": _STRING, "int": _INT32, "long": _INT64, "bool": _BOOL, "bytes": _BYTES}
_NAMED: Final = {"time": "Time", "microtime": "Time", "quantity": "Quantity", "intstr": "IntOrString"}


def _message_name(full_name: str) -> str:
    return full_name.replace(".", "_")


def _describe(message: Any, type_: TypeDef) -> list[str]:
    """Add the fields of a type to a message; the types they refer to."""
    needs: list[str] = []
    for field in type_.fields.values():
        if not field.number:
            continue
        within, path = message, f".fuzz.{message.name}"
        for number in field.number[:-1]:
            within, path = _inner(within, path, number)
        needs += _describe_field(within, path, field)
    return needs


def _inner(message: Any, path: str, number: int) -> tuple[Any, str]:
    """The message within a message in which fields are nested that JSON has side by side."""
    name = f"N{number}"
    found = [one for one in message.nested_type if one.name == name]
    if not found:
        message.field.add(
            name=f"n{number}", number=number, label=1, type=_MESSAGE, type_name=f"{path}.{name}"
        )
        found = [message.nested_type.add(name=name)]
    return found[0], f"{path}.{name}"


def _describe_field(message: Any, path: str, field: SchemaField) -> list[str]:
    repeated = field.form.shape in ("list", "map")
    form = field.form.of or field.form
    made = message.field.add(name=_member(field), number=field.number[-1], label=3 if repeated else 1)
    if field.form.shape != "map":
        return _set_type(made, form)
    entry = message.nested_type.add(name=f"{_member(field)}Entry")
    entry.field.add(name="key", number=1, label=1, type=_STRING)
    made.type, made.type_name = _MESSAGE, f"{path}.{entry.name}"
    return _set_type(entry.field.add(name="value", number=2, label=1), form)


def _member(field: SchemaField) -> str:
    return f"f_{field.name.replace('$', '_')}"


def _set_type(made: Any, form: Form) -> list[str]:
    if form.shape == "plain" and form.name in _PLAIN_TYPES:
        made.type = _PLAIN_TYPES[form.name]
        return []
    named = form.shape == "type"
    made.type = _MESSAGE
    made.type_name = f".fuzz.{_message_name(form.name) if named else _NAMED.get(form.name, 'Any')}"
    return [form.name] if named else []


def _compared(type_: TypeDef) -> Iterable[SchemaField]:
    """Fields whose values are compared: those that say the same in both, without maps of lists and times."""
    for field in type_.fields.values():
        if not field.number or field.form.shape == "map":
            continue
        form = field.form.of or field.form
        if form.shape == "type" or form.name in _PLAIN_TYPES:
            yield field


def _plain_object(data: Any, type_: TypeDef) -> dict[str, Any]:
    """Decoded data without zeros, for comparison."""
    return _without_zeros(
        {field.name: _plain_value(field, data.get(field.name)) for field in _compared(type_)}
    )


def _plain_value(field: SchemaField, value: Any) -> Any:
    form = field.form.of or field.form
    if form.shape != "type" or value is None:
        return value
    type_ = the_schema().types[form.name]
    return (
        [_plain_object(one, type_) for one in value]
        if isinstance(value, list)
        else _plain_object(value, type_)
    )


def _plain_message(message: Any, type_: TypeDef) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in _compared(type_):
        form = field.form.of or field.form
        within = message
        for number in field.number[:-1]:
            within = getattr(within, f"n{number}")
        value = getattr(within, _member(field))
        values = list(value) if field.form.shape == "list" else [value]
        if form.shape == "type":
            values = [_plain_message(one, the_schema().types[form.name]) for one in values]
        elif form.name == "bytes":
            values = [base64.b64encode(one).decode() for one in values]
        found[field.name] = values if field.form.shape == "list" else values[0]
    return _without_zeros(found)


def _without_zeros(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value not in (None, "", 0, False, [], {})}


_POD: Final[dict[str, Any]] = {
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"k": "v"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "nodeSelector": {"x": "y"},
        "priority": -5,
        "securityContext": {"supplementalGroups": [1, 2]},
    },
}


def _text(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _page(*items: object, rest: str = "") -> bytes:
    metadata = {"resourceVersion": "9", "continue": rest}
    return _text({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def _line(kind: str, obj: object) -> bytes:
    return _text({"type": kind, "object": obj}) + b"\n"


_MISFIT: Final = {"metadata": {"name": "b", "labels": ["x"]}, "spec": {"containers": {}}}
_BOOKMARK: Final = {
    "kind": "Pod",
    "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}},
}
_STATUS: Final = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
_WORDS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"null",
    b"true",
    b"1e400",
    b"-1",
    b"9" * 25,
    b'"metadata":',
    b'"name":',
    b'"items":[',
    b'},{"metadata":',
    b'"annotations":{}',
    b'"spec":',
    b"\\ud800",
    b"\xff",
    b'"labels":{"a":1}',
    b'"kind":"x"',
)


def _protobuf(kind: str, data: dict[str, Any]) -> bytes:
    api_version = next(version for version, name in _KINDS if name == kind)
    body = encoded_object({"apiVersion": api_version, "kind": kind, **data})
    which = next(number for number, (_, name) in enumerate(_KINDS) if name == kind)
    return bytes((which,)) + body


def _message(kind: str, data: dict[str, Any]) -> bytes:
    """An object without the envelope around it."""
    body = _protobuf(kind, data)
    return body[:1] + envelope(body[1:])[2]


OBJECTS: Final = (
    FuzzTarget(
        "decoder",
        "pages of lists, in arbitrary pieces",
        _check_page,
        (
            b"\0" + _page(_POD, _POD, _POD),
            b"\x85\x40\x10\x80\x01\x20" + _page(_POD, _MISFIT, _POD, rest="x"),
            b"\x02\x05\x60" + _page(_MISFIT, {"metadata": {"name": "c"}, "spec": None}),
            b"\0" + _page(),
            b"\x80" + _text({"kind": "PodList", "items": None}),
        ),
        _WORDS,
        oracle="the standard library's json, and itself: the same in one piece",
    ),
    FuzzTarget(
        "watch",
        "lines of a watch, together, one by one and in pieces",
        _check_watch,
        (
            b"\0" + _line("ADDED", _POD) + _line("DELETED", _POD),
            b"\x80" + _line("MODIFIED", _POD) + _line("BOOKMARK", _BOOKMARK) + _line("ERROR", _STATUS),
            b"\0" + _line("ADDED", _MISFIT) + b"\n" + _line("SURPRISE", {"metadata": {"name": 5}}),
        ),
        (*_WORDS, b"\n", b'"type":"ADDED"', b'"ERROR"', b'"BOOKMARK"', b'"object":'),
        oracle="itself: the same line by line, in arbitrary pieces",
    ),
    FuzzTarget(
        "protobuf",
        "protobuf that clients send to the embedded API server",
        _check_protobuf,
        (
            _message("Pod", _POD),
            _protobuf("Pod", _POD),
            _message(
                "Lease",
                {
                    "metadata": {"name": "l"},
                    "spec": {
                        "holderIdentity": "h",
                        "leaseDurationSeconds": 15,
                        "renewTime": "2026-11-17T12:00:00.000001Z",
                    },
                },
            ),
            _message("Secret", {"data": {"a": "aGk="}, "type": "Opaque", "immutable": True}),
            _message(
                "PodDisruptionBudget",
                {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
            ),
            _message(
                "Node",
                {
                    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDRs": ["10.0.0.0/8"]},
                    "status": {"capacity": {"cpu": "4"}},
                },
            ),
        ),
        (
            b"k8s\0",
            b"\x0a",
            b"\x12",
            b"\x0a\x00",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x80",
            b"\x0b",
            b"\x0c",
            b"\x0d1234",
            b"\x0912345678",
        ),
        oracle="the package protobuf",
        failed_once=(
            b"\x03\x12\x05\n\x01h\x10O\x01lllllllll",
            b"\0\x12\x03R\x01a\x12\x03B\x01b",
            b"\0\n\x028\x05\n\x028\0",
            b"\0\x12\x07\xc8\x01\xff\xff\xff\xff\x0f",
            b"\0\x12\x08r\x06\x22\x02\x01\x02\x20\x03",
        ),
        modules=("google.protobuf",),
    ),
)
