"""The tools an OTC or OXP server lists, one by one: those that can be used and those that cannot."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from gateway.dialects import definitions
from gateway.model import Json, Listing, Rejected, ToolDefinition

log = logging.getLogger("gateway.backends")

READ_AT_ONCE = 256  # definitions read between two looks at the event loop, about 5 ms
MAX_SHOWN = 256  # characters of an id in a log


class ListReader:
    """Reads the lists of one backend; `toolkit` is for tools whose ids name none."""

    def __init__(self, backend: str, toolkit: str) -> None:
        self._backend = backend
        self._toolkit = toolkit
        self._adapted: set[tuple[str, str]] = set()  # what was already told about names

    async def read(self, entries: list[Json]) -> Listing:
        """Reads all entries of a list."""
        tools: list[ToolDefinition] = []
        rejected: list[Rejected] = []
        adapted: set[tuple[str, str]] = set()
        listed: Counter[str] = Counter()
        for count, entry in enumerate(entries, 1):
            if count % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            listed[_bare_id(entry)] += 1
            try:
                definition, warnings = definitions.read_definition(entry, self._toolkit)
            except definitions.DefinitionError as exc:
                rejected.append(Rejected(id=_shown(entry, count), reason=str(exc)))
                continue
            tools.append(definition)
            adapted.update((definition.id, warning) for warning in warnings)
        ambiguous = _ambiguous(tools, listed)
        if ambiguous:  # or a caller of one version would run another
            reason = "its tool server lists several tools under this id, and no version tells them apart"
            rejected += [Rejected(id=tool.id, reason=reason) for tool in tools if tool.remote_id in ambiguous]
            tools = [tool for tool in tools if tool.remote_id not in ambiguous]
        self._tell(adapted)
        return Listing(tools=tuple(tools), rejected=tuple(rejected))

    def _tell(self, adapted: set[tuple[str, str]]) -> None:
        for tool_id, why in sorted(adapted - self._adapted):
            log.warning("a tool's name was adapted", extra={"backend": self._backend, "tool": tool_id, "reason": why})
        self._adapted = adapted


def _ambiguous(tools: Iterable[ToolDefinition], listed: Mapping[str, int]) -> set[str]:
    """The ids under which a tool server may run more than one tool. `listed`: how often, usable or not, by bare ids.

    An id with a version names that one; without, whichever version the tool server takes for the latest.
    """
    named = Counter(tool.remote_id for tool in tools)
    return {name for name, count in named.items() if count > 1 or ("@" not in name and listed[name] > 1)}


def _bare_id(entry: Json) -> str:
    """The id of a listed tool without a version; empty if there is none."""
    return _named(entry).partition("@")[0]


def _shown(entry: Json, number: int) -> str:
    """What an operator finds a listed tool by that is none."""
    return _named(entry)[:MAX_SHOWN] or f"number {number} of the list"


def _named(entry: Json) -> str:
    """The id of a listed tool, or its name; empty if it has neither."""
    names = (entry.get("id"), entry.get("name")) if isinstance(entry, dict) else ()
    return next((name for name in names if isinstance(name, str) and name), "")
