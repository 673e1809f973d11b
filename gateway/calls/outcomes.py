"""Records how calls end: each outcome once; while the state is away, later."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from gateway.calls.backlog import Backlog
from gateway.calls.records import CallMetadata, is_keyed, metadata_of, pack, pack_metadata, pack_refusal, unpack
from gateway.calls.status import CHALLENGE_TOO_LARGE, TOO_LARGE, CallStatus, result_of, status_of
from gateway.catalogue.published import PublishedTool
from gateway.core.errors import GatewayError, StateUnavailable
from gateway.core.model import CallKey, JsonObject, ToolResult, public_id
from gateway.state.port import MAX_NOTE_BYTES, UNKNOWN, CallState, OutcomeTooLarge, Record, State

log = logging.getLogger("gateway.calls")

# How long a result that is too large to be recorded is held for callers who wait here. They are woken as its call ends:
# at once, or by Redis if another process runs the call.
LARGE_S = 5.0
MAX_LARGE_BYTES = 64 * 1024 * 1024  # of such results; one that came by a callback has at most 16 MiB

NOT_OVER = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED, CallState.AWAITING_USER)


class Run(Struct, frozen=True, gc=False):
    """What is counted of one run of a tool.

    `tool` is the tool's full id, `begun_s` is by `time.time()`, `account` is as in `Caller`. `published` is the tool
    itself if it is at hand.
    """

    backend: str
    tool: str
    begun_s: float
    account: str
    published: PublishedTool | None = None

    @classmethod
    def of(cls, backend: str, metadata: CallMetadata, published: PublishedTool | None = None) -> Self:
        """The run of the call that has this metadata."""
        return cls(backend, metadata.tool, metadata.begun_s, metadata.account, published)


def run_of(record: Record) -> Run:
    """The run that a record with metadata is of."""
    return Run.of(record.backend, metadata_of(record))


class OutcomeRecorder:
    """Records outcomes in a state. Calls are named by their keys.

    `ended` is called at the end of every run, once, on the replica that recorded it.
    """

    def __init__(self, state: State, ended: Callable[[Run, ToolResult | GatewayError], None]) -> None:
        self._state = state
        self.ended = ended
        self._large: dict[CallKey, bytes] = {}  # packed: as objects they may weigh twenty times as much
        self._large_bytes = 0
        self.backlog = Backlog(state.is_up_for)

    async def settle(self, key: CallKey, result: ToolResult, run: Run | None = None, *, can_wait: bool = True) -> bool:
        """Ends a call; False if it has ended already, or is not known.

        While the state is away the result is held until it is back, which counts as done. Raises StateUnavailable if
        there is no room for that, or not `can_wait`. Without `run` it is read from the record. A result too large to be
        recorded is held for callers who wait here (`wait`); all others get a failure that says so.
        """
        try:
            if result.failure is not None and result.failure.can_retry and await self._give_back(key, result, run):
                return True
            run = run or await self._run(key)
            packed = pack(result, time.time())
            try:
                is_over = await self._state.settle(key, packed)
            except OutcomeTooLarge:
                is_over = await self._settle_large(key, packed)
        except StateUnavailable:
            packed = self._large.get(key) or pack(result, time.time())
            if can_wait:
                if self.backlog.hold(key, len(packed), partial(self._settle_later, key, packed)):
                    return True
                self._drop_large(key)
            raise
        if is_over and run is not None:
            self.ended(run, result)
        return is_over

    async def _settle_large(self, key: CallKey, packed: bytes) -> bool:
        """Ends a call with a result that is too large to be recorded, and holds it for callers who wait here.

        It is held also if this raises StateUnavailable: the call may have ended all the same.
        """
        if key not in self._large:
            extra = {"toolgate_call_id": public_id(key), "bytes": len(packed)}
            log.warning("a result is too large to be stored", extra=extra)
            if self._large_bytes + len(packed) <= MAX_LARGE_BYTES:
                self._large[key] = packed
                self._large_bytes += len(packed)
        is_over = await self._state.settle(key, pack(TOO_LARGE, time.time()))
        asyncio.get_running_loop().call_later(LARGE_S, self._drop_large, key)
        return is_over

    def _drop_large(self, key: CallKey) -> None:
        self._large_bytes -= len(self._large.pop(key, b""))

    async def wait(self, key: CallKey, timeout_s: float) -> CallStatus:
        """Waits for the end of a call, wherever it comes from; None if it still runs then, as far as is known."""
        if timeout_s:  # else it would be luck what is answered: perhaps a refusal that became a result
            with suppress(StateUnavailable):
                return self._whole(key, status_of(await self._state.wait(key, timeout_s)))
        return None

    def _whole(self, key: CallKey, status: CallStatus) -> CallStatus:
        """The status of a call for a caller who waited for it: with its result, even if that was too large."""
        return unpack(self._large[key]) if key in self._large and status == TOO_LARGE else status

    async def _settle_later(self, key: CallKey, packed: bytes) -> None:
        """Ends a call with a result that was held as text, because as objects it may weigh twenty times as much."""
        result = unpack(packed)
        assert isinstance(result, ToolResult)  # as it was packed
        await self.settle(key, result, can_wait=False)

    async def _give_back(self, key: CallKey, result: ToolResult, run: Run | None) -> bool:
        """Lets a call that failed with `can_retry` be begun anew, if it is ours and has an id to repeat it by.

        With this result on record the retry that it asks for could never succeed.
        """
        record = await self._state.get(key)
        if record is None or record.replica != self._state.replica:
            return False
        if record.state.is_over or not is_keyed(record):
            return False
        await self._forget(key, pack(result, time.time()))
        self.ended(run or run_of(record), result)
        return True

    async def settled(self, key: CallKey) -> ToolResult | None:
        """The recorded result of a call. Raises StateUnavailable."""
        status = status_of(await self._state.get(key))
        return status if isinstance(status, ToolResult) else None

    async def _run(self, key: CallKey) -> Run | None:
        """The run of a call; None if its record is gone or unreadable, or the run was counted as unknown already."""
        record = self._state.local_record(key) or await self._state.get(key)
        if record is None or record.state is UNKNOWN or not record.note:
            return None
        return run_of(record)

    async def refuse(self, key: CallKey, refusal: GatewayError, run: Run, *, delivered: bool) -> None:
        """Ends a call that did not run: takes it back if its caller gets the refusal, else records that.

        Raises StateUnavailable.
        """
        if delivered:
            await self._forget(key, pack_refusal(refusal))
            self.ended(run, refusal)
        else:
            await self.settle(key, result_of(refusal), run)

    async def challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        """Makes a call wait for its user; this challenge replaces any before it.

        Returns and raises as `settle`.
        """
        try:
            return await self._challenge(key, challenge)
        except StateUnavailable:
            if self.backlog.hold(key, MAX_NOTE_BYTES, lambda: self._challenge(key, challenge)):
                return True
            raise

    async def _challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        record = await self._state.get(key)
        if record is None or not record.note:
            return False
        metadata = metadata_of(record)
        # The user may have agreed to this challenge already.
        consent_state = metadata.consent_state if challenge == metadata.challenge else (time.time(), False)
        return await self._ask(key, replace(metadata, challenge=challenge, consent_state=consent_state))

    async def consent(self, key: CallKey, challenge: JsonObject) -> None:
        """Notes that the user has agreed to open the URL of a challenge, if the call still waits for that.

        Raises StateUnavailable.
        """
        record = await self._state.get(key)
        if record is None or record.state is not CallState.AWAITING_USER:
            return
        metadata = metadata_of(record)
        if metadata.challenge == challenge:
            await self._ask(key, replace(metadata, consent_state=(time.time(), True)))

    async def _ask(self, key: CallKey, metadata_with_consent: CallMetadata) -> bool:
        """Makes a call wait for its user, with this metadata."""
        metadata = pack_metadata(metadata_with_consent)
        if len(metadata) > MAX_NOTE_BYTES:
            return await self.settle(key, CHALLENGE_TOO_LARGE, can_wait=False)
        return await self._state.advance(key, NOT_OVER, CallState.AWAITING_USER, note=metadata)

    async def _forget(self, key: CallKey, outcome: bytes) -> None:
        """Lets a call be begun anew; callers who joined it, or ask for it until then, get the outcome of this run."""
        try:
            await self._state.forget(key, outcome)
        except OutcomeTooLarge:
            await self._state.forget(key)

    async def aclose(self) -> None:
        """Drops what is still held for the state."""
        await self.backlog.aclose()
