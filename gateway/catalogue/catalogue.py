"""Asks every backend for its tools in the background, and keeps the one snapshot that calls are routed by.

A backend that cannot be asked keeps its last good list, whose age is visible; it delays and changes nothing of the
others. Nothing here is protocol: backends answer in the neutral model.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gateway.backoff import Backoff
from gateway.catalogue.offer import NOTHING, Offer, Source, judge
from gateway.catalogue.turns import Turns
from gateway.catalogue.unlisted import Unlisted
from gateway.errors import GatewayError
from gateway.model import JsonObject, Listing, Rejected
from gateway.offload import Offload
from gateway.routing import PublishedTool, Router

log = logging.getLogger("gateway.catalogue")

LIST_LIMIT_S = 120.0  # for one listing: above what any adapter takes by itself
READY_LIMIT_S = 10.0  # a fleet with one dead tool server starts all the same
FIRST_RETRY_S = 1.0
REFRESH_PAUSE_S = 1.0  # a tool server that says again and again that it has changed is asked once a second
JITTER = 0.1  # of every wait, both ways: replicas started together do not ask together
MAX_TOLD = 20  # tools named in one log entry, or with their reasons in the detailed health


class BackendStatus(Struct, frozen=True, kw_only=True):
    """How discovery of one backend stands. `up`: the last attempt succeeded; `age_s`: of the list in use."""

    up: bool
    age_s: float | None
    tools: int
    rejected: tuple[Rejected, ...]
    withheld: tuple[str, ...]
    last_error: str | None

    def as_json(self) -> JsonObject:
        """For the detailed health; bounded."""
        return {
            "up": self.up,
            "age_s": None if self.age_s is None else round(self.age_s, 1),
            "tools": self.tools,
            "rejected_count": len(self.rejected),
            "rejected": [{"id": one.id, "reason": one.reason} for one in self.rejected[:MAX_TOLD]],
            "withheld": list(self.withheld[:MAX_TOLD]),
            "last_error": self.last_error,
        }


@dataclass(slots=True, kw_only=True)
class _Shelf:
    """One backend's place in the catalogue."""

    source: Source
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)  # or an older list could come after a newer one
    listing: Listing | None = None
    offer: Offer = NOTHING
    shadowed: tuple[Rejected, ...] = ()  # by tools of other backends
    published: int = 0
    listed_at: float | None = None
    tried: bool = False
    last_error: str | None = None
    told: tuple[Rejected, ...] = ()  # what the log has already said about it
    told_withheld: frozenset[str] = field(default_factory=frozenset)

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return (*self.offer.rejected, *self.shadowed)


