"""Checks of calls that run: their results, the values in them, and calls at the same time."""

from __future__ import annotations

import asyncio
import json

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.expectations import is_meant, versioned
from gateway.conformance.rest.registry import MUST, SHOULD, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer
from gateway.conformance.schemas import fits, is_schema

AT_ONCE = 20
check = Registry()


@check(
    20,
    MUST,
    "A valid call is answered with 200 and a result",
    page="Call Tool",
    remedy="Answer 200, also for a tool that fails.",
)
async def call_answers(server: RestServer) -> None:
    answer = await server.make(server.allowed(), call_id=server.new_id())
    answer.must(answer.status == 200, "Status 200 for a call that is valid.")
    result = server.form.result(answer)
    answer.must(isinstance(result.get("success"), bool), "true or false in `success`.")


@check(
    21,
    MUST,
    "A successful result has a `value` and no `error`",
    page="Call Tool, CallToolResponse",
    remedy="Send value, null if the tool returns nothing.",
)
async def call_has_value(server: RestServer) -> None:
    answer, result = await server.made(call_id=server.new_id())
    outcome = server.form.outcome(result)
    answer.must(result.get("success") is True, "A call that succeeds.")
    answer.must("value" in outcome, "A `value` in the result.")
    answer.must("error" not in outcome, "No `error` in a successful result.")


@check(
    24,
    SHOULD,
    "`duration` is a number of milliseconds, at least 0",
    page="Call Tool, CallToolResponse",
    remedy="Leave it out, or send a number.",
    forms=SPECIFIED,
)
async def duration(server: RestServer) -> None:
    answer, result = await server.made(call_id=server.new_id())
    took = result.get("duration", 0)
    fits = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    answer.must(fits, f"A number, at least 0, not {took!r}.")


@check(
    25,
    MUST,
    "The answer to a call has the version of the protocol",
    page="Versioning",
    remedy="Send $schema in every body of OTC, OXP-Version in every answer of flat OXP.",
    forms=SPECIFIED,
)
async def call_has_version(server: RestServer) -> None:
    answer, _ = await server.made(call_id=server.new_id())
    if server.form.is_flat:
        versioned(answer)
    else:
        answer.must(isinstance(answer.member("$schema"), str), "A text in `$schema`.")


@check(
    26,
    MUST,
    "The value fits the output schema of its tool",
    page="Call Tool",
    remedy="Return what output_schema promises.",
    forms=SPECIFIED - {"rfc"},
)
async def value_fits(server: RestServer) -> None:
    call = server.allowed()
    definition = await server.some_tool(lambda it: is_meant(it, call.tool), "is the one that is called")
    schema = definition.get("output_schema")
    if not isinstance(schema, dict) or not is_schema(schema):
        raise SkippedError("The tool has no output schema that can be used.")
    answer, result = await server.made(call_id=server.new_id())
    value = server.form.outcome(result).get("value")
    if (does_fit := fits(schema, value)) is None:
        raise SkippedError("The output schema of the tool refers to another document.")
    answer.must(does_fit, f"A value that fits {json.dumps(schema)[:200]}.")


@check(
    27,
    MUST,
    "Calls at the same time get their own answers",
    page="Call Tool",
    remedy="Keep nothing of a call in what calls share.",
    forms=SPECIFIED,
)
async def calls_at_once(server: RestServer) -> None:
    wanted = [server.new_id() for _ in range(AT_ONCE)]
    made = await asyncio.gather(*(server.made(call_id=id_) for id_ in wanted))
    for id_, (answer, result) in zip(wanted, made, strict=True):
        answer.must(result.get("call_id") == id_, f"The answer to the call {id_!r}.")
