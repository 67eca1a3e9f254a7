"""A small scripted HTTP/2 server; clients of HTTP/1.1 get that."""

import asyncio
import contextlib
import functools
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings

from client.http.nastyserver import Act, NastyServer
from stowplan.client.http import Address, HttpClient, Identity, Secret, Server, Trust
from stowplan.localcluster.apiserver.server import self_signed
from stowplan.runtime.clock import RealClock
from stowplan.server.serving.certificates import Certificate

Http2Act = Callable[["Http2Writer"], Awaitable[None]]


@functools.cache
def certificate() -> Certificate:
    return self_signed([], RealClock().now())


def context(*protocols: str) -> ssl.SSLContext:
    found = certificate().context()
    found.set_alpn_protocols(protocols)
    return found


def act(given: Http2Act) -> Act:
    """Script for an HTTP/2 server's answer to a request."""
    return cast(Act, given)


class Http2Writer:
    """One stream of a connection. Output written as HTTP/1.1 is sent as HTTP/2 when it is complete."""

    def __init__(
        self, link: asyncio.StreamWriter, connection: H2Connection, stream: int, request: bytes
    ) -> None:
        self._link = link
        self._text = b""
        self.connection = connection
        self.stream = stream
        self.request = request
        self.transport = link.transport

    def write(self, text: bytes) -> None:
        self._text += text

    async def drain(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.finish()
        self._link.close()

    def send(self) -> None:
        """Send what the connection has to say."""
        self._link.write(self.connection.data_to_send())

    def finish(self) -> None:
        """Send what was written; without the end of the stream if the answer is not complete."""
        text, self._text = self._text, b""
        while text:
            head, _, text = text.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            status = lines[0].split(" ")[1]
            fields = [
                (name, value) for name, _, value in (line.lower().partition(": ") for line in lines[1:])
            ]
            length = next((int(value) for name, value in fields if name == "content-length"), None)
            self.connection.send_headers(self.stream, [(":status", status), *fields])
            if status < "200":
                continue
            while text:
                piece, text = text[:16_000], text[16_000:]
                length = None if length is None else length - len(piece)
                self.connection.send_data(self.stream, piece)
            if not length:
                self.connection.end_stream(self.stream)
        self.send()


class Http2Server(NastyServer):
    """Scripts as for HTTP/1.1, or acts of an `Http2Writer`. Takes `streams` requests at a time."""

    def __init__(self, *scripts: bytes | Act, streams: int = 100, window: int = 65_535) -> None:
        super().__init__(*scripts, tls=context("h2", "http/1.1"))
        self._settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: streams,
            SettingCodes.INITIAL_WINDOW_SIZE: window,
        }
        self.resets: list[int] = []
        """Codes with which the client gave up requests."""
        self.goaways: list[int] = []
        self.most_at_once = 0

    async def __aenter__(self) -> "Http2Server":
        await super().__aenter__()
        return self

    def client(self, **options: Any) -> HttpClient:
        identity = options.pop("identity", Identity())
        trust = Trust(Secret(certificate().certificate))
        given = {"clock": RealClock(), "rng": random.Random(1), "qps": -1, "environ": {}}
        return HttpClient(Server(Address.parse(self.url), trust, identity=identity), **{**given, **options})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen: ssl.SSLObject = writer.get_extra_info("ssl_object")
        if chosen.selected_alpn_protocol() != "h2":
            await super()._serve(reader, writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.local_settings = Settings(client=False, initial_values=self._settings)
        connection.initiate_connection()
        under_way: dict[int, asyncio.Task[None]] = {}
        heads: dict[int, list[tuple[str, str]]] = {}
        bodies: dict[int, bytes] = {}
        writer.write(connection.data_to_send())
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            while data := await reader.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived):
                        heads[event.stream_id] = cast(list[tuple[str, str]], event.headers)
                        bodies[event.stream_id] = b""
                    elif isinstance(event, DataReceived):
                        bodies[event.stream_id] += event.data
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, StreamEnded):
                        stream = event.stream_id
                        request = _as_text(heads.pop(stream), bodies.pop(stream))
                        self.requests.append(request)
                        self.times.append(asyncio.get_running_loop().time())
                        script = self._script_for(request)
                        answering = self._answer(script, Http2Writer(writer, connection, stream, request))
                        under_way[stream] = asyncio.create_task(answering)
                        self._tasks.add(under_way[stream])
                        busy = sum(not one.done() for one in under_way.values())
                        self.most_at_once = max(self.most_at_once, busy)
                    elif isinstance(event, StreamReset):
                        self.resets.append(int(event.error_code))
                        if event.stream_id in under_way:
                            under_way[event.stream_id].cancel()
                    elif isinstance(event, ConnectionTerminated):
                        self.goaways.append(int(event.error_code or 0))
                writer.write(connection.data_to_send())
        writer.close()
        self._tasks.discard(task)

    async def _answer(self, script: bytes | Act, writer: Http2Writer) -> None:
        if isinstance(script, bytes):
            writer.write(script)
        else:
            await script(cast(asyncio.StreamWriter, writer))
        writer.finish()


def _as_text(fields: list[tuple[str, str]], body: bytes) -> bytes:
    """A request as it would be in HTTP/1.1."""
    pseudo = {name: value for name, value in fields if name.startswith(":")}
    lines = [f"{pseudo[':method']} {pseudo[':path']} HTTP/1.1", f"Host: {pseudo[':authority']}"]
    lines += [f"{name.title()}: {value}" for name, value in fields if not name.startswith(":")]
    return "\r\n".join([*lines, "", ""]).encode() + body
