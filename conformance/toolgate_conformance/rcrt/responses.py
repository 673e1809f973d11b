"""Checks of `tool.response.v1`: what it contains, and where clients find it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.rcrt.messages import RESPONSE, answers
from toolgate_conformance.rcrt.registry import MUST, OPENAPI, SHOULD, STANDARD, Registry
from toolgate_conformance.rcrt.server import RcrtServer, context_in, schema_in
from toolgate_conformance.schemas import fits, is_schema

FORM = f"{STANDARD}: tool.response.v1"

check = Registry()


@check(
    61,
    MUST,
    "A success response has an output and no error",
    section=FORM,
    remedy="Send status success and an output, which is null if the tool returns nothing.",
)
async def response_has_output(server: RcrtServer) -> None:
    _, response = await server.made(server.allowed())
    response.must(response.context.get("status") == "success", "`status` success.")
    response.must("output" in response.context, "An `output`.")
    response.must(not response.context.get("error"), "No `error`.")


@check(
    62,
    MUST,
    "A response has the tags of a response",
    section=FORM,
    remedy="Tag it tool:response, and request: followed by the id of the request.",
)
async def response_has_tags(server: RcrtServer) -> None:
    asked, response = await server.made(server.allowed())
    for tag in ("tool:response", f"request:{asked.request_id}"):
        response.must(tag in response.tags, f"The tag {tag}.")


@check(
    64,
    MUST,
    "A response is announced by an event that matches the stored breadcrumb",
    section=FORM,
    remedy="Publish the breadcrumb as it is stored. NATS drops messages larger than its max_payload.",
)
async def response_is_event(server: RcrtServer) -> None:
    stream = await server.events()
    asked, _ = await server.made(server.allowed())
    found = await stream.wait(lambda event: answers(asked, event), server.limits.event_s)
    stream.must(bool(found), f"An event for the response to {asked.request_id}.")
    record, answer = await server.record(str(found[0].get("breadcrumb_id")))
    answer.must(record.get("schema_name") == RESPONSE, f"`schema_name` {RESPONSE}.")
    answer.must(record.get("context") == found[0].get("context"), "The context of the event.")


@check(
    65,
    MUST,
    "A response can be listed by the tag of its request",
    section=f"{OPENAPI}: GET /breadcrumbs",
    remedy="Make the response visible in lists before its event is sent: clients that missed the event look there.",
)
async def response_is_listed(server: RcrtServer) -> None:
    asked, response = await server.made(server.allowed())
    query = {"schema_name": RESPONSE, "tag": f"request:{asked.request_id}", "include_context": "true", "limit": 5}
    if f"request:{asked.request_id}" not in response.tags:  # which is a check of its own
        raise SkippedError("The response lacks the tag.")
    found, answer = await server.entries(**query)
    fits = any(entry.get("id") == response.crumb_id and entry.get("context") == response.context for entry in found)
    answer.must(fits, f"The response {response.crumb_id} with its context.")


@check(
    71,
    MUST,
    "An error response has a message and no output",
    section=FORM,
    remedy="Say in context.error what went wrong.",
)
async def error_has_text(server: RcrtServer) -> None:
    await server.events()
    response = await server.response(await server.ask_unknown(), server.limits.event_s)
    if response is None:  # which is a check of its own
        raise SkippedError("A request for an unknown tool gets no response.")
    error = response.context.get("error")
    response.must(isinstance(error, str) and error != "", "A string in `error`.")
    response.must("output" not in response.context, "No `output`.")


@check(
    72,
    SHOULD,
    "Input that lacks required members gets an error response",
    section=f"{STANDARD}: input_schema",
    remedy="Let the tool validate its input: the runner does not.",
)
async def bad_input(server: RcrtServer) -> None:
    server.allowed()
    requiring = [call for call in server.calls if _required(await _context_of(server, call.tool))]
    if not requiring:
        raise SkippedError("No tool of a --call requires any input.")
    call = requiring[0]
    await server.made(call)
    response = await server.must_respond(await server.ask(call.tool, {}))
    response.must(response.context.get("status") == "error", "`status` error.")


@check(
    73,
    SHOULD,
    "`execution_time_ms` is a non-negative number",
    section=FORM,
    remedy="Send milliseconds as a number, or leave it out.",
)
async def execution_time(server: RcrtServer) -> None:
    _, response = await server.made(server.allowed())
    took = response.context.get("execution_time_ms", 0)
    fits = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    response.must(fits, f"A number that is at least 0, not {took!r}.")


@check(
    74,
    SHOULD,
    "The output matches the output schema of its tool",
    section=f"{STANDARD}: output_schema",
    remedy="Return what output_schema describes.",
)
async def output_fits(server: RcrtServer) -> None:
    call = server.allowed()
    schema = schema_in(await _context_of(server, call.tool), "output")
    if not isinstance(schema, dict) or not is_schema(schema):
        raise SkippedError("The tool has no valid output schema.")
    _, response = await server.made(call)
    if response.context.get("status") != "success" or "output" not in response.context:  # which is a check of its own
        raise SkippedError("The call of --call does not succeed.")
    if (does_fit := fits(schema, response.context.get("output"))) is None:
        raise SkippedError("The output schema of the tool refers to another document.")
    response.must(does_fit, f"An output that matches {json.dumps(schema)[:200]}.")


async def _context_of(server: RcrtServer, tool: str) -> Mapping[str, Any]:
    """The context of the breadcrumb that describes a tool. Raises SkippedError."""
    for record, _ in await server.tools():
        if context_in(record).get("name") == tool:
            return context_in(record)
    raise SkippedError(f"The tool {tool} is not listed.")


def _required(context: Mapping[str, Any]) -> Any:
    """The names of the members that the input of a tool requires."""
    schema = schema_in(context, "input")
    return schema.get("required") if isinstance(schema, dict) else None
