"""Checks of the protocol version that a request states."""

from __future__ import annotations

import json

from toolgate_conformance.rest.forms import VERSION_HEADER
from toolgate_conformance.rest.registry import ENVELOPED, GOOD, HEADER, MUST, RFC, WITH_IDS, Registry
from toolgate_conformance.rest.server import RestServer, members_of

check = Registry()


@check(
    50,
    MUST,
    "An unsupported `$schema` is refused with 400",
    page="Versioning",
    remedy="Accept only the versions that you support.",
    forms=ENVELOPED,
    silent=RFC,
)
async def other_schema(server: RestServer) -> None:
    await _must_refuse_schemas(server, "otc://99.0", "urn:oxp:99.0")


@check(
    51,
    MUST,
    "An unsupported `OXP-Version` is refused with 400",
    page="Versioning",
    remedy="Accept only the versions that you support.",
    forms=HEADER,
)
async def other_version(server: RestServer) -> None:
    await _must_refuse_versions(server, "99", "99.0")


@check(
    52,
    MUST,
    "A request that states no version is served",
    page="Versioning",
    remedy="Assume the latest version if the request states none.",
    forms=WITH_IDS,
    silent=HEADER,  # where servers MAY assume it
)
async def no_version(server: RestServer) -> None:
    headers = {name: value for name, value in server.form.headers.items() if name != VERSION_HEADER}
    listed = await server.client.send("GET", "/tools", headers={"accept": headers["accept"]})
    listed.must(listed.status == 200, "Status 200 for a request for the list that states no version.")
    if not server.calls:
        return
    body = server.form.request(members_of(server.allowed()))
    body.pop("$schema", None)
    data = json.dumps(body).encode()
    answer = await server.client.send("POST", server.form.call_path, body=data, headers=headers)
    answer.must(answer.status == 200, "Status 200 for a call that states no version.")


@check(
    53,
    GOOD,
    "Each spelling of the version is accepted, and repeated in the response",
    page="Versioning",
    remedy="Accept the spellings that clients use, and respond with the one of the request.",
    forms=WITH_IDS,
)
async def spellings(server: RestServer) -> None:
    for spelling in server.form.spellings:
        if server.form.is_flat:
            answer = await server.list_tools(headers={VERSION_HEADER: spelling})
        else:
            answer = await server.list_tools(body=json.dumps({"$schema": spelling}).encode())
        answer.must(answer.status == 200, f"Status 200 for the version {spelling}.")
        stated = server.form.version(answer)
        answer.must(stated == spelling, f"{spelling} in the {server.form.version_member}.")


@check(
    54,
    GOOD,
    "A `$schema` that resembles a supported one is refused with 400",
    page="Versioning",
    remedy="Compare the whole string, not its beginning, and accept only a string.",
    forms=ENVELOPED,
)
async def similar_schema(server: RestServer) -> None:
    await _must_refuse_schemas(server, f"{server.form.schema}-kit", "", 1)


@check(
    55,
    GOOD,
    "An `OXP-Version` that resembles a supported one is refused with 400",
    page="Versioning",
    remedy="Compare the whole header, not its beginning.",
    forms=HEADER,
)
async def similar_version(server: RestServer) -> None:
    await _must_refuse_versions(server, "v1.0", "1.0-kit", "1.0, 1.0")


async def _must_refuse_schemas(server: RestServer, *schemas: object) -> None:
    members = members_of(await server.probe())
    for schema in schemas:
        answer = await server.post(server.form.request(members) | {"$schema": schema})
        answer.must(answer.status == 400, f"Status 400 for $schema {schema!r}.")


async def _must_refuse_versions(server: RestServer, *versions: str) -> None:
    members = members_of(await server.probe())
    for version in versions:
        answer = await server.post(server.form.request(members), headers={VERSION_HEADER: version})
        answer.must(answer.status == 400, f"Status 400 for OXP-Version {version}.")
