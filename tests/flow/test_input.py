"""Input: what never reaches a tool, and how a caller is told why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer, object_of, tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        pytest.param({"n": "one"}, {"n"}, id="a wrong type"),
        pytest.param({"n": 1.5}, {"n"}, id="a fraction for an integer"),
        pytest.param({"n": None}, {"n"}, id="null"),
        pytest.param({}, {"n"}, id="a missing one"),
        pytest.param({"n": 1, "m": 2}, {"m"}, id="an unknown one"),
        pytest.param({"m": 2}, {"n", "m"}, id="one missing and one unknown"),
    ],
)
@every_dialect
async def test_wrong_input_is_refused_by_parameter_before_the_tool_runs(
    caller: Caller, server: ToolServer, dialect: str, arguments: Any, blamed: set[str]
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Input Validation Error: 422; ValidationErrorResponse: a map keyed by parameter."""
    answer = await caller.call(dialect, "Count.Up", arguments)
    assert answer.status == 422
    assert answer.message
    assert answer.document["parameter_errors"].keys() == blamed
    assert server.calls == []


@every_dialect
async def test_wrong_input_is_never_quoted(caller: Caller, dialect: str) -> None:
    """Ours: answers and logs hold no argument."""
    answer = await caller.call(dialect, "Count.Up", {"n": "canary-3141"})
    assert answer.status == 422
    assert b"canary" not in answer.body


@every_dialect
async def test_a_nested_mistake_is_told_under_its_outermost_parameter(
    start: StartGateway, server: ToolServer, dialect: str
) -> None:
    """Ours: `parameter_errors` is keyed by parameter; the path stands in the text."""
    items = {"type": "array", "items": object_of(name={"type": "string"})}
    server.tools = [tool("Cart.Fill", input_schema=object_of(items=items))]
    caller = (await start(config({"scripted": server.url}))).caller
    answer = await caller.call(dialect, "Cart.Fill", {"items": [{"name": "tea"}, {"name": 7}]})
    assert answer.status == 422
    assert answer.document["parameter_errors"].keys() == {"items"}
    assert "items[1].name" in answer.document["parameter_errors"]["items"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"request": null}',
        b'{"tool_id": "Echo.Say", "input": {"n": NaN}}',
        b'{"tool_id": "Echo.Say", "input": {"n": "\xff"}}',
        b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:50]),
)
@every_dialect
async def test_a_body_that_is_no_call_is_refused(
    caller: Caller, server: ToolServer, dialect: str, content: bytes
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Server Errors: 400. Ours: NaN, bad UTF-8 and their like are no JSON."""
    if dialect != "oxp" and content.startswith(b'{"tool_id"'):
        content = b'{"request": %b}' % content
    answer = await caller.send(dialect, "call", "POST", f"/{dialect}/tools/call", content=content)
    assert answer.status == 400
    assert server.calls == []


@every_dialect
async def test_of_a_name_given_twice_the_last_value_is_checked_and_sent(
    caller: Caller, server: ToolServer, dialect: str
) -> None:
    """Ours: what was validated is what the tool gets, however another parser would have read it."""
    request = b'{"tool_id":"Count.Up","input":{"n":"wrong","n":1}}'
    content = request if dialect == "oxp" else b'{"request":%b}' % request
    answer = await caller.send(dialect, "call", "POST", f"/{dialect}/tools/call", content=content)
    assert answer.value == {"n": 1}
    assert b"wrong" not in server.calls[0].body
