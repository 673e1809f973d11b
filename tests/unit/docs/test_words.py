"""Protocols have one name each, which a page expands and links to its specification where it first uses it."""

from __future__ import annotations

SPECIFICATIONS = {
    "MCP": "https://modelcontextprotocol.io/specification",
    "OTC": "https://github.com/OpenToolCalling/Specification",
    "OTC RFC": "https://github.com/ArcadeAI/OpenToolCalling",
    "OXP": "https://github.com/OpenExecProtocol/Specification",
    "RAP": "https://infinity.hydro.run/docs/rap/spec/overview",
    "RCRT": "https://github.com/Ai-Layer-Labs/lightforge",
    "OpenAPI": "https://spec.openapis.org/oas/latest.html",
}
