"""Checks of input: what does not fit its schema, what is missing, and what is too large."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rest.forms import RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import NOWHERE, RestServer
from toolgate_conformance.servers.rest.tools import Definition, arguments_of, typed_arguments

LARGE = 256 * 1024  # characters of an argument
DEPTH = 5000  # of nested lists
WRONG: Mapping[str, Any] = {"kit": []}  # for an argument of any simple type

check: Registry[RestServer] = Registry()


@check(40, MUST, "Call Tool, Validation", forms=SPECIFIED, silent=RFC)
async def missing_argument(server: RestServer) -> None:
    """A missing argument is refused with 422.

    Fix: Validate the input before the tool runs.
    """
    answer = await server.make(await server.incomplete())
    answer.must(answer.status == 422, "Status 422.")


@check(41, MUST, "Call Tool, Validation", forms=SPECIFIED, silent=RFC)
async def wrong_type(server: RestServer) -> None:
    """An argument of the wrong type is refused with 422.

    Fix: Validate the input before the tool runs.
    """

    def spoil(definition: Definition) -> Mapping[str, Any] | None:
        names = typed_arguments(server.form, definition)
        return {names[0]: WRONG} if names else None

    answer = await server.make(await server.invalid(spoil, "has an argument of one simple type"))
    answer.must(answer.status == 422, "Status 422.")


@check(42, SHOULD, "Call Tool, ValidationErrorResponse", forms=SPECIFIED, silent=RFC)
async def parameter_errors(server: RestServer) -> None:
    """`parameter_errors` names the invalid arguments.

    Fix: Send an object with a message for each argument: models correct their calls by it.
    """

    def spoil(definition: Definition) -> Mapping[str, Any] | None:
        return dict.fromkeys(typed_arguments(server.form, definition), WRONG) or None

    call = await server.invalid(spoil, "has an argument of one simple type")
    answer = await server.make(call)
    if answer.status != 422:  # which is a check of its own
        raise SkippedError(f"Invalid input is answered with {answer.status}.")
    found = answer.member("parameter_errors")
    answer.must(isinstance(found, dict) and bool(found), "An object in `parameter_errors`.")
    answer.must(all(isinstance(each, str) for each in found.values()), "A string for each argument.")
    definition = await server.definition(call)
    known = {} if definition is None else arguments_of(server.form, definition)
    answer.must(any(name in known for name in found), f"At least one of {', '.join(call.input)} in `parameter_errors`.")


@check(45, GOOD, "Call Tool")
async def deep_body(server: RestServer) -> None:
    """A body of 5,000 nested arrays is refused, and does not stop the server.

    Fix: Limit the depth of JSON that you parse.
    """
    nested = b"[" * DEPTH + b"]" * DEPTH
    try:
        tool = (await server.incomplete()).tool
    except SkippedError:
        tool = NOWHERE
    request = json.dumps(server.form.request({"tool_id": tool, "input": {"kit": "@"}})).encode()
    answer = await server.post(request.replace(b'"@"', nested))
    answer.must(400 <= answer.status < 500, "A status of 4xx.")
    health = await server.client.send("GET", "/health")
    health.must(health.status == 200, "A server that still responds to GET /health with 200.")


@check(46, GOOD, "Call Tool")
async def large_body(server: RestServer) -> None:
    """An argument of 256 KiB causes no server error.

    Fix: Refuse input that is too large with a status of 4xx.
    """
    answer = await server.call(NOWHERE, {"kit": "x" * LARGE})
    answer.must(answer.status < 500, "A status below 500.")


@check(48, GOOD, "Call Tool, CallToolRequest", forms=SPECIFIED)
async def absent_input(server: RestServer) -> None:
    """A call without `input` is a call with empty input.

    Fix: Validate {} if `input` is absent.
    """
    call = await server.incomplete()
    empty = await server.make(call)
    if empty.status != 422:
        raise SkippedError(f"A missing argument is answered with {empty.status}, so that nothing can be told.")
    context = {"context": call.context} if call.context else {}
    answer = await server.call(call.tool, None, **context)
    answer.must(answer.status == 422, "Status 422, as for the input {}.")
