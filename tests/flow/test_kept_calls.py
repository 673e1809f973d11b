"""A call with an id runs once, however often it is repeated.

The specifications call `call_id` an idempotency key and say no more (RFC 5.2, OTC and OXP 1.0): all of it is ours.
"""

from __future__ import annotations

import asyncio
import string
from typing import Any

import pytest

from tests.flow.caller import DIALECTS, Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.keeping import begun, counted, gated
from tests.flow.toolserver import ToolServer, hang_up, silence, tool, tool_server
from tests.streams import Request, http_reply
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0  # for what takes milliseconds on an idle machine
CROWD = 50
JWT = {"jwt": [{"secret": SECRET}]}


@every_dialect
async def test_a_repeated_call_gets_the_same_bytes(caller: Caller, server: ToolServer, dialect: str) -> None:
    server.handler = counted(server)
    own = {"x-request-id": "the-same"}  # the one header that is each request's own
    first = await caller.call(dialect, "Echo.Say", {"a": 1}, call_id="k", headers=own)
    for _ in range(3):
        again = await caller.call(dialect, "Echo.Say", {"a": 1}, call_id="k", headers=own)
        assert (again.status, again.body, again.headers) == (first.status, first.body, first.headers)
    assert (first.result["call_id"], server.executions) == ("k", 1)


RESULTS = [
    '"value": null',
    '"value": 1.0, "duration": 4',
    '"value": 1, "duration": 4.0',
    '"value": 1e22, "duration": 123456789012345678901234567890',
    '"value": 12345678901234567890123456789012345678901234567890',
    '"value": {"b": [], "a": {"\\u00e9\\ud83e\\udded": "\\u0000"}}',
]


@pytest.mark.parametrize("members", RESULTS)
async def test_a_result_is_repeated_exactly(caller: Caller, server: ToolServer, members: str) -> None:
    async def handle(received: Request) -> bytes:
        body = f'{{"success": true, {members}}}'.encode()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    server.handler = handle
    first = await caller.call("oxp", "Echo.Say", call_id="k")
    assert first.result["success"] is True
    assert (await caller.call("oxp", "Echo.Say", call_id="k")).body == first.body
    assert server.executions == 1


async def test_a_tool_error_is_repeated_exactly(caller: Caller, server: ToolServer) -> None:
    async def fail(received: Request) -> bytes:
        return server.failure(
            received,
            message="No.",
            developer_message="dev",
            additional_prompt_content="hint",
            retry_after_ms=5,
            more=[1],
        )

    server.handler = fail
    first = await caller.call("oxp", "Echo.Say", call_id="k")
    assert (first.error["message"], first.error["more"]) == ("No.", [1])
    assert (await caller.call("oxp", "Echo.Say", call_id="k")).body == first.body
    assert server.executions == 1


async def test_a_call_may_be_repeated_in_another_dialect(caller: Caller, server: ToolServer) -> None:
    server.handler = counted(server)
    answers = [await caller.call(dialect, "Echo.Say", {"a": 1}, call_id="k") for dialect in DIALECTS]
    assert [answer.value for answer in answers] == [{"run": 1, "input": {"a": 1}}] * len(DIALECTS)
    assert len({answer.headers["toolgate-call-id"] for answer in answers}) == 1


