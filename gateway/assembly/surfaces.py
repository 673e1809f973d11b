"""The protocols that callers speak."""

from __future__ import annotations

from gateway import __version__
from gateway.dialects.mcp import McpSurface
from gateway.dialects.recognise import REST
from gateway.ports import Surface

SURFACES: tuple[Surface, ...] = (REST, McpSurface(__version__))  # the first speaks for paths that are none's
