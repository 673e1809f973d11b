"""What the gateway remembers of calls: one contract, kept in this process's memory or in Redis.

A record lives from `begin` until its result expires. Afterwards only its key is remembered, so that the call does not
run again. Keys, fingerprints, principals and questions are digests (`calls.names`); notes and outcomes are opaque.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from gateway.core.model import CallKey

RECORD_BYTES = 1024  # counted for a record beside its note and outcome; about 700 were measured
SMALL_OUTCOME_BYTES = 1024  # of an outcome that is taken whatever room is left: a sentence, so that each call can end
FULL = 0.01  # of the capacity: with less than that free, it is as good as full
MAX_REPLICAS = 256  # that `replicas` names
MAX_NOTE_BYTES = 16 * 1024  # the dialect, the ids and at most an authorization challenge


class CallState(IntEnum):
    """How far a call has come. The state only grows, except that a call which has to queue is REGISTERED again.

    REGISTERED: nothing was sent. DISPATCHING: it may be on its way to its tool server. ACCEPTED: the tool server took
    it and will bring the outcome later. AWAITING_USER: the tool server wants a user's consent first. UNKNOWN: its
    replica died, and the tool may have run; an outcome that arrives later replaces this. DONE: its outcome is final.
    """

    REGISTERED = 1
    DISPATCHING = 2
    ACCEPTED = 3
    AWAITING_USER = 4
    UNKNOWN = 5
    DONE = 6

    @property
    def is_over(self) -> bool:
        """Whether it is UNKNOWN or DONE."""
        return self >= UNKNOWN


# Reading a member off its class costs half a microsecond in Python 3.11, ten times as much as a global.
REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER, UNKNOWN, DONE = CallState


class OutcomeTooLarge(Exception):  # noqa: N818 - as `StateUnavailable`
    """An outcome exceeds `max_result_bytes`, or the room that is left for it.

    The call is unchanged and may be given a smaller one; there is always room for `SMALL_OUTCOME_BYTES`.
    """


class StateLimits(Struct, frozen=True, kw_only=True):
    """How long and how much is remembered.

    A principal may take no more than is still free: then one alone fills half of the capacity, two a third each, and
    there is always some left for others (dynamic thresholds; Choudhury and Hahne, 1998).
    """

    pending_ttl_s: float = 86400.0  # of a call that is not over, from `begin` on
    result_ttl_s: float = 3600.0  # of a call that is, from `settle` on
    seen_ttl_s: float = 86400.0  # of the key alone, from the end of the record on
    max_pending: int = 1000  # calls of a principal that are not over
    max_records: int = 10_000  # calls of a principal that are
    tombstone_ttl_s: float = 600.0  # of the outcome of a call that was forgotten or reduced
    max_tombstones: int = 100  # of a principal, the latest
    max_result_bytes: int = 1 << 20  # of one outcome
    max_bytes: int = 256 << 20  # of everything in the memory of a process; Redis has `maxmemory` for that
    max_bytes_per_caller: int = 128 << 20  # of all calls of a principal

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")


class CallFields(Struct, frozen=True, kw_only=True, gc=False):
    """What never changes of a call, except its note."""

    key: CallKey  # names the call
    fingerprint: str  # names its content
    principal: str  # the owner of its quota
    backend: str
    note: bytes = b""  # what another replica needs to continue the call
    question: str | None = None  # names what is asked of a tool that may want a user's consent
    idempotent: bool = False  # it may be sent again after its replica died


class NewCall(CallFields, frozen=True, kw_only=True, gc=False):
    """A call to be registered."""

    # (key, fingerprint) of the same call under the operator's earlier keys: a change of keys makes no call look new.
    older: tuple[tuple[str, str], ...] = ()
    state: CallState = REGISTERED  # or DISPATCHING for a call that is sent at once, which saves an `advance`
    joins: bool = True  # a call with the same question that waits for its user: the caller gave this one no id
    rejoins: bool = False  # the tombstone of a call with this key and fingerprint counts as the call itself


class Record(CallFields, frozen=True, kw_only=True, gc=False):
    """A call as it stood when it was read."""

    state: CallState
    replica: str  # runs it, or watches over it while a tool server works
    created_s: float  # in seconds of the store's clock
    outcome: bytes | None = None  # once the call is DONE

    @classmethod
    def of(
        cls, call: NewCall, replica: str, created_s: float, state: CallState, note: bytes, outcome: bytes | None = None
    ) -> Record:
        """The record of a call that began as `call`."""
        return cls(
            key=call.key,
            fingerprint=call.fingerprint,
            principal=call.principal,
            backend=call.backend,
            state=state,
            replica=replica,
            created_s=created_s,
            note=note,
            question=call.question,
            idempotent=call.idempotent,
            outcome=outcome,
        )


Quota = Literal["pending", "records", "bytes", "room"]
SCARCE = 0.9  # of a quota: with more of it used, it is nearly full


class Created(Struct, frozen=True, gc=False):
    """The call was begun, and the caller of `begin` dispatches it."""

    call: NewCall
    replica: str
    created_s: float
    inherited: Record | None = None  # the call was there already, without a live replica
    scarce: Quota | None = None  # that its principal has nearly used: of calls that run, that ended, or of bytes

    @property
    def record(self) -> Record:
        """The call as it stands; made on demand, because it is rarely needed."""
        call = self.call
        return self.inherited or Record.of(call, self.replica, self.created_s, call.state, call.note)


class Exists(Struct, frozen=True, gc=False):
    """The same call is there already, or one that waits for the same consent: join it, or replay its outcome."""

    record: Record


class Conflict(Struct, frozen=True):
    """The key is taken by a call of other content."""


class Expired(Struct, frozen=True):
    """The call was here once and its result is gone; it must not run again."""


class Full(Struct, frozen=True):
    """Nothing was stored."""

    retry_after_s: float
    quota: Quota  # that is used up: of calls that run, of those that ended, of bytes, or of the whole capacity


class Capacity(Struct, frozen=True):
    """How many bytes the stored calls take."""

    used_bytes: int
    max_bytes: int | None  # None: there is no limit

    @property
    def free_bytes(self) -> int | None:
        """How many bytes may still be taken; None: there is no limit."""
        return None if self.max_bytes is None else max(0, self.max_bytes - self.used_bytes)

    @property
    def is_full(self) -> bool:
        """Whether less than `FULL` of it is left."""
        return self.free_share < FULL

    @property
    def free_share(self) -> float:
        """How much of it is free, from 0 to 1."""
        return 1.0 if self.max_bytes is None else 1 - self.used_bytes / self.max_bytes


BeginResult: TypeAlias = Created | Exists | Conflict | Expired | Full


class State(Protocol):
    """The port. What is awaited may raise StateUnavailable, except `forget`; a malformed digest or note ValueError."""

    @property
    def replica(self) -> str:
        """This process as records name it."""

    @property
    def partitions(self) -> int:
        """How many parts it has, each of which may be away alone.

        With several, the key of a call begins with the one of `store.MARKS` that stands for its part.
        """

    @property
    def partitions_away(self) -> int:
        """How many of them do not answer."""

    @property
    def is_up(self) -> bool:
        """Whether all of the state answers."""

    def is_up_for(self, key: str) -> bool:
        """Whether the part of the state answers that a call is in."""

    @property
    def capacity(self) -> Capacity | None:
        """How much is stored, on the server with the least left if there are several; None while that is not known."""

    @property
    def trouble(self) -> str | None:
        """Why calls cannot be remembered at the moment, for health."""

    def pending(self) -> Counter[str]:
        """How many unfinished calls this replica runs or watches over, by backend."""

    def unfinished(self) -> Sequence[Record]:
        """The unfinished calls that this replica runs or watches over, as last seen here."""

    async def replicas(self) -> Mapping[str, float]:
        """The seconds since the last heartbeat of each replica that shares the state, at most `MAX_REPLICAS` of them.

        Replicas that died are among them until their calls are taken over.
        """

    def on_changed(self, callback: Callable[[CallKey], None]) -> None:
        """Sets what is called with the key of each call of this replica that another process has changed."""

    def on_tools_changed(self, callback: Callable[[str], None]) -> None:
        """Sets what is called with the name of each backend whose tools another process has announced as changed."""

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Sets what is called when all that was remembered is lost, but for what its replicas know."""

    def on_quota(self, callback: Callable[[Quota, bool], None]) -> None:
        """Sets what is called when a call finds a quota of its principal nearly used, or with True used up."""

    def announce_tools_changed(self, backend: str) -> None:
        """Tells the other processes that the tools of a backend have changed.

        Returns before it is done. While the state is away it is not done at all.
        """

    async def start(self) -> None:
        """Tries to reach the state for a few seconds at most, and continues in the background."""

    async def begin(self, call: NewCall) -> BeginResult:
        """Registers a call and counts it against its quotas, all or nothing; or returns what there is already.

        A call that joins finds the one with its question that waits for its user, or that has ended since and whose
        result was not delivered yet; this delivers it.
        """

    async def advance(
        self, key: str, from_states: Collection[CallState], to: CallState, *, note: bytes | None = None
    ) -> bool:
        """Moves a call on, with a new note if one is given; False if it is in none of `from_states`, or gone.

        Only the replica that the record names may move a call to DISPATCHING, or from there back to REGISTERED while
        nothing was sent. So a replica that was wrongly believed dead cannot send a call that another has taken over.
        """

    async def settle(self, key: str, outcome: bytes) -> bool:
        """Stores how a call ended and wakes its waiters; False if it has an outcome already, or is gone.

        Raises OutcomeTooLarge.
        """

    async def get(self, key: str) -> Record | None:
        """A call as it stands, or the tombstone of one."""

    async def has_expired(self, key: str, principals: Sequence[str]) -> bool:
        """Whether there was a call of one of these principals, whose record has expired."""

    def local_record(self, key: str) -> Record | None:
        """A call of this replica, unless another process may have changed it meanwhile.

        Redis is not asked, so it costs next to nothing, and None does not mean that the call is gone.
        """

    async def wait(self, key: str, timeout_s: float) -> Record | None:
        """Waits until a call is over or waits for its user, for `timeout_s` at most; returns it as it stands then.

        None: it is gone, and may be begun again. Continues to wait while the state is away; if it still is when the
        time is over, returns the call as last seen, and raises StateUnavailable only if it was never seen.
        """

    async def forget(self, key: str, outcome: bytes | None = None) -> None:
        """Removes an unfinished call of this replica's, so that it may be begun anew; wakes its waiters.

        For calls that provably did not run, or that may run again. An `outcome` is kept as a tombstone: waiters get it,
        and `get` until the call begins anew. While the state is away this is done later. Raises OutcomeTooLarge.
        """

    def reduce(self, key: str, outcome: bytes) -> None:
        """Replaces a call that is DONE by a tombstone with this short `outcome`.

        For calls whose real outcome will not be asked for again. Returns before it is done; while the state is away it
        is not done at all. A call that is not DONE, or that identical calls still join, stays as it is.
        """

    async def mark_delivered(self, key: str) -> None:
        """Marks the result delivered; identical calls no longer join it."""

    async def claim_orphans(self, limit: int) -> Sequence[Record]:
        """Takes over at most `limit` calls whose replica died. To be called every few seconds.

        A call that may be dispatched (again) comes back REGISTERED: dispatch it, or forget it. One that is ACCEPTED or
        AWAITING_USER is watched over by this replica from now on. One that was being dispatched is UNKNOWN.
        """

    async def aclose(self) -> None:
        """Stops the background work. Other replicas may take over the calls of this one at once."""
