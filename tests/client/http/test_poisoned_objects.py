"""One poisoned object costs that object alone: of every kind, in lists and watches, at every position."""

import asyncio
import json
import random
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.http.nastyserver import Act, ChoosingServer, NastyServer, answer, chunked
from client.http.test_large_lists import parts_of
from stowplan.api.catalogue import NODES, PODS, Resource
from stowplan.api.decode import DecodeError, decode
from stowplan.api.meta import AnyObject, Object
from stowplan.api.pod import Pod
from stowplan.api.pruning import UNMANAGED, at_once, pruned, shape_of
from stowplan.api.status import ApiError
from stowplan.client import Reflector, Unreadable
from stowplan.client.http import decoder
from stowplan.client.http.decoder import Decoding
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import watched
from waiting import eventually

DEEP: Final = b'{"f:a":' * 2_000 + b"{}" + b"}" * 2_000
DIGITS: Final = b"1" * 5_000

PLACES: Final = {
    "deep managedFields": b'"managedFields":[{"manager":"m","fieldsV1":%b}]' % DEEP,
    "null": b'"creationTimestamp":null,"labels":null',
}
"""In metadata, where nothing is wrong with them."""

UNDECLARED: Final = {
    "depth": b"[" * 5_000 + b"]" * 5_000,
    "a long number": DIGITS,
    "not a number": b"NaN",
    "no UTF-8": b'"\xff"',
    "half a surrogate pair": b'"\\ud800"',
    "a NUL": b'"\x00"',
}
"""Values of a field that no type declares."""

WRONG: Final = {
    "depth": b'"labels":{"a":%b}' % DEEP,
    "a type": b'"labels":["a"]',
    "a long number": b'"generation":' + DIGITS,
    "a large exponent": b'"generation":1e999',
    "not a number": b'"generation":NaN',
    "no UTF-8": b'"labels":{"a":"\xff\xfe"}',
    "half a surrogate pair": b'"labels":{"a":"\\ud800"}',
    "a control character": b'"labels":{"a":"\x00"}',
    "a bad escape": b'"labels":{"a":"\\x"}',
}
"""In metadata, where they cannot be read."""

KINDS: Final = (
    watched.PODS,
    watched.NODES,
    *watched.AROUND_PODS,
    *watched.STORAGE,
    *watched.DEVICES,
    watched.DEVICE_TAINT_RULES,
    watched.POD_GROUPS,
    watched.COMPOSITE_POD_GROUPS,
    watched.COSCHEDULING_GROUPS,
    watched.Watched(Resource("example.com", "v1", "things", "Thing", custom=True), AnyObject),
)


def obj(name: str, metadata: bytes = b"", *, version: int = 1, top: bytes = b"") -> bytes:
    """An object as a server writes it, with something more in its metadata and at its top."""
    more = b"," + metadata if metadata else b""
    head = b'"name":"%b","uid":"u-%b","resourceVersion":"%d"' % (name.encode(), name.encode(), version)
    return b'{"metadata":{%b%b}%b}' % (head, more, b"," + top if top else b"")


def readable(cls: type[Object]) -> dict[str, bytes]:
    """Objects that look poisoned and are valid."""
    found = {f"fine-{number}": obj(f"fine-{number}", text) for number, text in enumerate(PLACES.values())}
    if cls is not AnyObject:
        for number, value in enumerate(UNDECLARED.values()):
            found[f"odd-{number}"] = obj(f"odd-{number}", top=b'"unheardOf":' + value)
        return found
    del found["fine-1"]
    return found


def unreadable() -> dict[str, bytes]:
    return {f"bad-{number}": obj(f"bad-{number}", text) for number, text in enumerate(WRONG.values())}


