"""The tools that the conformance suite of MCP looks for, on the official Python server (`mcp`).

Started by the interpreter of `.venvs/mcp`. Prints its port as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")

server = MCPServer("fixtures", log_level="CRITICAL")


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    content = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=content)


async def simple_text() -> CallToolResult:
    """Returns a text."""
    return CallToolResult(content=[TextContent(type="text", text="This is a simple text response for testing.")])


async def image_content() -> CallToolResult:
    """Returns an image."""
    return CallToolResult(content=[IMAGE])


async def audio_content() -> CallToolResult:
    """Returns audio."""
    return CallToolResult(content=[AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")])


async def embedded_resource() -> CallToolResult:
    """Returns a resource within its result."""
    text = "This is an embedded resource content."
    return CallToolResult(content=[resource("test://embedded-resource", "text/plain", text)])


async def multiple_content_types() -> CallToolResult:
    """Returns a text, an image and a resource."""
    document = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return CallToolResult(content=[TextContent(type="text", text="Multiple content types test:"), IMAGE, document])


async def error_handling() -> CallToolResult:
    """Always fails."""
    text = "This tool intentionally returns an error for testing"
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


async def tool_with_progress(ctx: Context[Any, Any]) -> str:
    """Says how far it is."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


async def logging_tool(ctx: Context[Any, Any]) -> str:
    """Logs to its client."""
    await ctx.info("running")
    return "logged"


async def streaming_elicitation(ctx: Context[Any, Any]) -> str:
    """Answers in a stream."""
    await ctx.report_progress(1, 1)
    return "streamed"


async def trigger_tool_change(ctx: Context[Any, Any]) -> str:
    """Adds a tool, or takes it away again."""
    with contextlib.suppress(Exception):
        server.remove_tool("changing")
        await ctx.notify_tools_changed()
        return "removed"
    server.add_tool(simple_text, name="changing")
    await ctx.notify_tools_changed()
    return "added"


async def compute(seconds: float, label: str = "") -> str:
    """Takes a while."""
    await asyncio.sleep(seconds)
    return f"computed {label}"


async def job() -> CallToolResult:
    """Fails after a while."""
    await asyncio.sleep(1)
    return CallToolResult(content=[TextContent(type="text", text="The job failed.")], is_error=True)


for function in (
    compute,
    job,
    simple_text,
    image_content,
    audio_content,
    embedded_resource,
    multiple_content_types,
    error_handling,
    tool_with_progress,
    logging_tool,
    streaming_elicitation,
    trigger_tool_change,
):
    server.add_tool(function)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
        app = server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
