"""Nothing of a call of an HTTP API is seen where it has no business, however the API answers."""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from typing import Any

import pytest

from tests import plainhttp
from tests.live.security.apis import Site, api_site
from tests.streams import http_reply
from tests.support.calling import call
from tests.support.httpapi import operation, parameter
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

NAMES = ("header", "key", "query", "path", "body", "result", "password", "problem", "location")
MADE = {name: f"canary-{name}-{secrets.token_hex(8)}" for name in NAMES}
MADE["login"] = b64encode(f"ada:{MADE['password']}".encode()).decode()
OURS = ("key", "password", "login")  # not even callers may have these
SCHEMES = {
    "Key": {"type": "apiKey", "in": "query", "name": "key"},
    "Basic": {"type": "http", "scheme": "basic"},
}
AUTH = {
    "schemes": {
        "Key": {"api_key": {"in": "query", "name": "key", "value": MADE["key"]}},
        "Basic": {"basic": {"user": "ada", "password": MADE["password"]}},
    }
}
BODY: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
PARAMETERS = [parameter("q"), parameter("p", "path"), parameter("X-H", "header")]
KINDS = ("fine", "breaks", "refuses", "crashes", "moves", "babbles", "denies", "garbles")


def path_item(kind: str) -> dict[str, Any]:
    keyed = {"requestBody": BODY, "security": [{"Key": []}]}
    return {
        "post": operation(kind, *PARAMETERS, **keyed),
        "put": operation(f"put_{kind}", *PARAMETERS, **keyed),
        "get": operation(f"get_{kind}", *PARAMETERS, security=[{"Basic": []}]),
    }


async def tell(exchange: Exchange) -> None:
    """Answers in the way that the path names, and repeats everything it knows."""
    request = exchange.request
    said = f"{MADE['problem']} {request.target} {request.headers} {request.body.decode()}"
    match request.target.split("/")[1]:
        case "breaks":
            exchange.reset()
        case "refuses":
            await exchange.reply({"title": said, "detail": said}, status=422)
        case "crashes":
            await exchange.write(http_reply(500, said.encode()))
        case "moves":
            location = ("Location", f"/{MADE['location']}?key={MADE['key']}")
            await exchange.write(http_reply(302, b"", location))
        case "babbles":
            await exchange.write(f"HTTP/9 {MADE['problem']}\r\n\r\n".encode())
            exchange.half_close()
        case "denies":
            await exchange.write(http_reply(401, said.encode(), www_authenticate=f'Basic realm="{MADE["problem"]}"'))
        case "garbles":
            await exchange.write(http_reply(200, said.encode(), content_type="application/json"))
        case _:
            await exchange.reply({"result": MADE["result"]})


async def ask_everything(place: Site, kind: str) -> list[str]:
    """Calls each operation of a kind, also with arguments that are refused; the answers."""
    arguments = {"q": MADE["query"], "p": MADE["path"], "X-H": MADE["header"]}
    with_body = {**arguments, "body": MADE["body"]}
    asked = [
        (kind, with_body),
        (f"put_{kind}", with_body),
        (f"get_{kind}", arguments),
        (kind, {"p": f"../{MADE['path']}"}),
        (kind, {"p": "x", "X-H": f"{MADE['header']}\r\n"}),
        (kind, {MADE["query"]: 1}),
    ]
    answers = [await call(place.http, f"Api.{tool}", given) for tool, given in asked]
    assert {answer.status_code for answer in answers} <= {200, 400, 422}
    return [answer.text for answer in answers]


async def test_openapi_52_no_credential_argument_or_result_is_seen_by_others() -> None:
    """Also where they stand in the query, where the API repeats them, and where everything fails."""
    paths = {f"/{kind}/{{p}}": path_item(kind) for kind in KINDS}
    async with api_site(paths, tell, AUTH, components={"securitySchemes": SCHEMES}) as place:
        for kind in KINDS:
            for text in await ask_everything(place, kind):
                assert not [name for name in OURS if MADE[name] in text], text
        arrived = json.dumps([(request.target, request.headers, request.body.decode()) for request in place.api.calls])
        assert all(MADE[name] in arrived for name in ("header", "key", "query", "path", "body"))
        async with plainhttp.async_client() as admin:
            seen = {
                "log": place.running.log_text(),
                "metrics": (await admin.get(f"{place.running.admin_url}/metrics")).text,
                "health": (await admin.get(f"{place.running.admin_url}/health")).text,
            }
        assert "a tool server did not complete its answer" in seen["log"]
        assert 'protocol="openapi"' in seen["metrics"]
        for where, text in seen.items():
            assert not [name for name, canary in MADE.items() if canary in text], where
