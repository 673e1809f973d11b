"""Checks of `GET /tools`: the list as a whole, and how requests for it are read."""

from __future__ import annotations

import json
from collections import defaultdict

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import SPECIFIED, VERSION_HEADER, WITH_IDS
from toolgate_conformance.servers.rest.server import RestServer
from toolgate_conformance.servers.rest.tools import Version, name_in, version_of

UNSUPPORTED = {"otc": "otc://99.0", "rfc": "otc://99.0", "oxp-env": "urn:oxp:99.0"}

check: Registry[RestServer] = Registry()


@check(5, MUST, "List Tools")
async def list_has_member(server: RestServer) -> None:
    """The list of tools is an array in the member that the dialect names.

    Fix: Send `tools` in OTC and `items` in OXP; without tools, send an empty array.
    """
    answer = await server.list_tools()
    answer.must(answer.status == 200, "Status 200.")
    member = server.form.list_member
    listed = answer.document if member is None else answer.member(member)
    where = f" in `{member}`" if member else ""
    answer.must(isinstance(listed, list), f"An array of tools{where}.")
    answer.must(all(isinstance(each, dict) for each in listed), f"Only objects{where}.")


@check(12, MUST, "Versioning", forms=SPECIFIED, silent=frozenset({"otc", "oxp-env"}))
async def list_has_version(server: RestServer) -> None:
    """The list of tools states the protocol version.

    Fix: Send `$schema` in every body, or in flat OXP the header OXP-Version in every response.
    """
    answer = await server.list_tools()
    answer.must(server.form.version(answer) is not None, f"The {server.form.version_member}.")


@check(13, GOOD, "List Tools")
async def list_takes_body(server: RestServer) -> None:
    """A request for the list may have the body `{}`.

    Fix: Read the body of a GET and ignore it.
    """
    answer = await server.list_tools(body=b"{}")
    answer.must(answer.status == 200, "Status 200.")
    again = await server.list_tools()
    again.must(again.status == 200, "Status 200 for the next request.")


@check(14, GOOD, "List Tools")
async def list_takes_query(server: RestServer) -> None:
    """Unknown query parameters are ignored.

    Fix: Ignore query parameters that you do not know.
    """
    answer = await server.client.send("GET", "/tools?kit=1", headers=server.form.headers)
    answer.must(answer.status == 200, "Status 200.")


@check(15, GOOD, "Versioning", forms=SPECIFIED)
async def list_in_unsupported_version(server: RestServer) -> None:
    """A request for the list in an unsupported protocol version is refused with 400.

    Fix: Check the version of requests for the list, too.
    """
    if server.form.is_flat:
        answer = await server.list_tools(headers={VERSION_HEADER: "99"})
    else:
        answer = await server.list_tools(body=json.dumps({"$schema": UNSUPPORTED[server.form.name]}).encode())
    answer.must(answer.status == 400, "Status 400.")


@check(16, GOOD, "List Tools", forms=WITH_IDS)
async def versions_ascend(server: RestServer) -> None:
    """The versions of a tool are listed in ascending order.

    Fix: List the latest version last: clients that store tools by name keep the last one.
    """
    answer = await server.list_tools()
    versions = defaultdict[str, list[Version]](list)
    for each in await server.tools():
        versions[name_in(each.get("id"))].append(version_of(each) or (0, 0, 0))
    if all(len(found) == 1 for found in versions.values()):
        raise SkippedError("No tool has several versions.")
    for name, found in versions.items():
        answer.must(found == sorted(found), f"The versions of {name} in ascending order.")