class Catalogue:
    """Keeps `router` current.

    `sleep` waits for some seconds; `uniform` picks a number between two. `offload` checks schemas that may take long.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ready_limit_s: float = READY_LIMIT_S,
        offload: Offload | None = None,
    ) -> None:
        self.router = Router((), Unlisted(sources).backend_of)
        self._shelves = {source.name: _Shelf(source=source) for source in sources}
        self._clock = clock
        self._uniform = uniform
        self._sleep = sleep
        self._ready_limit_s = ready_limit_s
        self._offload = offload
        self._started_at: float | None = None
        self._had_their_time = asyncio.Event()
        self._rebuilding = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    async def adopt(self, other: Catalogue) -> None:
        """Takes over the last lists of the backends both have, and judges them anew by its own routes.

        To be awaited before `start`. Ids of tokens and secrets that were withheld no longer are.
        """
        for shelf in self._shelves.values():
            before = other._shelves.get(shelf.source.name)
            if before is not None and shelf.source.lists_as(before.source):
                shelf.tried = before.tried and before.source.backend is shelf.source.backend  # a new one is asked first
                shelf.listed_at, shelf.last_error = before.listed_at, before.last_error
                if before.listing is not None:
                    shelf.source.take_over(before.source)
                    shelf.listing, shelf.told = before.listing, before.told
                    shelf.offer = await judge(shelf.source, before.listing, NOTHING, self._offload)
        await self._rebuild({})

    async def start(self) -> None:
        """Begins to ask; returns at once."""
        self._started_at = self._clock()
        self._note_tried()
        self._tasks = [asyncio.create_task(self._keep(shelf)) for shelf in self._shelves.values()]

    async def aclose(self) -> None:
        """Stops asking. The last snapshot stays."""
        tasks = [*self._tasks, *self._refreshing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._refreshing = [], {}  # else how each ended keeps this catalogue in memory

    @property
    def ready(self) -> bool:
        """Whether every backend was asked once, or has had its time; never false again afterwards."""
        if self._started_at is None:
            return False
        return self._had_their_time.is_set() or self._clock() - self._started_at >= self._ready_limit_s

    async def wait_ready(self) -> None:
        """Returns when every backend was asked once, at the latest after the limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ready_limit_s):
                await self._had_their_time.wait()
        self._had_their_time.set()

    def refresh(self, backend: str) -> None:
        """Asks a backend again soon, because its tools have changed; once, however often this is said."""
        task = self._refreshing.get(backend)
        if task is None or task.done():
            self._refreshing[backend] = asyncio.create_task(self._refresh_once(self._shelves[backend]))

    async def _refresh_once(self, shelf: _Shelf) -> None:
        await self._sleep(REFRESH_PAUSE_S)
        try:
            await self._refresh(shelf)
        except Exception as exc:
            _note_failure(shelf, exc)

    def __contains__(self, backend: str) -> bool:
        return backend in self._shelves

    def status(self, backend: str) -> BackendStatus:
        """How discovery of a backend stands. Raises: KeyError for one that is not ours."""
        shelf = self._shelves[backend]
        return BackendStatus(
            up=shelf.listed_at is not None and shelf.last_error is None,
            age_s=None if shelf.listed_at is None else self._clock() - shelf.listed_at,
            tools=shelf.published,
            rejected=shelf.rejected,
            withheld=tuple(sorted(shelf.offer.withheld)),
            last_error=shelf.last_error,
        )

    async def _keep(self, shelf: _Shelf) -> None:
        """Asks one backend, for ever."""
        backoff = Backoff(FIRST_RETRY_S, shelf.source.refresh_s)
        while True:
            try:
                await self._refresh(shelf)
            # Whatever one answer of one tool server breaks must not end its discovery.
            except Exception as exc:
                _note_failure(shelf, exc)
                wait_s = backoff.next_s()
            else:
                wait_s = shelf.source.refresh_s
                backoff.reset()
            shelf.tried = True
            self._note_tried()
            await self._sleep(wait_s * self._uniform(1 - JITTER, 1 + JITTER))

    async def _refresh(self, shelf: _Shelf) -> None:
        async with shelf.refreshing:
            await self._refresh_alone(shelf)

    async def _refresh_alone(self, shelf: _Shelf) -> None:
        async with asyncio.timeout(LIST_LIMIT_S):
            listing = await shelf.source.backend.list_tools()
        before = shelf.offer
        if listing is shelf.listing and before.complete:  # as backends say that nothing has changed
            self._note_listed(shelf)
            return
        offer = await judge(shelf.source, listing, before, self._offload)
        if offer.tools != before.tools or shelf.listed_at is None:
            await self._rebuild({shelf.source.name: offer})
        shelf.offer, shelf.listing = offer, listing
        self._note_listed(shelf)
        await _log_changes(shelf, before)
        for other in self._shelves.values():  # what one backend offers may hide what another does
            _log_problems(other)

    def _note_listed(self, shelf: _Shelf) -> None:
        if shelf.last_error is not None:
            log.info("a backend lists its tools again", extra={"backend": shelf.source.name})
        shelf.listed_at, shelf.last_error = self._clock(), None

    async def _rebuild(self, changed: Mapping[str, Offer]) -> None:
        """Swaps in a snapshot with the changed offers, by backend, and the last of all others.

        It stores no offer: other refreshes, which did not change what is published, end during the thread hop.
        """
        async with self._rebuilding:
            shelves = self._shelves.values()
            offers = [(shelf.source, changed.get(shelf.source.name, shelf.offer)) for shelf in shelves]
            # A thread, because 10,000 tools take 0.1 s to merge and sort; calls go on meanwhile.
            unlisted = [it.source for it in shelves if it.listed_at is None and it.source.name not in changed]
            won, shadowed, self.router = await asyncio.to_thread(_merge, offers, unlisted)
            gc.freeze()  # what was just built stays: the collector would walk all of it every few thousand calls
            for shelf in shelves:
                if shelf.source.name in changed:
                    shelf.offer = changed[shelf.source.name]  # with the snapshot, before another one is made
                shelf.published = won.get(shelf.source.name, 0)
                shelf.shadowed = tuple(shadowed.get(shelf.source.name, ()))

    def _note_tried(self) -> None:
        if all(shelf.tried for shelf in self._shelves.values()):
            self._had_their_time.set()


