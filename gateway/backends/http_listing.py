"""The tools an OTC or OXP server lists, read off the event loop: those that can be used and those that cannot."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gateway.dialects import listings, versions
from gateway.errors import UNAVAILABLE, ErrorCode, GatewayError
from gateway.jsontext import encode
from gateway.model import Listing, ToolDefinition
from gateway.offload import Offload, OffloadError, OverrunError
from gateway.offload.tasks import READ_LIST
from gateway.wire import Headers

log = logging.getLogger("gateway.backends")

HERE_BYTES = 256 * 1024  # of a list read by a thread: starting the child would cost more; one decode takes 5 ms
READ_CPU_S = 20.0  # of the child; 64 MiB of ordinary tools take 3
WITHIN_S = 90.0  # with the wait for lists of other backends, and for a busy machine
LIST_MEMORY_BYTES = 384 * 1024 * 1024  # of the child: twice a list, and what is made of its tools
TURN_S = 0.005  # of decoding between two looks at the event loop
MAX_TOLD = 20  # warnings about names in one go


class Terms(NamedTuple):
    """How the lists of one backend are read: the bounds of what it may list, and the child that reads long lists."""

    max_tools: int = 20_000
    max_schema_bytes: int = 256 * 1024
    offload: Offload | None = None


class ListReader:
    """Reads the lists of one backend; `toolkit` is for tools whose ids name none."""

    def __init__(self, backend: str, toolkit: str, terms: Terms) -> None:
        self._backend = backend
        self._offload = terms.offload
        self._bounds = listings.Terms(
            backend=backend,
            toolkit=toolkit,
            max_tools=terms.max_tools,
            max_schema_bytes=terms.max_schema_bytes,
        )
        self._adapted: set[tuple[str, str]] = set()  # what was already told about names
        self._last: tuple[bytes, str, Listing] | None = None  # digest, dialect and what was read

    async def read(self, text: bytes, headers: Headers) -> tuple[str, Listing]:
        """The dialect that a list shows, and what is in it. A list that has not changed is the very same Listing.

        Raises BACKEND_UNAVAILABLE for what is no list, or takes too long to read.
        """
        has_version = any(name == versions.HEADER for name, _ in headers)
        digest = await digest_of(text) + bytes([has_version])
        if self._last is not None and self._last[0] == digest:
            return self._last[1:]
        bounds = encode(replace(self._bounds, has_version=has_version))
        reading = read_apart(READ_LIST, listings.read_list, bounds, text, self._offload, self._backend)
        del text  # the child has it: 64 MiB
        summary, *parts = await reading
        read = listings.decode_summary(summary)
        if read.failure:
            raise unlisted(read.failure)
        self._tell(set(read.adapted))
        listing = Listing(tools=tuple(await decode_tools(parts)), rejected=read.rejected)
        self._last = digest, read.dialect, listing
        return read.dialect, listing

    def _tell(self, adapted: set[tuple[str, str]]) -> None:
        new = sorted(adapted - self._adapted)
        for tool_id, why in new[:MAX_TOLD]:
            log.warning("a tool's name was adapted", extra={"backend": self._backend, "tool": tool_id, "reason": why})
        if len(new) > MAX_TOLD:
            extra = {"backend": self._backend, "count": len(new) - MAX_TOLD}
            log.warning("more names of tools were adapted", extra=extra)
        self._adapted = adapted


async def digest_of(text: bytes) -> bytes:
    """Tells a list from every other."""
    return await asyncio.to_thread(lambda: hashlib.sha256(text).digest())


async def read_apart(
    task: str, read: Callable[..., tuple[bytes, ...]], bounds: bytes, text: bytes, offload: Offload | None, owner: str
) -> tuple[bytes, ...]:
    """Reads a list in a thread if it is short, else in the child. Raises BACKEND_UNAVAILABLE."""
    if offload is None or len(text) <= HERE_BYTES:
        return await asyncio.to_thread(read, bounds, text)
    try:
        running = offload.run(task, bounds, text, cpu_s=READ_CPU_S, within_s=WITHIN_S, owner=owner)
        del text
        return await running
    except OverrunError as exc:
        raise unlisted("its list takes too long to read, or too much memory") from exc
    except OffloadError as exc:
        raise unlisted("its list could not be read: the process that reads lists is busy, or broken") from exc


async def decode_tools(parts: Sequence[bytes]) -> list[ToolDefinition]:
    """Decodes arrays of tools, and gives way to the event loop in between."""
    loop = asyncio.get_running_loop()
    tools: list[ToolDefinition] = []
    until = loop.time() + TURN_S
    for part in parts:
        tools += listings.decode_tools(part)
        if loop.time() >= until:
            await asyncio.sleep(0)
            until = loop.time() + TURN_S
    return tools


def unlisted(reason: str) -> GatewayError:
    """A list that cannot be had; the reason is for the operator."""
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=reason)
