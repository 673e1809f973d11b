"""How calls end: each outcome is written down once, or held until it can be, and told to those who wait for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from msgspec import Struct
from msgspec.structs import replace

from gateway.errors import GatewayError
from gateway.kept.backlog import Backlog
from gateway.kept.standing import PREFIX, TOO_LARGE, UNTOLD, encode, note_of, pack, result_of, standing_of
from gateway.model import JsonObject, ToolResult
from gateway.state.port import MAX_NOTE_BYTES, CallState, OutcomeTooLarge, Record, State, StateUnavailable

MAX_PARTED = 1000  # endings of calls that were forgotten, some 2 KB each
PARTED_S = 5.0  # for those who had joined one: they hear of it at once, or with the next poll of the state
TOLD_S = 600.0  # for those who were told to look for the end of one
BEFORE_CONSENT = (CallState.REGISTERED, CallState.DISPATCHING, CallState.ACCEPTED)


class Parted(Struct, frozen=True):
    """How a call ended that was forgotten, `at` that time of the loop. No `record`: it was not held here."""

    at: float
    ending: ToolResult | GatewayError
    record: Record | None


class Endings:
    """Writes them into a state. Calls are named by their keys."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._backlog = Backlog(lambda: state.is_up)
        self._parted: OrderedDict[str, Parted] = OrderedDict()

    async def settle(self, key: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or nobody knows it. Raises StateUnavailable if it cannot wait."""
        try:
            if result.failure is None:  # what nearly all calls come to
                return await self._state.settle(key, encode((result.value, None, result.duration_ms)))  # as `pack` does
            return await self._settle(key, result)
        except OutcomeTooLarge:
            return await self.settle(key, TOO_LARGE)
        except StateUnavailable:
            if self._backlog.hold(len(pack(result)), lambda: self._settle(key, result)):
                return True
            raise

    async def settled(self, key: str) -> ToolResult | None:
        """How a call has ended that was ended by somebody else. Raises StateUnavailable."""
        standing = standing_of(await self._state.get(key))
        return standing if isinstance(standing, ToolResult) else None

    async def _settle(self, key: str, result: ToolResult) -> bool:
        if result.failure is not None and result.failure.can_retry:
            record = await self._state.get(key)
            if record is not None and self._can_forget(record):
                await self.part(key, result)  # pinned, the retry that it asks for could never succeed
                return True
        try:
            return await self._state.settle(key, pack(result))
        except OutcomeTooLarge:
            return await self._state.settle(key, pack(TOO_LARGE))

    def _can_forget(self, record: Record) -> bool:
        """Whether it is ours to forget, and somebody can repeat it."""
        ours = record.replica == self._state.replica and not record.state.is_over
        return ours and bool(record.note) and note_of(record).call_id != PREFIX + record.key

    async def refuse(self, key: str, refusal: GatewayError, *, keyed: bool) -> None:
        """A call did not run. One that its caller cannot repeat can at least be asked for. Raises StateUnavailable."""
        if keyed:
            await self.part(key, refusal)
        else:
            await self.settle(key, result_of(refusal))

    async def challenge(self, key: str, challenge: JsonObject) -> bool:
        """Has a call wait for its user; False and raises as `settle`."""
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
        return await self._state.advance(key, BEFORE_CONSENT, CallState.AWAITING_USER, note=note)

    async def part(self, key: str, ending: ToolResult | GatewayError) -> None:
        """Forgets a call, so that it may be begun once more.

        Whoever has joined it here is told how it ended, and so is, for a while, whoever looks for it here.
        """
        if len(self._parted) >= MAX_PARTED:
            self._parted.popitem(last=False)
        record = self._state.held(key)
        if record is not None:
            result = result_of(ending) if isinstance(ending, GatewayError) else ending
            record = replace(record, state=CallState.DONE, outcome=pack(result))
        self._parted[key] = Parted(asyncio.get_running_loop().time(), ending, record)
        await self._state.forget(key)

    def parting(self, key: str) -> ToolResult | GatewayError | None:
        """How a call ended that was forgotten a moment ago."""
        parted = self._since(key, PARTED_S)
        return None if parted is None else parted.ending

    def parted(self, key: str) -> Record | None:
        """The record of a call that was forgotten a while ago, as if its end had been written down."""
        parted = self._since(key, TOLD_S)
        return None if parted is None else parted.record

    def _since(self, key: str, seconds: float) -> Parted | None:
        parted = self._parted.get(key)
        return parted if parted is not None and asyncio.get_running_loop().time() - parted.at < seconds else None

    async def aclose(self) -> None:
        await self._backlog.aclose()
