"""Checks of which tool and which version an id finds."""

from __future__ import annotations

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.expectations import any_tool, refused
from gateway.conformance.rest.registry import GOOD, MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    30,
    MUST,
    "A tool that is not there is refused with 400",
    page="Call Tool, Tool Version Resolution",
    remedy="Answer 400 with a message, not 404 and not 200.",
    forms=SPECIFIED,
)
async def unknown_tool(server: RestServer) -> None:
    refused(server, await server.call("KitNowhere.NoSuchTool", {}), 400)


@check(
    31,
    MUST,
    "A version that is not there is refused with 400",
    page="Call Tool, Tool Version Resolution",
    remedy="Run exactly the version that is named, or none.",
    forms=SPECIFIED,
)
async def unknown_version(server: RestServer) -> None:
    tool = (await any_tool(server)).partition("@")[0]
    refused(server, await server.call(f"{tool}@99999.0.0", {}), 400)


@check(
    32,
    MUST,
    "`@x` means x.0.0 and no other version",
    page="Call Tool, Tool Version Resolution",
    remedy="Do not take @1 for the newest 1.x.",
    forms=SPECIFIED,
)
async def major_version(server: RestServer) -> None:
    listed = {str(each.get("id")) for each in await server.tools()}
    for each in sorted(listed):
        tool, _, version = each.partition("@")
        major = version.partition(".")[0]
        if version and f"{tool}@{major}.0.0" not in listed:
            refused(server, await server.call(f"{tool}@{major}", {}), 400)
            return
    raise SkippedError("No tool is listed without the x.0.0 of its versions.")


@check(
    33,
    GOOD,
    "Ids that are none are refused with 400",
    page="Call Tool, ToolId",
    remedy="Match the whole id, with ASCII digits.",
    forms=SPECIFIED,
)
async def malformed_ids(server: RestServer) -> None:
    tool = (await any_tool(server)).partition("@")[0]
    for id_ in (f"{tool}@", f"{tool}@v1", f"{tool}@1.0.0-rc1", f"{tool}@1@2", f"{tool}\n", "", "NoDot"):
        refused(server, await server.call(id_, {}), 400)