async def test_an_id_used_for_another_call_is_refused(caller: Caller, server: ToolServer) -> None:
    first = await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")
    others: list[tuple[str, Any]] = [
        ("Echo.Say", {"a": 2}),
        ("Echo.Say", {"a": 1.0}),
        ("Echo.Say", {"a": True}),
        ("Echo.Say", {}),
        ("Echo.Say@1.0.0", {"a": 1}),
        ("Count.Up", {"n": 1}),
    ]
    for tool_id, arguments in others:
        answer = await caller.call("oxp", tool_id, arguments, call_id="k")
        assert (answer.status, answer.message) == (400, "This call_id was used for a different call.")
        assert "location" not in answer.headers
    assert (await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")).body == first.body
    assert server.executions == 1


async def test_equal_calls_may_be_spelled_differently(caller: Caller, server: ToolServer) -> None:
    server.handler = counted(server)
    one = {"a": 1, "b": {"c": [1, {"x": 1, "y": 2}], "d": "é"}}
    other = {"b": {"d": "é", "c": [1, {"y": 2, "x": 1}]}, "a": 1}
    assert (await caller.call("oxp", "Echo.Say@1", one, call_id="k")).value["run"] == 1
    assert (await caller.call("oxp", "Echo.Say@1.0.0", other, call_id="k")).value["run"] == 1
    swapped = {"a": 1, "b": {"c": [{"x": 1, "y": 2}, 1], "d": "é"}}
    assert (await caller.call("oxp", "Echo.Say@1", swapped, call_id="k")).status == 400


async def test_fifty_at_once_run_once(caller: Caller, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        calls = [group.create_task(caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")) for _ in range(CROWD)]
        await begun(server)
        opened.set()
    assert len({(await call).body for call in calls}) == 1
    assert (calls[0].result().value["run"], server.executions) == (1, 1)


async def test_fifty_at_once_share_even_what_is_not_kept(caller: Caller, server: ToolServer) -> None:
    """All who joined get the retryable failure or the refusal, and a later call runs again."""
    opened = asyncio.Event()

    async def fail(received: Request) -> bytes:
        await opened.wait()
        if received.call["input"]["how"] == "refuse":
            return http_reply(400, {"message": "Not you."})
        return server.failure(received, message="Busy.", can_retry=True)

    server.handler = fail
    for number, how in enumerate(("refuse", "fail")):
        opened.clear()
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            calls = [group.create_task(caller.call("oxp", "Echo.Say", {"how": how}, call_id=how)) for _ in range(CROWD)]
            await begun(server, 2 * number + 1)
            opened.set()
        assert {(await call).status for call in calls} == ({400} if how == "refuse" else {200})
        assert server.executions == 2 * number + 1
        await caller.call("oxp", "Echo.Say", {"how": how}, call_id=how)
        assert server.executions == 2 * number + 2


NOT_KEPT: list[tuple[str, bytes | dict[str, Any], int]] = [
    ("a failure that may be repeated", {"message": "Busy.", "can_retry": True}, 200),
    ("a refusal", http_reply(400, {"message": "Not now."}), 400),
    ("a refusal of the input", http_reply(422, {"message": "Not this.", "parameter_errors": {"a": "no"}}), 422),
    ("a credential of ours that failed", http_reply(401, {"message": "Who?"}), 400),
    (
        "a challenge",
        http_reply(
            400,
            {"message": "Connect.", "missing_requirements": {"authorization": [{"id": "1", "url": "https://x.y/"}]}},
        ),
        400,
    ),
]


@pytest.mark.parametrize(("said", "status"), [case[1:] for case in NOT_KEPT], ids=[case[0] for case in NOT_KEPT])
async def test_retryable_outcomes_are_not_kept(
    caller: Caller, server: ToolServer, said: bytes | dict[str, Any], status: int
) -> None:
    async def handle(received: Request) -> bytes:
        return said if isinstance(said, bytes) else server.failure(received, **said)

    server.handler = handle
    answer = await caller.call("oxp", "Echo.Say", call_id="k")
    assert answer.status == status
    assert "toolgate-call-id" in answer.headers
    assert "location" not in answer.headers
    server.handler = counted(server)
    assert (await caller.call("oxp", "Echo.Say", call_id="k")).value["run"] == 2
    assert (await caller.call("oxp", "Echo.Say", {"other": 1}, call_id="k")).status == 400


async def test_wrong_input_and_wrong_requests_use_up_no_id(caller: Caller, server: ToolServer) -> None:
    for tool_id, arguments, status in (("Count.Up", {"n": "one"}, 422), ("No.Tool", {}, 400)):
        assert (await caller.call("oxp", tool_id, arguments, call_id="k")).status == status
    assert (await caller.call("oxp", "Count.Up", {"n": 1}, call_id="k")).value == {"n": 1}
    assert server.executions == 1


async def test_a_tool_server_that_was_not_there_leaves_the_id_unused(start: Start) -> None:
    async with tool_server(tool("Echo.Say")) as gone:
        gateway = await start(config({"scripted": gone.url}))
    answer = await gateway.caller.call("oxp", "Echo.Say", call_id="k")
    assert (answer.status, answer.message) == (400, "The tool is temporarily unavailable.")
    assert (await gateway.caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k")).status == 400


async def test_a_call_that_broke_off_is_not_tried_again(caller: Caller, server: ToolServer) -> None:
    """It is unknown whether the tool ran, and every repetition is answered so."""
    server.handler = hang_up
    first = await caller.call("oxp", "Echo.Say", call_id="k")
    assert first.error["can_retry"] is False
    server.handler = server.echo
    assert (await caller.call("oxp", "Echo.Say", call_id="k")).body == first.body
    assert server.executions == 1


async def test_a_timeout_is_an_outcome_too(start: Start, server: ToolServer) -> None:
    server.handler = silence
    caller = (await start(config({"scripted": {"protocol": "oxp", "url": server.url, "timeout": "100ms"}}))).caller
    first = await caller.call("oxp", "Echo.Say", call_id="k")
    assert (first.error["can_retry"], "still" in first.error["message"]) == (False, True)
    assert (await caller.call("oxp", "Echo.Say", call_id="k")).body == first.body
    assert server.executions == 1


async def test_principals_users_and_tokens_have_each_their_own_ids(start: Start, server: ToolServer) -> None:
    server.handler = counted(server)
    gateway = await start(config({"scripted": server.url}, auth=JWT))
    mine: dict[str, Any] = {"authorization": [{"id": "mail", "token": "t-1"}, {"id": "bank", "token": "b-1"}]}
    contexts: list[tuple[str, dict[str, Any]]] = [
        ("ada", {}),
        ("bob", {}),
        ("ada", {"user_id": "u-1"}),
        ("ada", {"user_id": "u-2"}),
        ("ada", mine),
        ("ada", {"authorization": [{"id": "mail", "token": "t-2"}, {"id": "bank", "token": "b-1"}]}),
        ("ada", {"authorization": [{"id": "mail", "token": "t-1"}]}),
    ]
    same: list[tuple[str, dict[str, Any]]] = [
        ("ada", {"secrets": [{"id": "PIN", "value": "1"}]}),
        ("bob", {"secrets": []}),
        ("ada", {"user_id": "u-1"} | mine),
        ("ada", {"user_id": "u-2", "secrets": [{"id": "PIN", "value": "1"}]}),
        ("ada", {"authorization": mine["authorization"][::-1]}),
    ]

    async def run(who: str, context: dict[str, Any]) -> int:
        caller = gateway.caller.with_token(token(who))
        answer = await caller.call("oxp", "Echo.Say", {"a": 1}, call_id="k", context=context)
        return int(answer.value["run"])

    assert [await run(*asked) for asked in contexts] == [1, 2, 3, 4, 5, 6, 7]
    assert [await run(*asked) for asked in same] == [1, 2, 3, 4, 5]
    assert server.executions == len({received.call["call_id"] for received in server.calls}) == 7


IDS = [
    "".join(map(chr, range(0x20, 0x7F))),
    "x" * 256,
    " ",
    "/",
    "..",
    "%2F",
    "tg-",
    "tg-x",
    string.printable[:94] * 2,
]


@pytest.mark.parametrize("call_id", IDS)
async def test_every_printable_id_will_do(caller: Caller, server: ToolServer, call_id: str) -> None:
    for _ in range(2):
        answer = await caller.call("oxp", "Echo.Say", call_id=call_id)
        assert (answer.result["call_id"], answer.status) == (call_id, 200)
    assert server.executions == 1
