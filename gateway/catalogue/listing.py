"""The catalogue as bytes: each tool encoded once per form, joined lists kept per form."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from gateway.catalogue.published import PublishedTool
from gateway.catalogue.routing import Router
from gateway.core.encoders import ListEncoder
from gateway.core.model import Selection
from gateway.core.ports import Caller
from gateway.core.surfaces import EVERYTHING
from gateway.core.tool_names import DefinitionError
from gateway.core.wire import Head, JoinedList, WireReply

log = logging.getLogger("gateway.catalogue")

MAX_LISTS = 32  # by form, selection and scopes; one of 10,000 tools has 5 MB
TOOLS_PER_TURN = 500  # tools encoded between two looks at the event loop, about 5 ms
SHORT_BYTES = 1024  # joined at once; longer lists are compressed, in a thread


class Lists:
    """Answers lists from what is already encoded."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Hashable, JoinedList] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[JoinedList]] = {}
        self._newest: weakref.ref[Router] | None = None  # whose lists are kept

    async def answer(
        self, router: Router, caller: Caller, encoder: ListEncoder, head: Head, selection: Selection = EVERYTHING
    ) -> WireReply:
        """The list of what the caller may use."""
        if self._newest is None or self._newest() is not router:
            self._newest = weakref.ref(router)
            self._lists.clear()  # lists of an older snapshot are not asked for any more: 200 MB of 8,000 tools
        if selection.toolkit is not None and selection.toolkit not in router.toolkits:
            return encoder.encode_list(encoder.join(()), head)  # callers may name as many as they like
        key = (encoder.list_form, selection, router.visible_key(caller))
        joined = self._lists.get(key)
        if joined is None:
            making = self._making.get(key)
            if making is None:
                making = asyncio.create_task(self._make(key, router, caller, encoder, selection))
                self._making[key] = making
            joined = await asyncio.shield(making)  # a caller that leaves does not end it for the others
        else:
            self._lists.move_to_end(key)
        return encoder.encode_list(joined, head)

    async def _make(
        self, key: Hashable, router: Router, caller: Caller, encoder: ListEncoder, selection: Selection
    ) -> JoinedList:
        """Makes a list once for all who ask for it meanwhile: 200 of 8,000 tools, each on its own, took 1.4 GB."""
        try:
            tools = router.tools_for(caller, selection)
            names = router.list_names(tools) if selection.versions == "names" else None
            joined = await self._join(tools, names, encoder)
        finally:
            del self._making[key]
        if self._newest is not None and self._newest() is router:
            if len(self._lists) >= MAX_LISTS:
                self._lists.popitem(last=False)
            self._lists[key] = joined
        return joined

    async def _join(
        self, tools: Sequence[PublishedTool], names: Sequence[str] | None, encoder: ListEncoder
    ) -> JoinedList:
        encoded = []
        for number, tool in enumerate(tools):
            if (number + 1) % TOOLS_PER_TURN == 0:
                await asyncio.sleep(0)
            text = _encoded(tool, tool.definition.name if names is None else names[number], encoder)
            if text:
                encoded.append(text)
        if sum(map(len, encoded)) < SHORT_BYTES:
            return encoder.join(encoded)
        return await asyncio.to_thread(encoder.join, encoded)


def _encoded(tool: PublishedTool, name: str, encoder: ListEncoder) -> bytes:
    """A tool under a name; empty if callers of that dialect could not take it."""
    form = encoder.definition_form
    key = form if name == tool.definition.name else f"{form} {name}"
    if key not in tool.encoded:
        definition = tool.listed if key == form else replace(tool.listed, name=name)
        try:
            tool.encoded[key] = encoder.encode_definition(definition)
        except DefinitionError as exc:
            tool.encoded[key] = b""
            extra = {"tool": tool.id, "dialect": encoder.name, "reason": str(exc)}
            log.warning("a tool is left out of the lists of a dialect", extra=extra)
    return tool.encoded[key]
