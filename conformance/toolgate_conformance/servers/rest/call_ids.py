"""Checks of `call_id`: it comes back, it is made where it is absent, and it identifies a call that is repeated."""

from __future__ import annotations

import asyncio

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import SPECIFIED
from toolgate_conformance.servers.rest.server import RestServer

AT_ONCE = 20
REPEATED = 5

check: Registry[RestServer] = Registry()


@check(22, MUST, "Call Tool", forms=SPECIFIED)
async def call_id_comes_back(server: RestServer) -> None:
    """The result has the `call_id` of the request.

    Fix: Copy call_id into the result.
    """
    id_ = server.new_id()
    answer, result = await server.made(call_id=id_)
    answer.must(result.get("call_id") == id_, f"`call_id` {id_!r}.")


@check(23, MUST, "Call Tool", forms=SPECIFIED)
async def call_id_is_made(server: RestServer) -> None:
    """A call without a `call_id` is given a unique one.

    Fix: Generate an id, such as a UUID, and send it in the result.
    """
    (answer, one), (_, other) = await server.made(), await server.made()
    made = one.get("call_id")
    answer.must(isinstance(made, str) and made != "", "A string in `call_id`.")
    answer.must(made != other.get("call_id"), "A different `call_id` for each call.")


@check(27, MUST, "Call Tool", forms=SPECIFIED)
async def calls_at_once(server: RestServer) -> None:
    """Concurrent calls get their own results.

    Fix: Keep nothing about a call in state that calls share.
    """
    wanted = [server.new_id() for _ in range(AT_ONCE)]
    made = await asyncio.gather(*(server.made(call_id=id_) for id_ in wanted))
    for id_, (answer, result) in zip(wanted, made, strict=True):
        answer.must(result.get("call_id") == id_, f"The result of the call {id_!r}.")


@check(28, GOOD, "Call Tool, call_id", forms=SPECIFIED)
async def repeated_call(server: RestServer) -> None:
    """A call that is repeated with its `call_id` gets the same result.

    Fix: Store results by caller and call_id for a while: clients repeat a call whose response was lost.
    """
    id_ = server.new_id()
    _, first = await server.succeeded(call_id=id_)
    again = await server.make(server.allowed(), call_id=id_)
    again.must(again.status == 200, "Status 200 for the repeated call.")
    again.must(server.form.result(again) == first, "The same result both times, including `duration`.")


@check(29, GOOD, "Call Tool, call_id", forms=SPECIFIED)
async def reused_id(server: RestServer) -> None:
    """A `call_id` that is reused with different input is refused with 400.

    Fix: Compare the input: two different calls with one id are a mistake of the caller.
    """
    call, id_ = server.allowed(), server.new_id()
    others = [each for each in server.calls if each.tool == call.tool and each.input != call.input]
    if not others:
        raise SkippedError("This takes a second --call of the first tool, with different input.")
    await server.succeeded(call_id=id_)
    answer = await server.make(others[0], call_id=id_)
    answer.must(answer.status == 400, "Status 400.")


@check(92, GOOD, "Call Tool, call_id", forms=SPECIFIED)
async def repeated_at_once(server: RestServer) -> None:
    """A call that is repeated while it still runs gets the same result.

    Fix: Let the repeated call wait for the result of the first.
    """
    call, id_ = server.allowed(), server.new_id()
    await server.succeeded()  # else there is nothing to compare
    first, *rest = await asyncio.gather(*(server.make(call, call_id=id_) for _ in range(REPEATED)))
    for answer in (first, *rest):
        answer.must(answer.status == 200, "Status 200 each time.")
        same = server.form.result(answer) == server.form.result(first)
        answer.must(same, "The same result each time, including `duration`.")
