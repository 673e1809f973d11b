"""Checks of `GET /tools`: the list as a whole, and how requests for it are read."""

from __future__ import annotations

import json
from collections import defaultdict

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.rest.forms import VERSION_HEADER
from toolgate_conformance.rest.registry import GOOD, MUST, SPECIFIED, WITH_IDS, Registry
from toolgate_conformance.rest.server import RestServer
from toolgate_conformance.rest.tools import Version, name_in, version_of

UNSUPPORTED = {"otc": "otc://99.0", "rfc": "otc://99.0", "oxp-env": "urn:oxp:99.0"}

check = Registry()


@check(
    5,
    MUST,
    "The list of tools is an array in the member that the dialect names",
    page="List Tools",
    remedy="Send `tools` in OTC and `items` in OXP; without tools, send an empty array.",
)
async def list_has_member(server: RestServer) -> None:
    answer = await server.list_tools()
    answer.must(answer.status == 200, "Status 200.")
    member = server.form.list_member
    listed = answer.document if member is None else answer.member(member)
    where = f" in `{member}`" if member else ""
    answer.must(isinstance(listed, list), f"An array of tools{where}.")
    answer.must(all(isinstance(each, dict) for each in listed), f"Only objects{where}.")


@check(
    12,
    MUST,
    "The list of tools states the protocol version",
    page="Versioning",
    remedy="Send `$schema` in every body, or in flat OXP the header OXP-Version in every response.",
    forms=SPECIFIED,
    silent=frozenset({"otc", "oxp-env"}),  # where `$schema` is optional (openapi.json)
)
async def list_has_version(server: RestServer) -> None:
    answer = await server.list_tools()
    answer.must(server.form.version(answer) is not None, f"The {server.form.version_member}.")


@check(
    13,
    GOOD,
    "A request for the list may have the body `{}`",
    page="List Tools",
    remedy="Read the body of a GET and ignore it.",
)
async def list_takes_body(server: RestServer) -> None:
    answer = await server.list_tools(body=b"{}")
    answer.must(answer.status == 200, "Status 200.")
    again = await server.list_tools()
    again.must(again.status == 200, "Status 200 for the next request.")


@check(
    14,
    GOOD,
    "Unknown query parameters are ignored",
    page="List Tools",
    remedy="Ignore query parameters that you do not know.",
)
async def list_takes_query(server: RestServer) -> None:
    answer = await server.client.send("GET", "/tools?kit=1", headers=server.form.headers)
    answer.must(answer.status == 200, "Status 200.")


@check(
    15,
    GOOD,
    "A request for the list in an unsupported protocol version is refused with 400",
    page="Versioning",
    remedy="Check the version of requests for the list, too.",
    forms=SPECIFIED,
)
async def list_in_unsupported_version(server: RestServer) -> None:
    if server.form.is_flat:
        answer = await server.list_tools(headers={VERSION_HEADER: "99"})
    else:
        answer = await server.list_tools(body=json.dumps({"$schema": UNSUPPORTED[server.form.name]}).encode())
    answer.must(answer.status == 400, "Status 400.")


@check(
    16,
    GOOD,
    "The versions of a tool are listed in ascending order",
    page="List Tools",
    remedy="List the latest version last: clients that store tools by name keep the last one.",
    forms=WITH_IDS,
)
async def versions_ascend(server: RestServer) -> None:
    answer = await server.list_tools()
    versions = defaultdict[str, list[Version]](list)
    for each in await server.tools():
        versions[name_in(each.get("id"))].append(version_of(each) or (0, 0, 0))
    if all(len(found) == 1 for found in versions.values()):
        raise SkippedError("No tool has several versions.")
    for name, found in versions.items():
        answer.must(found == sorted(found), f"The versions of {name} in ascending order.")
