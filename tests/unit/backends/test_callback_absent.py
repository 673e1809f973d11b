"""Callbacks at a replica that does not have the backend of the call: its outcome counts all the same.

Ours: while a configuration is rolled out replicas have different backends, and no tool server comes a second time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.backends.callback_receiver import absent_receivers
from gateway.calls.backlog import MAX_BYTES
from gateway.calls.callbacks import Callbacks, CallbackTokens
from gateway.calls.status import CallMetadata, CallStatus, Consent, DeferredCall, pack_metadata, status_of
from gateway.dialects.recognise import REST
from gateway.model import ONCE, ToolFailure, ToolResult
from gateway.offload import Checker
from gateway.request import Request
from gateway.state.port import DISPATCHING, NewCall, StateUnavailable
from gateway.state.sealing import Digester
from gateway.wire import Head
from tests.unit.desk import Desk, desk

pytestmark = pytest.mark.anyio

KEY, RUN, GROUP = "0123456789abcdef", "f0e1d2c3", ONCE + "1"
ID = "tg-" + KEY
BROKEN = ToolResult(failure=ToolFailure(message="The tool server gave a broken answer.", code="broken_answer"))
NOT_ALLOWED = ToolResult(
    failure=ToolFailure(message="The tool server asked for something that is not allowed here.", code="broken_answer")
)
UNANSWERED = ToolResult(
    failure=ToolFailure(
        message="The tool server asked for a choice and could not be answered; the tool may have run.",
        outcome="unknown",
    )
)


class Arrived:
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def now(self) -> bytes:
        return self._body

    async def read(self) -> bytes:
        return self._body


class Elsewhere:
    """A replica without any callback backend, and a call to one that another replica has begun."""

    def __init__(self, it: Desk) -> None:
        self.it = it
        self._tokens = CallbackTokens(Digester([], "callbacks"))
        self.callbacks = Callbacks(
            it.state,
            self._tokens,
            receivers={},
            published=lambda _tool: None,
            absent=absent_receivers(it.calls, Checker(memory_bytes=0)),
            backlog=it.endings.backlog,
        )

    async def begin(self, **later: Any) -> None:
        note = CallMetadata(
            dialect="oxp",
            wire_version="1",
            call_id="k",
            tool="T.t@1.0.0",
            group=GROUP,
            deferred=DeferredCall(run=RUN, **later),
        )
        new = NewCall(
            key=KEY, fingerprint="f", principal="p", backend="builds", note=pack_metadata(note), state=DISPATCHING
        )
        await self.it.state.begin(new)

    async def post(self, message: Any, *, run: str = RUN) -> int:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        status = await self.answer(body, run=run)
        assert self.request.backend == "builds"
        return status

    async def answer(self, body: bytes, *, run: str = RUN) -> int:
        self.request = Request(Head(method="POST", path="/callbacks/", headers={}), REST)
        token = self._tokens.mint(KEY, run)
        return await self.callbacks.answer(self.request, token, "application/json", Arrived(body))

    async def stands(self) -> CallStatus:
        return status_of(await self.it.state.get(KEY))


@asynccontextmanager
async def elsewhere(**later: Any) -> AsyncIterator[Elsewhere]:
    async with desk() as it:
        opened = Elsewhere(it)
        await opened.begin(**later)
        yield opened


def message(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "group_id": GROUP, "id": ID, **members}


RESULT = message("tool_result", text='{"units": 12}')
CHOICE = message("user_choice", prompt="?", choices=["a"], default=0, response_url="http://127.0.0.1:9/choice")
CASES: list[tuple[Any, int, CallStatus]] = [
    (RESULT, 200, ToolResult(value={"units": 12})),
    (message("oauth", auth_url="https://login.example/"), 200, Consent({"id": ID, "url": "https://login.example/"})),
    (message("oauth", auth_url="javascript:alert(1)"), 400, NOT_ALLOWED),
    (CHOICE, 400, UNANSWERED),
]


@pytest.mark.parametrize(("posted", "status", "standing"), CASES, ids=lambda item: repr(item)[:60])
async def test_each_kind_of_message_has_its_effect_where_the_backend_is_not(
    posted: Any, status: int, standing: CallStatus
) -> None:
    async with elsewhere() as at:
        assert await at.post(posted) == status
        assert await at.stands() == standing


async def test_a_result_is_read_there_as_the_route_said_where_the_call_began() -> None:
    async with elsewhere(decode="never") as at:
        assert await at.post(RESULT) == 200
        assert await at.stands() == ToolResult(value='{"units": 12}')
    async with elsewhere(failure_patterns=(".*units",)) as at:
        assert await at.post(RESULT) == 200
        assert await at.stands() == ToolResult(failure=ToolFailure(message='{"units": 12}'))


async def test_only_the_first_result_counts_and_only_of_this_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with elsewhere() as at:
        assert await at.post(RESULT, run="another") == 404
        assert await at.stands() is None
        assert [await at.post(RESULT), await at.post(message("tool_result", text="another"))] == [200, 200]
        assert await at.stands() == ToolResult(value={"units": 12})
    told = [(record.message, record.__dict__["backend"]) for record in caplog.records]
    assert told == [
        ("callbacks come for a backend that is not configured here", "builds"),
        ("a late or repeated message was dropped", "builds"),
    ]


async def test_a_subscription_that_cannot_be_cancelled_there_is_told_to_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with elsewhere() as at:
        assert await at.post(message("tool_result", text="Watching", subscription=True)) == 200
        assert await at.stands() == ToolResult(value="Watching")
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.message == "a tool server that is not configured here was not told to stop"
    assert (warning.__dict__["backend"], warning.__dict__["call_id"]) == ("builds", ID)


async def test_what_waits_for_the_state_has_one_bound_with_the_results_that_do() -> None:
    async def be_away() -> None:
        raise StateUnavailable

    async with elsewhere() as it:
        room = len(json.dumps(RESULT))
        assert it.it.endings.backlog.hold("k", MAX_BYTES - room, be_away)
        it.it.state.away, it.it.state.forgets_what_it_holds = {"get"}, True
        assert [await it.answer(json.dumps(RESULT).encode()) for _ in range(2)] == [200, 503]
