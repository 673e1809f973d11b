"""How calls end: each outcome is written down once, or held until it can be, and told to those who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import (
    TOO_LARGE,
    UNTOLD,
    Note,
    can_be_repeated,
    encode,
    note_of,
    pack,
    pack_refusal,
    result_of,
    standing_of,
    unpack,
)
from gateway.model import JsonObject, ToolResult
from gateway.routing import PublishedTool
from gateway.state.port import MAX_NOTE_BYTES, UNKNOWN, CallState, OutcomeTooLarge, Record, State, StateUnavailable

NOT_OVER = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED, CallState.AWAITING_USER)


class Run(Struct, frozen=True, gc=False):
    """A run of a tool, as far as it is counted: of which backend, the tool's full id, since when by `time.time()`.

    `published` is the tool if it is at hand.
    """

    backend: str
    tool: str
    begun_s: float
    published: PublishedTool | None = None


Ended = Callable[[Run, ToolResult | GatewayError], None]


def run_of(backend: str, note: Note) -> Run:
    return Run(backend, note.tool, note.begun_s)


class Endings:
    """Writes them into a state. Calls are named by their keys.

    `ended` is told of the end of every run, once, by whoever's word for it counts.
    """

    def __init__(self, state: State, ended: Ended) -> None:
        self._state = state
        self.ended = ended
        self.backlog = Backlog(lambda: state.is_up)

    async def settle(self, key: str, result: ToolResult, run: Run | None = None) -> bool:
        """Ends a call; False if it has ended already or nobody knows it. Raises StateUnavailable if it cannot wait.

        `run` spares whoever knows it a look at the record.
        """
        try:
            if result.failure is not None:
                return await self._settle(key, result, run)
            run = run or await self._run(key)  # nearly all calls come to this
            is_over = await self._state.settle(key, encode((result.value, None, result.duration_ms)))  # as `pack` does
            if is_over and run is not None:
                self.ended(run, result)
            return is_over
        except OutcomeTooLarge:
            return await self.settle(key, TOO_LARGE, run)
        except StateUnavailable:
            packed = pack(result)
            if self.backlog.hold(len(packed), partial(self._settle_later, key, packed)):
                return True
            raise

    async def _settle_later(self, key: str, packed: bytes) -> None:
        """Ends a call with a result that was held as text: what is made of it may weigh twenty times as much."""
        result = unpack(packed)
        assert isinstance(result, ToolResult)  # as it was packed
        await self._settle(key, result)

    async def settled(self, key: str) -> ToolResult | None:
        """How a call has ended that was ended by somebody else. Raises StateUnavailable."""
        standing = standing_of(await self._state.get(key))
        return standing if isinstance(standing, ToolResult) else None

    async def _settle(self, key: str, result: ToolResult, run: Run | None = None) -> bool:
        if result.failure is not None and result.failure.can_retry:
            record = await self._state.get(key)
            if record is not None and self._can_forget(record):
                await self._part(key, pack(result))  # pinned, the retry that it asks for could never succeed
                self.ended(run or run_of(record.backend, note_of(record)), result)
                return True
        run = run or await self._run(key)
        try:
            is_over = await self._state.settle(key, pack(result))
        except OutcomeTooLarge:
            result = TOO_LARGE
            is_over = await self._state.settle(key, pack(result))
        if is_over and run is not None:
            self.ended(run, result)
        return is_over

    async def _run(self, key: str) -> Run | None:
        """What is known of the run of a call; None if there is nothing to count, or it is counted as unknown."""
        record = self._state.held(key) or await self._state.get(key)
        if record is None or record.state is UNKNOWN or not record.note:
            return None
        return run_of(record.backend, note_of(record))

    def _can_forget(self, record: Record) -> bool:
        """Whether it is ours to forget, and somebody can repeat it."""
        return record.replica == self._state.replica and not record.state.is_over and can_be_repeated(record)

    async def refuse(self, key: str, refusal: GatewayError, run: Run, *, told: bool) -> None:
        """A call did not run: as if it had never begun, unless nobody could be told. Raises StateUnavailable."""
        if told:
            await self._part(key, pack_refusal(refusal))
            self.ended(run, refusal)
        else:
            await self.settle(key, result_of(refusal), run)

    async def challenge(self, key: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; whoever asks from now on is told of this challenge, also after another.

        False and raises as `settle`.
        """
        try:
            return await self._challenge(key, challenge)
        except StateUnavailable:
            if self.backlog.hold(MAX_NOTE_BYTES, lambda: self._challenge(key, challenge)):
                return True
            raise

    async def _challenge(self, key: str, challenge: JsonObject) -> bool:
        record = await self._state.get(key)
        if record is None or not record.note:
            return False
        note = replace(note_of(record), challenge=challenge).packed()
        if len(note) > MAX_NOTE_BYTES:
            return await self._settle(key, UNTOLD)
        return await self._state.advance(key, NOT_OVER, CallState.AWAITING_USER, note=note)

    async def _part(self, key: str, outcome: bytes) -> None:
        """Lets a call be begun anew; whoever has joined it, or looks for its end, is told how this run of it ended."""
        try:
            await self._state.forget(key, outcome)
        except OutcomeTooLarge:
            await self._state.forget(key)

    async def aclose(self) -> None:
        await self.backlog.aclose()
