"""Calls that a modern MCP server wants the user to allow first, and the same calls when they come again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.core.model import Invocation
from gateway.protocols.mcp.servers.inputs import KEPT_S, MAX_BYTES, McpInputs
from tests.protocols.mcp.server_double import INVOCATION, Talk, facing
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

URL = "https://id.example/allow"
ASKED = {"method": "elicitation/create", "params": {"mode": "url", "message": "Allow it.", "url": URL}}
STATE = 'sealed \u00e9 "state" =='
ANNA = replace(INVOCATION, principal="anna", arguments={"n": 1, "m": 2})


async def ask_first(talk: Talk) -> None:
    """Runs the tool for who brings the state back, whatever else is said."""
    params = talk.message["params"]
    if params.get("requestState") == STATE and params.get("inputResponses") == {"k": {"action": "accept"}}:
        await talk.answer()
    else:
        await talk.answer({"resultType": "input_required", "inputRequests": {"k": ASKED}, "requestState": STATE})


async def test_mcp_70_the_repeated_call_carries_the_state_unchanged_and_a_new_id() -> None:
    async with facing("modern", ask_first) as (backend, double):
        refused = await refusal(backend.call(ANNA))
        assert refused.code is ErrorCode.MISSING_REQUIREMENTS
        assert refused.missing == {"authorization": [{"id": "k", "url": URL}]}
        again = replace(ANNA, call_id="tg-2", arguments={"m": 2, "n": 1})
        assert (await backend.call(again)).value == "seven"
        first, second = (talk.message for talk in double.ran)
        assert first["id"] != second["id"]
        assert first["params"].keys() == {"name", "arguments", "_meta"}
        assert (await refusal(backend.call(ANNA))).code is ErrorCode.MISSING_REQUIREMENTS  # it was used up


OTHERS = {
    "another caller": replace(ANNA, principal="bert"),
    "other arguments": replace(ANNA, arguments={"n": 2}),
    "another tool": replace(ANNA, tool=replace(ANNA.tool, remote_id="other")),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_mcp_70_a_state_goes_with_no_other_call(other: Invocation) -> None:
    async with facing("modern", ask_first) as (backend, double):
        await refusal(backend.call(ANNA))
        await refusal(backend.call(other))
        assert "requestState" not in double.ran[-1].message["params"]


async def test_mcp_70_a_state_that_the_server_refuses_is_not_sent_again() -> None:
    async def script(talk: Talk) -> None:
        if "requestState" in talk.message["params"]:
            await talk.fail(-32602, "requestState has expired")
        else:
            await ask_first(talk)

    async with facing("modern", script) as (backend, double):
        codes = [(await refusal(backend.call(ANNA))).code for _ in range(3)]
        assert codes == [ErrorCode.MISSING_REQUIREMENTS, ErrorCode.INVALID_ARGUMENTS, ErrorCode.MISSING_REQUIREMENTS]
        assert ["requestState" in talk.message["params"] for talk in double.ran] == [False, True, False]


async def test_mcp_70_a_legacy_server_that_wants_urls_opened_is_sent_nothing_but_the_call() -> None:
    async def script(talk: Talk) -> None:
        elicitation = {"mode": "url", "elicitationId": "e1", "url": URL, "message": "Allow it."}
        await talk.fail(-32042, "URL elicitation required", elicitations=[elicitation])

    async with facing("legacy", script) as (backend, double):
        for _ in range(2):
            refused = await refusal(backend.call(ANNA))
            assert refused.missing == {"authorization": [{"id": "e1", "url": URL}]}
        assert double.ran[1].message["params"].keys() == {"name", "arguments", "_meta"}


def test_mcp_70_states_are_few_short_and_old_ones_are_dropped() -> None:
    now = 0.0
    inputs = McpInputs(most=2, clock=lambda: now)
    calls = [replace(ANNA, arguments={"n": n}) for n in range(3)]
    params: Any = {"inputResponses": {}, "requestState": "s"}
    for call in calls:
        inputs.store(call, params)
    assert [inputs.answers_for(call) for call in calls] == [{}, params, params]
    inputs.store(calls[1], {"requestState": "s" * MAX_BYTES})
    assert inputs.answers_for(calls[1]) == {}
    now = KEPT_S
    assert inputs.answers_for(calls[2]) == {}
