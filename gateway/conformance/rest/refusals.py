"""Checks of what refusals say, and of what is not served."""

from __future__ import annotations

from gateway.conformance.rest.registry import GOOD, MUST, SHOULD, SPECIFIED, Registry
from gateway.conformance.rest.server import RestServer

TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panic: ")
check = Registry()


@check(
    60,
    MUST,
    "A refusal has a `message` in JSON",
    page="Call Tool, ServerErrorResponse",
    remedy="Say in a sentence what is wrong.",
    forms=SPECIFIED,
)
async def refusals_speak(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {})
    answer.must("json" in answer.headers.get("content-type", ""), "A content type of JSON.")
    answer.must(isinstance(answer.member("message"), str), "A text in `message`.")


@check(
    61,
    SHOULD,
    "No refusal shows what is inside",
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
    "Another method is refused with 405 or 404",
    page="Call Tool",
    remedy="Answer what is served, and nothing else.",
)
async def other_method(server: RestServer) -> None:
    answer = await server.client.send("PUT", server.form.call_path, headers=server.form.headers, body=b"{}")
    answer.must(answer.status in (404, 405), "Status 405.")


@check(
    63,
    GOOD,
    "A path that is not there is refused with 404",
    page="Call Tool",
    remedy="Answer what is served, and nothing else.",
)
async def other_path(server: RestServer) -> None:
    answer = await server.client.send("GET", "/kit/nowhere", headers=server.form.headers)
    answer.must(answer.status == 404, "Status 404.")
