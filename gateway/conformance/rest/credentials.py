"""Checks of servers that ask for a credential."""

from __future__ import annotations

import json

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.registry import MUST, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

check = Registry()


@check(
    70,
    MUST,
    "A request without a credential is refused with 401",
    page="Security",
    remedy="Ask for the credential on every path but /health.",
    forms=SPECIFIED,
)
async def without_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")
    data = json.dumps(server.form.request({"tool_id": "KitNowhere.NoSuchTool", "input": {}})).encode()
    for method, path, body in (("GET", "/tools", None), ("POST", server.form.call_path, data)):
        answer = await server.client.send(method, path, body=body, headers=server.form.headers, is_known=False)
        answer.must(answer.status == 401, "Status 401.")


@check(
    71,
    MUST,
    "A wrong credential is refused with 401",
    page="Security",
    remedy="Compare the whole credential.",
    forms=SPECIFIED,
)
async def wrong_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")
    headers = server.form.headers | {"authorization": "Bearer kit-wrong"}
    answer = await server.client.send("GET", "/tools", headers=headers, is_known=False)
    answer.must(answer.status == 401, "Status 401.")
