"""Whatever JSON a caller sends as arguments comes back from a tool that returns them. All of it is ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.caller import Caller, every_dialect
from tests.flow.gateways import config, running
from tests.flow.toolserver import tool, tool_server

pytestmark = pytest.mark.anyio

MAX_DEPTH = 64  # of a body, the caller's or the tool server's
MAX_DIGITS = 4300  # of an integer, its sign included
EXAMPLES = 25  # per dialect, about 3 ms each

HUGE = st.integers(1, MAX_DIGITS - 1).map(lambda digits: 10**digits - 7)
NUMBERS = (
    st.integers() | HUGE | HUGE.map(lambda number: -(number // 10)) | st.floats(allow_nan=False, allow_infinity=False)
)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=15
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4)


@pytest.fixture(scope="module")
async def caller(anyio_backend: object) -> AsyncIterator[Caller]:
    """A caller of a gateway in front of an echo."""
    async with tool_server(tool("Echo.Say")) as server, running(config({"scripted": server.url})) as gateway:
        yield gateway.caller


def text_of(value: Any) -> str:
    """Tells 1 from 1.0 and 0.0 from -0.0, as `==` does not."""
    return json.dumps(value, sort_keys=True)


@every_dialect
@given(arguments=OBJECTS)
@settings(max_examples=EXAMPLES, deadline=None)
async def test_arguments_come_back_equal(caller: Caller, dialect: str, arguments: dict[str, Any]) -> None:
    assert text_of((await caller.call(dialect, "Echo.Say", arguments)).value) == text_of(arguments)


def nested(depth: int) -> dict[str, Any]:
    """An object of that many levels, arrays among them."""
    value: Any = 1
    for level in range(depth - 1):
        value = [value] if level % 2 else {"in": value}
    return {"in": value}


@every_dialect
async def test_a_body_may_be_nested_up_to_the_limit_and_not_beyond(caller: Caller, dialect: str) -> None:
    around = 1 if dialect == "oxp" else 2  # levels that hold the arguments
    deepest = nested(MAX_DEPTH - around)
    assert (await caller.call(dialect, "Echo.Say", deepest)).value == deepest
    assert (await caller.call(dialect, "Echo.Say", {"in": deepest})).status == 400


@every_dialect
async def test_an_integer_may_have_as_many_digits_as_the_limit_and_no_more(caller: Caller, dialect: str) -> None:
    longest = 10**MAX_DIGITS - 1
    assert (await caller.call(dialect, "Echo.Say", {"n": longest})).value == {"n": longest}
    request = b'{"tool_id":"Echo.Say","input":{"n":%b}}' % (b"9" * (MAX_DIGITS + 1))
    content = request if dialect == "oxp" else b'{"request":%b}' % request
    assert (await caller.send(dialect, "call", "POST", f"/{dialect}/tools/call", content=content)).status == 400
