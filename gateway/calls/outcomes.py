"""How calls end: each outcome is written down once, or held until it can be, and told to those who wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gateway.calls.backlog import Backlog
from gateway.calls.status import (
    PREFIX,
    TOO_LARGE,
    UNTOLD,
    CallMetadata,
    CallStatus,
    can_be_repeated,
    metadata_of,
    pack,
    pack_metadata,
    pack_refusal,
    result_of,
    status_of,
    unpack,
)
from gateway.errors import GatewayError
from gateway.model import JsonObject, ToolResult
from gateway.routing import PublishedTool
from gateway.state.port import MAX_NOTE_BYTES, UNKNOWN, CallState, OutcomeTooLarge, State, StateUnavailable

log = logging.getLogger("gateway.calls")

# For those who wait here to be told a result that is too large to be kept. They are woken as its call ends: at once, or
# by Redis if another process holds the call.
LARGE_S = 5.0
MAX_LARGE_BYTES = 64 * 1024 * 1024  # of such results; a result has 16 MiB at the most that came by a callback

TOO_LARGE_PACKED = pack(TOO_LARGE)
NOT_OVER = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED, CallState.AWAITING_USER)


class Run(Struct, frozen=True, gc=False):
    """What is needed to count a run of a tool (its id is the `run` of `Later` and `Invocation`).

    `tool` is the tool's full id, `begun_s` is by `time.time()`, and `published` is the tool itself if it is at hand.
    """

    backend: str
    tool: str
    begun_s: float
    published: PublishedTool | None = None


Ended = Callable[[Run, ToolResult | GatewayError], None]


def run_of(backend: str, note: CallMetadata) -> Run:
    return Run(backend, note.tool, note.begun_s)


class OutcomeRecorder:
    """Writes endings into a state. Calls are named by their keys.

    `ended` is told of the end of every run, once, by the replica that wrote it down.
    """

    def __init__(self, state: State, ended: Ended) -> None:
        self._state = state
        self.ended = ended
        self._large: dict[str, bytes] = {}  # packed: as objects they may weigh twenty times as much
        self._large_bytes = 0
        self.backlog = Backlog(lambda: state.is_up)

    async def settle(self, key: str, result: ToolResult, run: Run | None = None, *, can_wait: bool = True) -> bool:
        """Ends a call; False if it has ended already, or nobody knows it.

        While the state is away the result is held until it is back, which counts as done. Raises StateUnavailable if
        there is no room for that, or not `can_wait`. `run` spares a look at the record to whoever has it. A result that
        is too large to be kept reaches those who wait for it here (`whole`); all others are told that it was.
        """
        try:
            if result.failure is not None and result.failure.can_retry and await self._give_back(key, result, run):
                return True
            run = run or await self._run(key)
            packed = pack(result)
            try:
                is_over = await self._state.settle(key, packed)
            except OutcomeTooLarge:
                is_over = await self._settle_large(key, packed)
        except StateUnavailable:
            packed = self._large.get(key) or pack(result)
            if can_wait:
                if self.backlog.hold(key, len(packed), partial(self._settle_later, key, packed)):
                    return True
                self._drop_large(key)
            raise
        if is_over and run is not None:
            self.ended(run, result)
        return is_over

    async def _settle_large(self, key: str, packed: bytes) -> bool:
        """Ends a call with a result that is too large to be kept, and has it at hand for those who wait here.

        It stays at hand if this raises StateUnavailable: that the call has ended may be known by then.
        """
        if key not in self._large:
            log.warning("a result is too large to be kept", extra={"call_id": PREFIX + key, "bytes": len(packed)})
            if self._large_bytes + len(packed) <= MAX_LARGE_BYTES:
                self._large[key] = packed
                self._large_bytes += len(packed)
        is_over = await self._state.settle(key, TOO_LARGE_PACKED)
        asyncio.get_running_loop().call_later(LARGE_S, self._drop_large, key)
        return is_over

    def _drop_large(self, key: str) -> None:
        self._large_bytes -= len(self._large.pop(key, b""))

    def whole(self, key: str, standing: CallStatus) -> CallStatus:
        """How a call has ended as one is told who waited for that."""
        return unpack(self._large[key]) if key in self._large and standing == TOO_LARGE else standing

    async def _settle_later(self, key: str, packed: bytes) -> None:
        """Ends a call with a result that was held as text, because as objects it may weigh twenty times as much."""
        result = unpack(packed)
        assert isinstance(result, ToolResult)  # as it was packed
        await self.settle(key, result, can_wait=False)

    async def _give_back(self, key: str, result: ToolResult, run: Run | None) -> bool:
        """Lets a call that failed for now be begun anew, if it is ours and its caller can repeat it.

        With this result on record the retry that it asks for could never succeed.
        """
        record = await self._state.get(key)
        if record is None or record.replica != self._state.replica:
            return False
        if record.state.is_over or not can_be_repeated(record):
            return False
        await self._forget(key, pack(result))
        self.ended(run or run_of(record.backend, metadata_of(record)), result)
        return True

    async def settled(self, key: str) -> ToolResult | None:
        """How a call has ended that was ended by somebody else. Raises StateUnavailable."""
        standing = status_of(await self._state.get(key))
        return standing if isinstance(standing, ToolResult) else None

    async def _run(self, key: str) -> Run | None:
        """What is needed to count the run of a call; None if nobody knows, or it was counted as unknown already."""
        record = self._state.held(key) or await self._state.get(key)
        if record is None or record.state is UNKNOWN or not record.note:
            return None
        return run_of(record.backend, metadata_of(record))

    async def refuse(self, key: str, refusal: GatewayError, run: Run, *, told: bool) -> None:
        """Ends a call that did not run. If its caller is `told` so it is as if it had never begun, else this is kept.

        Raises StateUnavailable.
        """
        if told:
            await self._forget(key, pack_refusal(refusal))
            self.ended(run, refusal)
        else:
            await self.settle(key, result_of(refusal), run)

    async def challenge(self, key: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; from now on this challenge is told, also if there was another before.

        Returns and raises as `settle`.
        """
        try:
            return await self._challenge(key, challenge)
        except StateUnavailable:
            if self.backlog.hold(key, MAX_NOTE_BYTES, lambda: self._challenge(key, challenge)):
                return True
            raise

    async def _challenge(self, key: str, challenge: JsonObject) -> bool:
        record = await self._state.get(key)
        if record is None or not record.note:
            return False
        note = pack_metadata(replace(metadata_of(record), challenge=challenge))
        if len(note) > MAX_NOTE_BYTES:
            return await self.settle(key, UNTOLD, can_wait=False)
        return await self._state.advance(key, NOT_OVER, CallState.AWAITING_USER, note=note)

    async def _forget(self, key: str, outcome: bytes) -> None:
        """Lets a call be begun anew; whoever joined it, or looks for its end, is told how this run ended."""
        try:
            await self._state.forget(key, outcome)
        except OutcomeTooLarge:
            await self._state.forget(key)

    async def aclose(self) -> None:
        await self.backlog.aclose()
