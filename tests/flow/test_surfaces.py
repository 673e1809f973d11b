"""A surface of another kind, JSON-RPC, in the whole gateway: one path, with method, id and version inside the body.

It is written here and nowhere else: what a surface needs of the gateway goes through its port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from msgspec import Struct

from gateway.core.encoders import Encoder
from gateway.core.errors import ErrorCode, GatewayError, NotJsonError
from gateway.core.jsontext import encode
from gateway.core.model import Json, ToolCall, ToolDefinition, ToolRef, ToolResult
from gateway.core.ports import Caller
from gateway.core.surfaces import Endpoint, Immediate, Opened, OpenedCall, OpenedList, RefusedOpening
from gateway.core.wire import Head, Headers, JoinedList, WireReply
from tests.flow.gateways import config
from tests.flow.keeping import begun, counted, gated
from tests.flow.toolserver import ToolServer, tool
from tests.flow.watching import Watched, samples, watched
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

PATH, VERSIONS = "/rpc", ("2", "1")
CODES = {
    ErrorCode.NOT_FOUND: -32601,
    ErrorCode.TOOL_NOT_FOUND: -32602,
    ErrorCode.INVALID_ARGUMENTS: -32602,
    ErrorCode.INVALID_REQUEST: -32600,
}
STATUSES = {
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA: 415,
    ErrorCode.RATE_LIMITED: 429,
}
JSON: Headers = ((b"content-type", b"application/json"),)


class RpcEncoder(Struct, frozen=True):
    """Answers one request by its id."""

    wire_version: str
    id: Json = None
    name: str = "rpc"
    revision: str = ""
    definition_form: str = "rpc"
    list_form: str = "rpc"

    def respond(self, result: Json) -> WireReply:
        body = encode({"jsonrpc": "2.0", "id": self.id, "result": result})
        return WireReply(status=200, headers=JSON, body=body)

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        if result.failure is None:
            return self.respond({"call_id": call_id, "value": result.value, "isError": False})
        said = {"text": result.failure.message, "code": result.failure.public_code, "isError": True}
        return self.respond({"call_id": call_id, **said})

    encode_accepted = encode_result

    def encode_error(self, error: GatewayError) -> WireReply:
        code = -32700 if isinstance(error, NotJsonError) else CODES.get(error.code, -32000)
        said = {"code": code, "message": error.message, "data": error.parameters}
        body = encode({"jsonrpc": "2.0", "id": self.id, "error": said})
        return WireReply(status=STATUSES.get(error.code, 200), headers=(*JSON, *error.headers), body=body)

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        return encode({"name": tool.name, "inputSchema": tool.input_schema})

    def join(self, tools: Sequence[bytes]) -> JoinedList:
        return JoinedList(body=b'{"tools":[%b]}' % b",".join(tools))

    def encode_list(self, joined: JoinedList, head: Head) -> WireReply:
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(self.id), joined.body)
        return WireReply(status=200, headers=JSON, body=body)


class RpcSurface:
    """A small JSON-RPC surface."""

    dialects = frozenset({"rpc"})
    endpoints: Mapping[str, Endpoint] = {PATH: Endpoint(route=PATH, methods=("POST",), operation="call", dialect="rpc")}
    encoders: Mapping[tuple[str, str], Encoder] = {("rpc", version): RpcEncoder(version) for version in VERSIONS}
    argument_members = (b"arguments",)

    def check_head(self, head: Head) -> None:
        if head.headers.get(b"content-type") != b"application/json":
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "JSON only.")

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        return RpcEncoder(VERSIONS[0]).encode_error(error)

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        if not isinstance(document, dict) or not isinstance(document.get("method"), str):
            raise GatewayError(ErrorCode.INVALID_REQUEST, "It is no request.")
        params = document.get("params", {})
        version = params.get("version", VERSIONS[0])
        encoder = RpcEncoder(version if version in VERSIONS else VERSIONS[0], document.get("id"))
        if version not in VERSIONS:
            return RefusedOpening(encoder, GatewayError(ErrorCode.INVALID_REQUEST, "That version is not spoken."))
        if "id" not in document:
            return Immediate(encoder=encoder, reply=WireReply(status=202))
        match document["method"]:
            case "initialize":
                return Immediate(encoder=encoder, reply=encoder.respond({"version": version}))
            case "ping":
                return Immediate(encoder=encoder, reply=encoder.respond({}))
            case "tools/list":
                return OpenedList(encoder)
            case "tools/call":
                ref = ToolRef(tool=params["name"], by_name=True)
                return OpenedCall(encoder, ToolCall(ref=ref, arguments=params["arguments"], call_id=params.get("key")))
        return RefusedOpening(encoder, GatewayError(ErrorCode.NOT_FOUND, "There is no such method."))


@dataclass(frozen=True)
class RpcCaller:
    """Speaks JSON-RPC to a gateway."""

    http: httpx.AsyncClient
    headers: Mapping[str, str]

    async def post(self, body: bytes, **headers: str) -> httpx.Response:
        usual = {"content-type": "application/json", **self.headers, **headers}
        return await self.http.post(PATH, content=body, headers=usual)

    async def ask(self, method: str, id_: Json = 0, **params: Any) -> Any:
        """The response to a request, which has its id."""
        response = (await self.post(encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))).json()
        assert (response["jsonrpc"], response["id"]) == ("2.0", id_)
        return response

    async def result(self, method: str, **params: Any) -> Any:
        return (await self.ask(method, **params))["result"]

    async def call(self, name: str = "Echo_Say", **params: Any) -> Any:
        return await self.result("tools/call", **{"name": name, "arguments": {}} | params)


@asynccontextmanager
async def rpc(tools: ToolServer, **sections: Any) -> AsyncIterator[tuple[Watched, RpcCaller]]:
    """A gateway with the surface besides its own, and a caller of it whose token is good."""
    text = config({"scripted": tools.url}, **{"auth": {"jwt": [{"secret": SECRET}]}, **sections})
    async with watched(text, (RpcSurface(),)) as it:
        yield it, RpcCaller(it.caller.http, {"authorization": f"Bearer {token()}"})


def per_day(name: str, burst: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "key": "caller", "rate": "1/d", "burst": burst, **more}


async def test_what_the_protocol_answers_by_itself_is_answered(server: ToolServer) -> None:
    async with rpc(server) as (_, caller):
        assert await caller.result("initialize", version="1") == {"version": "1"}
        assert await caller.result("ping") == {}
        assert (await caller.ask("ping", id_="a"))["id"] == "a"
        taken = await caller.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        assert (taken.status_code, taken.content) == (202, b"")
        assert taken.headers["x-request-id"]


async def test_a_tool_is_called_and_its_result_comes_back(server: ToolServer) -> None:
    async with rpc(server) as (_, caller):
        response = await caller.post(
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Echo_Say","arguments":{"a":[1]}}}'
        )
        call_id = response.headers["toolgate-call-id"]
        result = {"call_id": call_id, "value": {"a": [1]}, "isError": False}
        assert response.json() == {"jsonrpc": "2.0", "id": 7, "result": result}
        many = {"many": [[n] for n in range(20_000)]}  # which stay text on their way
        assert (await caller.call(arguments=many))["value"] == many


async def test_a_list_has_what_the_caller_may_use_and_is_joined_once(server: ToolServer) -> None:
    server.tools.append(tool("Mail.Send"))
    routes = [
        {"tools": "Mail.*", "backend": "scripted", "scopes": ["mail"]},
        {"tools": "*", "backend": "scripted"},
    ]
    async with rpc(server, routes=routes) as (_, caller):
        mailer = replace(caller, headers={"authorization": f"Bearer {token(scope='mail')}"})
        for _ in range(2):
            names = [each["name"] for each in (await caller.result("tools/list"))["tools"]]
            assert names == ["Count_Up", "Echo_Say"]
        assert len((await mailer.result("tools/list"))["tools"]) == 3
        listed = await caller.http.get("/tools", headers=caller.headers)
        assert listed.headers["etag"]  # its own encoders revalidate


REFUSED = [
    (b"{", None, -32700),
    (b"[]", None, -32600),
    (b'{"id":1}', None, -32600),
    (b'{"id":0,"method":"tools/sing"}', 0, -32601),
    (b'{"id":"x","method":"tools/call","params":{"name":"No_Tool","arguments":{}}}', "x", -32602),
    (b'{"id":2,"method":"tools/call","params":{"name":"Count_Up","arguments":{"n":"one"}}}', 2, -32602),
    (b'{"id":3,"method":"ping","params":{"version":"9"}}', 3, -32600),
]


@pytest.mark.parametrize(("body", "id_", "code"), REFUSED)
async def test_refusals_have_the_id_of_their_request(server: ToolServer, body: bytes, id_: Json, code: int) -> None:
    async with rpc(server) as (_, caller):
        response = await caller.post(body)
    error = response.json()["error"]
    assert (response.status_code, response.json()["id"], error["code"]) == (200, id_, code)
    assert (error["data"] is not None) == (b"Count_Up" in body)


async def test_refused_heads_get_an_error(server: ToolServer) -> None:
    async with rpc(server, server={"max_body": "1KiB"}) as (_, caller):
        stranger = replace(caller, headers={})
        refused = [
            (await stranger.post(b"{}"), 401),
            (await caller.post(b"{}", **{"content-type": "text/plain"}), 415),
            (await caller.post(b" " * 2000), 413),
            (await caller.http.get(PATH, headers=caller.headers), 405),
        ]
    for response, status in refused:
        assert response.status_code == status
        assert response.json()["error"]["code"] == -32000
    assert refused[0][0].headers["www-authenticate"].startswith("Bearer")


async def test_limits_count_what_the_body_says_it_is(server: ToolServer) -> None:
    limits = [per_day("calls", 2, operations=["call"]), per_day("lists", 1, operations=["list"])]
    async with rpc(server, rate_limits=limits) as (_, caller):
        for _ in range(3):
            await caller.result("ping")
        await caller.result("tools/list")
        assert (await caller.ask("tools/list", id_=4))["error"]["code"] == -32000
        for _ in range(2):
            await caller.call()
        refused = await caller.post(b'{"id":5,"method":"tools/call","params":{"name":"Echo_Say","arguments":{}}}')
    assert (refused.status_code, refused.json()["id"]) == (429, 5)
    assert refused.headers["ratelimit"].startswith('"calls";r=0')
    assert server.executions == 2


async def test_requests_are_counted_and_logged_as_what_they_were(server: ToolServer) -> None:
    async with rpc(server) as (watch, caller):
        await caller.result("ping")
        await caller.result("tools/list")
        await caller.call()
        await caller.post(b"{")
        counts = await samples(watch.running, "toolgate_requests_total")
        calls = await samples(watch.running, "toolgate_tool_calls_total")
    assert counts == {
        "{dialect=rpc,operation=poll,status=200}": 1,
        "{dialect=rpc,operation=list,status=200}": 1,
        "{dialect=rpc,operation=call,status=200}": 2,
    }
    assert calls == {"{backend=scripted,outcome=ok,protocol=oxp,tool=Echo.Say}": 1}
    noted = [(line["operation"], line["route"], line["dialect"], line["outcome"]) for line in watch.lines]
    assert noted == [
        ("poll", PATH, "rpc", "ok"),
        ("list", PATH, "rpc", "ok"),
        ("call", PATH, "rpc", "ok"),
        ("call", PATH, "rpc", "refused"),
    ]


async def test_a_call_with_an_id_runs_once_whatever_dialect_repeats_it(server: ToolServer) -> None:
    server.handler = counted(server)
    async with rpc(server) as (it, caller):
        first = await caller.call(key="k", arguments={"n": 1})
        assert await caller.call(key="k", arguments={"n": 1}) == first
        other = it.caller.with_token(caller.headers["authorization"].removeprefix("Bearer "))
        conflict = await caller.ask("tools/call", id_=9, name="Echo_Say", arguments={"n": 2}, key="k")
        assert conflict["error"]["code"] == -32000
        assert (await other.call("lc", "Echo_Say", {"n": 1}, call_id="k")).value == first["value"]
    assert server.executions == 1


async def test_a_kept_call_is_looked_at_in_its_own_dialect_and_version(server: ToolServer) -> None:
    server.handler, opened = gated(server)
    params = {"name": "Echo_Say", "arguments": {}, "key": "k", "version": "1"}
    body = encode({"id": 1, "method": "tools/call", "params": params})
    async with rpc(server) as (_, caller):
        accepted = await caller.post(body, prefer="respond-async")
        assert (accepted.status_code, accepted.json()["result"]["code"]) == (200, "still_running")
        await begun(server)
        where = httpx.URL(accepted.headers["location"]).path
        waiting = await caller.http.get(where, headers=caller.headers)
        assert (waiting.status_code, waiting.json()["id"]) == (200, None)
        opened.set()
        repeated = await caller.call(key="k")  # which waits for it
        assert repeated["value"]["run"] == 1
        over = await caller.http.get(where, headers=caller.headers)
        assert over.json() == {"jsonrpc": "2.0", "id": None, "result": repeated}
        assert (await caller.http.get("/calls/tg-none", headers=caller.headers)).status_code == 404
