"""Requests of many callers through one pair of pipes: each gets a new id, by which its response is matched.

Callers all count 0, 1, 2, and responses come in any order. What a server asks of its client is refused at once: it
does not say which caller it means.
"""

from __future__ import annotations

import logging
from codecs import BOM_UTF8
from itertools import count
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from gateway.bridge.sparing import SparingLog
from gateway.bridge.unread import Unread
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


class _Received(Struct):
    id: Raw = NOTHING
    method: str | None = None
    params: Raw = NOTHING
    result: Raw = NOTHING
    error: Raw = NOTHING


_read = msgspec.json.Decoder(_Received).decode


class Reply(Struct, frozen=True):
    """What comes for a request: a notification, or its response, which is the last; `code` is that of an error.

    A `message` that is empty: there is no response.
    """

    message: bytes
    is_last: bool = False
    code: int | None = None

    def __len__(self) -> int:
        return len(self.message)


class Asked:
    """A request under way. `replies` are for its caller, the last of them its response."""

    def __init__(self, number: int, id_: Json, method: str, token: Json, key: Key | None) -> None:
        self.number = number
        self.id = id_
        self.method = method
        self.token = token
        self.key = key
        self.replies = Unread[Reply]()

    def tell(self, message: bytes) -> None:
        """Adds a notification, unless too many are unread."""
        self.replies.put_if_room(Reply(message))

    def end(self, member: bytes, content: bytes, code: int | None = None) -> None:
        """Adds the response."""
        self.replies.put_nowait(Reply(envelope(self.id, member, content), True, code))

    def fail(self, code: int, message: str) -> None:
        """Adds an error of the bridge as the response."""
        self.end(b"error", encode({"code": code, "message": message}), code)


class Relay:
    """The requests of one process. `listeners` get the notifications that belong to no request."""

    def __init__(self, program: Pipe, listeners: set[Unread[bytes]]) -> None:
        self._program = program
        self._listeners = listeners
        self._numbers = count(1)
        self._waiting: dict[int, Asked] = {}
        self._by_key: dict[Key, Asked] = {}
        self._strays = SparingLog(logging.WARNING, "a line on standard output is no message")
        self._has_ended = False
        self.lost = 0  # requests that were under way as the process ended

    async def ask(self, id_: Json, method: str, params: JsonObject | None, key: Key | None = None) -> Asked:
        """Sends a request. Raises BusyError."""
        if self._has_ended or len(self._waiting) >= MAX_WAITING:
            raise BusyError
        self._check_room()
        meta = params.get("_meta") if params else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        asked = Asked(next(self._numbers), id_, method, token, key)
        if params is not None and isinstance(meta, dict) and token is not None:
            params = {**params, "_meta": {**meta, "progressToken": asked.number}}
        self._waiting[asked.number] = asked
        if key is not None:
            self._by_key[key] = asked
        self._send(method, params, asked.number)
        await self._program.drain()
        return asked

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

    def cancel(self, asked: Asked, reason: str) -> None:
        """Ends a request that is not waited for any more, here and at the server."""
        if self._withdraw(asked, reason):
            asked.fail(CANCELLED, "The request was cancelled.")

    def _withdraw(self, asked: Asked, reason: str) -> bool:
        """Tells the server that a request is not waited for any more; False if it is over."""
        is_under_way = self._forget(asked)
        if is_under_way:
            self._send("notifications/cancelled", {"requestId": asked.number, "reason": reason})
        return is_under_way

    def cancel_by(self, key: Key, reason: str) -> None:
        """Cancels the request of that id in that session, if it is under way, which then has no response."""
        if (asked := self._by_key.get(key)) is not None and self._withdraw(asked, reason):
            asked.replies.put_nowait(Reply(b"", is_last=True))

    def cancel_listening(self) -> None:
        """Ends the requests that would last for ever."""
        for asked in [asked for asked in self._waiting.values() if asked.method == LISTEN]:
            self.cancel(asked, "The bridge stops.")

    def end(self) -> None:
        """Fails all requests, because the process has ended."""
        self._has_ended = True
        self._strays.end({})
        for asked in list(self._waiting.values()):
            self._forget(asked)
            asked.fail(INTERNAL, ENDED)
            self.lost += 1

    def _forget(self, asked: Asked) -> bool:
        if asked.key is not None and self._by_key.get(asked.key) is asked:
            del self._by_key[asked.key]
        return self._waiting.pop(asked.number, None) is not None

    # What comes from the server.

    def receive(self, line: bytes) -> None:
        """Hands a message to whom it is for."""
        line = line.removeprefix(BOM_UTF8)
        try:
            try:
                received = _read(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                line = jsontext.mended(line)  # what a tool that has run returns is not lost for half a character
                received = _read(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._strays.write({"bytes": len(line)})
            return
        if received.method is None:
            self._respond(received)
        elif bytes(received.id) in ABSENT:
            params = bytes(received.params)
            self._notified(received.method, b"{}" if params in ABSENT else params, line.strip())
        else:
            self._refuse(received.id, received.method)

    def _respond(self, received: _Received) -> None:
        asked = self._asked(msgspec.json.decode(received.id)) if bytes(received.id) else None
        if asked is None:
            return  # it was cancelled meanwhile
        self._forget(asked)
        if (error := bytes(received.error)) not in ABSENT:
            asked.end(b"error", error, _code(error))
        elif result := bytes(received.result):
            asked.end(b"result", _of_subscription(result, asked) if asked.method == LISTEN else result)
        else:
            asked.fail(INTERNAL, "The response of the server has neither result nor error.")

    def _notified(self, method: str, params: bytes, line: bytes) -> None:
        try:
            content = jsontext.decode(params)
        except jsontext.JsonError:
            return
        if not isinstance(content, dict):
            return
        meta = content.get("_meta")
        if method == "notifications/progress":
            if (asked := self._asked(content.get("progressToken"))) is not None:
                asked.tell(_notification(method, {**content, "progressToken": asked.token}))
        elif isinstance(meta, dict) and SUBSCRIPTION_MEMBER in meta:
            if (asked := self._asked(meta[SUBSCRIPTION_MEMBER])) is not None:
                asked.tell(_notification(method, {**content, "_meta": {**meta, SUBSCRIPTION_MEMBER: asked.id}}))
        else:
            for queue in self._listeners:
                queue.put_if_room(line)

    def _asked(self, number: Json) -> Asked | None:
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


def _of_subscription(result: bytes, asked: Asked) -> bytes:
    """The end of a subscription names it by the caller's own id."""
    try:
        content = jsontext.decode(result)
        content["_meta"] = {**content.get("_meta", {}), SUBSCRIPTION_MEMBER: asked.id}
    except (jsontext.JsonError, TypeError, AttributeError):
        return result
    return encode(content)
