"""Reads what tool servers list, off the event loop: the tools that can be used, and why others cannot."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.core.errors import unavailable
from gateway.core.jsontext import encode
from gateway.core.model import Listing, ToolDefinition
from gateway.offload import Offload, OffloadError, OverrunError
from gateway.offload.tasks import Parts, Task
from gateway.protocols.common import listing as listings
from gateway.upstream.settings import BackendSettings

log = logging.getLogger("gateway.backends")

SHORT_BYTES = 256 * 1024  # of a list that a thread reads: starting the child would cost more; one decode takes 5 ms
READ_CPU_S = 20.0  # of the child; 64 MiB of ordinary tools take 3
WITHIN_S = 90.0  # with the wait for lists of other backends, and for a busy machine
LIST_MEMORY_BYTES = 384 * 1024 * 1024  # of the child: twice a list, and what is made of its tools
TURN_S = 0.005  # of decoding between two turns of the event loop
MAX_LOGGED = 20  # warnings about names in one go

Decode = Callable[[bytes], Sequence[ToolDefinition]]  # of one text after another of a list


def bounds_of(backend: str, settings: BackendSettings, *, trust_meta: bool = False) -> listings.Bounds:
    """The bounds of a backend's list."""
    return listings.Bounds(
        backend=backend,
        toolkit=settings.toolkit or backend,
        max_tools=settings.discovery.max_tools,
        max_schema_bytes=settings.discovery.max_schema_bytes,
        trust_meta=trust_meta,
    )


def is_short(text: bytes) -> bool:
    """Whether a list is read sooner than the child would be started."""
    return len(text) <= SHORT_BYTES


async def run_apart(offload: Offload, backend: str, task: Task, *texts: bytes) -> Parts:
    """Runs a task in the child that reads the lists of all backends. Raises BACKEND_UNAVAILABLE."""
    try:
        running = offload.run(task, *texts, cpu_s=READ_CPU_S, within_s=WITHIN_S, owner=backend)
        del texts
        return await running
    except OverrunError as exc:
        raise unavailable("its list takes too long to read, or too much memory") from exc
    except OffloadError as exc:
        raise unavailable("its list could not be read: the process that reads lists is busy, or broken") from exc


class ListReader:
    """Reads the lists of one backend with one of the child's tasks: a function of its bounds and of a text.

    A task that takes more than bounds is given `terms`, as JSON, in their place; one that makes more of a tool than a
    ToolDefinition has a `decoder` of its own for each list. `is_short`: a thread reads the text in some milliseconds.
    """

    def __init__(
        self,
        read: Callable[[bytes, bytes], tuple[bytes, ...]],
        backend: str,
        settings: BackendSettings,
        offload: Offload,
        *,
        trust_meta: bool = False,
        terms: bytes = b"",
        decoder: Callable[[], Decode] = lambda: listings.decode_tools,
        is_short: Callable[[bytes], bool] = is_short,
    ) -> None:
        self._read = read
        self._backend = backend
        self._offload = offload
        self._bounds = bounds_of(backend, settings, trust_meta=trust_meta)
        self._terms = terms
        self._decoder = decoder
        self._is_short = is_short
        self.report = bytes(listings.NO_REPORT)  # on the last list: a listings.Report, as text
        self._adapted: set[tuple[str, str]] = set()  # names that were warned of
        self._last: tuple[bytes, str, Listing] | None = None  # the digest of a list, and what was read

    def take_over(self, before: ListReader) -> None:
        """Takes the last list of the reader that it replaces, whose terms are the same."""
        self._last, self._adapted, self.report = before._last, before._adapted, before.report

    async def read(self, text: bytes, *, has_version: bool = False, beside: bytes = b"") -> tuple[str, Listing]:
        """What a list says about its tool server (`listings.Summary.note`), and the tools in it.

        A list that has not changed is the very same Listing; `beside` tells what else it depends on. Raises
        BACKEND_UNAVAILABLE for what is no list, or takes too long to read.
        """
        hashed = _digest(text) if is_short(text) else await asyncio.to_thread(_digest, text)
        digest = hashed + bytes([has_version]) + beside
        if self._last is not None and self._last[0] == digest:
            return self._last[1:]
        terms = self._terms or encode(replace(self._bounds, has_version=has_version))
        reading = self._read_apart(terms, text)
        del text  # the child has it: 64 MiB
        first, *parts = await reading
        summary = listings.decode_summary(first)
        self.report = bytes(summary.report)
        if summary.failure:
            raise unavailable(summary.failure)
        self._warn(set(summary.adapted))
        tools = tuple(await self._decode_tools(parts))
        listing = Listing(tools=tools, rejected=summary.rejected, fresh_s=summary.fresh_s)
        self._last = digest, summary.note, listing
        return summary.note, listing

    async def _read_apart(self, terms: bytes, text: bytes) -> tuple[bytes, ...]:
        """Reads a list in a thread if it is short, else in the child. Raises BACKEND_UNAVAILABLE."""
        if self._is_short(text):
            return await asyncio.to_thread(self._read, terms, text)
        running = run_apart(self._offload, self._backend, self._read, terms, text)
        del text
        return await running

    async def _decode_tools(self, parts: Sequence[bytes]) -> list[ToolDefinition]:
        """Decodes arrays of tools, and gives way to the event loop in between."""
        loop = asyncio.get_running_loop()
        tools: list[ToolDefinition] = []
        decode = self._decoder()
        until = loop.time() + TURN_S
        for part in parts:
            tools += decode(part)
            if loop.time() >= until:
                await asyncio.sleep(0)
                until = loop.time() + TURN_S
        return tools

    def _warn(self, adapted: set[tuple[str, str]]) -> None:
        """Warns once of each name that was adapted."""
        new = sorted(adapted - self._adapted)
        for tool_id, why in new[:MAX_LOGGED]:
            log.warning("a tool's name was adapted", extra={"backend": self._backend, "tool": tool_id, "reason": why})
        if len(new) > MAX_LOGGED:
            extra = {"backend": self._backend, "count": len(new) - MAX_LOGGED}
            log.warning("more names of tools were adapted", extra=extra)
        self._adapted = adapted


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
