"""Checks of `call_id`: given back, made where it is absent, and the key of a result."""

from __future__ import annotations

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.expectations import refused
from gateway.conformance.rest.registry import GOOD, MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    22,
    MUST,
    "The result has the `call_id` of the request",
    page="Call Tool",
    remedy="Copy call_id into the result.",
    forms=SPECIFIED,
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
    forms=SPECIFIED,
)
async def call_id_is_made(server: RestServer) -> None:
    (answer, one), (_, other) = await server.made(), await server.made()
    made = one.get("call_id")
    answer.must(isinstance(made, str) and made != "", "A text in `call_id`.")
    answer.must(made != other.get("call_id"), "Another `call_id` for each call.")


@check(
    28,
    GOOD,
    "A call that comes twice with one id gets one result",
    page="Call Tool, call_id",
    remedy="Keep results by caller and call_id for a while: clients repeat calls whose answer got lost.",
    forms=SPECIFIED,
)
async def twice_is_once(server: RestServer) -> None:
    id_ = server.new_id()
    (first, one), (_, other) = await server.made(call_id=id_), await server.made(call_id=id_)
    first.must(one == other, "The same result both times, `duration` included.")


@check(
    29,
    GOOD,
    "A call id that comes with other input is refused",
    page="Call Tool, call_id",
    remedy="Compare the input: two calls under one id are a mistake of the caller's.",
    forms=SPECIFIED,
)
async def one_id_two_calls(server: RestServer) -> None:
    call, id_ = server.allowed(), server.new_id()
    others = [each for each in server.calls if (each.tool, each.input) != (call.tool, call.input)]
    if not others:
        raise SkippedError("This takes a second --call with other input.")
    await server.make(call, call_id=id_)
    answer = await server.make(others[0], call_id=id_)
    refused(server, answer, 400)
