"""Checks of calls that run: their results, and the values in them."""

from __future__ import annotations

import json
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.schemas import fits, is_schema
from toolgate_conformance.servers.rest.forms import SPECIFIED, WITH_IDS
from toolgate_conformance.servers.rest.server import RestServer
from toolgate_conformance.servers.rest.tools import may_return_nothing

STRINGS = ("developer_message", "additional_prompt_content")  # of an error; optional

check: Registry[RestServer] = Registry()


@check(20, MUST, "Call Tool")
async def call_answers(server: RestServer) -> None:
    """A valid call returns 200 and a result.

    Fix: Respond with 200, even if the tool fails. In OTC and enveloped OXP, put the result into `result`.
    """
    answer = await server.make(server.allowed(), call_id=server.new_id())
    answer.must(answer.status == 200, "Status 200 for a valid call.")
    result = server.form.result(answer)
    answer.must(isinstance(result.get("success"), bool), "true or false in `success`.")


@check(21, MUST, "Call Tool, CallToolResponse")
async def call_has_value(server: RestServer) -> None:
    """A successful result has a `value` and no `error`.

    Fix: Send the value, or null if the tool returns nothing.
    """
    answer, result = await server.succeeded(call_id=server.new_id())
    outcome = server.form.outcome(result)
    answer.must(result.get("success") is True, "true in `success`.")
    may_lack = "value" not in outcome and may_return_nothing(server.form, await server.definition(server.allowed()))
    answer.must("value" in outcome or may_lack, "A `value` in the result.")
    answer.must("error" not in outcome, "No `error` in a successful result.")


@check(24, SHOULD, "Call Tool, CallToolResponse", forms=SPECIFIED)
async def duration(server: RestServer) -> None:
    """`duration` is a number of milliseconds, at least 0.

    Fix: Send a number, or omit `duration`.
    """
    answer, result = await server.made(call_id=server.new_id())
    took = result.get("duration", 0)
    is_valid = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    answer.must(is_valid, f"A number of at least 0 as `duration`, not {took!r}.")


@check(25, MUST, "Versioning", forms=SPECIFIED, silent=frozenset({"otc", "oxp-env"}))
async def call_has_version(server: RestServer) -> None:
    """The response to a call states the protocol version.

    Fix: Send `$schema` in every body, or in flat OXP the header OXP-Version in every response.
    """
    answer, _ = await server.made(call_id=server.new_id())
    answer.must(server.form.version(answer) is not None, f"The {server.form.version_member}.")


@check(26, MUST, "Call Tool", forms=WITH_IDS)
async def value_fits(server: RestServer) -> None:
    """The value is valid against the output schema of its tool.

    Fix: Return what output_schema promises.
    """
    definition = await server.definition(server.allowed())
    schema = None if definition is None else definition.get("output_schema")
    if not isinstance(schema, dict) or not is_schema(schema):
        raise SkippedError("The tool of the first --call has no valid output schema.")
    answer, result = await server.succeeded(call_id=server.new_id())
    is_valid = fits(schema, server.form.outcome(result).get("value"))
    if is_valid is None:
        raise SkippedError("The output schema of the tool refers to another document.")
    answer.must(is_valid, f"A value that is valid against {json.dumps(schema)[:200]}.")


@check(90, MUST, "Call Tool, Tool Execution Errors", forms=SPECIFIED)
async def failure_has_error(server: RestServer) -> None:
    """The result of a tool that fails has an `error` with a `message`, and no `value`.

    Fix: Respond with 200, success false and error.message.
    """
    async for answer, result in server.failed():
        outcome = server.form.outcome(result)
        error: Any = outcome.get("error")
        answer.must(isinstance(error, dict), "An object in `error`.")
        answer.must(isinstance(error.get("message"), str), "A string in `error.message`.")
        answer.must("value" not in outcome, "No `value` in a failed result.")


@check(91, MUST, "Call Tool, ToolError", forms=SPECIFIED)
async def failure_has_types(server: RestServer) -> None:
    """The members of an `error` have the specified types.

    Fix: Omit members that say nothing; null is not allowed.
    """
    async for answer, result in server.failed():
        error: Any = server.form.outcome(result).get("error")
        if not isinstance(error, dict):
            raise SkippedError("The failed result has no `error`.")  # which is a check of its own
        for name in STRINGS:
            answer.must(isinstance(error.get(name, ""), str), f"A string in `error.{name}`.")
        answer.must(isinstance(error.get("can_retry", False), bool), "true or false in `error.can_retry`.")
        after = error.get("retry_after_ms", 0)
        is_valid = isinstance(after, int | float) and not isinstance(after, bool) and after >= 0
        answer.must(is_valid, "A number of at least 0 in `error.retry_after_ms`.")
