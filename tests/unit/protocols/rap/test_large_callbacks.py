"""Callbacks that take long to read."""

from __future__ import annotations

import asyncio
import re

import pytest

from gateway.core import jsontext
from gateway.core.model import ToolFailure, ToolResult
from tests.unit.protocols.rap.calling_back import KEY, Toolset, facing, message

pytestmark = pytest.mark.anyio

SLOW = b"[" + b"[]," * 1_000_000 + b"[]]"  # half a second on an idle machine
LARGE = 256 * 1024
TURNS = 20  # of the event loop; it has two or three where it is held up


MANY_VALUES = b'{"type":"tool_result","group_id":"grp-1","id":"tg-1","text":"done","more":' + SLOW + b"}"
ERRORS = "error " * 1500  # an ordinary pattern looks for each of them again behind each of them
PATTERNS = (re.compile(r".*error.*failed"),)


@pytest.mark.parametrize(
    ("body", "patterns", "value"),
    [(MANY_VALUES, (), "done"), (message("tool_result", text=ERRORS), PATTERNS, ERRORS)],
    ids=["many values", "a pattern"],
)
async def test_others_have_their_turns_while_a_large_callback_is_read(
    body: object, patterns: tuple[re.Pattern[str], ...], value: str
) -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with facing(Toolset()) as at:
        others = asyncio.create_task(go_on())
        await asyncio.sleep(0)
        before = turns
        assert await at.receive(body, failure_patterns=patterns) == 200
        others.cancel()
        assert at.ends.results == {KEY: ToolResult(value=value)}
    assert turns - before > TURNS


async def test_the_json_in_a_large_text_is_a_value() -> None:
    for text in ("[" + "{}," * 50_000 + "{}]", "\\u005b" + "{}," * 50_000 + "{}]"):
        body = b'{"type":"tool_result","group_id":"grp-1","id":"tg-1","text":"%b"}' % text.encode()
        async with facing(Toolset()) as at:
            assert await at.receive(body) == 200
            result = at.ends.results[KEY]
            assert result is not None
            assert jsontext.encode(result.value) == jsontext.encode([{}] * 50_001)


async def test_a_callback_that_takes_too_long_is_refused() -> None:
    body = b'{"type":"tool_result","text":"","more":[%b{}]}' % (b"{}," * 5_000_000)
    async with facing(Toolset()) as at:
        assert await at.receive(body) == 400
    assert at.ends.results == {}


async def test_a_large_callback_is_read_like_a_small_one() -> None:
    text = "[" + "1," * LARGE + "1]"
    async with facing(Toolset()) as at:
        assert await at.receive(b"{" * (LARGE + 1)) == 400
    for how, result in (
        ({"decode": "never"}, ToolResult(value=text)),
        ({"failure_patterns": [re.compile(r"\[1,")]}, ToolResult(failure=ToolFailure(message=text))),
    ):
        async with facing(Toolset()) as at:
            assert await at.receive(message("tool_result", text=text), **how) == 200
            assert at.ends.results == {KEY: result}
