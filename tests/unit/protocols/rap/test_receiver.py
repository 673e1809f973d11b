"""What a tool server posts to the callback URL of a call: the answer it gets, and what becomes of the call."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.core.model import CallKey, ToolFailure, ToolResult
from gateway.offload import ChildTasks
from gateway.protocols.rap.receiver import absent_receivers
from tests.unit.net.client.scripted import serving, until
from tests.unit.protocols.rap.calling_back import (
    CALL_ID,
    GROUP,
    KEY,
    LONE,
    Ends,
    Facing,
    Toolset,
    facing,
    message,
    status_of,
)

pytestmark = pytest.mark.anyio

RESULT = message("tool_result", text='{"units": 12}')
VALUE = ToolResult(value={"units": 12})
EVENT = {"type": "subscription_event", "group_id": GROUP, "tool_call_id": CALL_ID, "text": "3", "final": True}
VIEW = {"type": "view_update", "group_id": GROUP, "view_type": "map", "content": {}}

STATUSES: list[tuple[Any, int, ToolResult | None]] = [
    (RESULT, 200, VALUE),
    (message("tool_result", text="Error: no"), 200, ToolResult(failure=ToolFailure(message="no"))),
    (RESULT | {"group_id": "grp-2"}, 404, None),
    (b"{", 400, None),
    (message("tool_result", text=7), 400, None),
    (message("oauth"), 400, None),
    (message("progress", text="x"), 400, None),
    (EVENT, 200, None),
    (VIEW, 200, None),
]


@pytest.mark.parametrize(("posted", "status", "ending"), STATUSES, ids=lambda item: repr(item)[:60])
async def test_each_kind_of_message_has_its_answer_and_its_effect(
    posted: Any, status: int, ending: ToolResult | None
) -> None:
    toolset = Toolset()
    async with facing(toolset, listed=False) as at:  # as at a replica that has no toolset yet
        assert await at.receive(posted) == status
        assert at.ends.results == ({} if ending is None else {KEY: ending})
    assert toolset.noted == []


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "application/x-www-form-urlencoded"])
async def test_a_result_of_another_content_type_is_not_lost(
    content_type: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours: the protocol asks for application/json, and a tool server that forgets it does not come again."""
    async with facing(Toolset()) as at:
        assert [await at.receive(RESULT, content_type), await at.receive(RESULT, content_type)] == [200, 200]
    assert at.ends.results == {KEY: VALUE}
    assert caplog.text.count("a tool server does not call back with application/json") == 1


async def test_the_route_says_how_texts_are_read() -> None:
    async with facing(Toolset()) as at:
        await at.receive(
            RESULT, "application/json; charset=utf-8", decode="never", failure_patterns=[re.compile("units")]
        )
    assert at.ends.results == {KEY: ToolResult(value='{"units": 12}')}
    async with facing(Toolset()) as at:
        await at.receive(RESULT, failure_patterns=[re.compile(".*units")])
    assert at.ends.results == {KEY: ToolResult(failure=ToolFailure(message='{"units": 12}'))}


async def test_what_is_refused_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async with facing(Toolset()) as at:
        await at.receive(message("tool_result", content=[{"type": "canary", "text": "canary"}]))
        await at.receive(message("canary"))
        await at.receive(message("oauth", auth_url="javascript:canary"))
    records = [record for record in caplog.records if record.message == "a callback was refused"]
    reasons = [record.__dict__["reason"] for record in records]
    assert reasons == [
        "Unknown type - at `$.content[0].type`",
        "its type is not known",
        "its auth_url is neither https nor loopback",
    ]


@pytest.mark.parametrize("url", ["https://login.example/authorize?state=k2", "http://127.0.0.1:9/consent"])
async def test_a_request_for_consent_leaves_the_call_open_for_its_result(url: str) -> None:
    async with facing(Toolset()) as at:
        assert await at.receive(message("oauth", auth_url=url)) == 200
        assert at.ends.challenges == [(KEY, {"id": CALL_ID, "url": url})]
        assert at.ends.results == {}
        assert await at.receive(RESULT) == 200
    assert at.ends.results == {KEY: VALUE}


async def has_noted(toolset: Toolset, *expected: tuple[str, Any]) -> None:
    """Waits for posts that are sent in the background."""
    await until(lambda: len(toolset.noted) >= len(expected))
    assert toolset.noted == list(expected)


