"""Lists of tens of thousands of objects: everything is read, and the event loop is never held for long."""

import asyncio
import contextlib
import gc
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Final, TypeVar
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.catalogue import PODS, Resource
from stowplan.api.meta import AnyObject
from stowplan.api.pod import Pod
from stowplan.client import Listing, Reflector
from stowplan.client.http import HttpClient, Server, decoder
from stowplan.client.http.decoder import MORE, SLICE, Decoding, Page
from stowplan.client.http.settings import Address
from stowplan.runtime.clock import LoopWatchdog, RealClock
from waiting import eventually

R = TypeVar("R")

MANY: Final = 30_000
LONGEST: Final = 0.05
VERSION: Final = "1000000"
EXPIRED: Final = msgspec.json.encode(
    {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}}
)


def pod_json(number: int, *, managed: int = 30) -> dict[str, Any]:
    """A pod as a server has it, half of it fields that are not read here."""
    fields: dict[str, Any] = {f"f:field{one}": {".": {}, "f:type": {}} for one in range(managed)}
    return {
        "metadata": {
            "name": f"pod-{number:05}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "labels": {"app": f"app-{number % 50}", "note": 'a } , { " and },{"metadata":{ in a text'},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "nodeName": f"node-{number % 1000}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/main:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


def list_json(items: list[Any], **others: Any) -> bytes:
    head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": VERSION}}
    return msgspec.json.encode({**head, "items": items, **others})


def watch_json(items: list[Any]) -> bytes:
    """The initial events of a watch list and the bookmark after them."""
    synced = {"resourceVersion": VERSION, "annotations": {"k8s.io/initial-events-end": "true"}}
    events = [{"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", **item}} for item in items]
    events.append({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": synced}})
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


@contextmanager
def serving(
    listed: bytes,
    watched: bytes = b"",
    *,
    expires: bool = False,
    resumed: threading.Event | None = None,
    halts: threading.Event | None = None,
) -> Iterator[Address]:
    """An HTTP server in separate threads. It ignores `limit`, as one that answers from its watch cache.

    With `expires` it has forgotten the version of the first watch; `resumed` is set with the next one. It
    `halts` in the middle of a list until it is released.
    """
    over = threading.Event()
    forgotten = iter([EXPIRED] if expires else [])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if "watch=true" not in self.path:
                self.send_header("Content-Length", str(len(listed)))
                self.end_headers()
                half = 0 if halts is None else len(listed) // 2
                self.wfile.write(listed[:half])
                if halts is not None:
                    self.wfile.flush()
                    halts.wait(20)
                self.wfile.write(listed[half:])
                return
            self.send_header("Connection", "close")
            self.end_headers()
            if "sendInitialEvents=true" in self.path:
                self.wfile.write(watched)
            elif line := next(forgotten, None):
                self.wfile.write(line + b"\n")
                return
            elif resumed is not None:
                resumed.set()
            over.wait()

        def log_message(self, *about: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Address.parse(f"http://127.0.0.1:{server.server_port}")
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def client_of(address: Address) -> HttpClient:
    return HttpClient(Server(address), clock=RealClock(), rng=random.Random(1), qps=-1, environ={})


class Counting:
    """A handler that counts."""

    def __init__(self) -> None:
        self.count = 0

    def added(self, new: Pod) -> None:
        self.count += 1

    def updated(self, old: Pod, new: Pod) -> None:
        raise AssertionError(f"{new.key} has not changed")

    def deleted(self, last: Pod) -> None:
        raise AssertionError(f"{last.key} is not gone")


def watched(story: Callable[[], Coroutine[Any, Any, R]]) -> tuple[R, float]:
    """The result of a coroutine, and the longest turn of its loop, in seconds on the CPU.

    A runner must not see the result: it makes a text of it when it is done.
    """
    results: list[R] = []

    async def run() -> None:
        results.append(await story())

    watchdog = LoopWatchdog(limit=LONGEST / 2, by_cpu=True)
    gc.collect()
    with asyncio.Runner(loop_factory=watchdog.new_loop) as runner, watchdog:
        runner.run(run())
    return results[0], watchdog.longest.cpu


@pytest.fixture(scope="module")
def many() -> tuple[bytes, bytes]:
    """A list and a watch list. Only the texts are kept: garbage collection would go through the objects."""
    pods = [pod_json(number) for number in range(MANY)]
    return list_json(pods), watch_json(pods)


@pytest.mark.parametrize("not_older_than", ["", "0", "17"])
def test_a_list_of_30000_pods_does_not_hold_the_loop(many: tuple[bytes, bytes], not_older_than: str) -> None:
    with serving(*many) as address:

        async def story() -> Listing[Pod]:
            async with client_of(address) as client:
                return await client.list(PODS, Pod, not_older_than=not_older_than)

        listing, hold = watched(story)
    assert [pod.metadata.name for pod in listing.items] == [f"pod-{number:05}" for number in range(MANY)]
    assert listing.resource_version == VERSION
    assert not listing.unreadable
    assert hold < LONGEST


@pytest.mark.parametrize("stream", [False, True], ids=["list", "watch list"])
def test_a_reflector_that_syncs_with_30000_pods_does_not_hold_the_loop(
    many: tuple[bytes, bytes], stream: bool
) -> None:
    handler = Counting()
    with serving(*many) as address:

        async def story() -> Reflector[Pod]:
            async with client_of(address) as client:
                reflector = Reflector(
                    client,
                    PODS,
                    Pod,
                    handler,
                    clock=RealClock(),
                    rng=random.Random(1),
                    report=pytest.fail,
                    stream=stream,
                )
                task = asyncio.create_task(reflector.run())
                await reflector.wait_synced()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return reflector

        reflector, hold = watched(story)
    assert handler.count == len(reflector.objects) == MANY
    assert reflector.resource_version == VERSION
    assert hold < LONGEST


def test_a_reflector_that_lists_30000_unchanged_pods_again_does_not_hold_the_loop(
    many: tuple[bytes, bytes],
) -> None:
    """The second copies are not needed: they are freed little by little, too."""
    handler, resumed = Counting(), threading.Event()
    with serving(*many, expires=True, resumed=resumed) as address:

        async def story() -> Reflector[Pod]:
            async with client_of(address) as client:
                reflector = Reflector(
                    client, PODS, Pod, handler, clock=RealClock(), rng=random.Random(1), report=lambda _: None
                )
                task = asyncio.create_task(reflector.run())
                await eventually(resumed.is_set)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return reflector

        reflector, hold = watched(story)
    assert reflector.failures == 1
    assert handler.count == len(reflector.objects) == MANY
    assert hold < LONGEST


def nested(number: int) -> dict[str, Any]:
    """An object with lists that look like the list it is in."""
    metadata = {"name": f"set-{number}", "namespace": "default"}
    return {"metadata": metadata, "more": [{"metadata": {"name": f"inner-{one}"}} for one in range(50)]}


LAYOUTS: Final = {
    "compact": list_json([pod_json(one) for one in range(400)]),
    "with spaces": msgspec.json.format(list_json([pod_json(one) for one in range(400)])),
    "items first": msgspec.json.encode(
        {"items": [pod_json(one) for one in range(400)], "metadata": {"resourceVersion": VERSION}}
    ),
    "items that hold such items": list_json([nested(one) for one in range(400)]),
    "one large item": list_json([pod_json(1, managed=20_000), pod_json(2), pod_json(3)]),
    "other items elsewhere": msgspec.json.encode(
        {
            "metadata": {"resourceVersion": VERSION, "items": [{"metadata": {"name": "no"}}]},
            "items": [pod_json(one) for one in range(400)],
        }
    ),
    "a bad item here and there": list_json(
        [{**pod_json(one), **({"spec": 5} if one % 90 == 3 else {})} for one in range(400)]
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_item_is_read_however_a_list_is_laid_out(layout: str) -> None:
    text = LAYOUTS[layout]
    assert len(text) > 2 * SLICE
    items = msgspec.json.decode(text)["items"]
    bad = {item["metadata"]["name"] for item in items if item.get("spec") == 5}

    async def story(address: Address) -> None:
        async with client_of(address) as client:
            listing = await client.list(PODS, Pod)
        wanted = [item["metadata"]["name"] for item in items if item["metadata"]["name"] not in bad]
        assert [pod.metadata.name for pod in listing.items] == wanted
        assert {one.key for one in listing.unreadable} == {f"default/{name}" for name in bad}
        assert {pod.kind for pod in listing.items} == {"Pod"}
        assert listing.resource_version == VERSION

    with serving(text) as address:
        asyncio.run(story(address))


TEXTS: Final = st.sampled_from(["", "a", '"', "\\", '},{"metadata":{', '{"items":[', "]}", "\u00e9"])
NAMED: Final = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": TEXTS})})
INNER: Final = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none(), NAMED),
    lambda values: st.one_of(st.lists(values, max_size=4), st.dictionaries(TEXTS, values, max_size=4)),
    max_leaves=8,
)
ITEMS: Final = st.builds(lambda named, more: {**named, "spec": more}, NAMED, INNER)


@given(st.lists(ITEMS, max_size=30), st.data())
def test_a_list_in_slices_is_what_it_is_in_one_piece(items: list[Any], data: st.DataObject) -> None:
    text = list_json(items)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=20)))
    pieces = [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]
    decoding = Decoding(Resource("", "v1", "things", "Thing"), AnyObject)
    with patch.object(decoder, "SLICE", data.draw(st.integers(100, 1000))):
        pages = parts_of(decoding, [piece for piece in pieces if piece])
    assert [item.data["spec"] for page in pages for item in page.items] == [item["spec"] for item in items]
    assert pages[-1].resource_version == VERSION
    assert not any(page.unreadable for page in pages)


def parts_of(decoding: Decoding[AnyObject], pieces: list[bytes]) -> list[Page[AnyObject]]:
    """Decoded parts of a list that arrives in these pieces."""
    found: list[Page[AnyObject]] = []
    coming = iter([*pieces, b""])
    steps = decoding.parts()
    step = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            if isinstance(step, Page):
                found.append(step)
            step = steps.send(next(coming)) if step is MORE else next(steps)
    return found


class Shown(Counting):
    """A handler that tells when the first objects are shown."""

    def __init__(self, first: threading.Event) -> None:
        super().__init__()
        self._first = first

    def added(self, new: Pod) -> None:
        super().added(new)
        self._first.set()


def test_a_list_is_shown_while_it_arrives() -> None:
    """The second half is sent when something of the first has been shown."""
    pods = [pod_json(number) for number in range(1000)]
    text = list_json(pods)
    shown = threading.Event()
    handler = Shown(shown)
    with serving(text, halts=shown) as address:

        async def story() -> None:
            async with client_of(address) as client:
                reflector = Reflector(
                    client, PODS, Pod, handler, clock=RealClock(), rng=random.Random(1), report=pytest.fail
                )
                task = asyncio.create_task(reflector.run())
                await reflector.wait_synced()
                assert shown.is_set()
                assert handler.count == len(reflector.objects) == len(pods)
                assert reflector.resource_version == VERSION
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(asyncio.wait_for(story(), 30))
