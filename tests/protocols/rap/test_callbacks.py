"""What tool servers post to callback URLs, and the status each gets (RAP, Transport: Callback Response).

Ours, within what the protocol leaves open: 4xx is final to a tool server, so only what can never count gets one.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.http.edge import MAX_CALLBACK_BYTES
from tests.flow.builds import Builds, builds
from tests.flow.gateways import until
from tests.unit.protocols.rap.calling_back import OK
from tests.unit.upstream.facing import reply

pytestmark = pytest.mark.anyio

MORE_THAN_A_READ = 64 * 1024


@pytest.fixture
async def server() -> AsyncIterator[Builds]:
    async with builds() as it:
        yield it


async def test_the_first_result_counts_and_only_that_one_is_accepted_again(server: Builds) -> None:
    pending = await server.begin()
    assert await pending.outcome() is None
    assert [await pending.bring(text) for text in ("first", "second", "first")] == [200, 410, 200]
    assert await pending.outcome() == "first"


async def test_a_delivered_result_that_is_not_kept_is_accepted_again_and_no_other(server: Builds) -> None:
    """A tool server that did not get our first answer must not think that its result was lost."""
    answer, invoked = await server.answered()
    assert answer.value == "done"
    assert [await invoked.bring(text) for text in ("done", "another", "Error: done")] == [200, 410, 410]


async def test_a_result_for_a_call_that_failed_before_it_is_not_acknowledged() -> None:
    async with builds(reply(500, b"")) as server:
        calling = asyncio.create_task(server.call(call_id="k"))
        pending = await server.invoked(call_id="k")
        assert (await calling).error["message"] == "The tool server failed to accept the call; the tool may have run."
        assert await pending.bring("done after all") == 410


async def test_credentials_of_callbacks_are_ignored(server: Builds) -> None:
    """Tools in a cloud sign their callbacks."""
    pending = await server.begin()
    assert await pending.post(pending.message(text="x"), authorization="AWS4-HMAC-SHA256 Credential=a") == 200
    assert await pending.outcome() == "x"


ALTERATIONS = ["another call", "another mac", "cut", "slashes"]


@pytest.mark.parametrize("how", ALTERATIONS)
async def test_a_forged_token_is_refused_before_the_body_is_read(server: Builds, how: str) -> None:
    pending, other = await server.begin("one"), await server.begin("two")
    folder, _, token = pending.path.rpartition("/")
    key, nonce, mac = token.split(".")
    other_key, _, other_mac = other.path.rpartition("/")[2].split(".")
    altered = {
        "another call": f"{other_key}.{nonce}.{mac}",
        "another mac": f"{key}.{nonce}.{other_mac}",
        "cut": token[:-1],
        "slashes": f"{token}/",
    }[how]
    asked = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal asked
        for _ in range(3):
            asked += 1
            yield b"x" * MORE_THAN_A_READ

    reply = await server.caller.http.post(f"{folder}/{altered}", content=body())
    assert (reply.status_code, asked) == (404, 0)
    assert [await pending.outcome(), await other.outcome()] == [None, None]


async def test_a_token_ends_no_call_but_its_own(server: Builds) -> None:
    pending, other = await server.begin("one"), await server.begin("two")
    assert await pending.post(pending.message(text="x"), other.path) == 404
    assert await pending.post(pending.message(text="x") | {"group_id": other.body["group_id"]}) == 404
    assert [await pending.outcome(), await other.outcome()] == [None, None]


OF_NO_SERVER = {"prompt": "?", "choices": ["a"], "response_url": "https://elsewhere.example/"}
REFUSED: list[tuple[str, Any, int]] = [
    ("nothing", b"", 400),
    ("cut off", b'{"type": "tool_result", "text": "x', 400),
    ("deep", b'{"type": "tool_result", "text": "x", "deep": ' + b"[" * 200 + b"]" * 200 + b"}", 400),
    ("no result", {"type": "tool_result"}, 400),
    ("no ids", {"type": "tool_result", "text": "x"}, 400),
    ("no text", {"type": "tool_result", "text": 7}, 400),
    ("a form", b"type=tool_result&text=x", 400),
    ("an unknown type", {"type": "progress"}, 400),
    ("another call", {"type": "tool_result", "text": "x", "id": "tg-other"}, 404),
    ("a bad consent", {"type": "oauth", "auth_url": "javascript:alert(1)"}, 400),
    ("a choice elsewhere", {"type": "user_choice", **OF_NO_SERVER}, 400),
    ("too large", b" " * (MAX_CALLBACK_BYTES + 1), 413),
]


@pytest.mark.parametrize(("posted", "status"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_a_message_that_is_refused_costs_no_result(server: Builds, posted: Any, status: int) -> None:
    """Whether it was cut off on its way or is somebody's probe: the true result counts, and alone is acknowledged."""
    pending = await server.begin()
    if isinstance(posted, dict) and "text" not in posted:
        posted = {"id": pending.body["id"], "group_id": pending.body["group_id"], **posted}
    assert await pending.post(posted) == status
    assert await pending.outcome() is None
    assert await pending.bring("true") == 200
    assert await pending.outcome() == "true"
    await until(lambda: len(server.paths) == 2)
    assert server.paths == ["/invoke", "/close_thread"]  # nothing was cancelled before the result came


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_a_compressed_result_may_be_sent_again_as_it_is(
    server: Builds, coding: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours: 415 as for calls, and RFC 9110, section 15.5.16, on what a client does then."""
    pending = await server.begin()
    body = gzip.compress(json.dumps(pending.message(text="x")).encode())
    refused = await server.caller.http.post(pending.path, content=body, headers={"content-encoding": coding})
    assert (refused.status_code, refused.headers["accept-encoding"]) == (415, "identity")
    assert refused.json() == {"message": "A callback must not be compressed.", "code": "unsupported_media"}
    [record] = [record for record in caplog.records if record.message == "a callback was refused"]
    assert (record.__dict__["backend"], record.__dict__["reason"]) == ("builds", "it is compressed")
    assert await pending.outcome() is None
    assert await pending.post(pending.message(text="x"), **{"content-encoding": "identity"}) == 200
    assert await pending.outcome() == "x"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_another_method_is_not_allowed(server: Builds, method: str) -> None:
    pending = await server.begin()
    assert await pending.post(pending.message(text="x"), method=method) == 405
    assert await pending.outcome() is None


async def test_messages_for_a_cancelled_call_are_refused(server: Builds) -> None:
    pending = await server.begin()
    assert (await server.caller.http.delete("/calls/k")).status_code == 202
    await until(lambda: len(server.toolset.noted) == 3)
    assert set(server.paths[1:]) == {"/cancel_tool_call", "/close_thread"}
    question = {"prompt": "?", "choices": ["a"], "default": 0, "response_url": f"{server.url}/choice"}
    for late in (
        pending.message("user_choice", **question),
        pending.message("oauth", auth_url="https://login.example/"),
        pending.message(text="late"),
        pending.message(text="late", subscription=True),
    ):
        assert await pending.post(late) == 410
    assert "cancelled" in await pending.outcome()
    later = await server.begin("later")
    assert await later.bring("x") == 200
    await until(lambda: len(server.toolset.noted) == 5)  # by now an answer to the question would be there, too
    assert server.paths[3:] == ["/invoke", "/close_thread"]


async def test_many_side_messages_leave_the_call_open(server: Builds) -> None:
    pending = await server.begin()
    view = {"type": "view_update", "group_id": pending.body["group_id"], "view_type": "map", "content": {}}
    event = {"type": "subscription_event", "tool_call_id": pending.body["id"], "text": "x", "final": True}
    event["group_id"] = pending.body["group_id"]
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(pending.post(message)) for message in [view, event] * 100]
    assert {post.result() for post in posts} == {200}
    assert await pending.outcome() is None


async def test_of_results_at_the_same_time_one_counts(server: Builds) -> None:
    pending = await server.begin()
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(pending.bring(str(number))) for number in range(20)]
    assert sorted(post.result() for post in posts) == [200, *[410] * 19]
    first = await pending.outcome()
    assert await pending.bring("another") == 410
    assert await pending.outcome() == first


async def test_callback_tokens_are_not_logged(server: Builds, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    pending = await server.begin()
    await pending.post({"type": "progress"})
    await pending.bring("canary")
    await pending.bring("canary")
    token = pending.path.rpartition("/")[2]
    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "a callback was refused" in logged
    for secret in (token, *token.split(".")[1:], "canary"):
        assert secret not in logged


async def test_the_url_of_a_forgotten_call_leads_nowhere() -> None:
    async with builds(state={"pending_ttl": "1s"}) as server:
        pending = await server.begin()
        async with asyncio.timeout(10):
            while await pending.post({"type": "progress"}) != httpx.codes.NOT_FOUND:  # noqa: ASYNC110 - a second passes
                await asyncio.sleep(0.05)
        assert await pending.bring("x") == 404


async def test_each_run_of_an_idempotent_tool_has_an_id_of_its_own() -> None:
    """A tool server may take no second invocation under one id (RAP, Tool Invocation: `id` is unique)."""
    asked: dict[str, Any] = {"context": {"group_id": "the same in both"}}
    async with builds(reply(503, b""), route={"idempotent": True}) as server:
        assert (await server.call(call_id="k", **asked)).error["can_retry"] is True
        server.toolset.acknowledgement = OK
        earlier, later = await server.invoked(1, "k"), await server.begin("k", **asked)
        assert earlier.body["id"] != later.body["id"]
        assert earlier.body["group_id"] == later.body["group_id"]
        for body in (earlier.body, later.body):
            secret = body["callback_url"].split(".")[-2][:32]
            assert not any(secret[at : at + 8] in body["id"] for at in range(24))
        assert await earlier.bring("of the earlier run") == 404
        assert await later.outcome() is None
        assert await later.bring("of the later run") == 200
        assert await later.outcome() == "of the later run"

        body = (await server.begin("another", **asked)).body
        await server.caller.http.delete("/calls/another")
        await until(lambda: len(server.toolset.noted) == 4)
        notice = {"thread_id": body["group_id"], "tool_call_id": body["id"]}
        assert server.toolset.noted[3] == ("/cancel_tool_call", notice)


@pytest.mark.parametrize("null", ["id", "group_id"])
async def test_a_result_with_null_for_an_id_is_refused(server: Builds, null: str) -> None:
    pending = await server.begin()
    assert await pending.post(pending.message(text="x") | {null: None}) == 400
    assert await pending.outcome() is None


async def test_a_head_request_does_not_deliver_the_result(server: Builds) -> None:
    """A user who consented and calls again gets the result; only once it was delivered the tool runs again."""
    calling = asyncio.create_task(server.call())
    pending = await server.invoked()
    assert await pending.post(pending.message("oauth", auth_url="https://login.example/")) == 200
    assert (await calling).status == 400
    assert await pending.bring("done") == 200
    for _ in range(2):
        assert (await server.caller.http.head(f"/calls/{pending.call_id}")).status_code == 200
    assert (await server.call()).value == "done"
    assert server.paths.count("/invoke") == 1
