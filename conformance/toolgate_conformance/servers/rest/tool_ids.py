"""Checks of which tool, and which version of it, an id finds.

Whether an id finds a tool is seen without running it: input that lacks an argument is refused with 422, not with 400.
"""

from __future__ import annotations

from collections.abc import Callable

from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import NOWHERE, RestServer
from toolgate_conformance.servers.rest.tools import (
    Definition,
    definition_for,
    name_in,
    required_arguments,
    version_in,
    version_of,
)

PAGE = "Call Tool, Tool Version Resolution"
MALFORMED = ("@", "@v1", "@1.2", "@1.0.0-rc1", "@1@2", "@\u0661", "\n")  # after the name of a tool

check: Registry[RestServer] = Registry()


@check(30, MUST, PAGE, forms=SPECIFIED, silent=RFC)
async def unknown_tool(server: RestServer) -> None:
    """An unknown tool is refused with 400.

    Fix: Respond with 400 and a message, not with 404 or 200.
    """
    answer = await server.call(NOWHERE, {})
    answer.must(answer.status == 400, "Status 400.")


@check(31, MUST, PAGE, forms=SPECIFIED, silent=RFC)
async def unknown_version(server: RestServer) -> None:
    """An unknown version of a tool is refused with 400.

    Fix: Run exactly the version that the id names, or none.
    """
    await _must_refuse(server, "@99999.0.0")


@check(32, MUST, PAGE, forms=SPECIFIED, silent=RFC)
async def other_minor_version(server: RestServer) -> None:
    """`@x` finds no version but x.0.0.

    Fix: Do not resolve @1 to the newest 1.x.
    """
    listed = {(name_in(each.get("id")), version_of(each)) for each in await server.tools()}
    for definition in await server.tools():
        name, version = name_in(definition.get("id")), version_of(definition)
        if version is None or (name, (version[0], 0, 0)) in listed:
            continue
        allowed = next((each for each in server.calls if name_in(each.tool) == name), None)
        if allowed is not None or required_arguments(server.form, definition):
            call = ToolCall(name, {}) if allowed is None else allowed
            answer = await server.make(call, tool_id=f"{name}@{version[0]}")
            answer.must(answer.status == 400, f"Status 400, as {name}@{version[0]}.0.0 is not listed.")
            return
    raise SkippedError("No tool that can be tried lacks the version x.0.0.")


@check(33, GOOD, "Call Tool, ToolId", forms=SPECIFIED)
async def malformed_ids(server: RestServer) -> None:
    """Malformed tool ids are refused with 400.

    Fix: Match the whole id, with ASCII digits only.
    """
    for end in (*MALFORMED, *(() if server.form.name == "rfc" else ("@latest",))):  # which the RFC means to allow
        await _must_refuse(server, end)
    for id_ in ("", "NoDot"):
        answer = await server.call(id_, {})
        answer.must(answer.status == 400, f"Status 400 for the id {id_!r}.")


@check(34, MUST, PAGE, forms=SPECIFIED, silent=RFC)
async def implied_version(server: RestServer) -> None:
    """An id without a version finds the tool.

    Fix: Use the latest version if the id has none.
    """
    tools = await server.tools()
    call = await _incomplete(server, lambda it: definition_for(tools, name_in(it["id"])) is it)
    await _must_find(server, call, name_in(call.tool))


@check(35, MUST, PAGE, forms=SPECIFIED, silent=RFC)
async def shorthand_version(server: RestServer) -> None:
    """`@x` finds the version x.0.0.

    Fix: Complete @1 to @1.0.0.
    """
    call = await _incomplete(server, lambda it: (version_in(it["id"]) or ())[1:] == (0, 0))
    major, _, _ = version_in(call.tool) or (0, 0, 0)
    await _must_find(server, call, f"{name_in(call.tool)}@{major}")


@check(36, GOOD, "Call Tool, ToolId", forms=SPECIFIED)
async def other_case(server: RestServer) -> None:
    """Tool ids are case-sensitive.

    Fix: Compare ids exactly.
    """
    call = await server.probe()
    other = name_in(call.tool).swapcase()
    if other in {name_in(each.get("id")) for each in await server.tools()}:
        raise SkippedError(f"There is also a tool {other}.")
    answer = await server.make(call, tool_id=other)
    answer.must(answer.status == 400, f"Status 400 for {other}.")


@check(37, GOOD, PAGE, forms=SPECIFIED)
async def leading_zeros(server: RestServer) -> None:
    """Leading zeros in a version make no difference.

    Fix: Compare versions as integers.
    """
    call = await _incomplete(server, lambda it: version_in(it["id"]) is not None)
    await _must_find(server, call, call.tool.replace("@", "@0"))


async def _must_refuse(server: RestServer, end: str) -> None:
    """Raises UnfitError unless the id of a tool is refused with this after its name."""
    call = await server.probe()
    id_ = name_in(call.tool) + end
    answer = await server.make(call, tool_id=id_)
    answer.must(answer.status == 400, f"Status 400 for the id {id_!r}.")


async def _incomplete(server: RestServer, suits: Callable[[Definition], bool]) -> ToolCall:
    """A call that the server refuses only because an argument is missing. Raises SkippedError."""
    call = await server.incomplete(suits)
    answer = await server.make(call)
    if answer.status != 422:  # which is a check of its own
        raise SkippedError(f"A missing argument is answered with {answer.status}, so that nothing can be told.")
    return call


async def _must_find(server: RestServer, call: ToolCall, id_: str) -> None:
    """Raises UnfitError unless the id finds the tool of an incomplete call."""
    answer = await server.make(call, tool_id=id_)
    answer.must(
        answer.status == 422, f"Status 422 for {id_} as for {call.tool}: the tool exists, an argument is missing."
    )
