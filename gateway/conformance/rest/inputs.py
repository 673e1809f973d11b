"""Checks of inputs and requests that are not valid."""

from __future__ import annotations

import json
from typing import Any

from gateway.conformance.rest.common import (
    any_tool,
    refused,
    required_arguments,
    simple_arguments,
)
from gateway.conformance.rest.registry import GOOD, MUST, NEW, SHOULD, Registry
from gateway.conformance.rest.server import RestServer

LARGE = 256 * 1024  # characters of an argument
DEPTH = 5000  # of nested lists

check = Registry()


@check(
    40,
    MUST,
    "A missing argument is refused with 422",
    page="Call Tool, Validation",
    remedy="Validate before the tool runs.",
    forms=NEW,
)
async def missing_argument(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(required_arguments(server, it)), "requires an argument")
    refused(server, await server.call(definition["id"], {}), 422)


@check(
    41,
    MUST,
    "An argument of another type is refused with 422",
    page="Call Tool, Validation",
    remedy="Validate before the tool runs.",
    forms=NEW,
)
async def wrong_type(server: RestServer) -> None:
    definition = await server.some_tool(
        lambda it: bool(simple_arguments(server, it)), "has an argument that takes only one type"
    )
    name = simple_arguments(server, definition)[0]
    refused(server, await server.call(definition["id"], {name: {"kit": []}}), 422)


@check(
    42,
    SHOULD,
    "`parameter_errors` names the arguments that are wrong",
    page="Call Tool, ValidationErrorResponse",
    remedy="Send an object of texts by parameter: models correct themselves by it.",
    forms=NEW,
)
async def parameter_errors(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(required_arguments(server, it)), "requires an argument")
    answer = await server.call(definition["id"], {})
    found = answer.member("parameter_errors")
    answer.must(isinstance(found, dict) and bool(found), "An object in `parameter_errors`.")
    answer.must(all(isinstance(each, str) for each in found.values()), "A text for each parameter.")


@check(
    43,
    MUST,
    "A body that is not a JSON object is refused with 400",
    page="Call Tool",
    remedy="Answer 400, never 5xx, and run nothing.",
    forms=NEW,
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
    forms=NEW,
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
    45,
    GOOD,
    "A body nested 5,000 levels deep is refused with 4xx",
    page="Call Tool",
    remedy="Limit the depth of the JSON that is read.",
    forms=NEW,
)
async def deep_body(server: RestServer) -> None:
    tool = await any_tool(server)
    nested = b"[" * DEPTH + b"]" * DEPTH
    request = json.dumps(server.form.request({"tool_id": tool, "input": {"kit": "@"}})).encode()
    answer = await server.post(request.replace(b'"@"', nested))
    answer.must(400 <= answer.status < 500, "A status of 4xx.")
    health = await server.client.send("GET", "/health")
    health.must(health.status == 200, "A server that goes on.")


@check(
    46,
    GOOD,
    "An argument of 256 KiB gets an answer below 500",
    page="Call Tool",
    remedy="Refuse what is too large with 4xx.",
    forms=NEW,
)
async def large_body(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {"kit": "x" * LARGE})
    answer.must(answer.status < 500, "A status below 500.")


@check(
    47,
    GOOD,
    "Unknown members of a request are refused with 400",
    page="Call Tool, CallToolRequest",
    remedy="The request is a closed object: a misspelled member would be ignored otherwise.",
    forms=NEW,
)
async def unknown_members(server: RestServer) -> None:
    tool = await any_tool(server)
    refused(server, await server.call(tool, {}, kit_member=1), 400)
