"""What memory holds of calls and of those who made them: changed in place, and never given away."""

from __future__ import annotations

from msgspec import Struct

from gateway.state.port import CallState, NewCall, Record


class Usage:
    """What one principal has here."""

    __slots__ = ("pending", "records")  # no Struct, because counting is a third of the price here

    def __init__(self) -> None:
        self.pending = self.records = 0


NO_USAGE = Usage()  # never changed


class HeldCall(Struct, eq=False, gc=False):
    """A call as it is changed in place; others are given records of it, which never change."""

    new: NewCall
    usage: Usage
    created_s: float
    expires_s: float
    state: CallState
    note: bytes
    outcome: bytes | None = None

    def record(self, replica: str) -> Record:
        """The call as it stands, for others."""
        new = self.new
        return Record(
            key=new.key,
            fingerprint=new.fingerprint,
            principal=new.principal,
            backend=new.backend,
            state=self.state,
            replica=replica,
            created_s=self.created_s,
            note=self.note,
            question=new.question,
            idempotent=new.idempotent,
            outcome=self.outcome,
        )
