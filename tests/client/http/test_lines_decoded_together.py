"""Lines of a watch that came together are decoded together, and show the same as one by one."""

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.catalogue import PODS
from stowplan.api.meta import AnyObject, Object
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.client.http.connection import Connection, HttpStream
from stowplan.client.http.decoder import Decoding
from stowplan.client.http.watch import HttpWatch
from stowplan.client.interface import WatchEvent


def line(kind: str, name: str, **metadata: Any) -> bytes:
    obj = {"metadata": {"name": name, "namespace": "default", "resourceVersion": name[1:], **metadata}}
    return json.dumps({"type": kind, "object": obj}).encode()


SYNCED = {"k8s.io/initial-events-end": "true"}
READABLE = st.builds(
    line, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from(["p1", "p2", "p3"])
)
OTHERS = st.sampled_from(
    [
        b"",
        line("BOOKMARK", "p4"),
        line("BOOKMARK", "p5", annotations=SYNCED),
        line("ADDED", "p6", labels=["a list"]),
        line("DELETED", "p7", labels={"a": 1}),
        line("UNHEARD-OF", "p8"),
        b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "old"}}',
        b'{"type": "ADDED"}',
        b"{",
        b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}',
    ]
)


def seen(lines: bytes, places: list[int], cls: type[Object], at_once: int) -> list[object]:
    """Events and end of a watch whose data arrives cut at these places."""
    ends = sorted({place % (len(lines) + 1) for place in places} | {len(lines)})
    shown: list[object] = []

    async def main() -> None:
        async def begin(stream: HttpStream) -> Connection:
            for start, end in zip([0, *ends], ends, strict=False):
                stream.feed(lines[start:end])
            stream.end("")
            return Connection(lambda lost: None)

        watch: HttpWatch[Any] = HttpWatch(begin, Decoding(PODS, cls), "/", 100.0)
        try:
            async for event in watch:
                shown.append(event)
                shown.extend(watch.ready(at_once))
        except ApiError as error:
            shown.append(str(error))

    asyncio.run(main())
    return shown


@given(
    st.lists(READABLE | OTHERS, max_size=12),
    st.lists(st.integers(0, 5_000), max_size=4),
    st.sampled_from([Pod, AnyObject]),
    st.integers(0, 5),
)
def test_a_watch_shows_the_same_whether_lines_come_together_or_alone(
    lines: list[bytes], places: list[int], cls: type[Object], at_once: int
) -> None:
    ends, at = [], 0
    for one in lines:
        at += len(one) + 1
        ends.append(at)
    text = b"".join(one + b"\n" for one in lines)
    assert seen(text, places, cls, at_once) == seen(text, ends, cls, 0)


@given(st.lists(READABLE, min_size=1, max_size=12))
def test_lines_that_show_objects_are_decoded_at_once(lines: list[bytes]) -> None:
    decoding = Decoding(PODS, Pod)
    together: list[WatchEvent[Pod]] | None = decoding.events(b"".join(one + b"\n" for one in lines))
    assert together == [decoding.event(one) for one in lines]


def test_lines_among_which_is_a_bookmark_are_not_decoded_at_once() -> None:
    lines = b"\n".join([line("ADDED", "p1"), line("BOOKMARK", "p2", annotations=SYNCED), b""])
    assert Decoding(PODS, Pod).events(lines) is None
