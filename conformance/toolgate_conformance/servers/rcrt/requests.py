"""Checks of which requests the runner executes, and how often. All but one run the tool of --call."""

from __future__ import annotations

import asyncio

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import RUNNER, STANDARD
from toolgate_conformance.servers.rcrt.server import WORKSPACE, RcrtServer

DISPATCH = f"{RUNNER}: dispatchEventToTool"
AT_ONCE = 5  # requests that one runner executes concurrently

check: Registry[RcrtServer] = Registry()


@check(60, MUST, f"{STANDARD}: tool.response.v1")
async def request_is_answered(server: RcrtServer) -> None:
    """A request gets a response with its id and its tool.

    Fix: Store a tool.response.v1 with request_id and tool in its context; run a tools-runner.
    """
    call = server.allowed()
    await server.events()
    asked = await server.ask(call.tool, call.input)
    response = await server.must_respond(asked)
    for name, wanted in (("request_id", asked.request_id), ("tool", call.tool)):
        response.must(response.context.get(name) == wanted, f"`{name}` {wanted}.")


@check(63, MUST, DISPATCH)
async def one_response(server: RcrtServer) -> None:
    """A request gets only one response.

    Fix: Run one runner per workspace, and execute a request once, however often its event arrives.
    """
    asked, response = await server.made(server.allowed())
    await asyncio.sleep(server.limits.quiet_s)
    response.must(len(await server.responses(asked)) == 1, "One response.")


@check(66, MUST, DISPATCH)
async def requests_at_once(server: RcrtServer) -> None:
    """Five concurrent requests get a response each.

    Fix: Queue requests that cannot run yet, and keep the state of each request apart.
    """
    await server.made(server.allowed())
    calls = [server.calls[number % len(server.calls)] for number in range(AT_ONCE)]
    asked = await asyncio.gather(*(server.ask(call.tool, call.input) for call in calls))
    responses = await asyncio.gather(*(server.must_respond(each) for each in asked))
    for call, response in zip(calls, responses, strict=True):
        response.must(response.context.get("tool", call.tool) == call.tool, f"`tool` {call.tool}.")
    ids = {response.crumb_id for response in responses}
    asked[0].answer.must(len(ids) == AT_ONCE, "A response for each request.")


@check(67, MUST, DISPATCH)
async def request_without_id(server: RcrtServer) -> None:
    """A request without an id is identified by its breadcrumb.

    Fix: Use the id of the breadcrumb if context.requestId is missing.
    """
    call = server.allowed()
    await server.made(call)
    asked = await server.ask(call.tool, call.input, has_id=False)
    response = await server.response(asked)
    asked.answer.must(response is not None, f"A response with request_id {asked.crumb_id}.")


@check(68, MUST, DISPATCH)
async def other_requests(server: RcrtServer) -> None:
    """Requests that are not meant for this workspace are not executed.

    Fix: Execute only requests tagged tool:request and with the workspace, and without the tag health:check.
    """
    call = server.allowed()
    await server.events()
    wrong = ((WORKSPACE,), ("tool:request", "workspace:kit"), ("tool:request", WORKSPACE, "health:check"))
    asked = [await server.ask(call.tool, call.input, tags=tags) for tags in wrong]
    await server.stay_quiet(call)
    for tags, each in zip(wrong, asked, strict=True):
        each.answer.must(await server.responses(each) == [], f"No response to a request tagged {', '.join(tags)}.")


@check(69, SHOULD, DISPATCH)
async def changed_request(server: RcrtServer) -> None:
    """Changing a request does not execute it again.

    Fix: Remember the breadcrumbs of requests that were executed: a PATCH is announced like a new breadcrumb.
    """
    call = server.allowed()
    asked, _ = await server.made(call)
    await asyncio.sleep(server.limits.quiet_s)
    so_far = len(await server.responses(asked))
    answer = await server.send("PATCH", f"/breadcrumbs/{asked.crumb_id}", {"title": "changed"})
    if answer.status != 200:  # which is a check of its own
        raise SkippedError(f"Breadcrumbs cannot be changed: {answer.status}.")
    await server.stay_quiet(call)
    answer.must(len(await server.responses(asked)) <= so_far, "No other response after the change.")


@check(70, MUST, DISPATCH)
async def unknown_tool(server: RcrtServer) -> None:
    """A request for an unknown tool gets an error response.

    Fix: Respond without delay: otherwise the client waits until its deadline.
    """
    await server.events()
    response = await server.must_respond(await server.ask_unknown())
    response.must(response.context.get("status") == "error", "`status` error.")
