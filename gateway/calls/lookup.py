"""Which call a caller means by an id, as far as that caller may know of it."""

from __future__ import annotations

from gateway.calls.names import CallNames
from gateway.calls.status import PREFIX, metadata_of
from gateway.errors import ErrorCode, GatewayError
from gateway.ports import Caller
from gateway.state.port import Record, State


class CallLookup:
    """Finds records. Where credentials name users, nobody sees the call of another user of the same principal."""

    def __init__(self, state: State, names: CallNames) -> None:
        self._state = state
        self._names = names

    async def find(self, call_id: str, caller: Caller) -> Record | None:
        """The record of a call by our id, or by the caller's own if that call named no user but the credential's.

        Raises NOT_FOUND for one that has expired, StateUnavailable.
        """
        if not (call_id.isascii() and call_id.isprintable()):
            return None
        own = self._names.keys_of_id(caller.principal, call_id, caller.user_id)
        ours = (call_id.removeprefix(PREFIX),) if call_id.startswith(PREFIX) else ()
        owners, gone = self._names.owners(caller.principal), []
        for key in (*ours, *own):
            try:
                record = await self._state.get(key)
            except ValueError:  # not even shaped like a key
                continue
            if record is None:
                gone.append(key)
            elif record.note and record.principal in owners and self._is_for(record, caller):
                return record
        for key in gone:
            # Of one that has expired it is not known for whom it was, unless its key tells.
            if (caller.user_id is None or key in own) and await self._state.has_expired(key, owners):
                raise GatewayError(ErrorCode.NOT_FOUND, "The result of this call has expired.")
        return None

    def _is_for(self, record: Record, caller: Caller) -> bool:
        """Whether a call of the caller's principal is for the user that the caller's credential names, if any."""
        if caller.user_id is None:
            return True
        return metadata_of(record).user in self._names.users(caller.principal, caller.user_id)
