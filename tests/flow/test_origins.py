"""For which hosts, from pages of which origins and through which proxies requests are taken."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

LISTED = {"allowed_hosts": ["tools.example.com", "*.svc.example", "192.0.2.1", "2001:db8::1"]}
URLS = {"public_url": "https://public.example/base", "callback_url": "http://inside.example:8080"}


async def of_host(start: Start, server: ToolServer, **settings: Any) -> Caller:
    return (await start(config({"scripted": server.url}, server={**LISTED, **URLS, **settings}))).caller


OURS = [
    *("tools.example.com", "TOOLS.example.COM", "tools.example.com:8443", "tools.example.com."),
    *("a.svc.example", "a.b.SVC.example:80", "192.0.2.1", "192.0.2.1:8080", "[2001:db8::1]:8080", "[2001:DB8::1]"),
    *("public.example", "inside.example:8080"),  # the links we hand out lead there
]
OTHERS = [
    *("evil.example", "tools.example.com.evil.example", "eviltools.example.com", "svc.example", "evilsvc.example"),
    *("192.0.2.2", "[2001:db8::2]", "localhost", "127.0.0.1:8080", "[::1]"),
]


async def test_allowed_hosts_and_our_own_are_served_on_any_port(start: Start, server: ToolServer) -> None:
    caller = await of_host(start, server)
    for host in OURS:
        assert (await caller.list("oxp", headers={"host": host})).status == 200, host


async def test_other_hosts_are_refused_before_anything_else(start: Start, server: ToolServer) -> None:
    caller = await of_host(start, server, cors={"origins": ["*"]})
    for host in OTHERS:
        answer = await caller.list("bare", "/tools", headers={"host": host})
        assert answer.status == 400, host
        assert answer.document == {
            "message": "The Host header does not name a host that is served here.",
            "code": "invalid_request",
        }
    elsewhere = ("/calls/health", "/challenges/health", "/callbacks/health", "/x/health", "/health/", "/oxp/oxp/health")
    for path in ("/calls/x", "/challenges/x", "/openapi.json", "/nowhere", *elsewhere):
        assert (await caller.http.get(path, headers={"host": OTHERS[0]})).status_code == 400
    asked = {"host": OTHERS[0], "origin": "https://a.example", "access-control-request-method": "GET"}
    assert (await caller.http.options("/tools", headers=asked)).status_code == 400


@every_dialect
async def test_the_refusal_is_in_the_callers_dialect(dialect: str, start: Start, server: ToolServer) -> None:
    caller = await of_host(start, server)
    assert (await caller.call(dialect, "Echo.Say", headers={"host": OTHERS[0]})).status == 400
    assert server.calls == []


async def test_health_answers_for_any_host(start: Start, server: ToolServer) -> None:
    """Ours: a kubelet calls a pod by its address, which is not known beforehand."""
    caller = await of_host(start, server)
    for path in ("/health", "/oxp/health"):
        assert (await caller.http.get(path, headers={"host": "10.2.3.4:8080"})).status_code == 200


async def test_any_host_is_served_without_a_list(start: Start, server: ToolServer) -> None:
    text = config({"scripted": server.url})
    running = await start(text)
    assert (await running.caller.list("oxp", headers={"host": OTHERS[0]})).status == 200


PAGE, STRANGER = "https://agents.example.com", "https://elsewhere.example"
EXPOSED = {
    *("etag", "location", "oxp-version", "preference-applied", "ratelimit", "ratelimit-policy", "retry-after"),
    *("toolgate-call-id", "www-authenticate", "x-request-id"),
}


def words(value: str) -> set[str]:
    return {item.strip().lower() for item in value.split(",")}


async def of_page(start: Start, server: ToolServer, **cors: Any) -> Caller:
    backend = {"protocol": "oxp", "url": server.url, "forward_headers": ["x-tenant"]}
    auth = {"jwt": [{"secret": SECRET}]}
    return (await start(config({"scripted": backend}, auth=auth, server={"cors": cors} if cors else {}))).caller


async def preflight(caller: Caller, origin: str, path: str = "/oxp/tools/call") -> httpx.Response:
    """What a browser asks before a page may call."""
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    return await caller.http.options(path, headers={"origin": origin, **asked})


def cors_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


async def test_a_preflight_of_a_listed_origin_needs_no_credential(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server, origins=["https://other.example", PAGE], max_age="1m")
    response = await preflight(caller, PAGE)
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-origin"] == PAGE
    assert words(response.headers["access-control-allow-methods"]) == {"get", "post", "delete"}
    may_send = {"authorization", "content-type", "oxp-version", "oxp-api-key", "otc-api-key", "prefer", "if-none-match"}
    assert words(response.headers["access-control-allow-headers"]) >= may_send | {"x-tenant"}
    assert response.headers["access-control-max-age"] == "60"
    assert words(response.headers["vary"]) == {"origin"}
    assert "access-control-allow-credentials" not in response.headers


async def test_a_listed_page_may_read_answers_and_refusals(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server, origins=[PAGE])
    answered = await caller.with_token(token()).call("oxp", "Echo.Say", headers={"origin": PAGE})
    refused = await caller.call("oxp", "Echo.Say", headers={"origin": PAGE})
    assert (answered.status, refused.status) == (200, 401)
    for answer in (answered, refused):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert words(answer.headers["access-control-expose-headers"]) >= EXPOSED
        assert "origin" in words(answer.headers["vary"])


async def test_vary_of_a_list_is_one_header(start: Start, server: ToolServer) -> None:
    without = await (await of_page(start, server)).with_token(token()).list("oxp")
    caller = (await of_page(start, server, origins=[PAGE])).with_token(token())
    for headers in ({}, {"origin": PAGE}, {"origin": STRANGER}):
        varying = (await caller.list("oxp", headers=headers)).headers.get_list("vary")
        assert len(varying) == 1
        assert words(varying[0]) == words(without.headers["vary"]) | {"origin"}


@pytest.mark.parametrize(
    "origin",
    [STRANGER, "https://agents.example.com.evil.example", "http://agents.example.com", f"{PAGE}:444", "null", ""],
)
async def test_another_origin_gets_no_cors_headers(start: Start, server: ToolServer, origin: str) -> None:
    caller = await of_page(start, server, origins=[PAGE])
    response = await preflight(caller, origin)
    assert response.status_code == 405
    answer = await caller.with_token(token()).call("oxp", "Echo.Say", headers={"origin": origin})
    assert answer.status == 403
    assert "access-control-allow-origin" not in {**response.headers, **answer.headers}


async def test_every_page_may_call_if_that_is_written(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server, origins=["*"])
    response = await preflight(caller, STRANGER)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (204, "*")
    assert "vary" not in response.headers  # one answer for all


async def test_browser_credentials_must_be_configured(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server, origins=[PAGE], credentials=True)
    answer = await caller.call("oxp", "Echo.Say", headers={"origin": PAGE})
    for response in (await preflight(caller, PAGE), answer):
        assert response.headers["access-control-allow-credentials"] == "true"
    assert "access-control-allow-credentials" not in (await preflight(caller, STRANGER)).headers


async def test_an_options_request_that_is_no_preflight_is_none(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server, origins=[PAGE])
    response = await caller.http.options("/tools", headers={"origin": PAGE})
    assert response.status_code == 405
    assert response.headers["access-control-allow-origin"] == PAGE


async def test_without_cors_settings_there_are_no_cors_headers(start: Start, server: ToolServer) -> None:
    caller = await of_page(start, server)
    response = await preflight(caller, PAGE)
    assert (response.status_code, cors_headers(response)) == (405, {})


FOREIGN = [
    *("https://evil.example", "http://evil.example:8080", "null", "", "file://", "http://localhost.evil.example"),
    *("http://127.0.0.1.nip.io", "http://evilpages.example", "https://public.example", "http://[::1", "chrome://x"),
]
MAY_CALL = [
    *("http://localhost:3000", "https://app.localhost", "http://127.0.0.1:8080", "http://[::1]", "http://192.0.2.7:81"),
    *("https://[2001:db8::7]", "http://public.example", "https://pages.example:8443", "http://a.team.example", PAGE),
]


@pytest.mark.parametrize("auth", ["none", {"jwt": [{"secret": SECRET}]}])
async def test_a_page_of_a_foreign_origin_runs_nothing(start: Start, server: ToolServer, auth: Any) -> None:
    """DNS rebinding: a page has its own name lead here, and sends it as Host and Origin. Programs send no origin."""
    hosts = ["pages.example", "*.team.example", "toolgate.test"]
    settings = {"public_url": "http://public.example", "allowed_hosts": hosts, "cors": {"origins": [PAGE]}}
    gateway = await start(config({"scripted": server.url}, auth=auth, server=settings))
    caller = gateway.caller.with_token(token())
    for origin in FOREIGN:
        for path in ("/tools/call", "/call"):
            headers = {"origin": origin}
            answer = await caller.post("bare", path, {"tool_id": "Echo.Say", "input": {}}, headers=headers)
            assert (answer.status, answer.document["code"]) == (403, "forbidden"), origin
    assert server.calls == []
    for origin in MAY_CALL:
        assert (await caller.call("oxp", "Echo.Say", headers={"origin": origin})).status == 200, origin


@every_dialect
async def test_a_page_whose_name_leads_here_is_refused_in_its_dialect(
    start: Start, server: ToolServer, dialect: str
) -> None:
    gateway = await start(config({"scripted": server.url}))
    rebound = {"host": "evil.example", "origin": "http://evil.example"}
    kept = await gateway.caller.call(dialect, "Echo.Say", call_id="kept", headers={"host": "evil.example"})
    assert kept.status == 200  # without an origin every host works
    refused = await gateway.caller.call(dialect, "Echo.Say", headers=rebound)
    assert (refused.status, refused.message) == (403, "Pages of that origin may not call.")
    cancelled = await gateway.caller.http.delete("/calls/kept", headers=rebound)
    assert cancelled.status_code == 403
    assert len(server.calls) == 1


@pytest.mark.parametrize("path", ["/tools/call", "/mcp"])
async def test_a_second_origin_does_not_stand_for_the_first(start: Start, server: ToolServer, path: str) -> None:
    caller = (await start(config({"scripted": server.url}))).caller
    both = [("origin", "http://evil.example"), ("origin", "http://localhost")]
    for headers in (both, both[::-1]):
        told = [("content-type", "application/json"), ("accept", "application/json, text/event-stream"), *headers]
        called = await caller.http.post(path, content=b'{"tool_id": "Echo.Say", "input": {}}', headers=told)
        assert called.status_code in (400, 403)
        assert (await caller.http.delete("/calls/kept", headers=headers)).status_code in (400, 403)
    assert server.calls == []


ONCE = {"name": "once", "key": "ip", "rate": "1/d", "burst": 1, "operations": ["call", "poll"]}
NEAR, ELSEWHERE = "127.0.0.0/8", "10.0.0.0/8"  # where the callers of these tests are, and where not
FIRST, SECOND = "203.0.113.1", "203.0.113.2"


async def behind(start: Start, server: ToolServer, *proxies: str, **more: Any) -> Caller:
    text = config({"scripted": server.url}, rate_limits=[ONCE], server={"trusted_proxies": list(proxies)}, **more)
    return (await start(text)).caller


async def status_of(caller: Caller, forwarded: str, name: str = "x-forwarded-for") -> int:
    """How a call is answered that a proxy has passed on."""
    return (await caller.call("oxp", "Echo.Say", headers={name: forwarded})).status


async def test_each_caller_behind_a_proxy_has_his_own_limit(start: Start, server: ToolServer) -> None:
    caller = await behind(start, server, NEAR)
    assert [await status_of(caller, FIRST) for _ in range(2)] == [200, 429]
    assert await status_of(caller, SECOND) == 200
    assert await status_of(caller, f"for={SECOND}", "forwarded") == 429
    assert await status_of(caller, "[2001:db8::1]:4711, 127.0.0.9") == 200


async def test_a_forged_forwarded_address_gets_no_new_limit(start: Start, server: ToolServer) -> None:
    caller = await behind(start, server, NEAR)
    assert [await status_of(caller, f"198.51.100.{n}, {FIRST}") for n in range(3)] == [200, 429, 429]


@pytest.mark.parametrize("proxies", [(), (ELSEWHERE,)])
async def test_an_untrusted_proxy_is_ignored(start: Start, server: ToolServer, proxies: tuple[str, ...]) -> None:
    caller = await behind(start, server, *proxies)
    assert [await status_of(caller, ip) for ip in (FIRST, SECOND)] == [200, 429]


async def test_polls_count_by_the_same_address(start: Start, server: ToolServer) -> None:
    caller = await behind(start, server, NEAR)
    polls = [await caller.http.get("/calls/x", headers={"x-forwarded-for": ip}) for ip in (FIRST, FIRST, SECOND)]
    assert [poll.status_code for poll in polls] == [404, 429, 404]


async def test_links_are_built_from_the_configuration(start: Start, server: ToolServer) -> None:
    caller = await behind(start, server, NEAR)
    said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "ftp", "forwarded": "host=evil.example;proto=ftp"}
    answer = await caller.call("oxp", "Echo.Say", call_id="kept", headers=said)
    assert answer.headers["location"].startswith("http://toolgate.test/calls/")


@pytest.mark.parametrize("name", ["authorization", "oxp-api-key", "host", "oxp-version"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_repeated_header_is_refused_for_calls(start: Start, server: ToolServer, name: str, method: str) -> None:
    caller = await behind(start, server, auth={"jwt": [{"secret": SECRET}]})
    twice = [(name, f"Bearer {token()}"), (name, "Bearer another")]
    answer = await caller.send("bare" if name != "oxp-version" else "oxp", "kept", method, "/calls/x", headers=twice)
    assert (answer.status, answer.message) == (400, f"The header {name} is repeated.")
