"""Checks of `GET /breadcrumbs`, where clients look for responses whose events were lost."""

from __future__ import annotations

from toolgate_conformance.registry import MUST, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI
from toolgate_conformance.servers.rcrt.server import RcrtServer
from toolgate_conformance.servers.rcrt.store import KIT, NOTE

LIST = f"{OPENAPI}: GET /breadcrumbs"

check: Registry[RcrtServer] = Registry()


@check(15, MUST, LIST)
async def list_by_tag(server: RcrtServer) -> None:
    """`tag` selects exactly the breadcrumbs with that tag.

    Fix: Compare the whole tag.
    """
    draft = server.draft()
    tag = draft["tags"][-1]
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"tags": [KIT, f"{tag}-more"]})
    found, answer = await server.entries(tag=tag)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(16, MUST, LIST)
async def list_by_schema(server: RcrtServer) -> None:
    """`schema_name` selects exactly the breadcrumbs with that schema.

    Fix: Compare the whole name; if `tag` is given too, require both.
    """
    draft = server.draft()
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"schema_name": f"{NOTE}.more"})
    found, answer = await server.entries(tag=draft["tags"][-1], schema_name=NOTE)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(17, MUST, LIST)
async def list_pages(server: RcrtServer) -> None:
    """`limit` and `offset` page through a list that is sorted by update time, newest first.

    Fix: Sort by updated_at in descending order before applying offset and limit.
    """
    draft = server.draft()
    ids = [(await server.created(draft))[0] for _ in range(3)]
    for offset, wanted in ((0, ids[:0:-1]), (2, ids[:1])):
        found, answer = await server.entries(tag=draft["tags"][-1], limit=2, offset=offset)
        answer.must([entry.get("id") for entry in found] == wanted, f"In this order: {', '.join(wanted)}.")


@check(18, MUST, LIST)
async def list_with_context(server: RcrtServer) -> None:
    """`include_context=true` adds the context to each entry.

    Fix: Send the context exactly as it was stored: clients read responses this way.
    """
    draft = server.draft(context={"text": "ä€😀", "list": [1, None]})
    await server.created(draft)
    found, answer = await server.entries(tag=draft["tags"][-1], include_context="true")
    answer.must([entry.get("context") for entry in found] == [draft["context"]], "The context as it was sent.")
