"""Checks of input that does not fit its schema, or is too large."""

from __future__ import annotations

import json

from gateway.conformance.rest.expectations import any_tool, refused, required, typed
from gateway.conformance.rest.registry import GOOD, MUST, SHOULD, SPECIFIED, Registry
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
    forms=SPECIFIED,
)
async def missing_argument(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(required(server, it)), "requires an argument")
    refused(server, await server.call(definition["id"], {}), 422)


@check(
    41,
    MUST,
    "An argument of another type is refused with 422",
    page="Call Tool, Validation",
    remedy="Validate before the tool runs.",
    forms=SPECIFIED,
)
async def wrong_type(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(typed(server, it)), "has an argument that takes only one type")
    name = typed(server, definition)[0]
    refused(server, await server.call(definition["id"], {name: {"kit": []}}), 422)


@check(
    42,
    SHOULD,
    "`parameter_errors` names the arguments that are wrong",
    page="Call Tool, ValidationErrorResponse",
    remedy="Send an object of texts by parameter: models correct themselves by it.",
    forms=SPECIFIED,
)
async def parameter_errors(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(required(server, it)), "requires an argument")
    answer = await server.call(definition["id"], {})
    found = answer.member("parameter_errors")
    answer.must(isinstance(found, dict) and bool(found), "An object in `parameter_errors`.")
    answer.must(all(isinstance(each, str) for each in found.values()), "A text for each parameter.")


@check(
    45,
    GOOD,
    "A body nested five thousand times is refused without harm",
    page="Call Tool",
    remedy="Bound the depth that is read.",
    forms=SPECIFIED,
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
    forms=SPECIFIED,
)
async def large_body(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {"kit": "x" * LARGE})
    answer.must(answer.status < 500, "A status below 500.")
