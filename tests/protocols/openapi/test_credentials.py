"""Whose credentials a call of an HTTP API carries: the gateway's, the caller's or none, as the operation asks for."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.protocols.mcp.requests import ask, call
from tests.streams import http_reply
from tests.support.httpapi import http_api, operation
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

FLOWS = {
    "authorizationCode": {"authorizationUrl": "https://a.example/", "tokenUrl": "https://a.example/t", "scopes": {}}
}
SCHEMES: dict[str, Any] = {
    "Login": {"type": "http", "scheme": "basic"},
    "App": {"type": "apiKey", "in": "header", "name": "X-App"},
    "Old": {"type": "apiKey", "in": "query", "name": "key"},
    "Crumb": {"type": "apiKey", "in": "cookie", "name": "crumb"},
    "User": {"type": "oauth2", "flows": FLOWS},
    "Lent": {"type": "apiKey", "in": "header", "name": "X-Lent"},
    "Digest": {"type": "http", "scheme": "digest"},
}
SECURED: dict[str, Any] = {
    "login": [{"Login": []}],
    "both": [{"App": [], "Old": []}],  # A25 of the traps: the last is not the only one
    "either": [{"Digest": []}, {"Crumb": []}, {"App": []}],
    "none": [],
    "optional": [{}, {"App": []}],
    "user": [{"User": ["read", "write"]}],
    "lent": [{"Lent": [], "App": []}],
}
PATHS = {f"/{name}": {"get": operation(name, security=security)} for name, security in SECURED.items()}
OWN = {
    "Login": {"basic": {"user": "ada", "password": "pass-of-ours"}},
    "App": {"api_key": {"in": "header", "name": "X-App", "value": "app-of-ours"}},
    "Old": {"api_key": {"in": "query", "name": "key", "value": "old&of+ours"}},
    "Crumb": {"api_key": {"in": "cookie", "name": "crumb", "value": "crumb-of-ours"}},
}
KEYS = {"auth": {"schemes": OWN}, "caller_tokens": {"User": "acme"}, "caller_secrets": {"Lent": "LENT_KEY"}}
CONNECT = "https://acme.example/connect"
ROUTES = [{"tools": "*", "backend": "api", "authorization_urls": {"acme": CONNECT}}]
BASIC = "Basic " + b64encode(b"ada:pass-of-ours").decode()
SENT: dict[str, tuple[str, dict[str, str]]] = {
    "login": ("/login", {"authorization": BASIC}),
    "both": ("/both?key=old%26of%2Bours", {"x-app": "app-of-ours"}),
    "either": ("/either", {"cookie": "crumb=crumb-of-ours"}),
    "none": ("/none", {}),
    "optional": ("/optional", {"x-app": "app-of-ours"}),  # who calls with one often may do more
}


async def test_openapi_52_an_operation_gets_all_credentials_of_one_alternative_and_no_others(start: Start) -> None:
    async with http_api(PATHS, components={"securitySchemes": SCHEMES}) as api:
        caller = (await start(config({"api": api.backend(**KEYS)}, ROUTES))).caller
        for tool, (target, headers) in SENT.items():
            assert (await caller.call("oxp", f"Api.{tool}")).value["target"] == target
            private = {"authorization", "x-app", "cookie", "x-lent", "proxy-authorization"}
            assert {name: text for name, text in api.last.headers if name in private} == headers, tool


async def test_openapi_54_what_callers_lend_is_a_requirement_and_goes_where_the_scheme_says(start: Start) -> None:
    async with http_api(PATHS, components={"securitySchemes": SCHEMES}) as api:
        caller = (await start(config({"api": api.backend(**KEYS)}, ROUTES))).caller
        listed: dict[str, Any] = {tool["id"]: tool.get("requirements") for tool in (await caller.list("oxp")).tools}
        [wanted] = listed["Api.user@1.0.0"]["authorization"]
        assert (wanted["id"], wanted["oauth2"]["scopes"]) == ("acme", ["read", "write"])
        assert listed["Api.lent@1.0.0"]["secrets"] == [{"id": "LENT_KEY"}]
        assert listed["Api.login@1.0.0"] is None

        refused = await caller.call("oxp", "Api.user")
        assert (refused.document["code"], refused.missing["authorization"][0]["url"]) == (
            "missing_requirements",
            CONNECT,
        )
        assert (await caller.call("otc", "Api.lent")).missing == {"secrets": [{"id": "LENT_KEY"}]}
        assert api.calls == []

        both: dict[str, Any] = {
            "authorization": [{"id": "acme", "token": "token-of-ada"}],
            "secrets": [{"id": "LENT_KEY", "value": "key-of-ada"}],
        }
        assert (await caller.call("oxp", "Api.user", context=both)).status == 200
        assert (api.last.header("authorization"), api.last.header("x-lent")) == ("Bearer token-of-ada", None)
        asked = {"name": "Api_lent", "arguments": {}, "_meta": {"toolgate/context": both}}
        assert (await ask(caller, "tools/call", asked)).json()["result"].get("isError", False) is False
        assert api.last.header("authorization") is None
        assert (api.last.header("x-lent"), api.last.header("x-app")) == ("key-of-ada", "app-of-ours")


@pytest.mark.parametrize(
    ("status", "challenge", "tool", "code"),
    [
        (401, "Bearer", "login", "backend_unavailable"),
        (401, 'Bearer error="invalid_token"', "user", "missing_requirements"),
        (403, 'Bearer error="insufficient_scope", scope="admin"', "user", "missing_requirements"),
        (403, "Bearer", "user", "tool_error"),
        (403, "Bearer", "login", "tool_error"),
    ],
)
async def test_openapi_43_whose_credential_is_refused_decides_what_is_told(
    status: int, challenge: str, tool: str, code: str, start: Start
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.write(http_reply(status, {"title": "No"}, www_authenticate=challenge))

    async with http_api(PATHS, refuse, components={"securitySchemes": SCHEMES}) as api:
        caller = (await start(config({"api": api.backend(**KEYS)}, ROUTES))).caller
        context = {"authorization": [{"id": "acme", "token": "token-of-ada"}]}
        answer = await caller.call("oxp", f"Api.{tool}", context=context if tool == "user" else {})
        assert answer.headers["toolgate-code"] == code, answer.body
        assert len(api.calls) == 1
        if code == "missing_requirements":
            assert answer.missing["authorization"][0]["url"] == CONNECT
            assert ("It asks for: admin." in answer.message) is (status == 403)
        for text in ("of-ours", "of-ada"):
            assert text not in answer.body.decode()


async def test_openapi_46_a_credential_stays_at_the_origin_it_is_for(start: Start) -> None:
    async with http_api({}) as foreign:

        async def move(exchange: Exchange) -> None:
            target, status = exchange.request.target, 302
            where = {
                "/login": "/v1/moved",
                "/both?key=old%26of%2Bours": f"{foreign.url}/stolen",
                "/either": "/outside",
                "/none": "/none",
            }
            if target == "/v1/moved":
                await exchange.reply({"at": target})
            else:
                await exchange.write(http_reply(status, b"", location=where[target.removeprefix("/v1")]))

        async with http_api(PATHS, move, components={"securitySchemes": SCHEMES}) as api:
            caller = (await start(config({"api": api.backend(url=f"{api.url}/v1", **KEYS)}, ROUTES))).caller
            assert (await caller.call("oxp", "Api.login")).value == {"at": "/v1/moved"}
            assert [request.header("authorization") for request in api.calls] == [BASIC, BASIC]
            for tool, most in (("both", 1), ("either", 1), ("none", 4)):
                before = len(api.calls)
                error = (await caller.call("oxp", f"Api.{tool}")).error
                assert error["can_retry"] is False, (tool, error)
                assert "of-ours" not in str(error)
                assert "of%2Bours" not in str(error)
                assert 1 <= len(api.calls) - before <= most, tool
            told = (await call(caller, "Api_both")).text
            assert "ours" not in told
        assert foreign.requests == []
