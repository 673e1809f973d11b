"""Subscriptions of MCP: what is honoured, and what each message says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.core.model import Json
from gateway.core.ports import ANONYMOUS
from gateway.core.surfaces import Opened, OpenedListen, OpenedOverview, RefusedOpening
from gateway.core.wire import Head
from gateway.protocols.mcp.callers.auth import Protection
from gateway.protocols.mcp.callers.surface import McpSurface
from gateway.protocols.mcp.wire import MODERN
from tests.support.listening import ANY, META, SUBSCRIPTION

SEALED = b"sealed"


class Sealing:
    def seal(self, text: bytes, associated_data: bytes) -> bytes:
        return SEALED

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        raise ValueError


def opened(method: str, params: dict[str, Json], *, listens: bool = True, accept: str = ANY, id_: Json = "s") -> Opened:
    surface = McpSurface(
        "/mcp",
        Sealing(),
        Sealing(),
        instructions=None,
        stream_after_s=10.0,
        protection=Protection(path="/mcp", public_url=str),
        allows_page=lambda origin: False,
        listens=listens,
    )
    headers = {b"mcp-protocol-version": MODERN.encode(), b"mcp-method": method.encode(), b"accept": accept.encode()}
    document = {"jsonrpc": "2.0", "id": id_, "method": method, "params": {"_meta": META, **params}}
    return surface.open(Head(method="POST", path="/mcp", headers=headers), document, ANONYMOUS)


def message(event: bytes) -> Any:
    name, data, *rest = event.split(b"\n")
    assert (name, rest) == (b"event: message", [b"", b""])
    return json.loads(data.removeprefix(b"data: "))


def refusal(opening: Opened) -> tuple[int, Any]:
    assert isinstance(opening, RefusedOpening)
    assert isinstance(opening.error, GatewayError)
    reply = opening.encoder.encode_error(opening.error)
    return reply.status, json.loads(reply.body)["error"]["code"]


@pytest.mark.parametrize("id_", ["s", 0, -7])
def test_mcp_24_each_message_names_the_request_and_the_first_says_what_is_honoured(id_: Json) -> None:
    listen = opened("subscriptions/listen", {"notifications": {"toolsListChanged": True, "taskIds": ["a"]}}, id_=id_)
    assert isinstance(listen, OpenedListen)
    encoder, meta = listen.encoder, {SUBSCRIPTION: id_}
    assert message(encoder.begun()) == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": {"toolsListChanged": True}},
    }
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}
    assert message(encoder.changed()) == changed
    ended = message(encoder.ended())
    assert (ended["id"], ended["result"]["resultType"]) == (id_, "complete")
    assert ended["result"]["_meta"].items() >= meta.items()
    assert encoder.beat() == b":\n\n"


@pytest.mark.parametrize("asked", [{}, {"toolsListChanged": False}, {"promptsListChanged": True}])
def test_mcp_24_nothing_is_sent_that_was_not_asked_for(asked: dict[str, Json]) -> None:
    listen = opened("subscriptions/listen", {"notifications": asked})
    assert isinstance(listen, OpenedListen)
    assert message(listen.encoder.begun())["params"]["notifications"] == {}
    assert listen.encoder.changed() == b""


@pytest.mark.parametrize("params", [{}, {"notifications": []}, {"notifications": {"toolsListChanged": "yes"}}])
def test_a_filter_of_another_shape_is_refused(params: dict[str, Json]) -> None:
    assert refusal(opened("subscriptions/listen", params)) == (400, -32602)


def test_mcp_18_nobody_listens_who_takes_only_json() -> None:
    asked = {"notifications": {"toolsListChanged": True}}
    assert refusal(opened("subscriptions/listen", asked, accept="application/json")) == (400, -32600)


@pytest.mark.parametrize("listens", [True, False])
def test_mcp_24_changes_are_declared_only_where_listening_works(listens: bool) -> None:
    discovered = opened("server/discover", {}, listens=listens)
    assert isinstance(discovered, OpenedOverview)
    tools = json.loads(discovered.answer({}).body)["result"]["capabilities"]["tools"]
    listen = opened("subscriptions/listen", {"notifications": {}}, listens=listens)
    if listens:
        assert tools == {"listChanged": True}
        assert isinstance(listen, OpenedListen)
    else:
        assert tools == {}
        assert refusal(listen) == (404, -32601)
