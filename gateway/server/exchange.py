"""One request and its answer: the ASGI side of a connection (ASGI 3.0, HTTP connection scope)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from uvicorn._types import ASGI3Application, ASGIReceiveEvent, ASGISendEvent, HTTPScope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, STATUS_LINE

from gateway.served import ANSWER, SERVED
from gateway.server.head import refusal
from gateway.server.options import MAX_UNREAD_BYTES
from gateway.wire import Headers

log = logging.getLogger("gateway.server")

LENGTH, CONNECTION, CODING = b"content-length: ", b"connection: ", b"transfer-encoding: "
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_line = b": ".join  # of a header


class Owner(Protocol):
    """The connection, as its exchanges see it."""

    transport: asyncio.Transport
    flow: FlowControl
    tasks: set[asyncio.Task[None]]

    def on_response_complete(self) -> None:
        """The whole answer is written."""
        ...


class Exchange:
    """Runs the application and writes what it sends.

    The head is held until the first piece of the body, as the specification of `http.response.start` wants: both
    leave in one write, a body that comes in one piece gets its Content-Length, and an application that fails in
    between still answers 500. Closing the connection is left to the owner, which knows whether bytes of the request
    are still on their way.
    """

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_kept",
        "_left",
        "_owner",
        "_scope",
        "_taken",
        "answered",
        "arrival",
        "body",
        "continue_due",
        "disconnected",
        "fields",
        "held",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
        "task",
    )

    def __init__(
        self,
        owner: Owner,
        scope: HTTPScope,
        fields: Mapping[bytes, bytes],
        *,
        expects_continue: bool,
        keep_alive: bool,
    ) -> None:
        self._owner = owner
        self._scope = scope
        self.fields = fields
        self.answered: int | None = None
        self.arrival: asyncio.Event | None = None  # made when somebody waits, which most never do
        self._kept = False  # runs to its end even if its caller leaves
        self._taken = False  # the application has the whole body
        self._bodiless = False
        self._chunked = False
        self._left: int | None = None  # bytes of the answer's body to come, where it said how many
        self.body = b""
        self.more_body = True
        self.continue_due = expects_continue
        self.keep_alive = keep_alive
        self.held: tuple[int, Iterable[tuple[bytes, bytes]]] | None = None
        self.disconnected = self.response_started = self.response_complete = False
        self.task: asyncio.Task[None] | None = None

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Runs the application to its end and answers for it if it did not."""
        self._scope["extensions"] = {SERVED: self, ANSWER: self.answer}  # type: ignore[dict-item] # may be any
        try:
            await app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not self.disconnected:
                self._owner.transport.abort()
            raise
        except Exception:
            log.exception("The application failed.")
        finally:
            del self._scope["extensions"]  # it leads back here: without such a cycle everything is freed at once
            if self.task is not None:  # in no local: a traceback would hold it, and it the traceback
                self._owner.tasks.discard(self.task)
                self.task = None
        if not self.response_complete and not self.disconnected:
            self._answer_for_application()

    def fail(self, answered: int | None = None) -> bool:
        """Ends the application, unless it is kept: nobody is left to answer, and what it waits for may be dear.

        It finds the status that the caller was `answered` with; false if it never began.
        """
        self.answered = answered
        self.disconnected = True
        self.wake()
        if self.task is not None and not self._kept:
            self.task.add_done_callback(self._owner.tasks.discard)  # one that never began does not see its own end
            self.task.cancel()
        return "extensions" in self._scope

    def keep(self) -> asyncio.Task[None]:
        """From here on the application goes on without its caller; returns its task (see `Served`)."""
        assert self.task is not None  # it is the application who asks
        self._kept = True
        return self.task

    def wake(self) -> None:
        """Tells the application that there is something to receive."""
        if self.arrival is not None:
            self.arrival.set()

    def take_body(self) -> bytes | None:
        """The whole body, where nobody has to wait for any of it (see `Served`)."""
        if self.more_body or self._taken or self.disconnected:
            return None
        body, self.body, self._taken = self.body, b"", True
        return body

    async def receive(self) -> ASGIReceiveEvent:
        """The next piece of the body; after the last one, that the caller has gone or was answered."""
        owner = self._owner
        if self.continue_due and not owner.transport.is_closing():
            owner.transport.write(CONTINUE)
            self.continue_due = False
        while not (self.disconnected or self.response_complete):
            if self.body or not (self.more_body or self._taken):
                body, self.body = self.body, b""
                self._taken = not self.more_body
                return {"type": "http.request", "body": body, "more_body": self.more_body}
            owner.flow.resume_reading()
            self.arrival = self.arrival or asyncio.Event()
            self.arrival.clear()
            await self.arrival.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: ASGISendEvent) -> None:
        """Writes a part of the answer, waiting while the caller does not read."""
        if self._owner.flow.write_paused and not self.disconnected:
            await self._owner.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.response_started and not self.response_complete:
            self._write(message.get("body", b""), message.get("more_body", False))  # type: ignore[arg-type]
        elif kind == "http.response.start" and not self.response_started:
            self.response_started = True
            self.continue_due = False
            self.held = message["status"], message.get("headers", ())  # type: ignore[typeddict-item,assignment]
        else:
            raise RuntimeError(f"The application sent {kind!r} out of turn.")

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Answers in one go (see `Served`). False: it has to be sent, as the caller does not read, or wants no body."""
        if self._owner.flow.write_paused or self.response_started or self._scope["method"] == "HEAD":
            return False
        if self.disconnected:
            return True
        if self.more_body and self.keep_alive:
            self.keep_alive = _is_skipped(self._scope["headers"])
        head = STATUS_LINE[status] + b"\r\n".join((*map(_line, headers), b"content-length: %d\r\n" % len(body)))
        _check_framing(head, fields=len(headers) + 1)
        self.response_started = True
        self._owner.transport.write(head + (b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n") + body)
        self._end()
        return True

    def _write(self, body: bytes, more: bool) -> None:
        parts = b"" if self.held is None else self._head(*self.held, None if more else len(body))
        if self._bodiless:
            data = parts
        elif self._chunked:
            data = parts + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        else:
            if self._left is not None:
                self._count(len(body), more)
            data = parts + body
        self.held = None  # only now: until here the answer can still become a 500
        self._owner.transport.write(data)
        if not more:
            self._end()

    def _end(self) -> None:
        self.response_complete = True
        if self.arrival is not None:
            self.arrival.set()
        self._owner.on_response_complete()

    def _head(self, status: int, headers: Iterable[tuple[bytes, bytes]], whole: int | None) -> bytes:
        """Encodes the head and settles the framing; `whole` is the size of a body that comes in one piece."""
        lines = [STATUS_LINE[status]]
        declared: int | None = None
        for name, value in headers:
            field = _field(name)
            if field is LENGTH:
                declared = int(value)
            elif field is CONNECTION or field is CODING:  # both belong to this hop, so they are written here
                self.keep_alive = self.keep_alive and value.lower() != b"close"
            else:
                lines += (field, value, b"\r\n")
        if self.more_body and self.keep_alive:
            self.keep_alive = _is_skipped(self._scope["headers"])
        head = b"".join(lines)
        _check_framing(head, fields=len(lines) // 3)
        self._bodiless = status in (204, 304) or self._scope["method"] == "HEAD"
        self._left = declared if declared is not None or self._bodiless else whole
        if self._left is not None:
            head += b"content-length: %d\r\n" % self._left
        elif self._bodiless:
            pass  # the head is all there is
        elif self._scope["http_version"] == "1.0":
            self.keep_alive = False  # the end of the connection is the end of the body
        else:
            self._chunked = True
            head += b"transfer-encoding: chunked\r\n"
        return head + (b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")

    def _count(self, size: int, more: bool) -> None:
        assert self._left is not None
        self._left -= size
        if self._left < 0 or (self._left and not more):
            raise RuntimeError("The application sent a body that is not as long as it said.")

    def _answer_for_application(self) -> None:
        if self.response_started and self.held is None:
            # Cut short: an end that looked regular would pass half an answer for a whole one.
            self._owner.transport.abort()
            return
        self.held, self.keep_alive, self.response_started = None, False, True
        self.response_complete = True
        self._owner.transport.write(refusal(500, "The gateway failed to answer."))
        self._owner.on_response_complete()


def _is_skipped(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a body that is still on its way when it is answered will surely be read to its end.

    Else the answer has to say that the connection ends: a caller who was told nothing sends the next request on it.
    """
    return any(name == b"content-length" and int(value) <= MAX_UNREAD_BYTES for name, value in headers)


def _check_framing(head: bytes, *, fields: int) -> None:
    """RFC 9110 section 5.5: these three bytes in a value are dangerous, and none of ours holds one."""
    if head.count(b"\n") != fields + 1 or head.count(b"\r") != fields + 1 or 0 in head:
        raise RuntimeError("The application sent a header that would break the framing.")


@lru_cache(maxsize=256)  # the same few names for ever
def _field(name: bytes) -> bytes:
    """A header's name up to where its value starts. Raises RuntimeError for one that would break the framing."""
    if HEADER_RE.search(name):
        raise RuntimeError("The application sent a header that would break the framing.")
    line = name.lower() + b": "
    return next((known for known in (LENGTH, CONNECTION, CODING) if known == line), line)
