"""Documents that would have the gateway go elsewhere, say what nobody should read, or never end."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import Running, config
from tests.protocols.mcp.requests import ask
from tests.streams import http_reply
from tests.support.httpapi import STRING, Api, http_api, operation, parameter
from tests.support.toolserver import Exchange

pytestmark = pytest.mark.anyio

ALL = {"operations": {"methods": ["all"]}}


async def test_openapi_50_a_server_that_only_a_document_or_an_answer_names_is_never_contacted(start: Start) -> None:
    async with http_api({}) as foreign:
        away, host = foreign.url, f"localhost:{foreign.port}"  # the same, by another name
        oauth = {"authorizationCode": {"authorizationUrl": f"{away}/a", "tokenUrl": f"{away}/t", "scopes": {"s": ""}}}
        schemes = {
            "O": {"type": "oauth2", "flows": oauth},
            "C": {"type": "openIdConnect", "openIdConnectUrl": f"{away}/.well-known/openid-configuration"},
        }
        secured = [{"O": ["s"]}, {"C": []}, {}]
        paths: dict[str, Any] = {
            "/plain": {"get": operation("plain", security=secured, externalDocs={"url": f"{away}/docs"})},
            "/own": {"get": operation("own", servers=[{"url": f"http://{host}/v9"}])},
            "/variable": {
                "get": operation("variable", servers=[{"url": "http://{h}", "variables": {"h": {"default": host}}}])
            },
            "/path": {"servers": [{"url": f"//{host}"}], "get": operation("path")},
            "/remote": {"get": {"operationId": "remote", "parameters": [{"$ref": f"{away}/p.json"}], "responses": {}}},
            "/schema": {"get": operation("schema", schema={"$ref": f"{away}/s.json#/x"})},
            "/dialect": {"get": operation("dialect", schema={"$schema": f"{away}/meta", "$id": f"{away}/id"})},
            "/item": {"$ref": f"{away}/i.json"},
            "/moved": {"get": operation("moved")},
            "/linked": {"get": operation("linked")},
            "@evil": {"get": operation("noslash")},
            f"//{host}/x": {"get": operation("slashes")},
        }

        async def answer(exchange: Exchange) -> None:
            if exchange.request.target.endswith("/moved"):
                await exchange.write(http_reply(307, b"", location=f"{away}/moved"))
            else:
                links = (("Location", f"{away}/l"), ("Link", f'<{away}/n>; rel="next"'), ("Refresh", f"0; url={away}"))
                await exchange.write(http_reply(200, {"next": f"{away}/next"}, *links))

        members = {
            "servers": [{"url": f"{away}/v2"}],
            "components": {"securitySchemes": schemes},
            "jsonSchemaDialect": f"{away}/dialect",
            "$self": f"{away}/openapi.json",
        }
        async with http_api(paths, answer, **members) as api:
            del api.document["jsonSchemaDialect"]  # first as most documents are
            for _ in range(2):
                running = await start(config({"api": api.backend(auth={"bearer": "of-the-gateway"})}))
                ids = [tool.partition("@")[0] for tool in (await running.caller.list("oxp")).ids]
                assert not {"Api.own", "Api.variable", "Api.path", "Api.remote", "Api.noslash", "Api.slashes"} & set(
                    ids
                )
                for tool in ids:
                    await running.caller.call("oxp", tool)
                api.document["jsonSchemaDialect"] = f"{away}/dialect"
            assert foreign.requests == []
            assert foreign.connections == 0
            assert {request.target for request in api.calls} >= {"/v2/plain", "/v2/moved", "/v2/linked"}
            assert {request.target[:4] for request in api.calls} == {"/v2/"}


LOOP = {"$ref": "#/components/schemas/Loop"}
LOOPS: dict[str, Any] = {
    "schemas": {
        "Loop": {"$ref": "#/components/schemas/Loop"},
        "Ping": {"$ref": "#/components/schemas/Pong"},
        "Pong": {"$ref": "#/components/schemas/Ping"},
        "Tree": {
            "type": "object",
            "properties": {"child": {"$ref": "#/components/schemas/Tree"}, "n": {"type": "integer"}},
        },
        "All": {"allOf": [{"$ref": "#/components/schemas/All"}]},
    },
    "parameters": {"P": {"$ref": "#/components/parameters/Q"}, "Q": {"$ref": "#/components/parameters/P"}},
    "responses": {"R": {"$ref": "#/components/responses/R"}},
    "requestBodies": {"B": {"$ref": "#/components/requestBodies/B"}},
    "pathItems": {"I": {"$ref": "#/components/pathItems/I"}},
}


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"type": "object", "properties": {"x": leaf}}
    return leaf


def posting(id_: str, schema: Any) -> dict[str, Any]:
    return {"post": operation(id_, requestBody={"content": {"application/json": {"schema": schema}}})}


async def test_openapi_06_references_in_a_circle_and_schemas_without_a_floor_take_nothing_else_along(
    start: Start,
) -> None:
    refs = {name: {"$ref": f"#/components/schemas/{name}"} for name in LOOPS["schemas"]}
    paths: dict[str, Any] = {
        "/good": {"get": operation("good")},
        **{f"/{name}": posting(f"post{name}", ref) for name, ref in refs.items()},
        **{f"/a{name}": {"get": operation(f"get{name}", schema=ref)} for name, ref in refs.items()},
        "/p": {"get": operation("p", {"$ref": "#/components/parameters/P"})},
        "/r": {"get": {"operationId": "r", "responses": {"200": {"$ref": "#/components/responses/R"}}}},
        "/b": {"post": operation("b", requestBody={"$ref": "#/components/requestBodies/B"})},
        "/i": {"$ref": "#/components/pathItems/I"},
        "/self": {"$ref": "#/paths/~1self"},
        "/root": posting("root", {"$ref": "#"}),
        "/keys": {"get": operation("keys", security=[{f"Key{number}": []} for number in range(101)])},
        "/deep": posting("deep", nested(70, STRING)),
        "/far": {"get": operation("far", schema={"$ref": "#/" + "/".join("x" * 1000)})},
    }
    async with http_api(paths, components=LOOPS) as api:
        running = await start(config({"api": api.backend(**ALL)}))
        ids = (await running.caller.list("oxp")).ids
        assert {"Api.good@1.0.0", "Api.postTree@1.0.0"} <= set(ids)
        assert "Api.keys@1.0.0" not in ids
        tree: dict[str, Any] = {"n": 0}
        for number in range(5):
            tree = {"child": tree, "n": number}
        assert (await running.caller.call("oxp", "Api.postTree", {"body": tree})).status == 200
        tree["child"]["child"]["n"] = "five"
        assert (await running.caller.call("oxp", "Api.postTree", {"body": tree})).document[
            "code"
        ] == "invalid_arguments"
        problems = running.problems_of("api")
        assert all(reason.strip() and len(reason) < 1000 for reason in problems.values())
        assert len(ids) + len(problems) >= len(paths)


@pytest.mark.parametrize(
    "text",
    [
        # Python 3.14 reads as deep as its stack allows.
        b'{"openapi":"3.1.0","paths":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001,
        b"openapi: 3.1.0\na: &a [x, x, x, x, x, x, x, x, x]\n"
        + b"".join(b"%c: &%c [%b]\n" % (n + 1, n + 1, b", ".join([b"*%c" % n] * 9)) for n in range(97, 110)),
        b"<!DOCTYPE html><title>Log in</title>",
    ],
    ids=["deep", "laughs", "html"],
)
async def test_openapi_02_a_document_that_is_none_leaves_the_other_tools_alone(text: bytes, start: Start) -> None:
    async with http_api(text) as bad, http_api({"/": {"get": operation("ask")}}) as good:
        running = await start(config({"bad": bad.backend(toolkit="Bad"), "good": good.backend()}))
        assert (await running.caller.list("oxp")).ids == ["Api.ask@1.0.0"]
        assert (await running.caller.call("oxp", "Api.ask")).value["target"] == "/"
        assert bad.calls == []
        refused = await running.caller.call("oxp", "Bad.ask")
        assert refused.document["code"] == "backend_unavailable"


MANY = 100_000


async def test_openapi_10_more_operations_than_anybody_wants_are_none(start: Start) -> None:
    paths = b",".join(b'"/%d":{"get":{}}' % number for number in range(MANY))
    text = b'{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{%b}}' % paths
    async with http_api(text) as bad, http_api({"/": {"get": operation("ask")}}) as good:
        running = await start(config({"bad": bad.backend(toolkit="Bad"), "good": good.backend()}))
        assert (await running.caller.list("oxp")).ids == ["Api.ask@1.0.0"]


HOSTILE = "ok\x1b[31m\x00\r\nInjected: 1\u202egnp.exe\u200b\u2066 <script>alert(1)</script><b>bold</b> <!-- x -->"


def is_clean(text: str) -> bool:
    """No control or format characters but line breaks, and no markup."""
    kinds = {unicodedata.category(character) for character in text if character != "\n"}
    return not kinds & {"Cc", "Cf", "Cs"} and "<script" not in text and "<!--" not in text


async def test_openapi_11_names_and_descriptions_reach_models_without_control_characters_and_markup(
    start: Start,
) -> None:
    odd = parameter(f"q{HOSTILE}", description=HOSTILE)
    paths = {
        "/a": {"get": operation(f"a{HOSTILE}", summary=HOSTILE, description=HOSTILE * 200, tags=[HOSTILE])},
        "/b": {"get": operation("b", odd, parameter("plain", schema={"type": "string", "description": HOSTILE}))},
        f"/c/{HOSTILE}": {"get": operation("c")},
        "/d": {"get": operation("d", {"name": "X-\r\nEvil", "in": "header", "schema": STRING})},
        "/e": posting("e", {"type": "object", "title": HOSTILE, "properties": {HOSTILE: {"description": HOSTILE}}}),
    }
    async with http_api(paths) as api:
        api.document["info"] |= {"title": HOSTILE, "description": HOSTILE}
        running = await start(config({"api": api.backend(**ALL)}))
        listed = (await running.caller.list("oxp")).tools
        assert {"Api.b@1.0.0"} <= {tool["id"] for tool in listed}
        for tool in listed:
            assert is_clean(tool["name"] + tool["description"]), tool
            assert len(tool["description"]) <= 1100
            assert all(map(is_clean, tool["input_schema"].get("properties", {}))), tool
        for tool in (await ask(running.caller, "tools/list", {})).json()["result"]["tools"]:
            assert is_clean(tool["name"] + tool["description"] + tool.get("title", ""))
        await assert_callable(running, api)


async def assert_callable(running: Running, api: Api) -> None:
    """Whatever is listed makes proper requests."""
    for tool in (await running.caller.list("oxp")).ids:
        await running.caller.call("oxp", tool.partition("@")[0])
    for request in api.calls:
        assert all(name.isascii() and name.replace("-", "").isalnum() for name, _ in request.headers)
        assert "evil" not in json.dumps(request.headers).lower()
