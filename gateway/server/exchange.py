"""One request and its answer: the ASGI side of a connection (ASGI 3.0, HTTP connection scope)."""

from __future__ import annotations

import asyncio
import logging

from uvicorn._types import ASGI3Application, ASGISendEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from gateway.server.head import refusal

log = logging.getLogger("gateway.server")


class Exchange(RequestResponseCycle):
    """Runs the application and writes what it sends.

    The head is held until the first piece of the body, as the specification of `http.response.start` wants: both
    leave in one write, a body that comes in one piece gets its Content-Length, and an application that fails in
    between still answers 500. Closing the connection is left to `on_response`, which knows whether bytes of the
    request are still on their way.
    """

    held: HTTPResponseStartEvent | None = None
    bodiless = False
    task: asyncio.Task[None] | None = None

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Runs the application to its end and answers for it if it did not."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not self.disconnected:
                self.transport.abort()
            raise
        except Exception:
            log.exception("The application failed.")
        finally:
            self.task = None
        if not self.response_complete and not self.disconnected:
            self._answer_for_application()

    def fail(self) -> None:
        """Ends the application: nobody is left to answer, and what it waits for may be dear."""
        self.disconnected = True
        self.message_event.set()
        if self.task is not None:
            self.task.cancel()

    async def send(self, message: ASGISendEvent) -> None:
        """Writes a part of the answer, waiting while the caller does not read."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.response_started:
            self.response_started = True
            self.waiting_for_100_continue = False
            self.held = message
        elif message["type"] == "http.response.body" and self.response_started and not self.response_complete:
            self._write(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"The application sent {message['type']!r} out of turn.")

    def _write(self, body: bytes, more: bool) -> None:
        parts = [] if self.held is None else self._head(self.held, None if more else len(body))
        if self.bodiless:
            self.expected_content_length = 0
        elif self.chunked_encoding:
            if body:
                parts += (b"%x\r\n" % len(body), body, b"\r\n")
            if not more:
                parts.append(b"0\r\n\r\n")
        else:
            if self.chunked_encoding is False:
                self._count(len(body), more)
            parts.append(body)
        self.held = None  # only now: until here the answer can still become a 500
        self.transport.write(b"".join(parts))
        if not more:
            self.response_complete = True
            self.message_event.set()
            self.on_response()

    def _head(self, start: HTTPResponseStartEvent, whole: int | None) -> list[bytes]:
        """Encodes the head and settles the framing; `whole` is the size of a body that comes in one piece."""
        status = start["status"]
        lines = [STATUS_LINE[status]]
        length: int | None = None
        for name, value in start.get("headers", ()):
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                raise RuntimeError("The application sent a header that would break the framing.")
            name = name.lower()
            if name == b"content-length":
                length = int(value)
            elif name == b"connection" or name == b"transfer-encoding":
                self.keep_alive = self.keep_alive and value.lower() != b"close"
                continue  # both belong to this hop, so they are written here
            lines += (name, b": ", value, b"\r\n")
        if self.scope["method"] == "HEAD" or status in (204, 304):
            self.bodiless = True
        elif length is not None:
            self.chunked_encoding, self.expected_content_length = False, length
        elif whole is not None:
            self.chunked_encoding, self.expected_content_length = False, whole
            lines.append(b"content-length: %d\r\n" % whole)
        elif self.scope["http_version"] == "1.0":
            self.keep_alive = False  # the end of the connection is the end of the body
        else:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return lines

    def _count(self, size: int, more: bool) -> None:
        self.expected_content_length -= size
        if self.expected_content_length < 0 or (self.expected_content_length and not more):
            raise RuntimeError("The application sent a body that is not as long as it said.")

    def _answer_for_application(self) -> None:
        if self.response_started and self.held is None:
            # Cut short: an end that looked regular would pass half an answer for a whole one.
            self.transport.abort()
            return
        self.held, self.keep_alive, self.response_started = None, False, True
        self.response_complete = True
        self.transport.write(refusal(500, "The gateway failed to answer."))
        self.on_response()
