"""Asks every backend for its tools in the background, and builds the snapshot that calls are routed by.

A backend that cannot be asked keeps its last good list, whose age is visible; the others are not affected.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct

from gateway.catalogue.evaluation import UNEVALUATED, Evaluation, ToolSource, claims_to, evaluate
from gateway.catalogue.merging import merge
from gateway.catalogue.routing import Router
from gateway.catalogue.schema_checks import TimeSlices
from gateway.catalogue.turns import Turns
from gateway.catalogue.unlisted import backend_of
from gateway.core.backoff import Backoff
from gateway.core.errors import GatewayError
from gateway.core.model import JsonObject, Listing, Rejected
from gateway.offload import Offload

log = logging.getLogger("gateway.catalogue")

LIST_LIMIT_S = 120.0  # for one listing: above what any adapter takes by itself
READY_LIMIT_S = 10.0  # a fleet with one dead tool server starts all the same
REST = 4.0  # times as long as the last snapshot took: so long is the pause before the next, in which changes add up
FIRST_RETRY_S = 1.0
REFRESH_PAUSE_S = 1.0  # a tool server that keeps reporting changes is asked once a second
SHORTEST_S = 10.0  # between two listings, whatever a list says of how long it is good for
JITTER = 0.1  # of every wait, both ways: replicas started together do not ask together
MANY_TOOLS = 2000  # a collection walks so many in some 5 ms
MAX_NAMED = 20  # tools named in one log entry, or with their reasons in the detailed health


class BackendStatus(Struct, frozen=True, kw_only=True):
    """The status of discovery of one backend."""

    up: bool  # the last attempt succeeded
    age_s: float | None  # of the list in use
    tools: int  # that are published
    rejected: tuple[Rejected, ...]
    withheld: tuple[str, ...]  # ids of tokens and secrets
    last_error: str | None
    failing_s: float | None = None  # since the first attempt that failed in a row; None: the last one succeeded

    def as_json(self) -> JsonObject:
        """For the detailed health; bounded."""
        return {
            "up": self.up,
            "age_s": None if self.age_s is None else round(self.age_s, 1),
            "tools": self.tools,
            "rejected_count": len(self.rejected),
            "rejected": [{"id": tool.id, "reason": tool.reason} for tool in self.rejected[:MAX_NAMED]],
            "withheld": list(self.withheld[:MAX_NAMED]),
            "last_error": self.last_error,
        }


@dataclass(slots=True, kw_only=True)
class BackendEntry:
    """What the catalogue knows of one backend."""

    source: ToolSource
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)  # an older list must not replace a newer one
    listing: Listing | None = None
    evaluation: Evaluation = UNEVALUATED
    shadowed: tuple[Rejected, ...] = ()  # by tools of other backends
    renamed: tuple[Rejected, ...] = ()
    published: int = 0
    listed_at: float | None = None
    took_s: float = 0.0  # the last list
    due_at: float | None = None  # when it is asked next; None: at once
    is_due: bool = False  # something has changed since it was last asked
    last_error: str | None = None
    failing_since: float = 0.0
    logged: tuple[Rejected, ...] = ()  # the tools rejected when that was last logged
    logged_renamed: tuple[Rejected, ...] = ()
    logged_withheld: frozenset[str] = field(default_factory=frozenset)

    @property
    def good_for_s(self) -> float:
        """How long the list is good for: as configured, or shorter if it says so itself."""
        refresh_s, fresh_s = self.source.refresh_s, self.listing.fresh_s if self.listing else None
        return refresh_s if fresh_s is None else min(refresh_s, max(fresh_s, SHORTEST_S))

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return (*self.evaluation.rejected, *self.shadowed)


class Catalogue:
    """Keeps `router` current."""

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,  # a number between two
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ready_limit_s: float = READY_LIMIT_S,
        offload: Offload | None = None,  # checks schemas that may take long
        on_rebuilt: Callable[[], None] = lambda: None,  # called after each new snapshot
        on_changed: Callable[[str], None] = lambda backend: None,  # called with a backend whose tools have changed
    ) -> None:
        self.router = Router((), partial(backend_of, sources))
        self._entries = {source.name: BackendEntry(source=source) for source in sources}
        self._clock = clock
        self._uniform = uniform
        self._sleep = sleep
        self._offload = offload
        self._on_rebuilt = on_rebuilt
        self._on_changed = on_changed
        self._turns = Turns(self._entries, clock, ready_limit_s)
        self._rebuilding = asyncio.Lock()
        self._changed: dict[str, Evaluation] = {}  # what the next snapshot takes in
        self._next: asyncio.Task[None] | None = None  # which makes it
        self._snapshots: set[asyncio.Task[None]] = set()
        self._rested_at = 0.0
        self._unfrozen = 0  # tools in snapshots since the collector was last told of them
        self._tasks: list[asyncio.Task[None] | asyncio.Task[bool]] = []
        self._asks_once = False
        self._logs_problems = False  # once all had their time: until then, who owns a tool may change with each list
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    async def adopt(self, other: Catalogue) -> None:
        """Takes over the last lists of the backends both have, and evaluates them by its own routes.

        To be awaited before `start`. Ids of tokens and secrets that were withheld no longer are. A backend that both
        have is asked when it would have been, or at once if the last attempt failed.
        """
        self._unfrozen = other._unfrozen
        for entry in self._entries.values():
            before = other._entries.get(entry.source.name)
            if before is not None and entry.source.lists_as(before.source):
                if other._turns.was_tried(entry.source.name) and before.source.backend is entry.source.backend:
                    self._turns.note_tried(entry.source.name)  # a new one is asked first
                    entry.due_at = before.due_at if before.last_error is None else None
                entry.listed_at, entry.last_error = before.listed_at, before.last_error
                entry.failing_since = before.failing_since
                if before.listing is not None:
                    entry.source.take_over(before.source)
                    entry.listing, entry.logged = before.listing, before.logged
                    entry.evaluation = before.evaluation.as_first(before.listing.tools[: entry.source.max_tools])
                    if entry.source != before.source or entry.evaluation.withheld or not entry.evaluation.complete:
                        claims = await claims_to(entry.source, before.evaluation.claims, TimeSlices())
                        earlier = dataclasses.replace(UNEVALUATED, claims=claims)
                        entry.evaluation = await evaluate(entry.source, before.listing, earlier, self._offload)
        await self._rebuild({})

    def catch_up(self, other: Catalogue) -> None:
        """Asks the backends again of which the other catalogue has had news since it was adopted."""
        for name, entry in self._entries.items():
            before = other._entries.get(name)
            if before is None or before.source.backend is not entry.source.backend:
                continue
            asking = other._refreshing.get(name)
            is_asking = asking is not None and not asking.done()
            if is_asking or (before.listed_at or 0.0) > (entry.listed_at or 0.0):
                self.refresh(name)

    async def start(self) -> None:
        """Begins to ask in the background."""
        self._turns.begin()
        self._tasks = [asyncio.create_task(self._keep(entry)) for entry in self._entries.values()]
        self._tasks.append(asyncio.create_task(self._log_when_ready()))

    async def ask_once(self) -> None:
        """Asks each backend once and no more, in place of `start`, and waits as long as `wait_ready` does."""
        self._asks_once = True
        self._turns.begin()
        self._tasks = [asyncio.create_task(self._ask(entry)) for entry in self._entries.values()]
        await self._turns.wait()

    async def _ask(self, entry: BackendEntry) -> bool:
        is_listed = await self._refresh(entry)
        self._turns.note_tried(entry.source.name)
        self._begin_to_log()
        return is_listed

    async def _log_when_ready(self) -> None:
        await self._turns.wait()
        self._begin_to_log()

    def _begin_to_log(self) -> None:
        if self.ready and not self._logs_problems:
            self._logs_problems = True
            for entry in self._entries.values():
                _log_problems(entry)

    async def aclose(self) -> None:
        """Stops asking. The last snapshot stays."""
        tasks = [*self._tasks, *self._refreshing.values(), *self._snapshots]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._refreshing = [], {}  # else how each ended keeps this catalogue in memory

    @property
    def ready(self) -> bool:
        """Whether every backend was asked once, or has had its time; never false again afterwards."""
        return self._turns.are_over

    async def wait_ready(self) -> None:
        """Returns when every backend was asked once, or has had its time; to be awaited after `start`."""
        await self._turns.wait()

    def refresh(self, backend: str, *, is_news: bool = True) -> None:
        """Asks a backend again soon, because its tools have changed; once, however often this is called.

        `is_news`: other replicas may not know of the change yet.
        """
        task, entry = self._refreshing.get(backend), self._entries[backend]
        entry.is_due = True
        if (task is None or task.done()) and not self._asks_once:
            self._refreshing[backend] = asyncio.create_task(self._refresh_soon(entry, is_news=is_news))

    async def _refresh_soon(self, entry: BackendEntry, *, is_news: bool) -> None:
        """Asks until no change came while the backend was being asked."""
        while entry.is_due:
            await self._sleep(REFRESH_PAUSE_S)
            entry.is_due = False
            await self._refresh(entry, is_news=is_news)

    def __contains__(self, backend: str) -> bool:
        return backend in self._entries

    def status(self, backend: str) -> BackendStatus:
        """The status of discovery of a backend. Raises: KeyError for one that is not in the catalogue."""
        entry = self._entries[backend]
        return BackendStatus(
            up=entry.listed_at is not None and entry.last_error is None,
            age_s=None if entry.listed_at is None else self._clock() - entry.listed_at,
            tools=entry.published,
            rejected=entry.rejected,
            withheld=tuple(sorted(entry.evaluation.withheld)),
            last_error=entry.last_error,
            failing_s=None if entry.last_error is None else self._clock() - entry.failing_since,
        )

    def listing(self, backend: str) -> tuple[Listing | None, float]:
        """The last list of a backend, with what no route publishes, and how many seconds it took.

        Raises: as `status`.
        """
        entry = self._entries[backend]
        return entry.listing, entry.took_s

    async def _keep(self, entry: BackendEntry) -> None:
        """Asks one backend at intervals until it is cancelled."""
        backoff = Backoff(FIRST_RETRY_S, entry.source.refresh_s)
        while True:
            if entry.due_at is not None:
                await self._sleep(max(entry.due_at - self._clock(), 0.0))
            if await self._ask(entry):
                wait_s = entry.good_for_s
                backoff.reset()
            else:
                wait_s = backoff.next_s()
            entry.due_at = self._clock() + wait_s * self._uniform(1 - JITTER, 1 + JITTER)

    async def _refresh(self, entry: BackendEntry, *, is_news: bool = True) -> bool:
        """Whether a backend could be asked."""
        try:
            async with entry.refreshing:
                await self._refresh_alone(entry, is_news=is_news)
        except Exception as exc:  # no answer of a tool server may end its discovery
            if entry.last_error is None:
                entry.failing_since = self._clock()
            _note_failure(entry, exc)
            return False
        return True

    async def _refresh_alone(self, entry: BackendEntry, *, is_news: bool) -> None:
        async with self._turns.of(entry.source.name), asyncio.timeout(LIST_LIMIT_S):
            began = self._clock()
            listing = await entry.source.backend.list_tools()
            entry.took_s = self._clock() - began
        before = entry.evaluation
        if listing is entry.listing and before.complete:  # as backends say that nothing has changed
            self._note_listed(entry)
            return
        evaluation = await evaluate(entry.source, listing, before, self._offload)
        is_new = evaluation.tools != before.tools or evaluation.claims != before.claims
        if is_new or entry.listed_at is None:
            await self._rebuild({entry.source.name: evaluation})
            if is_news and entry.listed_at is not None:  # others ask a new tool server by themselves
                self._on_changed(entry.source.name)
        entry.evaluation, entry.listing = evaluation, listing
        self._note_listed(entry)
        await _log_changes(entry, before)
        if self._logs_problems:
            _log_problems(entry)

    def _note_listed(self, entry: BackendEntry) -> None:
        if entry.last_error is not None:
            log.info("a backend lists its tools again", extra={"backend": entry.source.name})
        entry.listed_at, entry.last_error = self._clock(), None

    async def _rebuild(self, changed: Mapping[str, Evaluation]) -> None:
        """Has the next snapshot take in the changed evaluations, by backend, and waits for it."""
        self._changed.update(changed)
        if self._next is None:
            self._next = asyncio.create_task(self._make_snapshot())
            self._snapshots.add(self._next)
            self._next.add_done_callback(self._snapshots.discard)
        await asyncio.shield(self._next)

    async def _make_snapshot(self) -> None:
        """Swaps in a snapshot with the changed evaluations, and the last of all others.

        Of the others it stores no evaluation: refreshes that changed nothing published end during the thread hop.
        """
        loop = asyncio.get_running_loop()
        async with self._rebuilding:
            if (rest_s := self._rested_at - loop.time()) > 0:
                await asyncio.sleep(rest_s)
            self._next, changed, self._changed = None, self._changed, {}
            began, entries = loop.time(), self._entries.values()
            evaluations = [(entry.source, changed.get(entry.source.name, entry.evaluation)) for entry in entries]
            # A thread, because 10,000 tools take 0.1 s to merge and sort; calls go on meanwhile.
            unlisted = [
                entry.source for entry in entries if entry.listed_at is None and entry.source.name not in changed
            ]
            merged = await asyncio.to_thread(merge, evaluations, partial(backend_of, unlisted))
            self.router = merged.router
            self._spare_collector(sum(merged.published.values()))
            for entry in entries:
                if entry.source.name in changed:
                    entry.evaluation = changed[entry.source.name]  # with the snapshot, before another one is made
                name = entry.source.name
                entry.published = merged.published.get(name, 0)
                entry.shadowed = tuple(merged.shadowed.get(name, ()))
                entry.renamed = tuple(merged.renamed.get(name, ()))
                if self._logs_problems and name not in changed:  # a tool of another backend may hide one of its own
                    _log_problems(entry)
            self._rested_at = loop.time() + REST * (loop.time() - began)
        self._on_rebuilt()

    def _spare_collector(self, tools: int) -> None:
        """Keeps the collector from walking what stays, which it would every few thousand calls.

        Only once that is much, and after a collection: garbage in cycles would stay, too, for good.
        """
        self._unfrozen += tools
        if self._unfrozen >= MANY_TOOLS:
            self._unfrozen = 0
            gc.collect()
            gc.freeze()


def _note_failure(entry: BackendEntry, error: Exception) -> None:
    match error:
        case GatewayError():
            text = error.detail or error.message
        case TimeoutError():
            text = f"no list of tools within {LIST_LIMIT_S:g} s"
        case _:
            log.error("listing the tools of a backend failed inside the gateway", exc_info=error)
            text = f"the gateway failed: {type(error).__name__}"
    if entry.last_error != text:
        log.warning("a backend cannot be asked for its tools", extra={"backend": entry.source.name, "reason": text})
    entry.last_error = text


async def _log_changes(entry: BackendEntry, before: Evaluation) -> None:
    old, new = before.by_id, entry.evaluation.by_id
    both = TimeSlices().over(new.keys() & old.keys())
    changed = [tool_id async for tool_id in both if new[tool_id].digest != old[tool_id].digest]
    appeared, vanished = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    if not (changed or appeared or vanished):
        return
    counts = {"tools": entry.published, "appeared": appeared, "vanished": vanished, "changed": len(changed)}
    log.info("the tools of a backend changed", extra={"backend": entry.source.name, **counts})
    for tool_id in sorted(changed)[:MAX_NAMED]:
        hashes = {"old": old[tool_id].digest[:12], "new": new[tool_id].digest[:12]}
        log.info("a tool's definition changed", extra={"backend": entry.source.name, "tool": tool_id, **hashes})


def _log_problems(entry: BackendEntry) -> None:
    """Logs which tools are left out and what is withheld, whenever that changes."""
    rejected = entry.rejected
    if rejected != entry.logged:
        named = [f"{tool.id}: {tool.reason}" for tool in rejected[:MAX_NAMED]]
        extra = {"backend": entry.source.name, "count": len(rejected), "tools": named}
        level = logging.WARNING if rejected else logging.INFO
        log.log(
            level,
            "tools of a backend are left out" if rejected else "no tool of a backend is left out any more",
            extra=extra,
        )
        entry.logged = rejected
    if entry.renamed and entry.renamed != entry.logged_renamed:
        named = [f"{tool.id}: {tool.reason}" for tool in entry.renamed[:MAX_NAMED]]
        extra = {"backend": entry.source.name, "count": len(entry.renamed), "tools": named}
        log.warning("names of tools were changed to keep them unique", extra=extra)
    entry.logged_renamed = entry.renamed
    withheld = entry.evaluation.withheld
    if newly := withheld - entry.logged_withheld:
        extra = {"backend": entry.source.name, "ids": sorted(newly)[:MAX_NAMED]}
        log.warning("tools newly ask for tokens or secrets, which are withheld until a route lists them", extra=extra)
        entry.logged_withheld |= withheld
