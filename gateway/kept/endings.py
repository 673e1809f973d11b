"""How calls end: each outcome is written down once, or held until it can be, and told to those who wait for it."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import (
    TOO_LARGE,
    UNTOLD,
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
from gateway.state.port import MAX_NOTE_BYTES, CallState, OutcomeTooLarge, Record, State, StateUnavailable

NOT_OVER = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED, CallState.AWAITING_USER)


class Endings:
    """Writes them into a state. Calls are named by their keys."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._backlog = Backlog(lambda: state.is_up)

    async def settle(self, key: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or nobody knows it. Raises StateUnavailable if it cannot wait."""
        try:
            if result.failure is None:  # what nearly all calls come to
                return await self._state.settle(key, encode((result.value, None, result.duration_ms)))  # as `pack` does
            return await self._settle(key, result)
        except OutcomeTooLarge:
            return await self.settle(key, TOO_LARGE)
        except StateUnavailable:
            packed = pack(result)
            if self._backlog.hold(len(packed), partial(self._settle_later, key, packed)):
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

    async def _settle(self, key: str, result: ToolResult) -> bool:
        if result.failure is not None and result.failure.can_retry:
            record = await self._state.get(key)
            if record is not None and self._can_forget(record):
                await self._part(key, pack(result))  # pinned, the retry that it asks for could never succeed
                return True
        try:
            return await self._state.settle(key, pack(result))
        except OutcomeTooLarge:
            return await self._state.settle(key, pack(TOO_LARGE))

    def _can_forget(self, record: Record) -> bool:
        """Whether it is ours to forget, and somebody can repeat it."""
        return record.replica == self._state.replica and not record.state.is_over and can_be_repeated(record)

    async def refuse(self, key: str, refusal: GatewayError, *, told: bool) -> None:
        """A call did not run: as if it had never begun, unless nobody could be told. Raises StateUnavailable."""
        if told:
            await self._part(key, pack_refusal(refusal))
        else:
            await self.settle(key, result_of(refusal))

    async def challenge(self, key: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; whoever asks from now on is told of this challenge, also after another.

        False and raises as `settle`.
        """
        try:
            return await self._challenge(key, challenge)
        except StateUnavailable:
            if self._backlog.hold(MAX_NOTE_BYTES, lambda: self._challenge(key, challenge)):
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
        await self._backlog.aclose()
