"""What `toolgate init` makes of an MCP server over streamable HTTP, of any revision."""

from __future__ import annotations

from gateway.cli.drafting.draft import Draft, NotSpokenError, Wanted, quoted
from gateway.cli.drafting.listing import drafted, listed
from gateway.protocols.mcp.servers.backend import McpBackend

USUAL = "/mcp"


async def draft(wanted: Wanted, protocol: str) -> Draft:
    """Asks at the URL, and at the usual path below it. Raises NotSpokenError, CommandError."""
    reasons: list[NotSpokenError] = []
    for url in _endpoints(wanted.base, wanted.place):
        lines = [f"url: {quoted(url)}"]
        try:
            found = await listed(wanted, protocol, lines)
        except NotSpokenError as exc:
            if exc.wants_credential:
                raise
            reasons.append(exc)
        else:
            assert isinstance(found.backend, McpBackend)
            form = found.form.replace("mcp", "MCP")
            return drafted(wanted, protocol, found._replace(form=form), lines, title=found.backend.title)
    raise reasons[0]


def _endpoints(base: str, place: str) -> list[str]:
    """The URL as it was given, and the usual path below it; both with and without a slash, which may be two things."""
    given = base + "/" * place.endswith("/")
    if base.endswith(USUAL):
        return list(dict.fromkeys([given, base, f"{base}/"]))
    below = [base + USUAL, f"{base}{USUAL}/"]
    return [given, *below] if base.count("/") > 2 else [*below, given]
