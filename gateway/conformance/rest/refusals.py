"""Checks of refusals, credentials included."""

from __future__ import annotations

import json

from gateway.conformance.checks import SkippedError
from gateway.conformance.rest.registry import GOOD, MUST, NEW, SHOULD, Registry
from gateway.conformance.rest.server import RestServer

TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panic: ")

check = Registry()


@check(
    60,
    MUST,
    "A refusal has a `message` in JSON",
    page="Call Tool, ServerErrorResponse",
    remedy="Say in a sentence what is wrong.",
    forms=NEW,
)
async def refusals_speak(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {})
    answer.must("json" in answer.headers.get("content-type", ""), "A content type of JSON.")
    answer.must(isinstance(answer.member("message"), str), "A text in `message`.")


@check(
    61,
    SHOULD,
    "Refusals contain no stack trace",
    page="Call Tool, ServerErrorResponse",
    remedy="Keep stack traces in the log.",
)
async def refusals_hide(server: RestServer) -> None:
    for answer in (await server.call("KitNowhere.NoSuchTool", {}), await server.post(b"{"), await server.post(b"[1]")):
        text = answer.body.decode("utf-8", "replace")
        answer.must(not any(trace in text for trace in TRACES), "No stack trace.")


@check(
    62,
    GOOD,
    "A method that is not served is refused with 405 or 404",
    page="Call Tool",
    remedy="Answer only the methods that are specified.",
)
async def other_method(server: RestServer) -> None:
    answer = await server.client.send("PUT", server.form.call_path, headers=server.form.headers, body=b"{}")
    answer.must(answer.status in (404, 405), "Status 405.")


@check(
    63,
    GOOD,
    "An unknown path is refused with 404",
    page="Call Tool",
    remedy="Answer only the paths that are specified.",
)
async def other_path(server: RestServer) -> None:
    answer = await server.client.send("GET", "/kit/nowhere", headers=server.form.headers)
    answer.must(answer.status == 404, "Status 404.")


@check(
    70,
    MUST,
    "A request without a credential is refused with 401",
    page="Security",
    remedy="Ask for the credential on every path but /health.",
    forms=NEW,
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
    forms=NEW,
)
async def wrong_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")
    headers = server.form.headers | {"authorization": "Bearer kit-wrong"}
    answer = await server.client.send("GET", "/tools", headers=headers, is_known=False)
    answer.must(answer.status == 401, "Status 401.")
