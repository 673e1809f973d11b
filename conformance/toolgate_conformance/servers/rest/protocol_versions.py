"""Checks of the protocol version that a request states."""

from __future__ import annotations

import json

from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import ENVELOPED, HEADER, RFC, VERSION_HEADER, WITH_IDS
from toolgate_conformance.servers.rest.server import RestServer, members_of

check: Registry[RestServer] = Registry()


@check(50, MUST, "Versioning", forms=ENVELOPED, silent=RFC)
async def other_schema(server: RestServer) -> None:
    """An unsupported `$schema` is refused with 400.

    Fix: Accept only the versions that you support.
    """
    await _must_refuse_schemas(server, "otc://99.0", "urn:oxp:99.0")


@check(51, MUST, "Versioning", forms=HEADER)
async def other_version(server: RestServer) -> None:
    """An unsupported `OXP-Version` is refused with 400.

    Fix: Accept only the versions that you support.
    """
    await _must_refuse_versions(server, "99", "99.0")


@check(52, MUST, "Versioning", forms=WITH_IDS, silent=HEADER)
async def no_version(server: RestServer) -> None:
    """A request that states no version is served.

    Fix: Assume the latest version if the request states none.
    """
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


@check(53, GOOD, "Versioning", forms=WITH_IDS)
async def spellings(server: RestServer) -> None:
    """Each spelling of the version is accepted, and repeated in the response.

    Fix: Accept the spellings that clients use, and respond with the one of the request.
    """
    for spelling in server.form.spellings:
        if server.form.is_flat:
            answer = await server.list_tools(headers={VERSION_HEADER: spelling})
        else:
            answer = await server.list_tools(body=json.dumps({"$schema": spelling}).encode())
        answer.must(answer.status == 200, f"Status 200 for the version {spelling}.")
        stated = server.form.version(answer)
        answer.must(stated == spelling, f"{spelling} in the {server.form.version_member}.")


@check(54, GOOD, "Versioning", forms=ENVELOPED)
async def similar_schema(server: RestServer) -> None:
    """A `$schema` that resembles a supported one is refused with 400.

    Fix: Compare the whole string, not its beginning, and accept only a string.
    """
    await _must_refuse_schemas(server, f"{server.form.schema}-kit", "", 1)


@check(55, GOOD, "Versioning", forms=HEADER)
async def similar_version(server: RestServer) -> None:
    """An `OXP-Version` that resembles a supported one is refused with 400.

    Fix: Compare the whole header, not its beginning.
    """
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
