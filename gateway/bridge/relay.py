"""Requests of many callers through one pair of pipes: each gets a new id, by which its response is matched.

Callers all count 0, 1, 2, and responses come in any order. What a server asks of its client is refused at once: it
does not say which caller it means.
"""

from __future__ import annotations

import asyncio
import logging
from codecs import BOM_UTF8
from collections.abc import Sized
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from gateway.bridge.program import SparingLog
from gateway.core import jsontext
from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject
from gateway.protocols.mcp.wire import INTERNAL, NO_METHOD, SUBSCRIPTION_MEMBER, envelope

MAX_WAITING = 256  # requests at once
MAX_UNSENT_BYTES = 16 * 1024 * 1024  # of messages that the program has not read; more requests are refused then
CANCELLED = 499  # no code of JSON-RPC's own; as servers log a caller that left
LISTEN = "subscriptions/listen"
ENDED = "The server ended before it answered; whether the request was carried out is not known."

Key = tuple[str, bytes]  # a session, and the id of a request in it as JSON
MAX_QUEUED = 1000  # notifications; those that come then are dropped,
MAX_QUEUED_BYTES = 1024 * 1024  # as are those that would have more than this together; one alone may be larger

Message = TypeVar("Message", bound=Sized)


class BusyError(Exception):
    """Too much is under way or unread by the server, or it does not run; nothing was sent to it."""


class Pipe(Protocol):
    """What leads to the process."""

    @property
    def unsent_bytes(self) -> int:
        """How much was written that the process has not read."""

    def write(self, message: bytes) -> None:
        """Queues a message, which has no line end in it."""

    async def drain(self) -> None:
        """Waits while the process does not read."""


NOTHING = Raw()
ABSENT = (b"", b"null")  # some servers write every member


class _ServerMessage(Struct):
    id: Raw = NOTHING
    method: str | None = None
    params: Raw = NOTHING
    result: Raw = NOTHING
    error: Raw = NOTHING


_read = msgspec.json.Decoder(_ServerMessage).decode


class RelayedReply(Struct, frozen=True):
    """What comes for a request: a notification, or its response, which is the last."""

    message: bytes  # empty: there is no response
    is_last: bool = False
    code: int | None = None  # of an error

    def __len__(self) -> int:
        return len(self.message)


class PendingRequest:
    """A request under way."""

    def __init__(self, number: int, id_: Json, method: str, token: Json, key: Key | None) -> None:
        self.number = number  # the id that the server gets
        self.id = id_  # its caller's
        self.method = method
        self.token = token  # for progress, its caller's
        self.key = key
        self.replies = Unread[RelayedReply]()  # for its caller; the last is its response

    def add_notification(self, message: bytes) -> None:
        """Adds a notification, unless too many are unread."""
        self.replies.put_if_room(RelayedReply(message))

    def end(self, member: bytes, content: bytes, code: int | None = None) -> None:
        """Adds the response."""
        self.replies.put_nowait(RelayedReply(envelope(self.id, member, content), True, code))

    def fail(self, code: int, message: str) -> None:
        """Adds an error of the bridge as the response."""
        self.end(b"error", encode({"code": code, "message": message}), code)


