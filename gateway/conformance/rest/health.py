"""Checks of `GET /health`."""

from __future__ import annotations

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.expectations import versioned
from gateway.conformance.rest.registry import GOOD, HEADER, MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    1,
    MUST,
    "`GET /health` answers 200 when the server is ready",
    page="Health",
    remedy="Answer GET /health with 200.",
)
async def health(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    answer.must(answer.status == 200, "Status 200.")


@check(
    2,
    MUST,
    "`GET /health` needs no credential",
    page="Health",
    remedy="Leave /health out of authentication.",
    forms=SPECIFIED,
)
async def health_is_open(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server is asked without a credential anyway.")
    answer = await server.client.send("GET", "/health", is_known=False)
    answer.must(answer.status == 200, "Status 200 without a credential.")


@check(
    3,
    GOOD,
    "The body of `/health` is JSON",
    page="Health",
    remedy="Send at least {}: a client reads it unasked.",
)
async def health_is_json(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    _ = answer.document


@check(
    4,
    MUST,
    "`/health` has the header `OXP-Version`",
    page="Versioning",
    remedy="Send OXP-Version: 1.0 in every answer.",
    forms=HEADER,
)
async def health_has_version(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    versioned(answer)
