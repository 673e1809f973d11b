"""Checks of calls that run, and of their results."""

from __future__ import annotations

import asyncio
import json

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.common import (
    has_version,
    is_meant,
    refused,
)
from gateway.conformance.rest.registry import GOOD, MUST, NEW, SHOULD, Registry
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
    22,
    MUST,
    "The result has the `call_id` of the request",
    page="Call Tool",
    remedy="Copy call_id into the result.",
    forms=NEW,
)
async def call_id_comes_back(server: RestServer) -> None:
    id_ = server.new_id()
    answer, result = await server.made(call_id=id_)
    answer.must(result.get("call_id") == id_, f"`call_id` {id_!r}.")


@check(
    23,
    MUST,
    "A call without an id is given one",
    page="Call Tool",
    remedy="Make an id that no other call has.",
    forms=NEW,
)
async def call_id_is_made(server: RestServer) -> None:
    (answer, one), (_, other) = await server.made(), await server.made()
    made = one.get("call_id")
    answer.must(isinstance(made, str) and made != "", "A text in `call_id`.")
    answer.must(made != other.get("call_id"), "Another `call_id` for each call.")


@check(
    24,
    SHOULD,
    "`duration` is a number of milliseconds, at least 0",
    page="Call Tool, CallToolResponse",
    remedy="Leave it out, or send a number.",
    forms=NEW,
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
    forms=NEW,
)
async def call_has_version(server: RestServer) -> None:
    answer, _ = await server.made(call_id=server.new_id())
    if server.form.is_flat:
        has_version(answer)
    else:
        answer.must(isinstance(answer.member("$schema"), str), "A text in `$schema`.")


@check(
    26,
    MUST,
    "The value fits the output schema of its tool",
    page="Call Tool",
    remedy="Return what output_schema promises.",
    forms=NEW - {"rfc"},
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
    "Concurrent calls get their own results",
    page="Call Tool",
    remedy="Share no state between calls.",
    forms=NEW,
)
async def calls_at_once(server: RestServer) -> None:
    wanted = [server.new_id() for _ in range(AT_ONCE)]
    made = await asyncio.gather(*(server.made(call_id=id_) for id_ in wanted))
    for id_, (answer, result) in zip(wanted, made, strict=True):
        answer.must(result.get("call_id") == id_, f"The answer to the call {id_!r}.")


@check(
    28,
    GOOD,
    "A repeated call with the same id gets the same result",
    page="Call Tool, call_id",
    remedy="Keep results by caller and call_id for a while: clients repeat calls whose answer was lost.",
    forms=NEW,
)
async def twice_is_once(server: RestServer) -> None:
    id_ = server.new_id()
    (first, one), (_, other) = await server.made(call_id=id_), await server.made(call_id=id_)
    first.must(one == other, "The same result both times, `duration` included.")


@check(
    29,
    GOOD,
    "A call id that is used again with other input is refused with 400",
    page="Call Tool, call_id",
    remedy="Compare the input: two calls with one id are an error of the caller.",
    forms=NEW,
)
async def one_id_two_calls(server: RestServer) -> None:
    call, id_ = server.allowed(), server.new_id()
    others = [each for each in server.calls if (each.tool, each.input) != (call.tool, call.input)]
    if not others:
        raise SkippedError("This takes a second --call with other input.")
    await server.make(call, call_id=id_)
    answer = await server.make(others[0], call_id=id_)
    refused(server, answer, 400)
