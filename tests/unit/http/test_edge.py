"""What the edge notes of requests that end in no reply of ours."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.core.tracing import identify, random_digits
from gateway.core.wire import SERVED, Body, Headers, WireReply
from gateway.http.accesslog import LEFT, AccessLog, Observer
from gateway.http.edge import Edge
from gateway.logs.lines import Lines
from gateway.pipeline.request import Request
from gateway.protocols.otc.surface import REST
from tests.support.scraping import made

pytestmark = pytest.mark.anyio


class Noted:
    """An observer, and what came of it."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._lines = Lines(self._writing, lambda count: b"")
        metrics = made()
        self.observer = Observer(metrics, AccessLog(self._lines), metrics.tool_call)

    def lines(self) -> list[dict[str, Any]]:
        self._lines.close()
        os.close(self._writing)
        with os.fdopen(self._reading) as stream:
            return [json.loads(line) for line in stream]


async def replies(request: Request, body: Body) -> WireReply:
    return WireReply(status=200, headers=(), body=b"{}")


async def reads(request: Request, body: Body) -> WireReply:
    return WireReply(status=200, headers=(), body=await body.read())


async def fails(request: Request, body: Body) -> WireReply:
    raise RuntimeError("a bug")


async def nothing(*_: object, **__: object) -> Any:
    raise AssertionError("it is a call")


def edge(noted: Noted, call: Callable[..., Any], callback: Callable[..., Any] = nothing) -> Edge:
    return Edge(
        [REST],
        answer=call,
        refuse=nothing,
        callback=callback,
        rest=nothing,
        ip_of=lambda scope: "127.0.0.1",
        observer=noted.observer,
        identify=partial(identify, random_digits()),
        max_body_bytes=100,
        strict=False,
        running=set(),
    )


async def ask(edge: Edge, receive: Receive, send: Send, path: str = "/call") -> None:
    scope: Scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", b"application/json")]}
    await edge(scope, receive, send)


async def gone() -> Message:
    return {"type": "http.disconnect"}


async def taken(message: Message) -> None:
    pass


async def broken(message: Message) -> None:
    raise RuntimeError("headers that break the framing")


@pytest.mark.parametrize(("call", "send"), [(fails, taken), (replies, broken)])
async def test_a_failure_of_ours_is_noted_as_the_500_that_the_server_answers(
    call: Callable[..., Any], send: Send
) -> None:
    noted = Noted()
    with pytest.raises(RuntimeError):
        await ask(edge(noted, call), gone, send)
    (line,) = noted.lines()
    assert line["status"] == 500


async def breaks(*_: object) -> int:
    raise RuntimeError("a bug")


async def takes(*_: object) -> None:
    pass


@pytest.mark.parametrize(("callback", "send"), [(breaks, taken), (takes, broken)])
async def test_a_failure_of_ours_at_a_callback_is_noted_as_that_too(callback: Callable[..., Any], send: Send) -> None:
    noted = Noted()
    with pytest.raises(RuntimeError):
        await ask(edge(noted, fails, callback), gone, send, "/callbacks/token")
    (line,) = noted.lines()
    assert (line["status"], line["route"]) == (500, "/callbacks/{token}")


async def test_a_tool_server_that_left_before_its_callback_was_whole_is_noted_and_not_answered() -> None:
    async def receives(request: Request, token: str, media: str | None, body: Body) -> int:
        await body.read()
        raise AssertionError("there is none")

    noted = Noted()
    await ask(edge(noted, fails, receives), gone, broken, "/callbacks/token")
    (line,) = noted.lines()
    assert (line["status"], line["bytes_out"]) == (LEFT, 0)


async def test_a_caller_who_left_before_the_body_was_whole_is_noted_as_such() -> None:
    noted = Noted()
    await ask(edge(noted, reads), gone, taken)
    (line,) = noted.lines()
    assert line["status"] == LEFT


class Served:
    """A request as our own server has it; what is answered without messages is in `answers`."""

    def __init__(self) -> None:
        self.fields = {b"content-type": b"application/json"}
        self.answered: int | None = None
        self.reason = ""
        self.task: asyncio.Task[None] | None = None
        self.answers: list[int] = []

    def keep(self) -> Any:
        raise AssertionError

    def lend_body(self, task: Any) -> None:
        raise AssertionError("no call goes on")

    def take_body(self, holder: str) -> bytes | None:
        return b"{}"

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        self.answers.append(status)
        return True

    async def send(self, message: Message) -> None:
        raise AssertionError("it was answered at once")


async def test_our_own_server_answers_at_once_unless_something_stands_between() -> None:
    """Middleware that wraps `send` has to see every message."""
    served, sent = Served(), list[str]()
    app = edge(Noted(), replies)
    scope: Scope = {"type": "http", "method": "POST", "path": "/call", "headers": [], "extensions": {SERVED: served}}
    await app({**scope, "headers": list(served.fields.items())}, gone, served.send)
    assert served.answers == [200]

    async def wrapped(message: Message) -> None:
        sent.append(message["type"])

    await app({**scope, "headers": list(served.fields.items())}, gone, wrapped)
    assert (served.answers, sent) == ([200], ["http.response.start", "http.response.body"])
