"""Checks of single breadcrumbs over REST: how they are created and read, and how bad requests are refused."""

from __future__ import annotations

import json
import uuid
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.http import Answer
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI, SERVER
from toolgate_conformance.servers.rcrt.server import RcrtServer

TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panicked at")

check: Registry[RcrtServer] = Registry()


@check(10, MUST, f"{OPENAPI}: POST /breadcrumbs")
async def create(server: RcrtServer) -> None:
    """Creating a breadcrumb returns 200 and its id.

    Fix: Respond with 200 and {"id": uuid}: clients accept no other status.
    """
    answer = await server.create(server.draft())
    answer.must(answer.status == 200, "Status 200.")
    answer.must(_is_uuid(answer.member("id")), "A UUID in `id`.")


@check(11, MUST, f"{OPENAPI}: GET /breadcrumbs/{{id}}/full")
async def read(server: RcrtServer) -> None:
    """A new breadcrumb reads back unchanged, with version 1.

    Fix: Store title, schema_name, tags and context exactly as they were sent.
    """
    draft = server.draft(context={"text": "ä€😀", "list": [1, 2.5, None, True], "empty": {}})
    crumb_id, _ = await server.created(draft)
    record, answer = await server.record(crumb_id)
    answer.must(record.get("id") == crumb_id, f"`id` {crumb_id}.")
    for name in ("title", "schema_name", "tags", "context"):
        answer.must(record.get(name) == draft[name], f"`{name}` as it was sent: {json.dumps(draft[name])}.")
    answer.must(record.get("version") == 1, "`version` 1.")


@check(12, MUST, f"{OPENAPI}: GET /breadcrumbs/{{id}}/full")
async def unknown(server: RcrtServer) -> None:
    """An unknown breadcrumb returns 404.

    Fix: Respond with 404 to a GET and to a DELETE.
    """
    nowhere = uuid.uuid4()
    for method, path in (("GET", f"/breadcrumbs/{nowhere}/full"), ("DELETE", f"/breadcrumbs/{nowhere}")):
        answer = await server.send(method, path)
        answer.must(answer.status == 404, "Status 404.")


@check(13, MUST, f"{OPENAPI}: POST /breadcrumbs")
async def bad_bodies(server: RcrtServer) -> None:
    """A body that is not a breadcrumb is refused with 4xx.

    Fix: Respond with 400 to invalid JSON and with 422 to the wrong shape, never with 5xx.
    """
    await server.created(server.draft())
    draft = server.draft()
    wrong: list[Any] = [b"{", b"", b"\xff", b"null", [], {**draft, "tags": "none"}, {**draft, "title": 1}]
    wrong += [{name: value for name, value in draft.items() if name != left_out} for left_out in ("title", "tags")]
    for body in wrong:
        answer = await server.create(body)
        answer.must(400 <= answer.status < 500, "A 4xx status.")


@check(14, MUST, f"{OPENAPI}: POST /breadcrumbs")
async def refused_is_not_stored(server: RcrtServer) -> None:
    """A refused breadcrumb is not stored.

    Fix: Validate the whole breadcrumb before storing any of it.
    """
    draft = server.draft(title=1)
    refusal = await server.create(draft)
    if refusal.status < 400:
        raise SkippedError("The server accepts a number as a title.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(found == [], "An empty list.")


@check(22, MUST, f"{OPENAPI}: POST /breadcrumbs, Idempotency-Key")
async def idempotency_key(server: RcrtServer) -> None:
    """An idempotency key stores at most one breadcrumb.

    Fix: Respond with 409 to a key that was used before: otherwise a retried request runs its tool twice.
    """
    draft, key = server.draft(), server.new_id()
    await server.created(draft, idempotency_key=key)
    again = await server.create(draft, idempotency_key=key)
    again.must(again.status == 409, "Status 409 the second time.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(len(found) == 1, "One breadcrumb.")


@check(23, SHOULD, SERVER)
async def refusals_are_text(server: RcrtServer) -> None:
    """Error bodies are plain text.

    Fix: Send text/plain: clients show the body as it is.
    """
    for answer in await _refusals(server):
        fits = answer.headers.get("content-type", "").startswith("text/plain")
        answer.must(fits, "The content type text/plain.")


@check(24, GOOD, SERVER)
async def refusals_hide(server: RcrtServer) -> None:
    """Error bodies contain no stack trace.

    Fix: Write stack traces to the log only.
    """
    for answer in await _refusals(server):
        text = answer.body.decode("utf-8", "replace")
        answer.must(not any(trace in text for trace in TRACES), "No stack trace.")


@check(25, GOOD, f"{OPENAPI}: POST /breadcrumbs")
async def other_content_type(server: RcrtServer) -> None:
    """A body that is not declared as JSON is refused with 415.

    Fix: Require the content type application/json: web pages of others can send text/plain without asking first.
    """
    answer = await server.create(server.draft(), content_type="text/plain")
    answer.must(answer.status == 415, "Status 415.")


async def _refusals(server: RcrtServer) -> list[Answer]:
    """Error responses to invalid JSON, to the wrong shape and to an unknown id. Raises SkippedError without any."""
    found = [await server.create(b"{"), await server.create({"title": 1}), await server.read(str(uuid.uuid4()))]
    if not (refusals := [answer for answer in found if answer.status >= 400]):  # which is a check of its own
        raise SkippedError("The server refuses nothing.")
    return refusals


def _is_uuid(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(uuid.UUID(value))
    except ValueError:
        return False
