"""Pages of listed origins may call from a browser, others may not; without the setting there is nothing of it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

PAGE, STRANGER = "https://agents.example.com", "https://elsewhere.example"
EXPOSED = {
    *("etag", "location", "oxp-version", "preference-applied", "ratelimit", "ratelimit-policy", "retry-after"),
    *("toolgate-call-id", "www-authenticate", "x-request-id"),
}


def listed(value: str) -> set[str]:
    return {item.strip().lower() for item in value.split(",")}


async def caller_of(start: StartGateway, server: ToolServer, **cors: Any) -> Caller:
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant"]}
    auth = {"jwt": [{"secret": SECRET}]}
    return (await start(config({"scripted": backend}, auth=auth, server={"cors": cors} if cors else {}))).caller


async def preflight(caller: Caller, origin: str, path: str = "/oxp/tools/call") -> httpx.Response:
    """What a browser asks before a page may call."""
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    return await caller.http.options(path, headers={"origin": origin, **asked})


def told_browsers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


async def test_a_browser_is_told_what_a_listed_page_may_send_without_a_credential(
    start: StartGateway, server: ToolServer
) -> None:
    caller = await caller_of(start, server, origins=["https://other.example", PAGE], max_age="1m")
    response = await preflight(caller, PAGE)
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-origin"] == PAGE
    assert listed(response.headers["access-control-allow-methods"]) == {"get", "post", "delete"}
    may_send = {"authorization", "content-type", "oxp-version", "oxp-api-key", "otc-api-key", "prefer", "if-none-match"}
    assert listed(response.headers["access-control-allow-headers"]) >= may_send | {"x-tenant"}
    assert response.headers["access-control-max-age"] == "60"
    assert listed(response.headers["vary"]) == {"origin"}
    assert "access-control-allow-credentials" not in response.headers


async def test_a_listed_page_may_read_answers_and_refusals(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, origins=[PAGE])
    answered = await caller.with_token(token()).call("oxp", "Echo.Say", headers={"origin": PAGE})
    refused = await caller.call("oxp", "Echo.Say", headers={"origin": PAGE})
    assert (answered.status, refused.status) == (200, 401)
    for answer in (answered, refused):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert listed(answer.headers["access-control-expose-headers"]) >= EXPOSED
        assert "origin" in listed(answer.headers["vary"])


async def test_what_a_list_varies_with_stays_and_is_said_once(start: StartGateway, server: ToolServer) -> None:
    without = await (await caller_of(start, server)).with_token(token()).list("oxp")
    caller = (await caller_of(start, server, origins=[PAGE])).with_token(token())
    for headers in ({}, {"origin": PAGE}, {"origin": STRANGER}):
        varying = (await caller.list("oxp", headers=headers)).headers.get_list("vary")
        assert len(varying) == 1
        assert listed(varying[0]) == listed(without.headers["vary"]) | {"origin"}


@pytest.mark.parametrize(
    "origin",
    [STRANGER, "https://agents.example.com.evil.example", "http://agents.example.com", f"{PAGE}:444", "null", ""],
)
async def test_a_page_of_another_origin_gets_what_it_got_before(
    start: StartGateway, server: ToolServer, origin: str
) -> None:
    caller = await caller_of(start, server, origins=[PAGE])
    response = await preflight(caller, origin)
    assert response.status_code == 405
    answer = await caller.with_token(token()).call("oxp", "Echo.Say", headers={"origin": origin})
    assert answer.status == 200
    assert "access-control-allow-origin" not in {**response.headers, **answer.headers}


async def test_every_page_may_call_if_that_is_written(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, origins=["*"])
    response = await preflight(caller, STRANGER)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (204, "*")
    assert "vary" not in response.headers  # one answer for all


async def test_credentials_of_the_browser_are_for_those_who_ask_for_them(
    start: StartGateway, server: ToolServer
) -> None:
    caller = await caller_of(start, server, origins=[PAGE], credentials=True)
    answer = await caller.call("oxp", "Echo.Say", headers={"origin": PAGE})
    for response in (await preflight(caller, PAGE), answer):
        assert response.headers["access-control-allow-credentials"] == "true"
    assert "access-control-allow-credentials" not in (await preflight(caller, STRANGER)).headers


async def test_an_options_request_that_is_no_preflight_is_none(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, origins=[PAGE])
    response = await caller.http.options("/tools", headers={"origin": PAGE})
    assert response.status_code == 405
    assert response.headers["access-control-allow-origin"] == PAGE


async def test_without_the_setting_browsers_are_told_nothing(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server)
    response = await preflight(caller, PAGE)
    assert (response.status_code, told_browsers(response)) == (405, {})
