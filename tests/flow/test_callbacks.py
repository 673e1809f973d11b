"""What tool servers post to callback URLs, and the status each gets (RAP, Transport: Callback Response).

Ours, within what the protocol leaves open: 4xx is final to a tool server, so only what can never count gets one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from gateway.http.edge import MAX_CALLBACK_BYTES
from tests.flow.gateways import PUBLIC_URL, Running, config, running, until
from tests.unit.backends.calling_back import OK, Toolset
from tests.unit.backends.facing import reply
from tests.unit.transport.scripted import serving

pytestmark = pytest.mark.anyio

BROKEN = "The tool server gave a broken answer."
MORE_THAN_A_READ = 64 * 1024


class Pending:
    """A call that was handed over; `told` is what the tool server knows of it."""

    def __init__(self, gateway: Running, told: Mapping[str, Any], call_id: str) -> None:
        self.gateway = gateway
        self.told = told
        self._call_id = call_id

    @property
    def path(self) -> str:
        return str(self.told["callback_url"]).removeprefix(PUBLIC_URL)

    def message(self, kind: str = "tool_result", **members: Any) -> dict[str, Any]:
        return {"type": kind, "group_id": self.told["group_id"], "id": self.told["id"], **members}

    async def post(self, message: Any, path: str | None = None, method: str = "POST", **headers: str) -> int:
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {"content-type": "application/json"} | headers
        http = self.gateway.caller.http
        return (await http.request(method, path or self.path, content=content, headers=headers)).status_code

    async def stands(self) -> Any:
        """The value of the call, the message it failed with, or None while it runs."""
        answer = await self.gateway.caller.http.get(f"/calls/{self._call_id}")
        if answer.status_code == httpx.codes.ACCEPTED:
            return None
        result = answer.json()
        return result["value"] if result["success"] else result["error"]["message"]


class Callers:
    """Begins calls behind a gateway; the tool server does what a test does in its name."""

    def __init__(self, gateway: Running, toolset: Toolset, url: str) -> None:
        self.gateway = gateway
        self.toolset = toolset
        self.url = url

    async def begin(self, call_id: str = "k") -> Pending:
        before = len(self.toolset.noted)
        answer = await self.gateway.caller.call(
            "oxp", "builds.lint", call_id=call_id, headers={"prefer": "respond-async"}
        )
        assert answer.status == 202
        await until(lambda: len(self.toolset.noted) > before)
        path, told = self.toolset.noted[-1]
        assert path == "/invoke"
        return Pending(self.gateway, told, call_id)


@pytest.fixture
async def callers() -> AsyncIterator[Callers]:
    toolset = Toolset(OK)
    async with serving(toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url}}
        async with running(config(backends)) as gateway:
            yield Callers(gateway, toolset, server.url)


async def test_the_first_result_settles_the_call_and_later_ones_are_taken_and_dropped(callers: Callers) -> None:
    pending = await callers.begin()
    assert await pending.stands() is None
    for text in ("first", "second", "first"):
        assert await pending.post(pending.message(text=text)) == 200
    assert await pending.stands() == "first"


async def test_credentials_in_front_of_or_instead_of_ours_are_ignored(callers: Callers) -> None:
    """Tools in a cloud sign their callbacks."""
    pending = await callers.begin()
    assert await pending.post(pending.message(text="x"), authorization="AWS4-HMAC-SHA256 Credential=a") == 200
    assert await pending.stands() == "x"


ALTERATIONS = ["another call", "another mac", "cut", "slashes"]


@pytest.mark.parametrize("how", ALTERATIONS)
async def test_a_token_that_is_not_ours_is_refused_before_the_body_is_read(callers: Callers, how: str) -> None:
    pending, other = await callers.begin("one"), await callers.begin("two")
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

    reply = await callers.gateway.caller.http.post(f"{folder}/{altered}", content=body())
    assert (reply.status_code, asked) == (404, 0)
    assert [await pending.stands(), await other.stands()] == [None, None]


async def test_a_token_ends_no_call_but_its_own(callers: Callers) -> None:
    pending, other = await callers.begin("one"), await callers.begin("two")
    assert await pending.post(pending.message(text="x"), other.path) == 404
    assert await pending.post(pending.message(text="x") | {"group_id": other.told["group_id"]}) == 404
    assert [await pending.stands(), await other.stands()] == [None, None]


NONSENSE = [
    (b"{", BROKEN),
    (b"", BROKEN),
    (b'{"type": "tool_result", "text": "x", "deep": ' + b"[" * 200 + b"]" * 200 + b"}", BROKEN),
    ({"type": "tool_result"}, BROKEN),
    ({"type": "tool_result", "text": "x"}, BROKEN),
    ({"type": "progress"}, None),
]


@pytest.mark.parametrize(("posted", "standing"), NONSENSE, ids=repr)
async def test_a_broken_result_ends_the_call(callers: Callers, posted: Any, standing: str | None) -> None:
    """It will not come again, and so nobody shall wait for it."""
    pending = await callers.begin()
    assert await pending.post(posted) == 400
    assert await pending.stands() == standing


async def test_a_result_that_is_too_large_is_refused_and_ends_the_call(callers: Callers) -> None:
    pending = await callers.begin()
    assert await pending.post(b" " * (MAX_CALLBACK_BYTES + 1)) == 413
    assert await pending.stands() == BROKEN


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_another_method_is_not_allowed(callers: Callers, method: str) -> None:
    pending = await callers.begin()
    assert await pending.post(pending.message(text="x"), method=method) == 405
    assert await pending.stands() is None


async def test_after_a_call_was_cancelled_its_messages_are_taken_and_nothing_comes_of_them(callers: Callers) -> None:
    pending = await callers.begin()
    assert (await callers.gateway.caller.http.delete("/calls/k")).status_code == 202
    await until(lambda: len(callers.toolset.noted) == 3)
    assert {path for path, _ in callers.toolset.noted[1:]} == {"/cancel_tool_call", "/close_thread"}
    question = {"prompt": "?", "choices": ["a"], "default": 0, "response_url": f"{callers.url}/choice"}
    for late in (
        pending.message("user_choice", **question),
        pending.message("oauth", auth_url="https://login.example/"),
        pending.message(text="late"),
        pending.message(text="late", subscription=True),
    ):
        assert await pending.post(late) == 200
    assert "cancelled" in await pending.stands()
    later = await callers.begin("later")
    assert await later.post(later.message(text="x")) == 200
    await until(lambda: len(callers.toolset.noted) == 5)  # by now an answer to the question would be there, too
    assert [path for path, _ in callers.toolset.noted[3:]] == ["/invoke", "/close_thread"]


async def test_side_messages_in_a_storm_leave_the_call_open(callers: Callers) -> None:
    pending = await callers.begin()
    view = {"type": "view_update", "group_id": pending.told["group_id"], "view_type": "map", "content": {}}
    event = {"type": "subscription_event", "tool_call_id": pending.told["id"], "text": "x", "final": True}
    event["group_id"] = pending.told["group_id"]
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(pending.post(message)) for message in [view, event] * 100]
    assert {post.result() for post in posts} == {200}
    assert await pending.stands() is None


async def test_of_results_at_the_same_time_one_counts(callers: Callers) -> None:
    pending = await callers.begin()
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(pending.post(pending.message(text=str(number)))) for number in range(20)]
    assert {post.result() for post in posts} == {200}
    first = await pending.stands()
    assert await pending.post(pending.message(text="another")) == 200
    assert await pending.stands() == first


async def test_callback_tokens_are_not_logged(callers: Callers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    pending = await callers.begin()
    await pending.post({"type": "progress"})
    await pending.post(pending.message(text="canary"))
    await pending.post(pending.message(text="canary"))
    token = pending.path.rpartition("/")[2]
    told = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "a callback was refused" in told
    for secret in (token, *token.split(".")[1:], "canary"):
        assert secret not in told


async def test_the_url_of_a_call_that_is_forgotten_leads_nowhere() -> None:
    toolset = Toolset(OK)
    async with serving(toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url}}
        async with running(config(backends, state={"pending_ttl": "1s"})) as gateway:
            pending = await Callers(gateway, toolset, server.url).begin()

            async def gone() -> bool:
                return await pending.post({"type": "progress"}) == httpx.codes.NOT_FOUND

            async with asyncio.timeout(10):
                while not await gone():  # noqa: ASYNC110 - a second passes
                    await asyncio.sleep(0.05)
            assert await pending.post(pending.message(text="x")) == 404


async def test_each_run_of_a_tool_that_may_run_twice_has_a_name_of_its_own_and_hears_nothing_of_another() -> None:
    """A tool server may take no second invocation under one id (RAP, Tool Invocation: `id` is unique)."""
    toolset = Toolset(reply(503, b""))
    async with serving(toolset) as server:
        backends = {"builds": {"protocol": "callback", "url": server.url}}
        routes = [{"tools": "*", "backend": "builds", "idempotent": True}]
        async with running(config(backends, routes=routes)) as gateway:
            asked: dict[str, Any] = {"call_id": "k", "context": {"group_id": "the same in both"}}
            refused = await gateway.caller.call("oxp", "builds.lint", **asked)
            assert refused.error["can_retry"] is True
            toolset.acknowledgement = OK
            prefer = {"prefer": "respond-async"}
            assert (await gateway.caller.call("oxp", "builds.lint", headers=prefer, **asked)).status == 202
            await until(lambda: len(toolset.noted) == 2)
            earlier, later = (Pending(gateway, told, "k") for _, told in toolset.noted)
            assert earlier.told["id"] != later.told["id"]
            assert earlier.told["group_id"] == later.told["group_id"]
            for told in (earlier.told, later.told):
                secret = told["callback_url"].split(".")[-2][:32]
                assert not any(secret[at : at + 8] in told["id"] for at in range(24))
            assert await earlier.post(earlier.message(text="of the earlier run")) == 404
            assert await later.stands() is None
            assert await later.post(later.message(text="of the later run")) == 200
            assert await later.stands() == "of the later run"

            asked["call_id"] = "another"
            assert (await gateway.caller.call("oxp", "builds.lint", headers=prefer, **asked)).status == 202
            await until(lambda: len(toolset.noted) == 3)
            await gateway.caller.http.delete("/calls/another")
            await until(lambda: len(toolset.noted) == 4)
            told = toolset.noted[2][1]
            notice = {"thread_id": told["group_id"], "tool_call_id": told["id"]}
            assert toolset.noted[3] == ("/cancel_tool_call", notice)


@pytest.mark.parametrize("null", ["id", "group_id"])
async def test_a_result_with_null_for_an_id_ends_its_call(callers: Callers, null: str) -> None:
    pending = await callers.begin()
    assert await pending.post(pending.message(text="x") | {null: None}) == 400
    assert await pending.stands() == BROKEN


async def test_a_head_request_does_not_deliver_the_result(callers: Callers) -> None:
    """Whoever consented and asks once more gets the result, and only somebody who was told it runs the tool again."""
    caller = callers.gateway.caller
    asking = asyncio.create_task(caller.call("oxp", "builds.lint"))
    await until(lambda: bool(callers.toolset.noted))
    ours = callers.toolset.noted[0][1]
    pending = Pending(callers.gateway, ours, ours["id"])
    assert await pending.post(pending.message("oauth", auth_url="https://login.example/")) == 200
    assert (await asking).status == 400
    assert await pending.post(pending.message(text="done")) == 200
    for _ in range(2):
        assert (await caller.http.head(f"/calls/{ours['id']}")).status_code == 200
    assert (await caller.call("oxp", "builds.lint")).value == "done"
    assert [path for path, _ in callers.toolset.noted].count("/invoke") == 1