CANCELLED = ("/cancel_tool_call", {"thread_id": GROUP, "tool_call_id": CALL_ID})
CLOSED = ("/close_thread", {"thread_id": LONE})


UNFIT = ["http://login.example/", "javascript:alert(1)", "", "login", "https://x/" + "y" * 8192]


@pytest.mark.parametrize("url", UNFIT, ids=lambda url: url[:20])
async def test_a_user_is_not_sent_where_no_browser_should_go(url: str) -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        assert await at.receive(message("oauth", auth_url=url)) == 400
        assert (at.ends.challenges, at.ends.results) == ([], {})
        await nothing_more(at, toolset)
    assert len(toolset.noted) == 1


def question(url: str) -> dict[str, Any]:
    return message("user_choice", prompt="Keep?", choices=["Drop", "Keep"], default=1, response_url=url)


async def test_a_choice_is_answered_with_its_default_and_the_call_stays_open() -> None:
    toolset = Toolset()
    async with facing(toolset, "/base") as at:
        assert await at.receive(question(f"{at.server.url}/choice/7?x=1")) == 200
        assert await at.receive(question(f"{at.server.url}/choice/7?x=1")) == 200
        await has_noted(toolset, *[("/choice/7?x=1", {"id": CALL_ID, "selected": 1})] * 2)  # each of a call
        assert at.ends.results == {}
        assert await at.receive(RESULT) == 200
    assert at.ends.results == {KEY: VALUE}


LATE = [RESULT, question("http://127.0.0.1:{port}/choice"), question("http://elsewhere.example/")]
LATE += [message("oauth", auth_url="https://login.example/"), message("oauth", auth_url="javascript:alert(1)")]


