"""Answers of an HTTP API by every surface: those that break their schema, and those of very many values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.protocols.mcp.requests import call
from tests.streams import http_reply
from tests.support.httpapi import http_api, operation
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

LISTS = {"type": "array", "items": {"type": "array"}}
SAID = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PATHS = {
    "/n": {"get": operation("number", schema=SAID)},
    "/lists": {"get": operation("lists", schema=LISTS)},
    "/picture": {
        "get": {
            "operationId": "picture",
            "responses": {"200": {"description": "It.", "content": {"image/png": {}}}},
        }
    },
}
WIDE: list[Any] = [[]] * 20_000
ANSWERS = {
    "/n": http_reply(200, {"n": "seven", "more": True}),
    "/lists": http_reply(200, WIDE),
    "/picture": http_reply(200, b"\x89PNG", content_type="image/png"),
}


async def answer(exchange: Exchange) -> None:
    await exchange.write(ANSWERS[exchange.request.target])


async def test_openapi_49_a_value_that_breaks_its_schema_is_passed_on_and_told_in_the_log(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_api(PATHS, answer) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        for dialect in ("oxp", "otc"):
            assert (await caller.call(dialect, "Api.number")).value == {"n": "seven", "more": True}
        result = (await call(caller, "Api_number")).json()["result"]
        assert result["structuredContent"] == {"n": "seven", "more": True}
        broken = [record for record in caplog.records if "output schema" in record.message]
        assert len(broken) == 3
        assert "seven" not in str([vars(record) for record in broken])


async def test_openapi_41_very_many_values_are_a_value_by_every_surface(start: Start) -> None:
    async with http_api(PATHS, answer) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        for dialect in ("oxp", "otc"):
            assert (await caller.call(dialect, "Api.lists")).value == WIDE
        content = (await call(caller, "Api_lists")).json()["result"]["content"]
        assert json.loads(content[0]["text"]) == WIDE


async def test_openapi_41_bytes_are_sent_once_to_callers_of_mcp(start: Start) -> None:
    async with http_api(PATHS, answer) as api:
        caller = (await start(config({"api": api.backend()}))).caller
        value = (await caller.call("otc", "Api.picture")).value
        assert value == {"content_type": "image/png", "base64": "iVBORw=="}
        result = (await call(caller, "Api_picture")).json()["result"]
        assert result["content"] == [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]
        assert "structuredContent" not in result