def _merge(
    offers: Sequence[tuple[Source, Offer]], unlisted: Sequence[Source]
) -> tuple[dict[str, int], dict[str, list[Rejected]], Router]:
    """Puts all offers together; of two tools with one id, or two with one name, that of the earlier route stays.

    Returns how many tools of each backend are published, which are not, and the new snapshot.
    """
    contenders = [
        (entry.route, source.name, entry.tool)
        for source, offer in offers
        for entry in offer.judged.values()
        if entry.tool is not None
    ]
    contenders.sort(key=lambda contender: contender[0])
    by_id: dict[str, PublishedTool] = {}
    named: dict[str, PublishedTool] = {}
    won: dict[str, int] = {}
    shadowed: dict[str, list[Rejected]] = {}
    for _, backend, tool in contenders:
        definition = tool.definition
        first = by_id.get(definition.id) or named.setdefault(definition.name, tool)
        if definition.id in by_id or first.definition.tool != definition.tool:
            reason = (
                f"{first.definition.id} of backend {first.route.backend_name!r}, whose route comes first, hides it."
            )
            shadowed.setdefault(backend, []).append(Rejected(id=definition.id, reason=reason))
            continue
        by_id[definition.id] = tool
        won[backend] = won.get(backend, 0) + 1
    return won, shadowed, Router(by_id.values(), Unlisted(unlisted).backend_of)


def _note_failure(shelf: _Shelf, error: Exception) -> None:
    match error:
        case GatewayError():
            text = error.detail or error.message
        case TimeoutError():
            text = f"no list of tools within {LIST_LIMIT_S:g} s"
        case _:
            log.error("listing the tools of a backend failed inside the gateway", exc_info=error)
            text = f"the gateway failed: {type(error).__name__}"
    if shelf.last_error != text:
        log.warning("a backend cannot be asked for its tools", extra={"backend": shelf.source.name, "reason": text})
    shelf.last_error = text


async def _log_changes(shelf: _Shelf, before: Offer) -> None:
    old, new = before.judged, shelf.offer.judged
    turns, changed = Turns(), []
    for tool_id in new.keys() & old.keys():
        await turns.give_way()
        if new[tool_id].digest != old[tool_id].digest:
            changed.append(tool_id)
    appeared, vanished = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    if not (changed or appeared or vanished):
        return
    counts = {"tools": shelf.published, "appeared": appeared, "vanished": vanished, "changed": len(changed)}
    log.info("the tools of a backend changed", extra={"backend": shelf.source.name, **counts})
    for tool_id in sorted(changed)[:MAX_TOLD]:
        hashes = {"old": old[tool_id].digest[:12], "new": new[tool_id].digest[:12]}
        log.info("a tool's definition changed", extra={"backend": shelf.source.name, "tool": tool_id, **hashes})


def _log_problems(shelf: _Shelf) -> None:
    """Says once what is left out and what is withheld, and again when that changes."""
    rejected = shelf.rejected
    if rejected != shelf.told:
        told = [f"{one.id}: {one.reason}" for one in rejected[:MAX_TOLD]]
        extra = {"backend": shelf.source.name, "count": len(rejected), "tools": told}
        level = logging.WARNING if rejected else logging.INFO
        log.log(level, "tools of a backend are left out" if rejected else "no tool is left out any more", extra=extra)
        shelf.told = rejected
    withheld = shelf.offer.withheld
    if newly := withheld - shelf.told_withheld:
        extra = {"backend": shelf.source.name, "ids": sorted(newly)[:MAX_TOLD]}
        log.warning("tools newly ask for tokens or secrets, which are withheld until a route lists them", extra=extra)
        shelf.told_withheld |= withheld
