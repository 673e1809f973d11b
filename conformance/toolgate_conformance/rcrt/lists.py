"""Checks of `GET /breadcrumbs`, where clients look for responses whose events were lost."""

from __future__ import annotations

from toolgate_conformance.rcrt.registry import MUST, OPENAPI, Registry
from toolgate_conformance.rcrt.server import RcrtServer
from toolgate_conformance.rcrt.store import KIT, NOTE

LIST = f"{OPENAPI}: GET /breadcrumbs"

check = Registry()


@check(
    15,
    MUST,
    "`tag` selects exactly the breadcrumbs with that tag",
    section=LIST,
    remedy="Compare the whole tag.",
)
async def list_by_tag(server: RcrtServer) -> None:
    draft = server.draft()
    tag = draft["tags"][-1]
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"tags": [KIT, f"{tag}-more"]})
    found, answer = await server.entries(tag=tag)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(
    16,
    MUST,
    "`schema_name` selects exactly the breadcrumbs with that schema",
    section=LIST,
    remedy="Compare the whole name; if `tag` is given too, require both.",
)
async def list_by_schema(server: RcrtServer) -> None:
    draft = server.draft()
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"schema_name": f"{NOTE}.more"})
    found, answer = await server.entries(tag=draft["tags"][-1], schema_name=NOTE)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(
    17,
    MUST,
    "`limit` and `offset` page through a list that is sorted by update time, newest first",
    section=LIST,
    remedy="Sort by updated_at in descending order before applying offset and limit.",
)
async def list_pages(server: RcrtServer) -> None:
    draft = server.draft()
    ids = [(await server.created(draft))[0] for _ in range(3)]
    for offset, wanted in ((0, ids[:0:-1]), (2, ids[:1])):
        found, answer = await server.entries(tag=draft["tags"][-1], limit=2, offset=offset)
        answer.must([entry.get("id") for entry in found] == wanted, f"In this order: {', '.join(wanted)}.")


@check(
    18,
    MUST,
    "`include_context=true` adds the context to each entry",
    section=LIST,
    remedy="Send the context exactly as it was stored: clients read responses this way.",
)
async def list_with_context(server: RcrtServer) -> None:
    draft = server.draft(context={"text": "ä€😀", "list": [1, None]})
    await server.created(draft)
    found, answer = await server.entries(tag=draft["tags"][-1], include_context="true")
    answer.must([entry.get("context") for entry in found] == [draft["context"]], "The context as it was sent.")
