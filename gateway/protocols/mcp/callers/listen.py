"""Subscriptions of MCP (2026-07-28): a stream on which a caller hears that the list of tools has changed."""

from __future__ import annotations

from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject
from gateway.core.sse import COMMENT, EVENT_STREAM, event
from gateway.core.surfaces import OpenedListen
from gateway.core.wire import Head, Headers
from gateway.protocols.mcp.callers.answers import McpEncoder, RpcError
from gateway.protocols.mcp.wire import INVALID, MODERN, PARAMS, SUBSCRIPTION_MEMBER

TOOLS = "toolsListChanged"  # the one kind of news that there is here


class McpListenEncoder(McpEncoder, frozen=True, kw_only=True):
    """Encodes the messages of one subscription, each of which names the request that began it."""

    hears_tools: bool

    @property
    def headers(self) -> Headers:
        return EVENT_STREAM

    def begun(self) -> bytes:
        return self._notify("subscriptions/acknowledged", {"notifications": {TOOLS: True} if self.hears_tools else {}})

    def changed(self) -> bytes:
        return self._notify("tools/list_changed", {}) if self.hears_tools else b""

    def beat(self) -> bytes:
        return COMMENT

    def ended(self) -> bytes:
        return event(self.respond({"_meta": {SUBSCRIPTION_MEMBER: self.id}}).body)

    def _notify(self, what: str, params: JsonObject) -> bytes:
        params = {"_meta": {SUBSCRIPTION_MEMBER: self.id}, **params}
        return event(encode({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params}))


def open_listen(id_: Json, params: JsonObject, head: Head, toolkit: str | None) -> OpenedListen:
    """Reads a request to listen. Raises RpcError."""
    topics = params.get("notifications")
    if not isinstance(topics, dict):
        raise RpcError(PARAMS, "notifications must be an object.")
    hears_tools = topics.get(TOOLS, False)
    if not isinstance(hears_tools, bool):
        raise RpcError(PARAMS, f"notifications.{TOOLS} must be true or false.")
    if not takes_events(head):
        raise RpcError(INVALID, "A subscription is answered with text/event-stream, which Accept does not list.")
    encoder = McpListenEncoder(wire_version=MODERN, id=id_, is_call=False, hears_tools=hears_tools)
    return OpenedListen(encoder, toolkit)


def takes_events(head: Head) -> bool:
    """Whether a caller takes a stream of events; one that does not say what it takes gets JSON."""
    accepted = head.headers.get(b"accept", b"")
    return b"text/event-stream" in accepted or b"text/event-stream" in accepted.lower() or b"*/*" in accepted
