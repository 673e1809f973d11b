"""What the gateway remembers of calls, as everything else sees it; one contract, in memory or in Redis.

A record lives from `begin` to the end of its result; afterwards its key alone is remembered, so that the same call is
never run again by mistake. Keys, fingerprints, principals and questions are digests made by the caller of this port
(see `sealing`), notes and outcomes are opaque bytes: nothing here knows of HTTP, dialects or tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

MAX_NOTE_BYTES = 16 * 1024  # the dialect, the ids and at most an authorization challenge


class CallState(IntEnum):
    """How far a call has come. It only grows, but for a call that has to wait for its turn: that is REGISTERED again.

    UNKNOWN: whoever ran it died, and the tool may have run. It ends all waiting, yet an outcome that does arrive
    replaces it, because then it is known after all. DONE is final.
    """

    REGISTERED = 1
    DISPATCHING = 2
    ACCEPTED = 3
    AWAITING_USER = 4
    UNKNOWN = 5
    DONE = 6

    @property
    def is_over(self) -> bool:
        return self >= UNKNOWN


# Reading a member off its class costs half a microsecond in Python 3.11, ten times as much as a global.
REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER, UNKNOWN, DONE = CallState


class StateUnavailable(Exception):  # noqa: N818 - a condition that passes, not an error of ours
    """The state cannot be reached, or has lost its data a moment ago, so that absence proves nothing yet."""


class OutcomeTooLarge(Exception):  # noqa: N818 - as above
    """An outcome exceeds `max_result_bytes`; the call is as it was and wants a smaller one."""


class StateLimits(Struct, frozen=True, kw_only=True):
    """How long and how much is remembered.

    `pending_ttl_s` runs from `begin`, `result_ttl_s` from `settle`, `seen_ttl_s` from the moment the record is gone.
    `max_pending` and `max_records` (finished ones included) are per principal. Of calls that may be begun anew, or are
    parted, the latest `max_parted` of each principal are told of for `parted_ttl_s`. `max_bytes` bounds what a process
    keeps in its own memory; Redis has `maxmemory` for that.
    """

    pending_ttl_s: float = 86400.0
    result_ttl_s: float = 3600.0
    seen_ttl_s: float = 86400.0
    max_pending: int = 1000
    max_records: int = 10_000
    parted_ttl_s: float = 600.0
    max_parted: int = 100
    max_result_bytes: int = 1 << 20
    max_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")


class NewCall(Struct, frozen=True, kw_only=True, gc=False):
    """A call to be registered.

    `key` names it, `fingerprint` tells its content, `principal` whose quota it is on: digests. `older` holds the same
    (key, fingerprint) under keys that no longer seal, so that a change of keys makes nobody's call new. `question` is
    the digest of all that is asked of a tool that may want a user's consent: while a call waits for that, another that
    asks the same and `joins`, for its caller has no name for it, is that call. `note` is what another replica needs to
    go on. `idempotent` allows a second dispatch after the first one's replica died. `state` is DISPATCHING for a call
    that is sent as soon as it is begun, which saves an `advance`; should its replica die, nobody knows whether it was.
    """

    key: str
    fingerprint: str
    principal: str
    backend: str
    note: bytes = b""
    question: str | None = None
    idempotent: bool = False
    older: tuple[tuple[str, str], ...] = ()
    state: CallState = REGISTERED
    joins: bool = True

    @property
    def asks(self) -> str | None:
        """The question whose open call it joins."""
        return self.question if self.joins else None


class Record(Struct, frozen=True, kw_only=True, gc=False):
    """A call as it stood when it was looked at. `replica` runs or watches over it; `outcome` is there once DONE.

    `created_s` is in seconds of the store's clock.
    """

    key: str
    fingerprint: str
    principal: str
    backend: str
    state: CallState
    replica: str
    created_s: float
    note: bytes = b""
    question: str | None = None
    idempotent: bool = False
    outcome: bytes | None = None

    @classmethod
    def new(cls, call: NewCall, replica: str, created_s: float) -> Record:
        """A call as it is when it has just been registered."""
        return cls(
            key=call.key,
            fingerprint=call.fingerprint,
            principal=call.principal,
            backend=call.backend,
            state=call.state,
            replica=replica,
            created_s=created_s,
            note=call.note,
            question=call.question,
            idempotent=call.idempotent,
        )


class Created(Struct, frozen=True, gc=False):
    """The call is the caller's to dispatch: new, just as it was `asked` for, or `found` where a dead replica left it.

    Its record is made when somebody wants it, which for new calls hardly anybody does.
    """

    asked: NewCall
    replica: str
    created_s: float
    found: Record | None = None

    @property
    def record(self) -> Record:
        return Record.new(self.asked, self.replica, self.created_s) if self.found is None else self.found


class Exists(Struct, frozen=True, gc=False):
    """The same call is there, or an open one that asks the same: join it, or replay its outcome."""

    record: Record


class Conflict(Struct, frozen=True):
    """The key is taken by a call of other content."""


class Expired(Struct, frozen=True):
    """The call was here once and its result is gone; it must not run again."""


class Full(Struct, frozen=True):
    """A quota is used up. Nothing was stored."""

    retry_after_s: float


Begun: TypeAlias = Created | Exists | Conflict | Expired | Full


class State(Protocol):
    """The port. What is awaited raises StateUnavailable, but for `forget`.

    Digests and notes out of bounds are ValueErrors.
    """

    @property
    def replica(self) -> str:
        """This process as records name it."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the state answers; for health and metrics."""
        ...

    def pending(self) -> Counter[str]:
        """How many calls that are not over this replica looks after, by backend; for metrics."""
        ...

    def when_touched(self, tell: Callable[[str], None]) -> None:
        """Has `tell` hear of the keys of calls that this process may hold and that another has done something to."""
        ...

    async def start(self) -> None:
        """Makes first contact, waiting a few seconds at most, and goes on trying in the background."""
        ...

    async def begin(self, call: NewCall) -> Begun:
        """Registers a call and its share of the quotas, all or nothing; or tells what there is already.

        A call with a `question` finds the one that was asked it and waits for its user, or has ended since and nobody
        was told: that is told once, by the `begin` that finds it or by whoever says `told`.
        """
        ...

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        """Moves a call on, with a new note if one is given; False if it is in none of `from_states` or gone.

        Only the replica that holds a call may move it to DISPATCHING, or from there back to REGISTERED while nothing of
        it was sent: whoever was believed dead cannot send it again.
        """
        ...

    async def settle(self, key: str, outcome: bytes) -> bool:
        """Stores how a call ended and wakes whoever waits; False if it has an outcome already or is gone.

        Raises OutcomeTooLarge.
        """
        ...

    async def get(self, key: str) -> Record | None: ...

    def held(self, key: str) -> Record | None:
        """A call that this process runs or watches over and that, as far as it knows, nobody else has moved on.

        It costs nothing to ask, and None proves nothing.
        """
        ...

    async def wait(self, key: str, timeout_s: float, *, beyond: CallState = ACCEPTED) -> Record | None:
        """Waits until a call is past `beyond`; returns it as it is then, or as last seen once `timeout_s` is over.

        None: it is gone. A caller that still wants it begins it again. Goes on waiting while the state is away, and
        raises StateUnavailable only if it never saw the call.
        """
        ...

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        """Lets a call that this replica holds and that is not over be begun anew; wakes who waits.

        For calls that provably did not run or may run again. Whoever waits, or looks before it has begun anew, finds it
        DONE with the `outcome`; without one it is as if it had never begun. While the state is away it is noted down
        and done later. Raises OutcomeTooLarge.
        """
        ...

    def part(self, key: str, outcome: bytes) -> None:
        """Keeps no more of a call that is DONE than this short `outcome`, for as long as of one to be begun anew.

        For calls whose outcome nobody will want once more: they are on no quota. It is done in a moment, or, while the
        state is away, not at all. A call that is not over, or whose question is open, stays as it is.
        """
        ...

    async def told(self, key: str) -> None:
        """The end of a call has been told: from now on its question is a new one."""
        ...

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        """Takes over at most `limit` calls whose replica died. To be called every few seconds.

        What may be dispatched (again) comes back REGISTERED: dispatch it or forget it. ACCEPTED and AWAITING_USER:
        this replica watches over it now. UNKNOWN: it was being dispatched, and nobody will ever know.
        """
        ...

    async def aclose(self) -> None:
        """Stops all work in the background. What this replica holds is up for others at once."""
        ...
