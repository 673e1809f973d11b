"""Requests of many callers through one pair of pipes: whose response is whose, and what the server may ask for."""

from __future__ import annotations

import json
import logging
from codecs import BOM_UTF8
from typing import Any

import pytest

from gateway.bridge.relay import (
    CANCELLED,
    ENDED,
    MAX_QUEUED,
    MAX_QUEUED_BYTES,
    MAX_UNSENT_BYTES,
    MAX_WAITING,
    BusyError,
    RelayedReply,
    Unread,
)
from gateway.protocols.mcp.wire import INTERNAL, NO_METHOD, SUBSCRIPTION_MEMBER
from tests.unit.bridge.pipes import got, relayed, say

pytestmark = pytest.mark.anyio

CALL = "tools/call"


def failed(id_: Any, code: int, message: str) -> list[Any]:
    return [{"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}]


async def test_callers_who_count_alike_each_get_their_own_response_in_whatever_order_they_come() -> None:
    relay, pipe, _ = relayed()
    one, other = await relay.ask(0, CALL, {"name": "a"}), await relay.ask("0", CALL, {"name": "b"})
    first, second = (message["id"] for message in pipe.sent)
    assert [message["params"] for message in pipe.sent] == [{"name": "a"}, {"name": "b"}]
    say(relay, id=second, result={"of": "b"})
    say(relay, id=first, result={"of": "a"})
    say(relay, id=first, result={"of": "nobody"})
    assert got(one) == [{"jsonrpc": "2.0", "id": 0, "result": {"of": "a"}}]
    assert got(other) == [{"jsonrpc": "2.0", "id": "0", "result": {"of": "b"}}]


@pytest.mark.parametrize("id_", [99, "99", "x", "", None, 1.5, 1e999, [], {}, True])
async def test_a_response_of_a_foreign_id_is_nobody_s(id_: Any) -> None:
    relay, _, _ = relayed()
    asked = await relay.ask(7, CALL, None)
    say(relay, id=id_, result={})
    assert got(asked) == []


RESPONSES = [
    ({"error": {"code": -32602, "message": "no"}}, {"error": {"code": -32602, "message": "no"}}),
    ({"result": {}, "error": {"code": 1, "message": "both"}}, {"error": {"code": 1, "message": "both"}}),
    ({"result": {"a": 1}, "error": None}, {"result": {"a": 1}}),
    ({"result": None, "error": {"code": 1, "message": "no"}}, {"error": {"code": 1, "message": "no"}}),
    (
        {"error": None},
        {"error": {"code": INTERNAL, "message": "The response of the server has neither result nor error."}},
    ),
    ({}, {"error": {"code": INTERNAL, "message": "The response of the server has neither result nor error."}}),
]


@pytest.mark.parametrize(("said", "told"), RESPONSES)
async def test_an_error_is_passed_on_and_an_empty_response_is_one(said: Any, told: Any) -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(7, CALL, None)
    say(relay, id=pipe.sent[0]["id"], **said)
    assert got(asked) == [{"jsonrpc": "2.0", "id": 7, **told}]


@pytest.mark.parametrize("spelled", [int, float, str])
async def test_an_id_that_the_server_spells_otherwise_is_known_all_the_same(spelled: Any) -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(7, CALL, None)
    say(relay, id=spelled(pipe.sent[0]["id"]), result={})
    assert got(asked) == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


async def test_a_server_may_write_a_mark_and_every_member() -> None:
    relay, pipe, listeners = relayed()
    queue = Unread[bytes]()
    listeners.add(queue)
    asked = await relay.ask(7, CALL, None)
    line = json.dumps({"id": pipe.sent[0]["id"], "method": None, "params": None, "result": {}, "error": None})
    relay.receive(BOM_UTF8 + line.encode())
    assert got(asked) == [{"jsonrpc": "2.0", "id": 7, "result": {}}]
    say(relay, id=None, method="notifications/tools/list_changed", params=None, result=None, error=None)
    assert json.loads(queue.get_nowait())["method"] == "notifications/tools/list_changed"
    assert len(pipe.sent) == 1  # it was no request


async def test_a_line_with_half_a_character_is_not_dropped() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(7, CALL, None)
    relay.receive(b'{"jsonrpc":"2.0","id":%d,"result":{"text":"cut \\ud83d"}}\n' % pipe.sent[0]["id"])
    assert got(asked) == [{"jsonrpc": "2.0", "id": 7, "result": {"text": "cut \ufffd"}}]


@pytest.mark.parametrize("spelled", [int, str])
async def test_progress_goes_to_the_caller_whose_token_it_was(spelled: Any) -> None:
    """Two callers may choose the same token; some servers turn a number into a text."""
    relay, pipe, _ = relayed()
    params = {"name": "a", "_meta": {"progressToken": "p", "own": 1}}
    one, other = await relay.ask(1, CALL, params), await relay.ask(1, CALL, params)
    token = pipe.sent[1]["params"]["_meta"]["progressToken"]
    assert token != pipe.sent[0]["params"]["_meta"]["progressToken"]
    assert pipe.sent[1]["params"]["_meta"]["own"] == 1
    say(relay, method="notifications/progress", params={"progressToken": spelled(token), "progress": 0.5})
    assert got(one) == []
    (told,) = got(other)
    assert told["params"] == {"progressToken": "p", "progress": 0.5}
    say(relay, method="notifications/progress", params={"progressToken": 999, "progress": 1})
    assert got(one) == got(other) == []


async def test_what_a_server_asks_of_its_client_is_refused_at_once_but_for_a_ping() -> None:
    relay, pipe, _ = relayed()
    say(relay, id="s1", method="sampling/createMessage", params={})
    say(relay, id=5, method="ping")
    refused = {"code": NO_METHOD, "message": "Method not found"}
    assert pipe.sent == [
        {"jsonrpc": "2.0", "id": "s1", "error": refused},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
    ]


async def test_a_request_that_its_caller_cancels_is_cancelled_there_under_our_id_and_has_no_response() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(7, CALL, None, ("session", b"7"))
    number = pipe.sent[0]["id"]
    relay.cancel_by(("another session", b"7"), "why")
    assert len(pipe.sent) == 1
    relay.cancel_by(("session", b"7"), "why")
    relay.cancel_by(("session", b"7"), "why")
    (told,) = pipe.sent[1:]
    assert told["params"] == {"requestId": number, "reason": "why"}
    say(relay, id=number, result={})
    assert [asked.replies.get_nowait() for _ in range(asked.replies.qsize())] == [RelayedReply(b"", is_last=True)]


async def test_a_request_whose_caller_has_left_is_cancelled_there() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(7, CALL, None, ("session", b"7"))
    for _ in range(2):
        relay.cancel(asked, "It has left.")
    assert [message["method"] for message in pipe.sent] == [CALL, "notifications/cancelled"]
    assert got(asked) == failed(7, CANCELLED, "The request was cancelled.")


async def test_requests_that_are_under_way_when_the_process_ends_are_said_to_be_of_unknown_outcome() -> None:
    relay, pipe, _ = relayed()
    over, lost = await relay.ask(1, CALL, None), await relay.ask(2, CALL, None)
    say(relay, id=pipe.sent[0]["id"], result={})
    relay.end()
    relay.end()
    assert got(over)[0]["result"] == {}
    assert got(lost) == failed(2, INTERNAL, ENDED)
    assert relay.lost == 1
    with pytest.raises(BusyError):
        await relay.ask(3, CALL, None)


async def test_there_is_a_limit_of_requests_at_once() -> None:
    relay, pipe, _ = relayed()
    for _ in range(MAX_WAITING):
        await relay.ask(1, CALL, None)
    with pytest.raises(BusyError):
        await relay.ask(1, CALL, None)
    assert len(pipe.sent) == MAX_WAITING
    say(relay, id=pipe.sent[0]["id"], result={})
    await relay.ask(1, CALL, None)


async def test_notifications_of_no_request_go_to_all_who_listen_and_are_dropped_for_those_who_do_not_read() -> None:
    relay, _, listeners = relayed()
    asked = await relay.ask(1, CALL, None)
    one, other = Unread[bytes](), Unread[bytes]()
    listeners |= {one, other}
    for _ in range(MAX_QUEUED + 1):
        say(relay, method="notifications/tools/list_changed")
        other.get_nowait()
    assert one.qsize() == MAX_QUEUED
    assert got(asked) == []


async def test_what_the_server_has_not_read_bounds_what_is_sent_to_it() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(1, CALL, None)
    pipe.unsent_bytes = MAX_UNSENT_BYTES + 1
    with pytest.raises(BusyError):
        await relay.ask(2, CALL, None)
    with pytest.raises(BusyError):
        relay.notify("notifications/x", {})
    say(relay, id="of the server", method="ping")
    assert len(pipe.sent) == 1
    relay.cancel(asked, "no more")  # which makes room
    assert pipe.sent[1]["method"] == "notifications/cancelled"
    pipe.unsent_bytes = 0
    say(relay, id="of the server", method="ping")
    await relay.ask(2, CALL, None)
    assert len(pipe.sent) == 4


async def test_what_a_caller_has_not_read_is_bounded_and_its_response_always_comes() -> None:
    relay, pipe, listeners = relayed()
    asked = await relay.ask(1, CALL, {"_meta": {"progressToken": "p"}})
    listening = Unread[bytes]()
    listeners.add(listening)
    number, long = pipe.sent[0]["id"], "x" * (MAX_QUEUED_BYTES // 4)
    for _ in range(20):
        say(relay, method="notifications/message", params={"data": long})
        say(relay, method="notifications/progress", params={"progressToken": number, "message": long})
    assert listening.qsize() == asked.replies.qsize() == 3
    say(relay, id=number, result={"text": long * 8})
    assert got(asked)[-1]["result"] == {"text": long * 8}
    assert asked.replies.held_bytes == 0
    say(relay, method="notifications/message", params={"data": long * 8})  # too large beside others
    assert listening.qsize() == 3


async def test_nothing_is_held_for_a_caller_that_has_left() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask(1, CALL, {"_meta": {"progressToken": "p"}})
    number = pipe.sent[0]["id"]
    say(relay, method="notifications/progress", params={"progressToken": number})
    asked.replies.close()
    say(relay, method="notifications/progress", params={"progressToken": number})
    say(relay, id=number, result={"text": "x" * 1000})
    assert (asked.replies.qsize(), asked.replies.held_bytes) == (0, 0)


async def test_a_subscription_is_named_by_the_caller_s_own_id_to_its_end() -> None:
    relay, pipe, _ = relayed()
    asked = await relay.ask("mine", "subscriptions/listen", {"notifications": {}})
    number = pipe.sent[0]["id"]
    say(relay, method="notifications/tools/list_changed", params={"_meta": {SUBSCRIPTION_MEMBER: number}})
    say(relay, id=number, result={"resultType": "complete", "_meta": {SUBSCRIPTION_MEMBER: number}})
    changed, end = got(asked)
    assert changed["params"]["_meta"] == {SUBSCRIPTION_MEMBER: "mine"}
    assert end["result"] == {"resultType": "complete", "_meta": {SUBSCRIPTION_MEMBER: "mine"}}


@pytest.mark.parametrize("line", [b"ready!\n", b"[1]\n", b'{"id":\n', b"\xff\n", b"[" * 100_000, b'{"method":1}'])
async def test_a_line_that_is_no_message_is_logged_without_its_content(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    relay, _, _ = relayed()
    asked = await relay.ask(1, CALL, None)
    with caplog.at_level(logging.INFO, "gateway.bridge"):
        relay.receive(line)
    (record,) = caplog.records
    assert record.message == "a line on standard output is no message"
    assert vars(record)["bytes"] == len(line)
    assert got(asked) == []


@pytest.mark.parametrize("params", ["1", "[]", '"x"', "null", '{"_meta": 3}', '{"progressToken": {}}'])
@pytest.mark.parametrize("method", ["notifications/progress", "notifications/other"])
async def test_any_notification_leaves_requests_alone(method: str, params: str) -> None:
    relay, _, _ = relayed()
    asked = await relay.ask(1, CALL, None)
    relay.receive(b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params.encode()))
    assert got(asked) == []
