"""Checks of `GET /health`."""

from __future__ import annotations

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.rest.registry import GOOD, HEADER, MUST, SPECIFIED, Registry
from toolgate_conformance.rest.server import RestServer

check = Registry()


@check(
    1,
    MUST,
    "`GET /health` returns 200 when the server is ready",
    page="Health",
    remedy="Respond to GET /health with 200.",
)
async def health(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    answer.must(answer.status == 200, "Status 200.")


@check(
    2,
    MUST,
    "`GET /health` needs no credential",
    page="Health",
    remedy="Exempt /health from authentication.",
    forms=SPECIFIED,
)
async def health_is_open(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("No request carries a credential; to test this, give one with --token.")
    answer = await server.client.send("GET", "/health", is_known=False)
    answer.must(answer.status == 200, "Status 200 without a credential.")


@check(
    3,
    GOOD,
    "The body of `/health` is JSON",
    page="Health",
    remedy="Send at least {}: some clients parse the body without a look at its type.",
)
async def health_is_json(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    _ = answer.document


@check(
    4,
    MUST,
    "The response to `GET /health` has the header `OXP-Version`",
    page="Versioning",
    remedy="Send OXP-Version: 1.0 in every response.",
    forms=HEADER,
)
async def health_has_version(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    answer.must(server.form.version(answer) is not None, "The header OXP-Version.")
