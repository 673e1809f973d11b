"""OXP servers whose list shows neither form: what a literal reading of a table of the protocol makes.

Ours: both forms list `{"items"}`, so the first call shows which one is spoken, and no call runs twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tests.flow.gateways import Running, config, running
from tests.streams import Request, accepting, http_reply, read_request

pytestmark = pytest.mark.anyio

TOOL = {"id": "Math.Add@1.0.0", "name": "Math_Add", "version": "1.0.0", "description": "Adds.", "input_schema": {}}
REFUSAL = {"message": "tool_id is missing"}
Clumsy = Literal["refuses", "in words", "by fastapi", "no such tool", "fails", "breaks off", "polite"]


@dataclass
class Server:
    """Speaks one form, and is `clumsy` about calls in the other. `ran` has the call ids of what has run."""

    form: Literal["flat", "enveloped"]
    clumsy: Clumsy
    headers: Mapping[str, str] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            answer = http_reply(200, {"items": [TOOL]}) if request.method == "GET" else self._called(request)
            if not answer:
                writer.close()
                return
            writer.write(answer)
            await writer.drain()

    def _called(self, request: Request) -> bytes:
        self.calls.append(body := json.loads(request.body))
        call = body if self.form == "flat" else body.get("request", {})
        if "tool_id" in call:
            self.ran.append(call["call_id"])
            result = {"call_id": call["call_id"], "success": True, "value": call["input"]["a"] + 1}
            if call["input"]["a"] < 0:
                result = {"call_id": call["call_id"], "success": False, "error": {"message": "negative"}}
            return http_reply(200, result if self.form == "flat" else {"result": result}, **self.headers)
        failed = {"call_id": "", "success": False, "error": {"message": "No such tool"}}
        del failed["call_id"]
        return {
            "refuses": http_reply(400, REFUSAL, **self.headers),
            "in words": http_reply(400, b"tool_id is missing", **self.headers),
            "by fastapi": http_reply(422, {"detail": [{"type": "missing", "loc": ["body", "tool_id"]}]}),
            "no such tool": http_reply(404, {"message": "There is no tool None"}),
            "fails": http_reply(500, b"KeyError"),
            "breaks off": b"",
            "polite": http_reply(200, failed if self.form == "flat" else {"result": failed}),
        }[self.clumsy]


@asynccontextmanager
async def behind(server: Server, **backend: Any) -> AsyncIterator[Running]:
    async with accepting(server.converse) as port:
        backends = {"math": {"protocol": "oxp", "url": f"http://127.0.0.1:{port}", **backend}}
        async with running(config(backends, [{"tools": "*", "backend": "math"}])) as gateway:
            yield gateway


async def add(gateway: Running, a: int) -> Any:
    return await gateway.caller.call("otc", "Math.Add", {"a": a})


@pytest.mark.parametrize("clumsy", ["refuses", "in words", "by fastapi", "no such tool"])
@pytest.mark.parametrize("form", ["flat", "enveloped"])
async def test_a_refusal_of_one_form_has_the_call_sent_in_the_other(form: Any, clumsy: Clumsy) -> None:
    server = Server(form, clumsy)
    async with behind(server) as gateway:
        assert [(await add(gateway, a)).value for a in (1, 2)] == [2, 3]
    assert len(set(server.ran)) == len(server.ran) == 2
    assert len(server.calls) == 2 + (form == "flat")  # the form is known from then on


@pytest.mark.parametrize("clumsy", ["fails", "breaks off", "polite"])
async def test_what_may_have_run_is_not_sent_again_and_the_next_call_has_the_other_form(clumsy: Clumsy) -> None:
    server = Server("flat", clumsy)
    async with behind(server) as gateway:
        assert (await add(gateway, 1)).error["can_retry"] is False
        assert len(server.calls) == 1
        assert [(await add(gateway, a)).value for a in (2, 3)] == [3, 4]
    assert (len(server.calls), len(server.ran)) == (3, 2)


async def test_the_version_header_of_a_refusal_settles_the_form() -> None:
    server = Server("flat", "in words", headers={"OXP-Version": "1.0"})
    async with behind(server) as gateway:
        assert (await add(gateway, 1)).value == 2
    assert [set(call) & {"request", "tool_id"} for call in server.calls] == [{"request"}, {"tool_id"}]


async def test_a_failure_of_the_tool_shows_the_form_too() -> None:
    server = Server("enveloped", "refuses")
    async with behind(server) as gateway:
        assert (await add(gateway, -1)).error["message"] == "negative"
        assert (await add(gateway, 1)).value == 2
    assert len(server.calls) == len(server.ran) == 2


async def test_a_form_that_is_configured_is_used_from_the_first_call() -> None:
    server = Server("flat", "breaks off")
    async with behind(server, dialect="oxp") as gateway:
        assert (await add(gateway, 1)).value == 2
    assert len(server.calls) == 1


async def test_calls_at_the_same_time_each_run_once() -> None:
    server = Server("flat", "refuses")
    async with behind(server) as gateway:
        answers = await asyncio.gather(*(add(gateway, a) for a in range(20)))
    assert [answer.value for answer in answers] == list(range(1, 21))
    assert len(set(server.ran)) == len(server.ran) == 20
