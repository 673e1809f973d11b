"""The calls that a run of the kit may make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class ToolCall(Struct, frozen=True):
    """A call that the operator of the tool server allows: the tool, its input, and the context to send with it."""

    tool: str
    input: Mapping[str, Any]
    context: Mapping[str, Any] = {}
