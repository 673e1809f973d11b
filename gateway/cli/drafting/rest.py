"""What `toolgate init` makes of a tool server that speaks OTC or OXP, in any of their forms."""

from __future__ import annotations

from gateway.cli.drafting.draft import ASKED_AS, Draft, NotSpokenError, Wanted, quoted
from gateway.cli.drafting.listing import drafted, listed
from gateway.protocols import PROTOCOLS
from gateway.protocols.otc.surface import EITHER_OXP

PATHS = ("/tools/call", "/tools", "/call")  # of the protocol; what is before them is the base URL


async def draft(wanted: Wanted, protocol: str) -> Draft:
    """Asks for the list, whose form tells the two apart. Raises NotSpokenError, CommandError."""
    base = wanted.base
    for path in PATHS:
        base = base.removesuffix(path)
    lines = [f"url: {quoted(base)}"]
    found = await listed(wanted, protocol, lines)
    forms = {**PROTOCOLS[protocol].forms, EITHER_OXP: "OXP 1.0"} if protocol == "oxp" else PROTOCOLS[protocol].forms
    if found.form not in forms:
        raise NotSpokenError(f"it lists its tools in another form ({found.form})")
    if found.form != "lc" and found.tools and all(tool.startswith(f"{ASKED_AS}.") for tool in found.tools):
        # A server that answers every path with the list of its own protocol.
        raise NotSpokenError("the tools that it lists have no ids")
    return drafted(wanted, protocol, found._replace(form=forms[found.form]), lines)
