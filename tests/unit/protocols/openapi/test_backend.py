"""Calls of an API on the wire: credentials in their places, redirects, what is sent twice and what is shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.protocols.openapi.document.plan import AnswerPlan, KeyPlace, LentCredential
from tests.streams import Request, http_reply
from tests.unit.protocols.openapi.facing import (
    GET,
    OK,
    api,
    calling,
    facing,
    lending,
    parameter,
    with_access,
)
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

ASCII = "k3y&=/;%41-of-ours"
IN_QUERY = {"api_key": {"in": "query", "name": "api+key", "value": ASCII}}
IN_COOKIE = {"api_key": {"in": "cookie", "name": "sid", "value": "k3y/of=ours"}}
COOKIE_PARAMETER = replace(GET, parameters=(parameter("theme", "cookie"), parameter("sid", "cookie")))
OWN = {"header": {"name": "X-Own", "value": "k"}}
TWO = {
    "schemes": {
        "A": {"api_key": {"in": "header", "name": "X-A", "value": "a-key"}},
        "B": {"api_key": {"in": "query", "name": "b", "value": "b-key"}},
        "C": {"api_key": {"value": "c-key"}},
        "D": {"bearer": "d-token"},
    }
}

# Settings of auth, access of the operation; then the target and the headers.
PLACES: Mapping[str, tuple[Any, Mapping[str, Any], str, Mapping[str, str | None]]] = {
    "bearer": ({"bearer": "t0k"}, {}, "/things", {"authorization": "Bearer t0k"}),
    "basic": ({"basic": {"user": "ü", "password": "p:w"}}, {}, "/things", {"authorization": "Basic w7w6cDp3"}),
    "a header": ({"header": {"name": "X-Own", "value": "k"}}, {}, "/things", {"x-own": "k", "authorization": None}),
    "a key in a header": (
        {"api_key": {"in": "header", "name": "X-Own", "value": "k"}},
        {},
        "/things",
        {"x-own": "k", "authorization": None},
    ),
    "a key in the query": (IN_QUERY, {}, "/things?api%2Bkey=k3y%26%3D%2F%3B%2541-of-ours", {"cookie": None}),
    "a key in a cookie": (IN_COOKIE, {}, "/things", {"cookie": "sid=k3y/of=ours"}),
    "a key without a place": (
        {"api_key": {"value": "k"}},
        {"keys": (KeyPlace(where="query", name="q"),)},
        "/things?q=k",
        {"cookie": None},
    ),
    "53: none": (IN_QUERY, {"schemes": ()}, "/things", {"authorization": None}),
    "52: two of several": (
        TWO,
        {"schemes": ("A", "B")},
        "/things?b=b-key",
        {"x-a": "a-key", "authorization": None},
    ),
    "52: others of several": (
        TWO,
        {"schemes": ("C", "D"), "keys": (KeyPlace(where="cookie", name="c", scheme="C"),)},
        "/things",
        {"x-a": None, "authorization": "Bearer d-token", "cookie": "c=c-key"},
    ),
    "54: a lent token": (
        {"bearer": "t0k"},
        {"schemes": (), "lent": (LentCredential(id="github"),)},
        "/things",
        {"authorization": "Bearer gho"},
    ),
    "54: a lent secret, and one of ours": (
        {"bearer": "t0k"},
        {"lent": (LentCredential(id="KEY", is_secret=True, where="query", name="key"),)},
        "/things?key=s%201",
        {"authorization": "Bearer t0k"},
    ),
    "54: lent to a cookie and a header": (
        None,
        {
            "lent": (
                LentCredential(id="KEY", is_secret=True, where="cookie", name="c"),
                LentCredential(id="github", where="header", name="X-Tok"),
            )
        },
        "/things",
        {"authorization": None, "cookie": "c=s%201", "x-tok": "gho"},
    ),
}


@pytest.mark.parametrize(("auth", "access", "target", "headers"), PLACES.values(), ids=PLACES)
async def test_openapi_52_credentials_go_where_they_belong(
    auth: Any, access: Mapping[str, Any], target: str, headers: Mapping[str, str | None]
) -> None:
    context = lending({"github": "gho"}, KEY="s 1")
    async with api() as server, facing(server, auth=auth) as backend:
        result = await backend.call(calling(with_access(GET, **access), context=context))
        assert result.value == {"ok": True}
        (request,) = server.requests
        assert request.target == target
        assert {name: request.header(name) for name in headers} == headers
        assert request.header("user-agent") is not None


async def test_openapi_36_all_cookies_are_in_one_header_and_those_of_keys_are_ours() -> None:
    async with api() as server, facing(server, auth=IN_COOKIE) as backend:
        await backend.call(calling(COOKIE_PARAMETER, {"theme": "dark", "sid": "forged"}))
        cookies = [value for name, value in server.requests[0].headers if name == "cookie"]
        assert cookies == ["theme=dark; sid=k3y/of=ours"]


async def test_an_argument_never_stands_in_the_place_of_a_key() -> None:
    plan = replace(GET, parameters=(parameter("api+key", "query"), parameter("x", "query")))
    async with api() as server, facing(server, auth=IN_QUERY) as backend:
        await backend.call(calling(plan, {"api+key": "forged", "x": "1"}))
        assert server.targets == ["/things?x=1&api%2Bkey=k3y%26%3D%2F%3B%2541-of-ours"]


async def test_a_lent_credential_that_is_not_there_or_cannot_be_sent_is_refused_before_anything_is() -> None:
    plan = with_access(GET, schemes=(), lent=(LentCredential(id="github"),))
    async with api() as server, facing(server) as backend:
        assert (await refusal(backend.call(calling(plan)))).code is ErrorCode.MISSING_REQUIREMENTS
        for token in ("q\r\nx: y", "ä", " q", "q\x00"):
            refused = await refusal(backend.call(calling(plan, context=lending({"github": token}))))
            assert refused.code is ErrorCode.INVALID_REQUEST
            assert token not in refused.message
        assert server.requests == []


async def test_what_is_passed_on_of_a_caller_takes_the_place_of_nothing() -> None:
    plan = replace(GET, parameters=(parameter("X-Tenant", "header"),))
    passed_on = ((b"x-tenant", b"theirs"), (b"x-own", b"forged"), (b"x-more", b"1"))
    keys: dict[str, Any] = {"forward_headers": ["x-tenant", "x-own", "x-more"], "auth": {"schemes": {"O": OWN}}}
    async with api() as server, facing(server, **keys) as backend:
        called = with_access(plan, schemes=("O",))
        await backend.call(calling(called, {"X-Tenant": "argument"}, headers=passed_on))
        sent = [pair for pair in server.requests[0].headers if pair[0].startswith("x-")]
        assert sorted(sent) == [("x-more", "1"), ("x-own", "k"), ("x-tenant", "argument")]


# Refusals of credentials.


async def test_openapi_43_a_token_that_was_issued_is_renewed_once_it_is_refused() -> None:
    issued: list[str] = []

    def answer(request: Request) -> bytes:
        if request.target == "/token":
            issued.append(f"token-{len(issued)}")
            return http_reply(200, {"access_token": issued[-1], "token_type": "bearer"})
        if request.target.startswith("/moved"):
            return http_reply(307, b"", location="/things")
        return OK if request.header("authorization") == "Bearer " + issued[-1] else http_reply(401, b"")

    async with api(answer) as server:
        oauth = {"oauth": {"token_url": server.url + "/token", "client_id": "c", "client_secret": "s"}}
        for auth, access in ((oauth, {}), ({"schemes": {"O": oauth}}, {"schemes": ("O",)})):
            issued.clear()
            async with facing(server, auth=auth) as backend:
                moved = replace(GET, path="/moved")
                assert (await backend.call(calling(with_access(moved, **access)))).value == {"ok": True}
                assert issued == ["token-0"]
                server.requests.clear()
                assert (
                    await refusal(backend.call(calling(with_access(GET, schemes=()))))
                ).code == "backend_unavailable"
                assert [request.header("authorization") for request in server.requests] == [None]


# Redirects.


def moving(*steps: str, status: int = 302) -> Callable[[Request], bytes]:
    """An API whose paths lead from one step to the next; the last one answers."""

    def answer(request: Request) -> bytes:
        at = steps.index(request.target.partition("?")[0])
        return OK if at + 1 == len(steps) else http_reply(status, b"", location=steps[at + 1])

    return answer


async def test_openapi_46_redirects_of_safe_requests_are_followed_three_times() -> None:
    steps = ("/v1/things", "/v1/b", "/v1/c", "/v1/d")
    async with api(moving(*steps)) as server, facing(server, "/v1", auth={"bearer": "t0k"}) as backend:
        assert (await backend.call(calling(GET))).value == {"ok": True}
        assert server.targets == list(steps)
        assert {request.header("authorization") for request in server.requests} == {"Bearer t0k"}
        server.answer = moving(*steps, "/v1/e")
        failure = (await backend.call(calling(GET))).failure
        assert failure is not None
        assert failure.extras["status"] == 302
        assert len(server.requests) == 4 + 4


async def test_openapi_46_nothing_that_acts_is_sent_again() -> None:
    async with api(lambda request: http_reply(307, b"", location="/b")) as server, facing(server) as backend:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await backend.call(calling(replace(GET, method=method), idempotent=True))).failure is not None
        assert len(server.requests) == 4


async def test_openapi_46_redirects_stay_below_the_path_of_the_operations_server() -> None:
    plan = replace(GET, path="/v1/é/things", prefix="/v1/é")
    async with api() as server, facing(server, "/api", auth={"bearer": "t0k"}) as backend:
        for place in ("/api/admin", "/api/v1/things", "/api/v1/%C3%A9/..;/admin", "/v1/%C3%A9/b"):
            server.answer = lambda request, place=place: http_reply(302, b"", location=place)  # type: ignore[misc]
            assert (await backend.call(calling(plan))).failure is not None
        assert server.targets == ["/api/v1/%C3%A9/things"] * 4
        server.answer = moving("/api/v1/%C3%A9/things", "/api/v1/%C3%A9/b")
        assert (await backend.call(calling(plan))).value == {"ok": True}


async def test_a_key_in_the_query_goes_along_and_once() -> None:
    def answer(request: Request) -> bytes:
        if request.target.startswith("/things"):
            return http_reply(302, b"", location="/moved?x=1&" + request.target.partition("?")[2])
        return OK

    async with api(answer) as server, facing(server, auth=IN_QUERY) as backend:
        assert (await backend.call(calling(GET))).value == {"ok": True}
        key = "api%2Bkey=k3y%26%3D%2F%3B%2541-of-ours"
        assert server.targets == [f"/things?{key}", f"/moved?x=1&{key}"]


async def test_a_deadline_holds_over_all_hops() -> None:
    async with api(moving("/things", "/b", "/c")) as server, facing(server) as backend:
        server.answer = lambda request: http_reply(302, b"", location="/b" if request.target != "/b" else "/c")
        slow = server.answer

        async def call() -> Any:
            return await backend.call(calling(GET, timeout_s=0.2))

        def answer(request: Request) -> bytes:
            return slow(request) if request.target == "/things" else http_reply(200, b"", content_length="9")

        server.answer = answer
        failure = (await asyncio.wait_for(call(), 5)).failure
        assert failure is not None
        assert failure.outcome == "timeout"
        assert server.targets == ["/things", "/b"]


# What is sent twice.


@pytest.mark.parametrize("status", [404, 410])
async def test_openapi_47_what_is_gone_at_the_second_deletion_may_have_been_deleted(status: int) -> None:
    plan = replace(GET, method="DELETE")
    answers = [b"", http_reply(status, b""), http_reply(status, b""), b"", http_reply(409, b"")]
    async with api(lambda request: answers.pop(0)) as server, facing(server) as backend:
        failures = [(await backend.call(calling(plan, idempotent=True))).failure for _ in range(3)]
        assert [failure and failure.outcome for failure in failures] == ["unknown", "tool_error", "tool_error"]
        assert failures[0] is not None
        assert "may have deleted it" in failures[0].message
        assert len(server.requests) == 5


# What is shown.


async def test_openapi_52_55_no_key_of_ours_is_shown_logged_or_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    plan = replace(GET, answers=AnswerPlan(headers=("link",)))
    encoded = "k3y%26%3D%2F%3B%2541-of-ours"
    problem = {"title": f"No key {ASCII} here", "detail": f"see /things?api%2Bkey={encoded}"}
    answers = [
        http_reply(200, {"ok": True}, link=f"</things?api%2Bkey={encoded}&page=2>; rel=next"),
        http_reply(400, problem),
        http_reply(302, b"", location=f"http://other.example/?api%2Bkey={encoded}"),
        http_reply(500, f"no {ASCII}".encode()),
        b"",
        http_reply(200, b"{", content_type="application/json"),
        http_reply(401, problem),
    ]
    said: list[object] = []
    async with api(lambda request: answers.pop(0)) as server, facing(server, auth=IN_QUERY) as backend:
        while len(answers) > 1:
            said.append(await backend.call(calling(plan)))
        error = await refusal(backend.call(calling(plan)))
        said += [error.message, error.detail, error.developer_message, repr(error)]
        assert all(encoded in target for target in server.targets)
    said += [vars(record) for record in caplog.records]
    assert len(caplog.records) > 2
    assert "***" in repr(said)
    assert ASCII not in repr(said)
    assert encoded not in repr(said)
