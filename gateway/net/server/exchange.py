"""One request and its answer: the ASGI side of a connection (ASGI 3.0, HTTP connection scope)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from starlette.types import ASGIApp, Message, Scope

from gateway.core.tracing import sent_id
from gateway.core.wire import SERVED, Headers
from gateway.net.server.channel import Channel
from gateway.net.server.options import MAX_UNREAD_BYTES, UNCOUNTED_BYTES
from gateway.net.server.refusals import STATUS_LINE, ServerRefusal, answer

log = logging.getLogger("gateway.server")

LENGTH, CONNECTION, CODING = b"content-length: ", b"connection: ", b"transfer-encoding: "
APART_BYTES = 64 * 1024  # not copied behind its head: callers who do not read may all wait with the same list
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a header's name (RFC 9110, section 5.6.2)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_line = b": ".join  # of a header


class Exchange(Struct, eq=False):
    """Runs the application and writes what it sends.

    The head is held until the first piece of the body, as the specification of `http.response.start` wants: both
    leave in one write, a body that comes in one piece gets its Content-Length, and an application that fails in
    between still answers 500. Closing the connection is left to the owner, which knows whether bytes of the request
    are still on their way.
    """

    owner: Channel
    scope: Scope
    fields: Mapping[bytes, bytes]
    continue_due: bool  # the caller waits for 100 Continue before it sends its body
    keep_alive: bool
    answered: int | None = None
    reason: str = ""
    arrival: asyncio.Event | None = None  # made when the application waits, which it mostly need not
    body: bytes | bytearray = b""  # what has arrived and was not taken
    more_body: bool = True
    pending_head: tuple[int, Iterable[tuple[bytes, bytes]]] | None = None
    disconnected: bool = False
    response_started: bool = False
    response_complete: bool = False
    task: asyncio.Task[None] | None = None
    is_kept: bool = False  # its task goes on if the caller leaves
    is_taken: bool = False  # the application has the whole body
    is_bodiless: bool = False
    is_chunked: bool = False
    body_bytes: int = 0  # bytes of the body so far
    counted: int = 0  # of these, in the memory for bodies,
    counted_holder: str = ""  # and for whom
    allowed_bytes: int = UNCOUNTED_BYTES  # what may be received before it is counted again
    holder: str = ""  # the caller, once the application has named it
    body_left: int | None = None  # bytes of the answer's body to come, where it said how many

    async def run_asgi(self, app: ASGIApp) -> None:
        """Runs the application to its end and answers for it if it did not."""
        self.scope["extensions"] = {SERVED: self}
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not self.disconnected:
                self.owner.transport.abort()
            raise
        except Exception:
            log.exception("The application failed.")
        finally:
            if self.counted:
                self.forget_body()
            del self.scope["extensions"]  # it leads back here: without such a cycle everything is freed at once
            if self.task is not None:  # in no local: a traceback would hold it, and it the traceback
                self.owner.tasks.discard(self.task)
                self.task = None
        if not self.response_complete and not self.disconnected:
            self._answer_for_application()

    def fail(self, answered: ServerRefusal | None = None) -> bool:
        """Cancels the application unless it is kept: its caller has left, and what it waits for may be expensive.

        `answered` is what the caller was answered with instead, for the application to see. Returns whether the
        application has begun.
        """
        if answered is not None:
            self.answered, self.reason = answered.status, answered.reason
        self.disconnected = True
        if self.arrival is not None:
            self.arrival.set()
        has_begun = "extensions" in self.scope
        if not self.is_kept:
            if not has_begun:
                self.forget_body()  # else when it has let go of it
            if self.task is not None:
                self.task.add_done_callback(self.owner.tasks.discard)  # one that never began does not see its own end
                self.task.cancel()
        return has_begun

    def keep(self) -> asyncio.Task[None]:
        """Makes the application go on if the caller leaves (see `ServerRequest`)."""
        assert self.task is not None  # it is what calls this
        self.is_kept = True
        return self.task

    def take_body(self, holder: str) -> bytes | None:
        """The whole body, if all of it is there (see `ServerRequest`)."""
        self.holder = holder
        if self.more_body or self.is_taken or self.disconnected:
            return None
        body, self.body, self.is_taken = self.body, b"", True
        return bytes(body)

    def forget_body(self) -> None:
        """Counts the body in memory no more."""
        counted, self.counted = self.counted, 0
        if counted:
            self.owner.memory.leave(self.owner)
            self.owner.memory.give(self.counted_holder, counted)

    def lend_body(self, task: asyncio.Task[Any]) -> None:
        """Counts the body until another task is over (see `ServerRequest`)."""
        counted, self.counted = self.counted, 0
        if counted:
            memory, holder = self.owner.memory, self.counted_holder
            task.add_done_callback(lambda _: memory.give(holder, counted))

    def append(self, piece: bytes) -> None:
        """Adds to the body, a piece of which has come before."""
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece

    async def receive(self) -> Message:
        """The next piece of the body; after the last one, that the caller has gone or was answered."""
        owner = self.owner
        if self.continue_due and not owner.transport.is_closing():
            if self.more_body and not self.body:  # else the caller has not waited
                owner.transport.write(CONTINUE)
            self.continue_due = False
        while not (self.disconnected or self.response_complete):
            if self.body or not (self.more_body or self.is_taken):
                body, self.body = bytes(self.body), b""
                self.is_taken = not self.more_body
                return {"type": "http.request", "body": body, "more_body": self.more_body}
            owner.resume_reading()
            self.arrival = self.arrival or asyncio.Event()
            self.arrival.clear()
            await self.arrival.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Writes a part of the answer, waiting while the caller does not read."""
        if self.owner.write_paused and not self.disconnected:
            await self.owner.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.response_started and not self.response_complete:
            body, more = message.get("body", b""), message.get("more_body", False)
            if self.owner.is_tls and len(body) > APART_BYTES:
                await self._write_in_parts(body, more)
            else:
                self._write(body, more)
        elif kind == "http.response.start" and not self.response_started:
            self.response_started = True
            self._refuse_body()
            self.pending_head = message["status"], message.get("headers", ())
        else:
            raise RuntimeError(f"The application sent {kind!r} out of turn.")

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Answers in one go (see `ServerRequest`). False if it has to be sent: nobody reads, or no body is wanted."""
        if self.owner.write_paused or self.response_started or self.scope["method"] == "HEAD":
            return False
        is_large = len(body) > APART_BYTES
        if is_large and self.owner.is_tls:
            return False
        if self.disconnected:
            return True
        if self.more_body:
            self._refuse_body()
            self.keep_alive = self.keep_alive and _is_skipped(self.scope["headers"])
        head = STATUS_LINE[status] + b"\r\n".join((*map(_line, headers), b"content-length: %d\r\n" % len(body)))
        _check_framing(head, fields=len(headers) + 1)
        self.response_started = True
        head += b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        if is_large:
            self._write_apart(head, body)
        else:
            self.owner.transport.write(head + body)
        self._end()
        return True

    def _refuse_body(self) -> None:
        """Ends the connection with the answer if a promised body was never asked for: it may follow or not.

        RFC 9110, section 10.1.1.
        """
        if self.continue_due and self.more_body:
            self.keep_alive = False
        self.continue_due = False

    def _write(self, body: bytes, more: bool) -> None:
        parts = b"" if self.pending_head is None else self._head(*self.pending_head, None if more else len(body))
        apart = b""
        if self.is_bodiless:
            data = parts
        elif self.is_chunked:
            data = parts + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        else:
            if self.body_left is not None:
                self._count(len(body), more)
            data, apart = (parts + body, b"") if len(body) < APART_BYTES else (parts, body)
        self.pending_head = None  # only now: until here the answer can still become a 500
        if apart:
            self._write_apart(data, apart)
        else:
            self.owner.transport.write(data)
        if not more:
            self._end()

    def _write_apart(self, data: bytes, apart: bytes) -> None:
        """Writes a large piece without copying it; the transport holds all of it until the last byte is sent."""
        self.owner.written = len(apart)
        self.owner.transport.write(data)
        self.owner.transport.write(apart)
        self.owner.written = 0

    async def _write_in_parts(self, body: bytes, more: bool) -> None:
        """Writes over TLS, which accepts any amount without saying how much was read: part by part as it is read."""
        owner, whole = self.owner, memoryview(body)
        owner.written = len(body)
        try:
            while len(whole) > APART_BYTES:
                owner.unsent = len(whole) - APART_BYTES
                self._write(bytes(whole[:APART_BYTES]), True)
                whole = whole[APART_BYTES:]
                if owner.write_paused:
                    await owner.drain()
                if self.disconnected:
                    return
        finally:
            owner.unsent = owner.written = 0
        self._write(bytes(whole), more)

    def _end(self) -> None:
        self.response_complete = True
        if self.arrival is not None:
            self.arrival.set()
        self.owner.on_response_complete()

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
            self.keep_alive = _is_skipped(self.scope["headers"])
        head = b"".join(lines)
        _check_framing(head, fields=len(lines) // 3)
        self.is_bodiless = status in (204, 304) or self.scope["method"] == "HEAD"
        self.body_left = declared if declared is not None or self.is_bodiless else whole
        if self.body_left is not None and status != 204:
            head += b"content-length: %d\r\n" % self.body_left
        elif self.is_bodiless:
            pass  # the head is all there is, and of a 204 there is nothing to be measured (RFC 9110, section 8.6)
        elif self.scope["http_version"] == "1.0":
            self.keep_alive = False  # the end of the connection is the end of the body
        else:
            self.is_chunked = True
            head += b"transfer-encoding: chunked\r\n"
        return head + (b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")

    def _count(self, size: int, more: bool) -> None:
        assert self.body_left is not None
        self.body_left -= size
        if self.body_left < 0 or (self.body_left and not more):
            raise RuntimeError("The application sent a body that is not as long as it said.")

    def _answer_for_application(self) -> None:
        if self.response_started and self.pending_head is None:
            # Cut short: an end that looked regular would pass half an answer for a whole one.
            self.owner.transport.abort()
            return
        self.pending_head, self.keep_alive, self.response_started = None, False, True
        self.response_complete = True
        self.owner.transport.write(answer(ServerRefusal.FAILED, sent_id(self.fields)))
        self.owner.on_response_complete()


def _is_skipped(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the rest of a body that is answered before it has come is sure to be read, and dropped.

    If not, the answer has to say that the connection ends: else the caller sends its next request on it.
    """
    return any(name == b"content-length" and int(value) <= MAX_UNREAD_BYTES for name, value in headers)


def _check_framing(head: bytes, *, fields: int) -> None:
    """RFC 9110 section 5.5: these three bytes in a value are dangerous, and none of ours holds one."""
    if head.count(b"\n") != fields + 1 or head.count(b"\r") != fields + 1 or 0 in head:
        raise RuntimeError("The application sent a header that would break the framing.")


@lru_cache(maxsize=256)  # always the same few names
def _field(name: bytes) -> bytes:
    """A header's name up to where its value starts. Raises RuntimeError for one that would break the framing."""
    if TOKEN.fullmatch(name) is None:
        raise RuntimeError("The application sent a header that would break the framing.")
    line = name.lower() + b": "
    return next((special for special in (LENGTH, CONNECTION, CODING) if special == line), line)
