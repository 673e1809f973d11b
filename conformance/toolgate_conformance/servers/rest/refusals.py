"""Checks of what refusals say, and of what is not served."""

from __future__ import annotations

from collections.abc import AsyncIterator

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.http import Answer
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rest.forms import HEADER, RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import NOWHERE, RestServer

TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panic: ")

check: Registry[RestServer] = Registry()


@check(60, MUST, "Call Tool, ServerErrorResponse", forms=SPECIFIED, silent=RFC)
async def refusals_speak(server: RestServer) -> None:
    """A refusal is JSON with a `message`.

    Fix: State in one sentence what is wrong with the request.
    """
    async for answer in _refusals(server):
        answer.must("json" in answer.headers.get("content-type", ""), "A JSON content type.")
        answer.must(isinstance(answer.member("message"), str), "A string in `message`.")


@check(61, SHOULD, "Call Tool, ServerErrorResponse")
async def refusals_hide(server: RestServer) -> None:
    """No refusal contains a stack trace.

    Fix: Write stack traces to the log only.
    """
    for answer in (await server.call(NOWHERE, {}), await server.post(b"{"), await server.post(b"[1]")):
        text = answer.body.decode("utf-8", "replace")
        answer.must(not any(trace in text for trace in TRACES), "No stack trace.")


@check(62, GOOD, "Call Tool")
async def other_method(server: RestServer) -> None:
    """An unsupported HTTP method is refused with 405 or 404.

    Fix: Serve only the methods that the specification names.
    """
    answer = await server.client.send("PUT", server.form.call_path, headers=server.form.headers, body=b"{}")
    answer.must(answer.status in (404, 405), "Status 405 or 404.")


@check(63, GOOD, "Call Tool")
async def other_path(server: RestServer) -> None:
    """An unknown path is refused with 404.

    Fix: Serve only the paths that the specification names, and your own.
    """
    answer = await server.client.send("GET", "/kit/nowhere", headers=server.form.headers)
    answer.must(answer.status == 404, "Status 404.")


@check(64, MUST, "Versioning", forms=HEADER | RFC)
async def refusals_have_version(server: RestServer) -> None:
    """A refusal states the protocol version.

    Fix: Send `$schema` in every body of the RFC, and the header OXP-Version in every response of OXP.
    """
    async for answer in _refusals(server):
        answer.must(server.form.version(answer) is not None, f"The {server.form.version_member}.")


async def _refusals(server: RestServer) -> AsyncIterator[Answer]:
    """The answers to an unknown tool, to a body that is no JSON, and to invalid input where there is a tool for it."""
    yield await server.call(NOWHERE, {})
    yield await server.post(b"{")
    try:
        call = await server.incomplete()
    except SkippedError:
        return
    answer = await server.make(call)
    if answer.status == 422:  # else it is no refusal, which is a check of its own
        yield answer
