"""What `toolgate init` makes of a tool server that calls back (RAP, Reactive Agent Protocol)."""

from __future__ import annotations

from gateway.cli.drafting.draft import Draft, NotSpokenError, Wanted, quoted
from gateway.cli.drafting.listing import drafted, listed

TOOLSET = "/.well-known/rap-toolset"


async def draft(wanted: Wanted, protocol: str) -> Draft:
    """Asks for the toolset. Raises NotSpokenError, CommandError."""
    lines = [f"url: {quoted(wanted.base.removesuffix(TOOLSET))}"]
    found = await listed(wanted, protocol, lines)
    if not found.listing.tools:
        raise NotSpokenError("its toolset has no tools")
    said = [] if wanted.is_near else ["  It calls back: set server.callback_url to where it reaches this gateway."]
    return drafted(wanted, protocol, found._replace(form="callbacks (RAP)"), lines, said=said)
