"""Checks of `GET /tools`: the list as a whole, and how requests for it are read."""

from __future__ import annotations

from gateway.conformance.rest.expectations import versioned
from gateway.conformance.rest.registry import GOOD, MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    5,
    MUST,
    "The list of tools has the member that the dialect names",
    page="List Tools",
    remedy="Send `tools` in OTC, `items` in OXP; always a list, also an empty one.",
)
async def list_has_member(server: RestServer) -> None:
    answer = await server.list_tools()
    answer.must(answer.status == 200, "Status 200.")
    member = server.form.list_member
    listed = answer.document if member is None else answer.member(member)
    answer.must(isinstance(listed, list), "A list of tools" + (f" in `{member}`." if member else "."))


@check(
    12,
    MUST,
    "The list has the version of the protocol",
    page="Versioning",
    remedy="Send $schema in every body of OTC, OXP-Version in every answer of flat OXP.",
    forms=SPECIFIED,
)
async def list_has_version(server: RestServer) -> None:
    answer = await server.list_tools()
    if server.form.is_flat:
        versioned(answer)
    else:
        answer.must(isinstance(answer.member("$schema"), str), "A text in `$schema`.")


@check(
    13,
    GOOD,
    "A body of `{}` in a request for the list does no harm",
    page="List Tools",
    remedy="Read the body of a GET, and forget it.",
)
async def list_takes_body(server: RestServer) -> None:
    answer = await server.list_tools(body=b"{}")
    answer.must(answer.status == 200, "Status 200.")
    again = await server.list_tools()
    again.must(again.status == 200, "Status 200 for the next request.")


@check(
    14,
    GOOD,
    "A parameter that nobody knows does no harm",
    page="List Tools",
    remedy="Ignore query parameters that are not known.",
)
async def list_takes_query(server: RestServer) -> None:
    answer = await server.client.send("GET", "/tools?kit=1", headers=server.form.headers)
    answer.must(answer.status == 200, "Status 200.")
