"""What a call is told that was not sent to any tool server."""

from __future__ import annotations

from gateway.errors import ErrorCode, GatewayError

UNAVAILABLE = "The tool is temporarily unavailable."
RETRY_AFTER_S = 1.0  # where nothing says when it will be better: a tool server may be restarting, a queue moves on


def unavailable(detail: str, retry_after_s: float = RETRY_AFTER_S) -> GatewayError:
    """A refusal; `detail` is for our log."""
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail, retry_after_s=retry_after_s)
