"""What comes back of a call that ran: values and tool errors, in the caller's own form."""

from __future__ import annotations

import pytest

from tests.flow.caller import SCHEMAS, Caller, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import FORMS, ToolServer, tool
from tests.streams import Request

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("form", FORMS)
@every_dialect
async def test_a_success_has_the_shape_of_the_callers_dialect_whatever_the_server_speaks(
    start: StartGateway, server: ToolServer, dialect: str, form: str
) -> None:
    """Spec: RFC, OTC 1.0 and OXP 1.0, Call Tool: `output.value`, `result.value`, `value`; the shape is the oracle's."""
    server.form = form
    caller = (await start(config({"scripted": server.url}))).caller
    answer = await caller.call(dialect, "Echo.Say", {"n": 1}, call_id="mine")
    assert answer.value == {"n": 1}
    assert answer.result["call_id"] == "mine"
    assert answer.document.get("$schema") == (None if dialect == "lc" else SCHEMAS.get(dialect))
    assert answer.headers.get("oxp-version") == ("1.0" if dialect == "oxp" else None)
    assert answer.headers["cache-control"] == "no-store"  # the oracle demands it of refusals, too


@pytest.mark.parametrize("form", FORMS)
@every_dialect
async def test_a_tool_error_has_the_shape_of_the_callers_dialect_whatever_the_server_speaks(
    start: StartGateway, server: ToolServer, dialect: str, form: str
) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Tool Execution Error: 200, `success` false, every member of the error kept."""
    error = {
        "message": "No such doorbell",
        "developer_message": "It was taken down.",
        "can_retry": True,
        "additional_prompt_content": "ids: 1, 2",
        "retry_after_ms": 500,
    }

    async def fail(received: Request) -> bytes:
        return server.failure(received, **error)

    server.form, server.handler = form, fail
    caller = (await start(config({"scripted": server.url}))).caller
    assert (await caller.call(dialect, "Echo.Say")).error == error | {"code": "tool_error"}


@every_dialect
async def test_the_time_a_tool_took_is_said_in_milliseconds(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0, CallToolResponse.duration. Ours: not to the LangChain family, whose servers never send it."""
    result = (await demo.call(dialect, "Clock.Sleep", {"seconds": 0.02})).result
    if dialect == "lc":
        assert "duration" not in result
    else:
        assert 20 <= result["duration"] < 10_000


@every_dialect
async def test_a_tool_that_returns_nothing_answers_a_null_value(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Call Tool Response: null when `output_schema` is null."""
    assert (await demo.call(dialect, "Doorbell.Ring", {"doorbell_id": "doorbell42"})).value is None


@pytest.mark.parametrize(("check", "success"), [("off", True), ("warn", True), ("fail", False)])
@pytest.mark.parametrize("schema", [{"type": "string"}, None], ids=["text", "nothing"])
@every_dialect
async def test_a_value_that_breaks_its_schema_is_judged_as_the_route_says(
    start: StartGateway, server: ToolServer, dialect: str, check: str, success: bool, schema: dict[str, str] | None
) -> None:
    """Spec: OXP 1.0, Call Tool Response: a value conforms to `output_schema`. Ours: who enforces it."""
    server.tools = [tool("Echo.Say", output_schema=schema)]
    route = {"tools": "*", "backend": "scripted", "validate_output": check}
    caller = (await start(config({"scripted": server.url}, [route]))).caller
    result = (await caller.call(dialect, "Echo.Say", {"canary": "in the value"})).result
    assert result["success"] is success
    if not success:
        assert "canary" not in str(result["error"])
        assert result["error"]["can_retry"] is False
