"""The catalogue as bytes: each tool encoded once per dialect, joined lists kept per wire version."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from gateway.ports import Caller, ListEncoder
from gateway.routing import PublishedTool, Router
from gateway.wire import Head, JoinedList, WireReply

MAX_LISTS = 32  # by dialect, wire version and scopes; one of 10,000 tools has 5 MB
ENCODED_AT_ONCE = 500  # tools encoded between two looks at the event loop, about 5 ms
SHORT_BYTES = 1024  # joined at once; longer lists are compressed, in a thread


class Lists:
    """Answers lists from what is already encoded."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Hashable, JoinedList] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[JoinedList]] = {}
        self._newest: weakref.ref[Router] | None = None  # whose lists are kept

    async def answer(self, router: Router, caller: Caller, encoder: ListEncoder, head: Head) -> WireReply:
        """The list of what the caller may use."""
        if self._newest is None or self._newest() is not router:
            self._newest = weakref.ref(router)
            self._lists.clear()  # lists of an older snapshot are not asked for any more: 200 MB of 8,000 tools
        key = (encoder.name, encoder.wire_version, router.visible_key(caller))
        joined = self._lists.get(key)
        if joined is None:
            making = self._making.get(key)
            if making is None:
                making = asyncio.create_task(self._make(key, router, caller, encoder))
                self._making[key] = making
            joined = await asyncio.shield(making)  # a caller that leaves does not end it for the others
        else:
            self._lists.move_to_end(key)
        return encoder.encode_list(joined, head)

    async def _make(self, key: Hashable, router: Router, caller: Caller, encoder: ListEncoder) -> JoinedList:
        """Makes a list once for all who ask for it meanwhile: 200 of 8,000 tools, each on its own, took 1.4 GB."""
        try:
            joined = await self._join(router.tools_for(caller), encoder)
        finally:
            del self._making[key]
        if self._newest is not None and self._newest() is router:
            if len(self._lists) >= MAX_LISTS:
                self._lists.popitem(last=False)
            self._lists[key] = joined
        return joined

    async def _join(self, tools: Sequence[PublishedTool], encoder: ListEncoder) -> JoinedList:
        encoded = []
        for count, tool in enumerate(tools, 1):
            if count % ENCODED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if encoder.name not in tool.encoded:
                tool.encoded[encoder.name] = encoder.encode_definition(tool.listed)
            encoded.append(tool.encoded[encoder.name])
        if sum(map(len, encoded)) < SHORT_BYTES:
            return encoder.join(encoded)
        return await asyncio.to_thread(encoder.join, encoded)
