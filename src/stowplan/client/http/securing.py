"""TLS between a connection and its socket.

asyncio's own TLS serves every protocol there is and takes its time for that; requests here are small and
many. This one knows that writes are whole requests and that whoever reads takes all there is.
"""

import asyncio
import ssl
from typing import Final, Protocol, cast

_PIECE: Final = 256 * 1024


class Inner(Protocol):
    """Who speaks through TLS."""

    def connection_made(self, transport: "TlsLink", /) -> None: ...

    def data_received(self, data: bytes, /) -> None: ...

    def connection_lost(self, exc: Exception | None, /) -> None: ...


class TlsLink(asyncio.Protocol):
    """A protocol towards the socket, and a transport towards `inner` once the handshake is done."""

    def __init__(self, inner: Inner, context: ssl.SSLContext, server_name: str) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._transport: asyncio.Transport | None = None
        self._shaken = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ready(self) -> None:
        """Wait for the handshake. Raises ssl.SSLError or OSError."""
        await self._ready

    # A transport for whoever speaks through it

    def write(self, data: bytes) -> None:
        written = self._tls.write(data)
        while written < len(data):
            written += self._tls.write(memoryview(data)[written:])
        self._flush()

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        if self._transport is None:
            return
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    # A protocol for the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._shake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._shaken:
            self._shake()
            if not self._shaken:
                return
        try:
            while self._incoming.pending or self._tls.pending():
                text = self._tls.read(_PIECE)
                if not text:
                    self.close()
                    return
                self._inner.data_received(text)
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._end(error)
            return
        self._flush()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._shaken:
            self._inner.connection_lost(exc)
        elif not self._ready.done():
            self._ready.set_exception(exc or ConnectionResetError("EOF"))

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()
            self._end(error)
            return
        self._shaken = True
        self._flush()
        self._inner.connection_made(self)
        if not self._ready.done():
            self._ready.set_result(None)

    def _end(self, error: ssl.SSLError) -> None:
        if not self._shaken and not self._ready.done():
            self._ready.set_exception(error)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._shaken:
            self._inner.connection_lost(error)
            self._shaken = False

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())
