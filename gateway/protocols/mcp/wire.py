"""MCP as both sides write it: revisions, header and member names, error codes, envelopes (JSON-RPC 2.0).

`modern` is revision 2026-07-28, in which every request carries its version and the caller's capabilities; `legacy` are
those before it, which begin with `initialize`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from gateway.core.jsontext import encode
from gateway.core.model import Json

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first
ASSUMED = "2025-03-26"  # of a request without a version header (2025-06-18, Transports)

BATCHED = ("2025-03-26", "2024-11-05")  # the revisions in which several messages may come as an array
RESUMABLE = "2025-11-25"  # the revision whose streams begin with an event to resume from

VERSION, METHOD, NAME, SESSION = b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-session-id"
LAST_EVENT = b"last-event-id"
ROUTING = (VERSION, METHOD, NAME)

PREFIX = "io.modelcontextprotocol/"
VERSION_MEMBER = f"{PREFIX}protocolVersion"
CAPABILITIES_MEMBER = f"{PREFIX}clientCapabilities"
CLIENT_MEMBER = f"{PREFIX}clientInfo"
SERVER_MEMBER = f"{PREFIX}serverInfo"
SUBSCRIPTION_MEMBER = f"{PREFIX}subscriptionId"
TASKS = f"{PREFIX}tasks"  # the extension

# Members of `_meta` that are Toolgate's own.
CALL_ID_MEMBER, CONTEXT_MEMBER, WAIT_MEMBER = "toolgate/call_id", "toolgate/context", "toolgate/wait"
ERROR_MEMBER = "toolgate/error"

# JSON-RPC 2.0, section 5.1; then those of revision 2026-07-28.
PARSE, INVALID, NO_METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
ELICITATION_REQUIRED = -32042  # 2025-11-25 alone: the user must open a URL first

# Which member of `params` the header `Mcp-Name` repeats.
NAMED_BY = {"tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}

MARK, END = b"=?base64?", b"?="
PLAIN = frozenset(range(0x20, 0x7F))


def envelope(id_: Json, member: bytes, content: bytes) -> bytes:
    """A response whose `result` or `error` is encoded already."""
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (encode(id_), member, content)


def is_number(id_: Json, number: int) -> bool:
    """Whether an id or a token in a message is this number of ours, of which some servers make a string."""
    return (id_ == number and not isinstance(id_, bool)) or id_ == str(number)


def header_value(text: str) -> bytes:
    """A value for `Mcp-Name` or `Mcp-Param-*`: as it is, or in base64 where a header could not carry it."""
    value = text.encode()
    is_marked = value.startswith(MARK) and value.endswith(END)
    if not is_marked and value == value.strip(b" \t") and PLAIN.issuperset(value):
        return value
    return MARK + b64encode(value) + END


def header_text(value: bytes) -> str | None:
    """What such a header says; None for bad base64 or bad characters."""
    value = value.strip(b" \t")
    try:
        if value.startswith(MARK) and value.endswith(END):
            return b64decode(value[len(MARK) : -len(END)], validate=True).decode()
        return value.decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
