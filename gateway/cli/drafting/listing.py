"""Asks a server for its tools in one protocol, with the very adapter that the gateway would use."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from gateway.app import Gateway
from gateway.cli.drafting.draft import ASKED_AS, Draft, NotSpokenError, Wanted, backend_yaml, checked, name_at, name_of
from gateway.cli.output import count
from gateway.core.errors import GatewayError
from gateway.core.model import Listing
from gateway.core.ports import Backend
from gateway.core.tool_names import word

ASK_S = 10.0
MAX_SHOWN = 5  # names of tools
# What backends say of a server that wants a credential, or another one.
REFUSED = re.compile(r"\b(answered|status) 40[13]\b")


class ListedTools(NamedTuple):
    """The list of a server. `form` is what it speaks, as `backend` has learned it; that is closed."""

    listing: Listing
    form: str
    backend: Backend

    @property
    def tools(self) -> tuple[str, ...]:
        """The ids `Toolkit.Tool`, each once whatever versions there are."""
        return tuple(dict.fromkeys(tool.tool for tool in self.listing.tools))


async def listed(wanted: Wanted, protocol: str, lines: Sequence[str]) -> ListedTools:
    """Asks a server for its tools. Raises NotSpokenError, and CommandError for lines that make no backend."""
    yaml = backend_yaml(ASKED_AS, protocol, [*lines, *wanted.auth])
    gateway = Gateway(checked(f"auth: none\nbackends:\n{yaml}", wanted.folder))
    backend = gateway.backends[ASKED_AS]
    try:
        async with asyncio.timeout(ASK_S):
            listing = await backend.list_tools()
    except GatewayError as exc:
        reason = exc.detail or exc.message
        raise NotSpokenError(reason, wants_credential=REFUSED.search(reason) is not None) from exc
    except TimeoutError as exc:
        raise NotSpokenError(f"no list of tools within {ASK_S:g} s") from exc
    finally:
        await gateway.aclose()
    if not listing.tools and listing.rejected:
        raise NotSpokenError(f"none of its tools can be used: {listing.rejected[0].reason}")
    return ListedTools(listing, backend.dialect, backend)


def drafted(
    wanted: Wanted,
    protocol: str,
    found: ListedTools,
    lines: Sequence[str],
    *,
    title: str = "",
    said: Sequence[str] = (),
) -> Draft:
    """The backend for a server that was asked with these lines; `title` is what it calls itself, `said` what to add."""
    toolkits = {tool.partition(".")[0] for tool in found.tools} - {ASKED_AS}
    own = toolkits.pop() if len(toolkits) == 1 else ""
    name = wanted.name or name_of(title or own) or name_at(wanted.place)
    tools = tuple(re.sub(f"^{ASKED_AS}[.]", f"{word(name)}.", tool) for tool in found.tools)
    about = [f"  {name}: {count(len(tools), 'tool')} over {found.form}{_some(tools)}"]
    about += [f"  left out {one.id}: {one.reason}" for one in found.listing.rejected]
    yaml = backend_yaml(name, protocol, [*lines, *wanted.auth])
    return Draft(protocol, found.form, name, yaml, tools, (*about, *said), wanted.variables)


def _some(tools: Sequence[str]) -> str:
    """Some of the tools, in brackets."""
    return f" ({', '.join(tools[:MAX_SHOWN])}{', ...' if len(tools) > MAX_SHOWN else ''})" if tools else ""