def mixed(cls: type[Object], prefix: str) -> tuple[list[bytes], set[str], set[str]]:
    """Every poison, the first, the last and between good objects; who can be read, and who cannot."""
    items: list[bytes] = []
    good = {**readable(cls)}
    bad = unreadable()
    for number, one in enumerate([*bad.values(), *good.values(), *bad.values()]):
        items += [one, obj(f"{prefix}{number}")]
    items.append(next(iter(bad.values())))
    expected = {f"{prefix}{number}" for number in range(len(items) // 2)} | good.keys()
    return items, expected, set(bad)


def page(items: list[bytes]) -> bytes:
    head = b'{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":['
    return head + b",".join(items) + b"]}"


def line(kind: bytes, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind, raw)


SYNCED: Final = line(
    b"BOOKMARK",
    b'{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}',
)


class Told:
    """A handler that notes who was told of what."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def added(self, new: Object) -> None:
        self.told.append(f"+{new.name}")

    def updated(self, old: Object, new: Object) -> None:
        self.told.append(f"~{new.name}")

    def deleted(self, last: Object) -> None:
        self.told.append(f"-{last.name}")


@pytest.mark.parametrize("stream", [False, True], ids=["list", "watch list"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.served.dotted)
def test_all_others_arrive_whatever_stands_between_them(kind: watched.Watched, stream: bool) -> None:
    first, listed, bad = mixed(kind.cls, "l")
    second, followed, _ = mixed(kind.cls, "w")
    later = [
        line(b"MODIFIED", obj("bad-0", version=2)),
        line(b"MODIFIED", obj("l0", WRONG["a type"], version=2)),
        line(b"DELETED", obj("bad-1", WRONG["depth"], version=2)),
        line(b"DELETED", obj("l1", WRONG["no UTF-8"], version=2)),
        line(b"ADDED", obj("last", version=2)),
    ]
    changes = b"".join([line(b"ADDED", one) for one in second] + later)

    def choose(method: str, target: str) -> bytes | Act:
        if "watch=true" not in target:
            return answer("200 OK", page(first))
        begun = b"".join(line(b"ADDED", one) for one in first) + SYNCED if stream else b""
        text = begun + changes

        async def act(writer: asyncio.StreamWriter) -> None:
            writer.write(chunked(*(text[at : at + 7_777] for at in range(0, len(text), 7_777)), end=False))
            await asyncio.Event().wait()

        return act

    async def run() -> None:
        reports: list[str] = []
        handler = Told()
        async with ChoosingServer(choose) as server, server.client() as client:
            reflector: Reflector[Any] = Reflector(
                client,
                kind.served,
                kind.cls,
                handler,
                clock=RealClock(),
                rng=random.Random(1),
                report=reports.append,
                stream=stream,
            )
            running = asyncio.create_task(reflector.run())
            await eventually(lambda: running.done() or "last" in reflector.objects, lambda: str(reports))
            assert not running.done(), running.exception()
            running.cancel()
        gone, kept = {"l1"}, {"bad-0", "last"}
        assert set(reflector.objects) == (listed | followed | kept) - gone
        assert set(reflector.unreadable) == (bad | {"l0"}) - kept - {"bad-1"}
        assert reflector.objects["l0"].metadata.resource_version == "1"
        assert handler.told.count("+bad-0") == 1
        assert handler.told[-2:] == ["-l1", "+last"]
        assert {one.split()[1].rstrip(":") for one in reports} == bad | {"l0"}

    with patch.object(decoder, "SLICE", 9_000):
        asyncio.run(run())


@given(st.data())
def test_wherever_a_page_is_cut_the_same_objects_are_found(data: st.DataObject) -> None:
    poisons = [*unreadable().values(), *readable(AnyObject).values()]
    drawn = data.draw(st.lists(st.sampled_from([*poisons, b"good", b"null", b"[1]"]), max_size=12))
    items = [obj(f"g{at}") if one == b"good" else one for at, one in enumerate(drawn)]
    gap = data.draw(st.sampled_from([b",", b" ,\n "]))
    text = page([gap.join(items)]) if items else page([])
    size = data.draw(st.integers(50, max(len(text), 50)))
    decoding = Decoding(Resource("", "v1", "things", "Thing"), AnyObject)
    with patch.object(decoder, "SLICE", data.draw(st.integers(100, 20_000))):
        parts = parts_of(decoding, [text[at : at + size] for at in range(0, len(text), size)])
    good = [one.name for part in parts for one in part.items]
    bad = [one.key for part in parts for one in part.unreadable]
    fine = set(readable(AnyObject).values())
    assert good == [
        f"g{at}" if one == b"good" else "fine-0"
        for at, one in enumerate(drawn)
        if one == b"good" or one in fine
    ]
    assert len(good) + len(bad) == len(items)
    assert parts[-1].resource_version == "9"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), JSON, st.sampled_from([None, 1]))
def test_only_managed_fields_are_left_out_of_data_of_any_kind(
    value: Any, managed: Any, indent: int | None
) -> None:
    whole = {**value, "metadata": {"name": "a", "managedFields": managed, "labels": value}}
    text = json.dumps(whole, indent=indent, ensure_ascii=bool(indent)).encode()
    expected = {**whole, "metadata": {"name": "a", "labels": value}}
    assert json.loads(at_once(pruned(text, UNMANAGED))) == expected


@given(JSON)
def test_of_a_typed_object_what_is_declared_is_left(unknown: Any) -> None:
    plain = {
        "metadata": {
            "name": "a",
            "labels": {"l": "m"},
            "ownerReferences": [{"uid": "u", "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    odd = json.loads(json.dumps(plain))
    for place in (odd, odd["metadata"], odd["metadata"]["ownerReferences"][0], odd["spec"]["containers"][0]):
        place["unheardOf"] = unknown
    text = json.dumps(odd, indent=2).encode()
    assert json.loads(at_once(pruned(text, shape_of(Pod)))) == plain
    assert decode(text, Pod) == decode(json.dumps(plain), Pod)


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1]', b"{} {}", b'{"metadata":{"name":"x}']
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(text, Pod)


def test_a_deep_object_is_decoded_wherever_the_stack_stands() -> None:
    """The depth that the decoder takes depends on the depth from which it is called."""

    def from_depth(depth: int) -> Pod:
        return from_depth(depth - 1) if depth else decode(text, Pod)

    for levels in (90, 900, 2_000, 10_000):
        managed = b'"managedFields":[{"fieldsV1":%b}]' % (b'{"f":' * levels + b"1" + b"}" * levels)
        text = obj("p", managed, top=b'"spec":{"nodeName":"n"}')
        assert {from_depth(depth).spec.node_name for depth in (0, 300, 600)} == {"n"}


def test_a_line_that_is_no_event_makes_the_reflector_list_anew() -> None:
    """Resumed, the watch would bring the same line again and again."""
    lists = [page([obj("a")]), page([obj("a"), obj("b")])]

    def choose(method: str, target: str) -> bytes | Act:
        if "watch=true" not in target:
            return answer("200 OK", lists.pop(0) if len(lists) > 1 else lists[0])
        return chunked(b'{"type":"ADDED","object":{"metadata":\n')

    async def run() -> None:
        reports: list[str] = []
        async with ChoosingServer(choose) as server, server.client() as client:
            reflector: Reflector[Any] = Reflector(
                client, PODS, Pod, Told(), clock=RealClock(), rng=random.Random(1), report=reports.append
            )
            running = asyncio.create_task(reflector.run())
            await eventually(lambda: "b" in reflector.objects)
            running.cancel()
        assert "the answer cannot be read" in reports[0]

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"Status","code":409,"message":"so it is","details":{"a":%b}}' % DEEP,
        b'{"kind":"Status","code":409,"message":"so it is","unheardOf":"\xff"}',
    ],
)
def test_a_refusal_with_poison_in_it_is_read_as_far_as_it_can_be(body: bytes) -> None:
    async def run() -> None:
        async with NastyServer(answer("409 Conflict", body)) as server, server.client() as client:
            with pytest.raises(ApiError, match="so it is"):
                await client.get(NODES, "", "n")

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [b'"soon"', b"-1", b"[]", b"{}", b"1e400"])
def test_a_refusal_that_asks_to_wait_for_nonsense_is_a_refusal(seconds: bytes) -> None:
    body = b'{"kind":"Status","code":503,"message":"later","details":{"retryAfterSeconds":%b}}' % seconds

    async def run() -> None:
        async with NastyServer(answer("503 Service Unavailable", body)) as server, server.client() as client:
            with pytest.raises(ApiError, match="later"):
                async for _ in client.parts(NODES, AnyObject):
                    pass

    asyncio.run(run())


def test_an_object_with_deep_managed_fields_can_be_got() -> None:
    body = obj("n", PLACES["deep managedFields"])

    async def run() -> None:
        async with NastyServer(answer("200 OK", body)) as server, server.client() as client:
            found = await client.get(NODES, "", "n")
            assert found["metadata"] == {"name": "n", "uid": "u-n", "resourceVersion": "1"}
        async with (
            NastyServer(answer("200 OK", obj("n", WRONG["depth"]))) as server,
            server.client() as client,
        ):
            with pytest.raises(ApiError, match="nested too deeply"):
                await client.get(NODES, "", "n")

    asyncio.run(run())


def test_an_unreadable_object_ends_another_one_of_its_name() -> None:
    """Its deletion was missed: what is there now is another object, which cannot be read."""
    found: list[Unreadable] = []
    handler = Told()
    old, new = (
        page([obj("a"), obj("b")]),
        page([obj("a").replace(b"u-a", b"u-2")[:-2] + b',"labels":1}}', obj("b")]),
    )
    lists = [old, new]

    def choose(method: str, target: str) -> bytes | Act:
        if "watch=true" not in target:
            return answer("200 OK", lists.pop(0) if len(lists) > 1 else lists[0])
        gone = b'{"kind":"Status","status":"Failure","reason":"Expired","code":410}'
        return chunked(line(b"ERROR", gone))

    async def run() -> None:
        async with ChoosingServer(choose) as server, server.client() as client:
            reflector: Reflector[Any] = Reflector(
                client,
                PODS,
                Pod,
                handler,
                clock=RealClock(),
                rng=random.Random(1),
                report=lambda text: None,
                unreadable=lambda resource, one: found.append(one),
            )
            running = asyncio.create_task(reflector.run())
            await eventually(lambda: found)
            running.cancel()
        assert handler.told == ["+a", "+b", "-a"]
        assert [(one.key, one.uid) for one in found] == [("a", "u-2")]

    asyncio.run(run())
