"""Checks of requests that are malformed."""

from __future__ import annotations

from typing import Any

from gateway.conformance.rest.expectations import any_tool, refused
from gateway.conformance.rest.registry import GOOD, MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    43,
    MUST,
    "A body that is no JSON object is refused with 400",
    page="Call Tool",
    remedy="Answer 400, never 5xx, and never run.",
    forms=SPECIFIED,
)
async def no_object(server: RestServer) -> None:
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe"):
        refused(server, await server.post(body), 400)


@check(
    44,
    MUST,
    "Members of the wrong type are refused with 400",
    page="Call Tool, CallToolRequest",
    remedy="422 is for the input of the tool only.",
    forms=SPECIFIED,
)
async def wrong_members(server: RestServer) -> None:
    tool = await any_tool(server)
    wrong: tuple[dict[str, Any], ...] = (
        {"tool_id": 1},
        {"tool_id": tool, "input": []},
        {"tool_id": tool, "call_id": 1},
        {"input": {}},
    )
    for members in wrong:
        refused(server, await server.post(server.form.request(members)), 400)


@check(
    47,
    GOOD,
    "Members that nobody knows are refused with 400",
    page="Call Tool, CallToolRequest",
    remedy="The request is a closed object: a member that is misspelled would be lost.",
    forms=SPECIFIED,
)
async def unknown_members(server: RestServer) -> None:
    tool = await any_tool(server)
    refused(server, await server.call(tool, {}, kit_member=1), 400)
