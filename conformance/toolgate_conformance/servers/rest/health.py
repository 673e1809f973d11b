"""Checks of `GET /health`."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import HEADER, SPECIFIED
from toolgate_conformance.servers.rest.server import RestServer

check: Registry[RestServer] = Registry()


@check(1, MUST, "Health")
async def health(server: RestServer) -> None:
    """`GET /health` returns 200 when the server is ready.

    Fix: Respond to GET /health with 200.
    """
    answer = await server.client.send("GET", "/health")
    answer.must(answer.status == 200, "Status 200.")


@check(2, MUST, "Health", forms=SPECIFIED)
async def health_is_open(server: RestServer) -> None:
    """`GET /health` needs no credential.

    Fix: Exempt /health from authentication.
    """
    if not server.has_credential:
        raise SkippedError("No request carries a credential; to test this, give one with --token.")
    answer = await server.client.send("GET", "/health", is_known=False)
    answer.must(answer.status == 200, "Status 200 without a credential.")


@check(3, GOOD, "Health")
async def health_is_json(server: RestServer) -> None:
    """The body of `/health` is JSON.

    Fix: Send at least {}: some clients parse the body without a look at its type.
    """
    answer = await server.client.send("GET", "/health")
    _ = answer.document


@check(4, MUST, "Versioning", forms=HEADER)
async def health_has_version(server: RestServer) -> None:
    """The response to `GET /health` has the header `OXP-Version`.

    Fix: Send OXP-Version: 1.0 in every response.
    """
    answer = await server.client.send("GET", "/health")
    answer.must(server.form.version(answer) is not None, "The header OXP-Version.")
