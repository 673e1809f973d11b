"""Checks of `PATCH` and `DELETE`."""

from __future__ import annotations

import json

from toolgate_conformance.registry import MUST, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI
from toolgate_conformance.servers.rcrt.server import RcrtServer
from toolgate_conformance.servers.rcrt.store import KIT

PATCH = f"{OPENAPI}: PATCH /breadcrumbs/{{id}}"

check: Registry[RcrtServer] = Registry()


@check(19, MUST, PATCH)
async def change(server: RcrtServer) -> None:
    """A PATCH replaces context and tags, and increments the version.

    Fix: Replace the members that were sent, keep the others, and respond with 200.
    """
    crumb_id, _ = await server.created(server.draft())
    members = {"context": {"changed": True}, "tags": [KIT, "changed"]}
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", members)
    answer.must(answer.status == 200, "Status 200.")
    record, answer = await server.record(crumb_id)
    wanted = {**members, "title": "conformance", "version": 2}
    answer.must({name: record.get(name) for name in wanted} == wanted, f"In the record: {json.dumps(wanted)}.")


@check(20, MUST, PATCH)
async def version_conflict(server: RcrtServer) -> None:
    """`If-Match` restricts a PATCH to one version.

    Fix: Respond with 412 and change nothing if If-Match differs from the version; otherwise make the change.
    """
    crumb_id, _ = await server.created(server.draft())
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", {"title": "changed"}, if_match='"7"')
    answer.must(answer.status == 412, "Status 412.")
    record, answer = await server.record(crumb_id)
    answer.must(record.get("title") == "conformance" and record.get("version") == 1, "An unchanged breadcrumb.")
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", {"title": "changed"}, if_match='"1"')
    answer.must(answer.status == 200, "Status 200 if the version is the same.")


@check(21, MUST, f"{OPENAPI}: DELETE /breadcrumbs/{{id}}")
async def delete(server: RcrtServer) -> None:
    """A deleted breadcrumb is gone.

    Fix: Respond with 200 to the DELETE and with 404 afterwards; remove the breadcrumb from lists, too.
    """
    draft = server.draft()
    crumb_id, _ = await server.created(draft)
    answer = await server.send("DELETE", f"/breadcrumbs/{crumb_id}")
    answer.must(answer.status == 200, "Status 200.")
    answer = await server.read(crumb_id)
    answer.must(answer.status == 404, "Status 404 after the DELETE.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(found == [], "An empty list after the DELETE.")
