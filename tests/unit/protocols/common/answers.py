"""Answers of a tool server: to one call, with the call, and to the question what it offers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gateway.core.jsontext import encode
from gateway.core.model import Invocation, ToolDefinition
from gateway.core.wire import WireReply
from gateway.protocols.common import listing as listings

DEFINITION = ToolDefinition(
    tool="A.B", version="1.0.0", name="A_B", description="", input_schema={}, output_schema={}, remote_id="A.B@1.0.0"
)


def invocation(*, idempotent: bool = False) -> Invocation:
    return Invocation(call_id="c", tool=DEFINITION, arguments={}, timeout_s=1.0, idempotent=idempotent)


def reply(status: int, body: Any, content_type: str | None = "application/json", **headers: str) -> WireReply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        fields["content-type"] = content_type
    return WireReply(
        status=status,
        headers=tuple((name.encode(), value.encode()) for name, value in fields.items()),
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
    )


def offered(
    read: Callable[[bytes, bytes], tuple[bytes, ...]],
    document: Any,
    max_tools: int = 10,
    max_schema_bytes: int = 1000,
    *,
    has_version: bool = False,
) -> tuple[listings.Summary, list[ToolDefinition]]:
    """What a reader of lists makes of a document, or of its text."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    bounds = listings.Bounds("crm", "Crm", max_tools, max_schema_bytes, has_version)
    summary, *parts = read(encode(bounds), text)
    return listings.decode_summary(summary), [tool for part in parts for tool in listings.decode_tools(part)]
