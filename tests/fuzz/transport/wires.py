"""A server's end of a connection, plain or TLS, over a bare socket: what it does is in the kernel when it returns.

asyncio's transports would choose when to write, and add a close_notify or leave it out; here each is the plan's choice.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable

from tests.fuzz.transport.loops import turns

CHUNK = 65536


class Wire:
    """A plain connection. `torn` leaves out the last byte where that makes all of it unreadable: under TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.is_closed = False
        self._sock = sock
        self._stop_waiting: Callable[[], None] | None = None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def open(self) -> None:
        """Does what comes before the first byte."""

    async def receive(self) -> bytes:
        """The next bytes; empty at the end, however it came."""
        while not self.is_closed:
            try:
                return self._sock.recv(CHUNK)
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            except OSError:
                return b""
        return b""

    async def send(self, data: bytes, cuts: tuple[float, ...] = (), pause: int = 0, *, torn: bool = False) -> None:
        """Sends segments cut at these fractions, `pause` turns of the loop apart. Stops when nobody is there."""
        await self._send_segments(data, cuts, pause)

    def send_now(self, data: bytes) -> None:
        """Sends a few bytes without a turn of the loop."""
        with contextlib.suppress(OSError):
            self._sock.send(data)

    def end(self) -> None:
        """Ends what is sent, cleanly; reading goes on."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Breaks the connection off with a TCP reset."""
        if not self.is_closed:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Closes the socket without another byte."""
        self.is_closed = True
        if self._stop_waiting is not None:
            self._stop_waiting()  # the loop must forget the descriptor before another socket gets it
        self._sock.close()

    async def _send_segments(self, data: bytes, cuts: tuple[float, ...], pause: int) -> None:
        places = sorted({int(cut * len(data)) for cut in cuts} - {0})
        for start, stop in zip([0, *places], [*places, len(data)], strict=True):
            if start:
                await turns(pause)
            await self._send_all(data[start:stop])

    async def _send_all(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        while data and not self.is_closed:
            try:
                data = data[self._sock.send(data) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)
            except OSError:
                return

    async def _ready(
        self, watch: Callable[[int, Callable[[], None]], object], unwatch: Callable[[int], object]
    ) -> None:
        waiting = asyncio.get_running_loop().create_future()
        descriptor = self._sock.fileno()

        def stop() -> None:
            if self._stop_waiting is stop:
                self._stop_waiting = None
                unwatch(descriptor)
            if not waiting.done():
                waiting.set_result(None)

        self._stop_waiting = stop
        watch(descriptor, stop)
        try:
            await waiting
        finally:
            stop()


class TlsWire(Wire):
    """A TLS connection, its records made by hand."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(sock)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)

    async def open(self) -> None:
        """Shakes hands. Raises ConnectionError when the other side does not."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_all(self._out.read())
                data = await super().receive()
                if not data:
                    raise ConnectionResetError from None
                self._in.write(data)
            except ssl.SSLError as exc:
                raise ConnectionResetError from exc
            else:
                return await self._send_all(self._out.read())

    async def receive(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                data = await super().receive()
                if not data:
                    return b""
                self._in.write(data)
            except ssl.SSLError:
                return b""

    async def send(self, data: bytes, cuts: tuple[float, ...] = (), pause: int = 0, *, torn: bool = False) -> None:
        records = self._records(data)
        await self._send_segments(records[:-1] if torn else records, cuts, pause)

    def send_now(self, data: bytes) -> None:
        super().send_now(self._records(data))

    def end(self) -> None:
        """Sends close_notify; the TCP stream may go on, nobody reads it."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        super().send_now(self._out.read())

    def _records(self, data: bytes) -> bytes:
        with contextlib.suppress(ssl.SSLError):  # after a close_notify
            if data:
                self._tls.write(data)
        return self._out.read()
