"""Callers of MCP and their credentials: where they get a token, what they lack, and from which pages they may call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller
from tests.flow.conftest import Start
from tests.flow.gateways import PUBLIC_URL, config
from tests.flow.toolserver import ToolServer
from tests.protocols.mcp.requests import ask, call, call_in, post, session
from tests.streams import Request, http_reply
from tests.support.tokens import SECRET, api_key, token

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"
ISSUER = "https://login.example.com"
RESOURCE = f"{PUBLIC_URL}/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
METADATA = f"{PUBLIC_URL}{WELL_KNOWN}/mcp"
SHARED = {"secret": SECRET, "audience": [RESOURCE]}
KEYS = [api_key("job", KEY, scopes=["tools:read"])]
READ = {"tools": "Echo.*", "backend": "scripted", "scopes": ["tools:read"]}
WRITE = {"tools": "Count.*", "backend": "scripted", "scopes": ["tools:read", "tools:write"]}


@pytest.fixture
async def public_keys(server: ToolServer) -> dict[str, Any]:
    """An issuer that publishes its keys, beside one with a secret whose tokens the tests can make."""

    async def handle(received: Request) -> bytes:
        return http_reply(200, {"keys": []}) if received.target == "/jwks" else await server.echo(received)

    server.handler = handle
    jwks = {"issuer": ISSUER, "jwks_url": f"{server.url}/jwks", "algorithms": ["RS256"], "audience": [RESOURCE]}
    return {"jwt": [jwks, SHARED], "api_keys": KEYS}


async def guarded(start: Start, scripted: ToolServer, auth: Any, **sections: Any) -> Caller:
    return (await start(config({"scripted": scripted.url}, [READ, WRITE], auth=auth, **sections))).caller


async def test_mcp_46_both_well_known_paths_say_where_tokens_come_from(
    start: Start, server: ToolServer, public_keys: Any
) -> None:
    """Spec: RFC 9728, sections 2 and 3; MCP, Authorization Server Discovery. Ours: the same for one toolkit."""
    caller = await guarded(start, server, public_keys, server={"cors": {"origins": ["https://app.example"]}})
    page = {"origin": "https://app.example"}
    for path, resource in (("", RESOURCE), ("/mcp", RESOURCE), ("/mcp/Echo", f"{RESOURCE}/Echo")):
        answer = await caller.http.get(WELL_KNOWN + path, headers=page)
        assert answer.json() == {
            "resource": resource,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["tools:read", "tools:write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolgate",
        }
        assert answer.headers["cache-control"] == "public, max-age=3600"
        assert answer.headers.get_list("access-control-allow-origin") == ["*"]
    asked = {"origin": "https://other.example", "access-control-request-method": "GET"}
    asked["access-control-request-headers"] = "mcp-protocol-version"
    assert (await caller.http.options(WELL_KNOWN, headers=asked)).headers["access-control-allow-headers"] == "*"
    assert (await caller.http.get(f"{WELL_KNOWN}/mcp/a.b")).status_code == 404


@pytest.mark.parametrize(
    ("auth", "more"),
    [
        ("none", {}),
        ({"jwt": [SHARED]}, {}),
        ({"api_keys": KEYS}, {}),
        ({"jwt": [{"issuer": ISSUER, **SHARED}]}, {}),
        (None, {"mcp": {"enabled": False}}),
    ],
    ids=["anybody", "a shared secret", "keys", "a shared secret of an issuer with a URL", "no endpoint"],
)
async def test_mcp_46_there_is_no_metadata_without_an_issuer_to_ask(
    start: Start, server: ToolServer, public_keys: Any, auth: Any, more: Any
) -> None:
    caller = await guarded(start, server, auth or public_keys, **more)
    for path in ("", "/mcp", "/mcp/Echo"):
        assert (await caller.http.get(WELL_KNOWN + path)).status_code == 404
    if auth not in (None, "none"):
        challenge = (await ask(caller, "server/discover", {})).headers["www-authenticate"]
        assert challenge == 'Bearer realm="toolgate"'


@pytest.mark.parametrize("strict", [False, True])
async def test_mcp_46_a_401_leads_to_the_metadata(
    start: Start, server: ToolServer, public_keys: Any, strict: bool
) -> None:
    """Spec: RFC 9728, section 5.1; MCP, Authorization: `scope`. Ours: the scopes that every tool needs."""
    caller = await guarded(start, server, public_keys, errors={"strict": strict})
    where = f'resource_metadata="{METADATA}", scope="tools:read"'
    answers = [await ask(caller, method, {}) for method in ("server/discover", "tools/list")]
    answers += [await post(caller, {}, method=method) for method in ("GET", "DELETE")]
    answers += [await post(caller, b"".decode(), {"content-type": "text/plain"}), await call(caller, "Echo_Say")]
    for answer in answers:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == f'Bearer realm="toolgate", {where}'
        assert answer.json()["error"]["code"] == 401
    one = await post(caller, {}, path="/mcp/Echo")
    assert f'resource_metadata="{METADATA}/Echo"' in one.headers["www-authenticate"]
    wrong = await ask(caller.with_token("x.y.z"), "tools/list", {})
    assert wrong.headers["www-authenticate"] == f'Bearer realm="toolgate", error="invalid_token", {where}'
    assert (await caller.http.get("/.well-known/oauth-authorization-server")).status_code == 404
    other = await caller.call("oxp", "Echo.Say")
    assert other.headers["www-authenticate"] == 'Bearer realm="toolgate"'


async def test_a_good_credential_gets_405_for_other_methods(start: Start, server: ToolServer, public_keys: Any) -> None:
    caller = (await guarded(start, server, public_keys)).with_token(KEY)
    answer = await post(caller, {}, method="DELETE")
    assert (answer.status_code, "POST" in answer.headers["allow"]) == (405, True)


async def test_mcp_47_insufficient_scope_names_all_scopes_of_the_call(
    start: Start, server: ToolServer, public_keys: Any
) -> None:
    """Spec: RFC 6750, section 3.1; MCP, Scope Challenge Handling: all of them in one challenge."""
    caller = await guarded(start, server, public_keys)
    known = caller.with_token(token(aud=RESOURCE, scope="tools:read"))
    legacy = await session(known)
    for name in ("Count_Up", "Count.Up", "Count.Up@1.0.0"):
        for answer in (await call(known, name, {"n": 1}), await call_in(known, legacy, name, {"n": 1})):
            assert answer.status_code == 403
            assert answer.headers["www-authenticate"] == (
                'Bearer realm="toolgate", error="insufficient_scope", scope="tools:read tools:write", '
                f'resource_metadata="{METADATA}"'
            )
            assert answer.json()["error"]["code"] == 403
    assert server.calls == []
    able = caller.with_token(token(aud=RESOURCE, scope="tools:write tools:read"))
    assert (await call(able, "Count_Up", {"n": 1})).json()["result"]["structuredContent"] == {"n": 1}


async def test_mcp_32_a_tool_that_no_scope_can_be_had_for_does_not_exist(
    start: Start, server: ToolServer, public_keys: Any
) -> None:
    """Ours: an API key never gets more scopes, and `errors.strict` hides tools from everybody."""
    open_ = await guarded(start, server, public_keys)
    strict = await guarded(start, server, public_keys, errors={"strict": True})
    reading = token(aud=RESOURCE, scope="tools:read")
    for caller in (open_.with_token(KEY), strict.with_token(reading)):
        hidden, absent = await call(caller, "Count_Up"), await call(caller, "Count_Down")
        assert (hidden.status_code, hidden.json()["error"]["code"]) == (400, -32602)
        assert hidden.text == absent.text.replace("Count_Down", "Count_Up")
        assert hidden.headers["toolgate-code"] == absent.headers["toolgate-code"] == "tool_not_found"
        assert "www-authenticate" not in hidden.headers
    assert server.calls == []


async def test_mcp_48_a_token_for_another_audience_is_refused(
    start: Start, server: ToolServer, public_keys: Any
) -> None:
    """Spec: RFC 8707; MCP, Access Token Usage: Token Handling."""
    caller = await guarded(start, server, public_keys)
    for audience in ("https://elsewhere.example/mcp", [PUBLIC_URL], f"{RESOURCE}/"):
        refused = await ask(caller.with_token(token(aud=audience, scope="tools:read")), "tools/list", {})
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    listed = await ask(caller.with_token(token(aud=["other", RESOURCE], scope="tools:read")), "tools/list", {})
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["Echo_Say"]


FOREIGN = [
    *("https://evil.example", "http://evil.example", "null", "", "http://toolgate.test.evil.example", "toolgate.test"),
    *("http://localhost.evil.example", "http://localhost@evil.example", "https://toolgate.test", "http://[::1"),
    *("http://evil.example/http://localhost", "http://toolgate.test:81", "file://localhost", "http://127.0.0.1.nip.io"),
]
OURS = [
    *("http://toolgate.test", "http://localhost", "http://localhost:6274", "https://127.0.0.1:8443"),
    *("http://[::1]:8080", "HTTP://LOCALHOST", "https://app.example", "vscode-webview://panel"),
]


async def test_mcp_17_a_page_of_a_foreign_origin_is_refused_before_its_body(start: Start, server: ToolServer) -> None:
    """Spec: MCP, Transports: Security Warning. A page whose own name leads here sends that name in Host and Origin."""
    cors = {"origins": ["https://app.example", "vscode-webview://panel"]}
    caller = (await start(config({"scripted": server.url}, server={"cors": cors}))).caller
    for origin in FOREIGN:
        answer = await post(caller, "no request", {"origin": origin, "host": "evil.example"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, 403), origin
        assert "access-control-allow-origin" not in answer.headers
    for origin in OURS:
        assert (await call(caller, "Echo_Say", headers={"origin": origin})).status_code == 200, origin
    assert len(server.calls) == len(OURS)
    assert (await caller.call("oxp", "Echo.Say", headers={"origin": FOREIGN[0]})).status == 403  # likewise


async def test_mcp_17_any_origin_is_taken_if_that_is_written(start: Start, server: ToolServer) -> None:
    caller = (await start(config({"scripted": server.url}, server={"cors": {"origins": ["*"]}}))).caller
    assert (await call(caller, "Echo_Say", headers={"origin": FOREIGN[0]})).status_code == 200


async def test_mcp_17_an_origin_is_foreign_whoever_asks(start: Start, server: ToolServer, public_keys: Any) -> None:
    caller = await guarded(start, server, public_keys)
    for known in (caller, caller.with_token(KEY)):
        assert (await call(known, "Echo_Say", headers={"origin": FOREIGN[0]})).status_code == 403


async def test_mcp_17_another_host_is_refused_before_the_body(start: Start, server: ToolServer) -> None:
    text = config({"scripted": server.url}, server={"allowed_hosts": ["tools.example.com"]})
    caller = (await start(text)).caller
    answer = await post(caller, "no request", {"host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    assert (await call(caller, "Echo_Say")).status_code == 200


async def test_a_page_may_send_what_mcp_needs(start: Start, server: ToolServer) -> None:
    page = "https://app.example"
    caller = (await start(config({"scripted": server.url}, server={"cors": {"origins": [page]}}))).caller
    asked = {"origin": page, "access-control-request-method": "POST"}
    allowed = (await caller.http.options("/mcp", headers=asked)).headers["access-control-allow-headers"].split(", ")
    assert {"mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "last-event-id"} <= set(allowed)
    shown = (await call(caller, "Echo_Say", headers={"origin": page})).headers["access-control-expose-headers"]
    assert {"Mcp-Session-Id", "WWW-Authenticate"} <= set(shown.split(", "))
