"""Checks of `tool.response.v1`: what it contains, and where clients find it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.schemas import fits, is_schema
from toolgate_conformance.servers.rcrt.documents import OPENAPI, STANDARD
from toolgate_conformance.servers.rcrt.messages import RESPONSE, answers
from toolgate_conformance.servers.rcrt.server import RcrtServer, context_in, schema_in

FORM = f"{STANDARD}: tool.response.v1"

check: Registry[RcrtServer] = Registry()


@check(61, MUST, FORM)
async def response_has_output(server: RcrtServer) -> None:
    """A success response has an output and no error.

    Fix: Send status success and an output, which is null if the tool returns nothing.
    """
    _, response = await server.made(server.allowed())
    response.must(response.context.get("status") == "success", "`status` success.")
    response.must("output" in response.context, "An `output`.")
    response.must(not response.context.get("error"), "No `error`.")


@check(62, MUST, FORM)
async def response_has_tags(server: RcrtServer) -> None:
    """A response has the tags of a response.

    Fix: Tag it tool:response, and request: followed by the id of the request.
    """
    asked, response = await server.made(server.allowed())
    for tag in ("tool:response", f"request:{asked.request_id}"):
        response.must(tag in response.tags, f"The tag {tag}.")


@check(64, MUST, FORM)
async def response_is_event(server: RcrtServer) -> None:
    """A response is announced by an event that matches the stored breadcrumb.

    Fix: Publish the breadcrumb as it is stored. NATS drops messages larger than its max_payload.
    """
    stream = await server.events()
    asked, _ = await server.made(server.allowed())
    found = await stream.wait(lambda event: answers(asked, event), server.limits.event_s)
    stream.must(bool(found), f"An event for the response to {asked.request_id}.")
    record, answer = await server.record(str(found[0].get("breadcrumb_id")))
    answer.must(record.get("schema_name") == RESPONSE, f"`schema_name` {RESPONSE}.")
    answer.must(record.get("context") == found[0].get("context"), "The context of the event.")


@check(65, MUST, f"{OPENAPI}: GET /breadcrumbs")
async def response_is_listed(server: RcrtServer) -> None:
    """A response can be listed by the tag of its request.

    Fix: Make the response visible in lists before its event is sent: clients that missed the event look there.
    """
    asked, response = await server.made(server.allowed())
    query = {"schema_name": RESPONSE, "tag": f"request:{asked.request_id}", "include_context": "true", "limit": 5}
    if f"request:{asked.request_id}" not in response.tags:  # which is a check of its own
        raise SkippedError("The response lacks the tag.")
    found, answer = await server.entries(**query)
    fits = any(entry.get("id") == response.crumb_id and entry.get("context") == response.context for entry in found)
    answer.must(fits, f"The response {response.crumb_id} with its context.")


@check(71, MUST, FORM)
async def error_has_text(server: RcrtServer) -> None:
    """An error response has a message and no output.

    Fix: Say in context.error what went wrong.
    """
    await server.events()
    response = await server.response(await server.ask_unknown(), server.limits.event_s)
    if response is None:  # which is a check of its own
        raise SkippedError("A request for an unknown tool gets no response.")
    error = response.context.get("error")
    response.must(isinstance(error, str) and error != "", "A string in `error`.")
    response.must("output" not in response.context, "No `output`.")


@check(72, SHOULD, f"{STANDARD}: input_schema")
async def bad_input(server: RcrtServer) -> None:
    """Input that lacks required members gets an error response.

    Fix: Let the tool validate its input: the runner does not.
    """
    server.allowed()
    requiring = [call for call in server.calls if _required(await _context_of(server, call.tool))]
    if not requiring:
        raise SkippedError("No tool of a --call requires any input.")
    call = requiring[0]
    await server.made(call)
    response = await server.must_respond(await server.ask(call.tool, {}))
    response.must(response.context.get("status") == "error", "`status` error.")


@check(73, SHOULD, FORM)
async def execution_time(server: RcrtServer) -> None:
    """`execution_time_ms` is a non-negative number.

    Fix: Send milliseconds as a number, or leave it out.
    """
    _, response = await server.made(server.allowed())
    took = response.context.get("execution_time_ms", 0)
    fits = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    response.must(fits, f"A number that is at least 0, not {took!r}.")


@check(74, SHOULD, f"{STANDARD}: output_schema")
async def output_fits(server: RcrtServer) -> None:
    """The output matches the output schema of its tool.

    Fix: Return what output_schema describes.
    """
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
