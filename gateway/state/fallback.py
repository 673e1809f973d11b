"""Redis as long as it is there, and this process's own memory while it is away (`state.on_failure: local`).

A call lives where it began. One that began in this process ends here and is found here until it expires, also when
Redis is back; one that began in Redis waits for Redis. No process runs a call twice, because it remembers which calls
it has met in Redis, and refuses those while Redis is away. The price: other processes know nothing of the calls kept
here, so they run them again if a caller repeats them there, and can do nothing with callbacks that reach them instead;
and a process that ends takes its calls with it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from gateway.state.known import Known
from gateway.state.memory import MemoryState
from gateway.state.port import (
    ACCEPTED,
    AWAITING_USER,
    Begun,
    CallState,
    Created,
    Full,
    NewCall,
    Record,
    State,
    StateUnavailable,
)

log = logging.getLogger("gateway.state")


class FallbackState:
    """Implements `port.State` with two others. `back` is to be called whenever `shared` can be reached again.

    `met` has the names of calls that `shared` knows. It may take a new call for one of them, which is then refused as
    long as `shared` is away.
    """

    def __init__(self, shared: State, local: MemoryState, met: Known) -> None:
        self.replica = shared.replica
        self._shared = shared
        self._local = local
        self._met = met
        self._fell_back = False

    @property
    def is_up(self) -> bool:
        return self._shared.is_up

    def pending(self) -> Counter[str]:
        return self._shared.pending() + self._local.pending()

    @property
    def unfinished_here(self) -> int:
        """How many calls that are not over only this process knows of: they would be lost with it."""
        return self._local.pending().total()

    def when_touched(self, tell: Callable[[str], None]) -> None:
        self._shared.when_touched(tell)

    def back(self) -> None:
        """The shared state can be reached: new calls go there again."""
        if self._fell_back:
            log.warning("new calls are shared again", extra={"unfinished_here": self.unfinished_here})
            self._fell_back = False

    async def start(self) -> None:
        await self._shared.start()

    async def aclose(self) -> None:
        if self.unfinished_here:
            log.warning("calls kept in this process are lost", extra={"count": self.unfinished_here})
        await self._shared.aclose()

    async def begin(self, call: NewCall) -> Begun:
        names = _names(call)
        if self._local.knows(names):
            return await self._local.begin(call)
        if not self._shared.is_up:
            return await self._begin_here(call, names)
        try:
            begun = await self._shared.begin(call)
        except StateUnavailable:
            return await self._begin_here(call, names)
        if self._local.knows(names):  # the same call, repeated, found the shared state away and began here meanwhile
            if isinstance(begun, Created):
                await self._shared.forget(begun.record.key)
            return await self._local.begin(call)
        if not isinstance(begun, Full):
            self._met.add(call.key)
        return begun

    async def _begin_here(self, call: NewCall, names: Iterable[str]) -> Begun:
        """Begins a call locally. Raises StateUnavailable if it may be one that the shared state knows."""
        if any(name in self._met for name in names):
            raise StateUnavailable("the call is kept where nobody can look at the moment")
        if not self._fell_back:
            self._fell_back = True
            log.warning("while the state is away, new calls are kept in this process alone")
        return await self._local.begin(call)

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        return await self._home(key).advance(key, from_states, to, note=note)

    async def settle(self, key: str, outcome: bytes) -> bool:
        return await self._home(key).settle(key, outcome)

    async def get(self, key: str) -> Record | None:
        here = await self._local.get(key)  # perhaps a remnant, of a call that has begun anew in the shared state
        if self._local.knows((key,)):
            return here
        try:
            return await self._shared.get(key) or here
        except StateUnavailable:
            if here is None:
                raise
            return here

    async def has_expired(self, key: str, principals: Sequence[str]) -> bool:
        return await self._home(key).has_expired(key, principals)

    def held(self, key: str) -> Record | None:
        return self._home(key).held(key)

    async def wait(self, key: str, timeout_s: float, *, beyond: CallState = ACCEPTED) -> Record | None:
        home = self._home(key)
        record = await home.wait(key, timeout_s, beyond=beyond)
        if home is self._shared and record is not None and record.state is AWAITING_USER and record.question:
            self._met.add(record.question)  # its caller, once told, may ask the same again while Redis is away
        return record

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        await self._home(key).forget(key, outcome)

    def reduce(self, key: str, outcome: bytes) -> None:
        self._home(key).reduce(key, outcome)

    async def told(self, key: str) -> None:
        await self._home(key).told(key)

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        return await self._shared.claim_orphans(limit)

    def _home(self, key: str) -> State:
        """Where a call is kept."""
        return self._local if self._local.knows((key,)) else self._shared


def _names(call: NewCall) -> Sequence[str]:
    """The names under which a call may be known already: its keys, and the question that would lead to another."""
    asks = () if call.asks is None else (call.asks,)
    return (call.key, *(key for key, _ in call.older), *asks)
