"""What callers of the bridge send, and why some of it is refused."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.protocols.mcp.wire import (
    CAPABILITIES_MEMBER,
    HEADER_MISMATCH,
    INVALID,
    METHOD,
    MODERN,
    NAME,
    PARAMS,
    PARSE,
    ROUTING,
    UNSUPPORTED_VERSION,
    VERSION,
    VERSION_MEMBER,
    header_text,
)

# What the header `Mcp-Name` repeats; a server may offer more than tools.
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
Headers = tuple[tuple[bytes, bytes], ...]


class BridgeRefusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is not passed on: its status, and the error of JSON-RPC."""

    def __init__(
        self, status: int, code: int, message: str, *, data: JsonObject | None = None, headers: Headers = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.more: JsonObject = {} if data is None else {"data": data}
        self.headers = headers


class BridgedMessage(Struct, frozen=True):
    """One message."""

    id: Json
    has_id: bool
    method: str | None  # None: a response
    params: JsonObject | None

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of its params."""
        meta = (self.params or {}).get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_modern(self) -> bool:
        """Whether it names a revision by itself."""
        return VERSION_MEMBER in self.meta


def check_caller(headers: Mapping[bytes, bytes], hosts: frozenset[str] | None) -> None:
    """Refuses pages of other sites, whose names may have been made to lead here. Raises BridgeRefusal.

    `hosts` are those that a request may be for; None is any, and its page must then be of the same one.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if hosts is not None and _name_of(host) not in hosts:
        raise BridgeRefusal(403, INVALID, "The Host header does not name this machine.")
    origin = headers.get(b"origin")
    if origin is None:
        return
    of = origin.decode("latin-1").lower().partition("://")[2]
    if (hosts is not None and _name_of(of) not in hosts) or (hosts is None and of != host):
        raise BridgeRefusal(403, INVALID, "Pages of that origin may not call.")


def _name_of(authority: str) -> str:
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def read_message(headers: Mapping[bytes, bytes], body: bytes) -> BridgedMessage:
    """Reads the body of a POST. Raises BridgeRefusal."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise BridgeRefusal(415, INVALID, "The content type must be application/json.")
    try:
        document = jsontext.decode(body)
    except jsontext.JsonError as exc:
        raise BridgeRefusal(400, PARSE, f"The body is not JSON: {exc}.") from None
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise BridgeRefusal(400, INVALID, "The body must be one message of JSON-RPC 2.0.")
    id_, method, params = document.get("id"), document.get("method"), document.get("params")
    has_id = "id" in document
    if method is None and ("result" in document or "error" in document):
        return BridgedMessage(id_, has_id, None, None)
    if has_id and (isinstance(id_, bool) or not isinstance(id_, int | str)):
        raise BridgeRefusal(400, INVALID, "The id of a request is an integer or a string.")
    if not isinstance(method, str) or not isinstance(params, dict | None):
        raise BridgeRefusal(400, INVALID, "A message has a method, and its params are an object.")
    return BridgedMessage(id_, has_id, method, params)


def is_modern(headers: Mapping[bytes, bytes], message: BridgedMessage) -> bool:
    """Whether a request is of the modern revision."""
    return message.is_modern or headers.get(VERSION, b"").strip() == MODERN.encode()


def check_modern(headers: Mapping[bytes, bytes], lines: Headers, message: BridgedMessage) -> None:
    """Checks what every modern request carries, which the server itself does not see. Raises BridgeRefusal."""
    meta, version = message.meta, message.meta.get(VERSION_MEMBER)
    if not message.has_id:
        return
    if message.method == "initialize" and version is None:
        revision = (message.params or {}).get("protocolVersion")
        data = {"supported": [MODERN], "requested": revision if isinstance(revision, str) else ""}
        raise BridgeRefusal(400, UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
    for member, kind in ((VERSION_MEMBER, str), (CAPABILITIES_MEMBER, dict)):
        if not isinstance(meta.get(member), kind):
            raise BridgeRefusal(400, PARAMS, f"params._meta lacks {member}.")
    if any(sum(name == routing for name, _ in lines) > 1 for routing in ROUTING):
        raise BridgeRefusal(400, HEADER_MISMATCH, "A header that says where the request belongs is repeated.")
    if headers.get(VERSION, b"").strip().decode("latin-1") != version:
        raise BridgeRefusal(400, HEADER_MISMATCH, "MCP-Protocol-Version is not the version in params._meta.")
    if headers.get(METHOD, b"").strip().decode("latin-1") != message.method:
        raise BridgeRefusal(400, HEADER_MISMATCH, "Mcp-Method is not the method of the body.")
    name = NAMED_BY.get(message.method or "")
    if name is not None and header_text(headers.get(NAME, b"")) != (message.params or {}).get(name):
        raise BridgeRefusal(400, HEADER_MISMATCH, f"Mcp-Name is not params.{name} of the body.")
