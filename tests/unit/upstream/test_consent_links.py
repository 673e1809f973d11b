"""Authorization challenges of tool servers: which URLs are passed on, and how they are checked."""

from __future__ import annotations

import pytest

from gateway.core.errors import ErrorCode
from gateway.upstream.consent_links import MAX_CHALLENGES, is_https_or_loopback
from tests.unit.net.client.scripted import Script, answering, listening
from tests.unit.upstream.facing import INVOCATION, VALUE, facing, head_of, outcome, paths, refusal, reply

pytestmark = pytest.mark.anyio


def challenging(**challenge: str) -> Script:
    missing = {"authorization": [{"id": "ch", **challenge}], "user_id": True}
    return answering(reply(400, {"message": "Connect.", "missing_requirements": missing}))


async def test_a_relative_check_url_becomes_one_at_the_tool_servers_origin() -> None:
    for relative, absolute in (("/check/1", "/check/1"), ("check/1?x=2", "/base/check/1?x=2")):
        script = challenging(url="https://x.example", check_url=relative)
        async with facing(script, "/base") as (backend, server):
            error = await refusal(backend.call(INVOCATION))
        challenge = {"id": "ch", "url": "https://x.example", "check_url": server.url + absolute}
        assert error.code is ErrorCode.MISSING_REQUIREMENTS
        assert error.missing == {"authorization": [challenge], "user_id": True}


@pytest.mark.parametrize("count", [MAX_CHALLENGES, MAX_CHALLENGES + 1])
async def test_all_challenges_of_a_refusal_are_passed_on_or_none(count: int) -> None:
    asked = [{"id": f"c{number}", "url": "https://x.io"} for number in range(count)]
    refused = {"message": "Connect.", "missing_requirements": {"authorization": asked}}
    async with facing(answering(reply(400, refused))) as (backend, _):
        error = await refusal(backend.call(INVOCATION))
    if count <= MAX_CHALLENGES:
        assert error.missing == {"authorization": asked}
    else:
        assert (error.code, error.missing) == (ErrorCode.BACKEND_UNAVAILABLE, None)
        assert f"{count} consents" in (error.detail or "")


UNFIT = [
    *("https://evil.example/check", "//evil.example/check", "file:///etc/passwd", "http://[", "http://127.0.0.1:1/"),
    *(
        "/a b",
        "/a\nb",
        "\t/a",
        "/ä",
        "/a?x=\u00a0",
        "/\x7f",
        "",
    ),  # in no URL: such a challenge would be pending for ever
]


@pytest.mark.parametrize("check_url", UNFIT, ids=repr)
async def test_a_check_url_elsewhere_or_that_is_none_is_left_out(check_url: str) -> None:
    async with facing(challenging(url="https://x.example", check_url=check_url)) as (backend, _):
        error = await refusal(backend.call(INVOCATION))
    assert error.missing == {"authorization": [{"id": "ch", "url": "https://x.example"}], "user_id": True}


@pytest.mark.parametrize("url", ["http://x.example", "javascript:alert(1)", "data:text/html,x", "", "/relative"])
async def test_a_challenge_no_user_may_be_sent_to_makes_the_tool_unavailable(url: str) -> None:
    async with facing(challenging(url=url)) as (backend, _):
        error = await refusal(backend.call(INVOCATION))
    assert (error.code, error.missing) == (ErrorCode.BACKEND_UNAVAILABLE, None)


SAFE = [
    ("https://x.example/a", True),
    ("HTTPS://X.example", True),
    ("http://localhost:8080/a", True),
    ("http://127.0.0.1/a", True),
    ("http://[::1]:80/a", True),
    ("http://127.8.0.1:80/a", True),
    ("http://[::2]/a", False),
    ("http://128.0.0.1/a", False),
    ("http:///a", False),
    ("http://localhost.evil.example", False),
    ("http://127.0.0.1.evil.example", False),
    ("http://x.example", False),
    ("https://", False),
    ("https://[x", False),
    ("https://x:port", False),
    ("ftp://127.0.0.1", False),
]


@pytest.mark.parametrize(("url", "safe"), SAFE)
async def test_users_are_sent_over_https_or_to_their_own_machine(url: str, safe: bool) -> None:
    assert is_https_or_loopback(url) is safe


async def test_a_success_that_asks_for_authorization_is_a_challenge_in_the_langchain_family_alone() -> None:
    value = {"auth_required": True, "auth_url": "https://x.example", "auth_id": "ch"}
    answer = reply(200, VALUE | {"value": value})
    async with facing(answering(answer), dialect="lc", protocol="otc") as (backend, _):
        error = await refusal(backend.call(INVOCATION))
    assert error.missing == {"authorization": [{"id": "ch", "url": "https://x.example"}]}
    assert (await outcome(answering(answer))).value == value


STATUSES = [
    (reply(200, {"status": "completed"}), "completed"),
    (reply(200, {"status": "failed", "more": 1}), "failed"),
    (reply(404, b"Not Found", "text/plain"), "failed"),
    (reply(401, b"{}"), "failed"),
    (reply(429, {"message": "later"}), "pending"),
    (reply(408, b""), "pending"),
    (reply(302, b""), "pending"),
    (reply(200, {"status": "fine"}), "pending"),
    (reply(200, []), "pending"),
    (reply(200, b"{"), "pending"),
    (reply(503, {}), "pending"),
    (b"rubbish\r\n\r\n", "pending"),
]


@pytest.mark.parametrize(("answer", "status"), STATUSES, ids=lambda item: repr(item)[:40])
async def test_a_challenge_stands_as_the_tool_server_says(answer: bytes, status: str) -> None:
    async with facing(answering(answer), "/base", token="t0k") as (backend, server):
        assert await backend.challenge_status(f"{server.url}/check/1?x=2") == status
    assert paths(server) == ["/check/1?x=2"]
    assert head_of(server.requests[0])["authorization"] == "bearer t0k"


async def test_a_check_url_of_an_origin_alone_asks_for_its_root() -> None:
    async with facing(answering(STATUSES[0][0])) as (backend, server):
        assert await backend.challenge_status(server.url) == "completed"
    assert paths(server) == ["/"]


@pytest.mark.parametrize("path", ["/ø", "/a b"])
async def test_a_check_url_that_cannot_be_asked_is_pending(path: str) -> None:
    async with facing(listening) as (backend, server):
        assert await backend.challenge_status(server.url + path) == "pending"
    assert server.requests == []
