"""Answers of a tool server to one call, and the call."""

from __future__ import annotations

import json
from typing import Any

from gateway.model import Invocation, ToolDefinition
from gateway.wire import WireReply

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