class RequestRelay:
    """The requests of one process. `listeners` get the notifications that belong to no request."""

    def __init__(self, program: Pipe, listeners: set[Unread[bytes]]) -> None:
        self._program = program
        self._listeners = listeners
        self._numbers = count(1)
        self._waiting: dict[int, PendingRequest] = {}
        self._by_key: dict[Key, PendingRequest] = {}
        self._strays = SparingLog(logging.WARNING, "a line on standard output is no message")
        self._has_ended = False
        self.lost = 0  # requests that were under way as the process ended

    async def ask(self, id_: Json, method: str, params: JsonObject | None, key: Key | None = None) -> PendingRequest:
        """Sends a request. Raises BusyError."""
        if self._has_ended or len(self._waiting) >= MAX_WAITING:
            raise BusyError
        self._check_room()
        meta = params.get("_meta") if params else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        pending = PendingRequest(next(self._numbers), id_, method, token, key)
        if params is not None and isinstance(meta, dict) and token is not None:
            params = {**params, "_meta": {**meta, "progressToken": pending.number}}
        self._waiting[pending.number] = pending
        if key is not None:
            self._by_key[key] = pending
        self._send(method, params, pending.number)
        await self._program.drain()
        return pending

    def notify(self, method: str, params: JsonObject | None) -> None:
        """Passes a notification on. Raises BusyError."""
        self._check_room()
        self._send(method, params)

    def _check_room(self) -> None:
        if self._program.unsent_bytes > MAX_UNSENT_BYTES:
            raise BusyError

    def _send(self, method: str, params: JsonObject | None, number: int | None = None) -> None:
        message: JsonObject = {"jsonrpc": "2.0"}
        if number is not None:
            message["id"] = number
        message["method"] = method
        if params is not None:
            message["params"] = params
        self._program.write(encode(message))

    def cancel(self, pending: PendingRequest, reason: str) -> None:
        """Ends a request that is not waited for any more, here and at the server."""
        if self._withdraw(pending, reason):
            pending.fail(CANCELLED, "The request was cancelled.")

    def _withdraw(self, pending: PendingRequest, reason: str) -> bool:
        """Tells the server that a request is not waited for any more; False if it is over."""
        is_under_way = self._forget(pending)
        if is_under_way:
            self._send("notifications/cancelled", {"requestId": pending.number, "reason": reason})
        return is_under_way

    def cancel_by(self, key: Key, reason: str) -> None:
        """Cancels the request of that id in that session, if it is under way, which then has no response."""
        if (pending := self._by_key.get(key)) is not None and self._withdraw(pending, reason):
            pending.replies.put_nowait(RelayedReply(b"", is_last=True))

    def cancel_listening(self) -> None:
        """Ends the requests that would last for ever."""
        for pending in [pending for pending in self._waiting.values() if pending.method == LISTEN]:
            self.cancel(pending, "The bridge stops.")

    def end(self) -> None:
        """Fails all requests, because the process has ended."""
        self._has_ended = True
        self._strays.end({})
        for pending in list(self._waiting.values()):
            self._forget(pending)
            pending.fail(INTERNAL, ENDED)
            self.lost += 1

    def _forget(self, pending: PendingRequest) -> bool:
        if pending.key is not None and self._by_key.get(pending.key) is pending:
            del self._by_key[pending.key]
        return self._waiting.pop(pending.number, None) is not None

    # What comes from the server.

    def receive(self, line: bytes) -> None:
        """Hands a message to whom it is for."""
        line = line.removeprefix(BOM_UTF8)
        try:
            try:
                message = _read(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # What a tool that has run returns is not lost for half a character.
                line = jsontext.without_halves(line)
                message = _read(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._strays.write({"bytes": len(line)})
            return
        if message.method is None:
            self._respond(message)
        elif bytes(message.id) in ABSENT:
            params = bytes(message.params)
            self._pass_on(message.method, b"{}" if params in ABSENT else params, line.strip())
        else:
            self._refuse(message.id, message.method)

    def _respond(self, message: _ServerMessage) -> None:
        pending = self._pending_of(msgspec.json.decode(message.id)) if bytes(message.id) else None
        if pending is None:
            return  # it was cancelled meanwhile
        self._forget(pending)
        if (error := bytes(message.error)) not in ABSENT:
            pending.end(b"error", error, _code(error))
        elif result := bytes(message.result):
            pending.end(b"result", _of_subscription(result, pending) if pending.method == LISTEN else result)
        else:
            pending.fail(INTERNAL, "The response of the server has neither result nor error.")

    def _pass_on(self, method: str, params: bytes, line: bytes) -> None:
        try:
            content = jsontext.decode(params)
        except jsontext.JsonError:
            return
        if not isinstance(content, dict):
            return
        meta = content.get("_meta")
        if method == "notifications/progress":
            if (pending := self._pending_of(content.get("progressToken"))) is not None:
                pending.add_notification(_notification(method, {**content, "progressToken": pending.token}))
        elif isinstance(meta, dict) and SUBSCRIPTION_MEMBER in meta:
            if (pending := self._pending_of(meta[SUBSCRIPTION_MEMBER])) is not None:
                pending.add_notification(
                    _notification(method, {**content, "_meta": {**meta, SUBSCRIPTION_MEMBER: pending.id}})
                )
        else:
            for queue in self._listeners:
                queue.put_if_room(line)

    def _pending_of(self, number: Json) -> PendingRequest | None:
        """The request of that number."""
        return self._waiting.get(_number_of(number))

    def _refuse(self, id_: Raw, method: str) -> None:
        """Answers a request of the server, since silence would make its tool wait for ever; unless it reads nothing."""
        if self._program.unsent_bytes > MAX_UNSENT_BYTES:
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id_}
        if method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": NO_METHOD, "message": "Method not found"}
        self._program.write(encode(answer))


def _notification(method: str, params: JsonObject) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def _number_of(id_: Json) -> int:
    """The number that an id or a token is, of which some servers make a string; 0, of no request, for any other."""
    if isinstance(id_, str) and id_.isascii() and id_.isdigit() and len(id_) < 20:
        return int(id_)
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return id_ if isinstance(id_, int) and not isinstance(id_, bool) else 0


def _code(error: bytes) -> int:
    try:
        return int(msgspec.json.decode(error)["code"])
    except (ValueError, TypeError, KeyError, RecursionError):  # DecodeError is a ValueError
        return INTERNAL


def _of_subscription(result: bytes, pending: PendingRequest) -> bytes:
    """The end of a subscription names it by the caller's own id."""
    try:
        content = jsontext.decode(result)
        content["_meta"] = {**content.get("_meta", {}), SUBSCRIPTION_MEMBER: pending.id}
    except (jsontext.JsonError, TypeError, AttributeError):
        return result
    return encode(content)


class Unread(asyncio.Queue[Message]):
    """Messages of a known size. A response always has room, because its request has been carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.held_bytes = 0
        self._is_closed = False

    def put_if_room(self, notification: Message) -> None:
        """Adds a notification, or drops it."""
        fits = not self.held_bytes or self.held_bytes + len(notification) <= MAX_QUEUED_BYTES
        if fits and self.qsize() < MAX_QUEUED:
            self.put_nowait(notification)

    def close(self) -> None:
        """Drops what is there and what still comes: the caller has left."""
        self._is_closed = True
        while not self.empty():
            self.get_nowait()

    # Called by `asyncio.Queue`.

    def _put(self, item: Message) -> None:
        if not self._is_closed:
            self.held_bytes += len(item)
            super()._put(item)

    def _get(self) -> Message:
        item = super()._get()
        self.held_bytes -= len(item)
        return item