@pytest.mark.parametrize("late", LATE, ids=["result", "choice", "choice elsewhere", "consent", "bad consent"])
async def test_what_comes_after_the_end_of_a_call_is_refused(
    late: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Tool Cancellation: messages may cross, and only a pending call can end or ask."""
    caplog.set_level("INFO")
    toolset = Toolset()
    async with facing(toolset, ends=Ends(KEY)) as at:
        if "response_url" in late:
            late = late | {"response_url": late["response_url"].format(port=at.server.origin.port)}
        assert await at.receive(late, ended=True) == 410
        await nothing_more(at, toolset)
        assert at.ends.challenges == []
    assert len(toolset.noted) == 1
    assert caplog.text.count("a message for a call that is over was refused") == 1


@pytest.mark.parametrize(("posted", "status"), [(b"{", 400), (RESULT | {"id": "tg-2"}, 404), (EVENT, 200)])
async def test_nonsense_stays_nonsense_after_the_end_of_a_call(posted: Any, status: int) -> None:
    async with facing(Toolset(), ends=Ends(KEY)) as at:
        assert await at.receive(posted, ended=True) == status


async def test_a_choice_at_an_allowed_origin_is_answered_there() -> None:
    other = Toolset()
    async with serving(other) as server, facing(Toolset(), allowed=[server.url]) as at:
        assert await at.receive(question(f"{server.url}/choice")) == 200
        await has_noted(other, ("/choice", {"id": CALL_ID, "selected": 1}))


FORBIDDEN = ["http://localhost:{port}/choice", "https://127.0.0.1:{port}/", "http://169.254.169.254/latest", "/choice"]


@pytest.mark.parametrize("url", FORBIDDEN)
async def test_a_choice_that_leads_elsewhere_is_refused(url: str) -> None:
    toolset = Toolset()
    async with facing(toolset) as at:
        assert await at.receive(question(url.format(port=at.server.origin.port))) == 400
        assert at.ends.results == {}
        await nothing_more(at, toolset)
    assert len(toolset.noted) == 1


@pytest.mark.parametrize("group", [GROUP, LONE])
async def test_a_subscription_is_confirmed_and_then_cancelled_once(group: str) -> None:
    toolset = Toolset()
    event = EVENT | {"group_id": group}
    confirmation = message("tool_result", text="Watching", subscription=True) | {"group_id": group}
    async with facing(toolset) as at:
        for posted in (event, confirmation, event, confirmation, event):  # an event may overtake its confirmation
            assert await at.receive(posted, group=group) == 200
        await nothing_more(at, toolset)
        await until(lambda: len(toolset.noted) == 2 + (group == LONE))
    assert at.ends.results == {KEY: ToolResult(value="Watching")}
    assert ("/cancel_tool_call", {"thread_id": group, "tool_call_id": CALL_ID}) in toolset.noted
    assert (CLOSED in toolset.noted) == (group == LONE)


async def nothing_more(at: Facing, toolset: Toolset) -> None:
    """Sends a notice that must arrive, so that others that must not have had their time."""
    await at.backend.cancel(CallKey("last"), "", GROUP)
    await until(lambda: ("/cancel_tool_call", {"thread_id": GROUP, "tool_call_id": "tg-last"}) in toolset.noted)


async def test_notices_go_once_each_to_the_configured_url_and_not_to_the_endpoint() -> None:
    toolset = Toolset()
    async with facing(toolset, "/base") as at:
        for _ in range(3):
            await at.backend.cancel(KEY, "", GROUP)
            await at.backend.cancel(CallKey("2"), "", LONE)
        await until(lambda: len(toolset.noted) >= 3)
    cancelled_too = ("/base/cancel_tool_call", {"thread_id": LONE, "tool_call_id": "tg-2"})
    expected = [(f"/base{CANCELLED[0]}", CANCELLED[1]), (f"/base{CLOSED[0]}", CLOSED[1]), cancelled_too]
    assert sorted(toolset.noted, key=repr) == sorted(expected, key=repr)


ENDINGS = [RESULT, message("tool_result", text="Error: no")]


@pytest.mark.parametrize("posted", ENDINGS, ids=["result", "failure"])
async def test_the_thread_of_a_lone_call_is_closed_once_when_the_call_is_over(posted: Any) -> None:
    """Thread Closure; whether another conversation goes on, only its owner knows."""
    toolset = Toolset()
    lone = posted | {"group_id": LONE}
    async with facing(toolset) as at:
        await at.receive(VIEW | {"group_id": LONE}, group=LONE)
        assert toolset.noted == []
        await at.receive(lone, group=LONE)
        await has_noted(toolset, CLOSED)
        await at.receive(lone, group=LONE)
        await nothing_more(at, toolset)
    assert toolset.noted[:-1] == [CLOSED]


async def test_a_thread_is_not_closed_by_a_replica_that_did_not_end_its_call() -> None:
    """The one that did has closed it."""
    toolset = Toolset()
    async with facing(toolset, ends=Ends(KEY)) as at:
        await at.receive(RESULT | {"group_id": LONE}, group=LONE)
        await nothing_more(at, toolset)
    assert len(toolset.noted) == 1


# At a replica that does not have the backend of the call. Ours: while a configuration is rolled out replicas have
# different backends, and no tool server comes a second time.

CONSENT = {"id": CALL_ID, "url": "https://login.example/"}
ABSENT = [
    (RESULT, 200, VALUE, []),
    (message("oauth", auth_url=CONSENT["url"]), 200, None, [(KEY, CONSENT)]),
    (message("oauth", auth_url="javascript:alert(1)"), 400, None, []),
    (question("http://127.0.0.1:9/choice"), 400, None, []),
    (message("tool_result", text="Watching", subscription=True), 200, ToolResult(value="Watching"), []),
]


@pytest.mark.parametrize(("posted", "status", "ending", "challenges"), ABSENT, ids=lambda item: repr(item)[:60])
async def test_messages_have_their_effect_where_the_backend_is_not_configured(
    posted: dict[str, Any],
    status: int,
    ending: ToolResult | None,
    challenges: list[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    ends = Ends()
    receivers = absent_receivers(ends, ChildTasks(memory_bytes=0))
    assert receivers("builds") is receivers("builds")
    body = json.dumps(posted).encode()
    assert status_of(await receivers("builds").receive(KEY, GROUP, body, "application/json")) == status
    assert ends.results == ({} if ending is None else {KEY: ending})
    assert ends.challenges == challenges
    assert {record.__dict__["backend"] for record in caplog.records} == {"builds"}
    assert caplog.text.count("callbacks come for a backend that is not configured here") == 1
    cannot_cancel = "a tool server that is not configured here was not told to stop"
    assert caplog.text.count(cannot_cancel) == int("subscription" in posted)
