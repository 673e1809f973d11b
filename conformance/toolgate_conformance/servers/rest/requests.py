"""Checks of malformed requests."""

from __future__ import annotations

from typing import Any

from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import RFC, SPECIFIED
from toolgate_conformance.servers.rest.server import RestServer, members_of

check: Registry[RestServer] = Registry()


@check(43, MUST, "Call Tool", forms=SPECIFIED, silent=RFC)
async def no_object(server: RestServer) -> None:
    """A body that is not a JSON object is refused with 400.

    Fix: Respond with 400, never with 5xx, and run no tool.
    """
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe"):
        answer = await server.post(body)
        answer.must(answer.status == 400, f"Status 400 for the body {body!r}.")


@check(44, MUST, "Call Tool, CallToolRequest", forms=SPECIFIED, silent=RFC)
async def wrong_members(server: RestServer) -> None:
    """Request members of the wrong type are refused with 400.

    Fix: Use 422 only for the input of the tool.
    """
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


@check(47, GOOD, "Call Tool, CallToolRequest", forms=SPECIFIED)
async def unknown_members(server: RestServer) -> None:
    """Unknown request members are refused with 400.

    Fix: Refuse members that you do not know: a misspelled one would be ignored without notice.
    """
    answer = await server.make(await server.probe(), kit_member=1)
    answer.must(answer.status == 400, "Status 400.")
