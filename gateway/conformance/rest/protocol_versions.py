"""Checks of the version of the protocol that a request states."""

from __future__ import annotations

import json

from gateway.conformance.rest.expectations import any_tool, versioned
from gateway.conformance.rest.registry import ENVELOPED, HEADER, MUST, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    50,
    MUST,
    "A `$schema` of another version is refused with 400",
    page="Versioning",
    remedy="Compare the whole text.",
    forms=ENVELOPED,
)
async def other_schema(server: RestServer) -> None:
    tool = await any_tool(server)
    for schema in ("otc://99.0", "urn:oxp:99.0", f"{server.form.schema}-evil", "", 1):
        body = server.form.request({"tool_id": tool, "input": {}}) | {"$schema": schema}
        answer = await server.post(body)
        answer.must(answer.status == 400, f"Status 400 for $schema {schema!r}.")


@check(
    51,
    MUST,
    "An `OXP-Version` of another version is refused with 400",
    page="Versioning",
    remedy="Compare the whole text.",
    forms=HEADER,
)
async def other_version(server: RestServer) -> None:
    tool = await any_tool(server)
    for version in ("99", "1.1", "v1.0", "1.0-evil"):
        body = server.form.request({"tool_id": tool, "input": {}})
        answer = await server.post(body, headers={"oxp-version": version})
        answer.must(answer.status == 400, f"Status 400 for OXP-Version {version}.")
        versioned(answer)


@check(
    52,
    MUST,
    "Without a version the latest is assumed",
    page="Versioning",
    remedy="Serve requests that name no version.",
    forms=frozenset({"otc", "oxp", "oxp-env"}),
)
async def no_version(server: RestServer) -> None:
    call = server.allowed()
    context = {"context": call.context} if call.context else {}
    body = server.form.request({"tool_id": call.tool, "input": call.input, **context})
    body.pop("$schema", None)
    headers = {name: value for name, value in server.form.headers.items() if name != "oxp-version"}
    data = json.dumps(body).encode()
    answer = await server.client.send("POST", server.form.call_path, body=data, headers=headers)
    answer.must(answer.status == 200, "Status 200 for a call that names no version.")
