"""What `toolgate init` makes of a server of breadcrumbs (RCRT)."""

from __future__ import annotations

from uuid import uuid4

from gateway.cli.drafting.draft import WORKSPACE, Draft, NotSpokenError, Wanted, quoted
from gateway.cli.drafting.listing import drafted, listed


async def draft(wanted: Wanted, protocol: str) -> Draft:
    """Asks for the tools of the workspace, as an agent of its own. Raises NotSpokenError, CommandError."""
    lines = [
        f"url: {quoted(wanted.base)}",
        f"owner_id: {quoted(wanted.owner_id)} # the tenant",
        f"agent_id: {uuid4()} # this gateway's own, made by init",
    ]
    if wanted.workspace != WORKSPACE:
        lines.append(f"workspace: {quoted(wanted.workspace)}")
    found = await listed(wanted, protocol, lines)
    if not found.listing.tools:
        raise NotSpokenError(f"{wanted.workspace} has no tools")
    return drafted(wanted, protocol, found._replace(form="breadcrumbs (RCRT)"), lines)
