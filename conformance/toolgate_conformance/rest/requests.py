"""Checks of malformed requests."""

from __future__ import annotations

from typing import Any

from toolgate_conformance.rest.registry import GOOD, MUST, RFC, SPECIFIED, Registry
from toolgate_conformance.rest.server import RestServer, members_of

check = Registry()


@check(
    43,
    MUST,
    "A body that is not a JSON object is refused with 400",
    page="Call Tool",
    remedy="Respond with 400, never with 5xx, and run no tool.",
    forms=SPECIFIED,
    silent=RFC,
)
async def no_object(server: RestServer) -> None:
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe"):
        answer = await server.post(body)
        answer.must(answer.status == 400, f"Status 400 for the body {body!r}.")


@check(
    44,
    MUST,
    "Request members of the wrong type are refused with 400",
    page="Call Tool, CallToolRequest",
    remedy="Use 422 only for the input of the tool.",
    forms=SPECIFIED,
    silent=RFC,
)
async def wrong_members(server: RestServer) -> None:
    members = members_of(await server.probe())
    wrong: tuple[dict[str, Any], ...] = (
        {"tool_id": 1, "input": {}},
        {"input": {}},
        members | {"input": []},
        members | {"call_id": 1},
    )
    for each in wrong:
        answer = await server.post(server.form.request(each))
        answer.must(answer.status == 400, "Status 400.")


@check(
    47,
    GOOD,
    "Unknown request members are refused with 400",
    page="Call Tool, CallToolRequest",
    remedy="Refuse members that you do not know: a misspelled one would be ignored without notice.",
    forms=SPECIFIED,
)
async def unknown_members(server: RestServer) -> None:
    answer = await server.make(await server.probe(), kit_member=1)
    answer.must(answer.status == 400, "Status 400.")
