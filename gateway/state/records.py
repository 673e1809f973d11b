"""Encodes records for the script, with notes and outcomes sealed for their own record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from gateway.core.model import CallKey
from gateway.core.sealing import Sealer, Unsealable
from gateway.state.port import (
    DISPATCHING,
    REGISTERED,
    BeginResult,
    CallState,
    Capacity,
    Conflict,
    Created,
    Exists,
    Expired,
    Full,
    NewCall,
    Record,
)

log = logging.getLogger("gateway.state")

MAX_DIGITS = 19  # of the numbers in a record; the largest are milliseconds


class Records:
    """Encodes what goes to the script and decodes what comes back."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def note(self, key: str, note: bytes) -> Raw:
        """A note as the script takes it, sealed for its record; an empty one stays empty."""
        return _packed(self._sealer.seal(note, f"{key}/note".encode()) if note else b"")

    def outcome(self, key: str, outcome: bytes) -> Raw:
        """An outcome as the script takes it, sealed for its record."""
        return _packed(self._sealer.seal(outcome, f"{key}/outcome".encode()))

    def begin(self, call: NewCall, capacity: Capacity | None) -> tuple[Any, ...]:
        """The arguments of the operation `begin`. All calls of its principal may take what is free."""
        older = [(key, fingerprint, self.note(key, call.note)) for key, fingerprint in call.older]
        allowed = None if capacity is None else capacity.free_bytes
        joined = call.question if call.joins else None  # the question whose waiting call this one would join
        return *self._stored(call), older, joined or "", False if allowed is None else allowed, call.rejoins

    def restore(self, record: Record) -> tuple[Any, ...]:
        """The arguments of the operation `restore`."""
        return *self._stored(record), int(record.created_s * 1000)

    def _stored(self, call: NewCall | Record) -> tuple[Any, ...]:
        return (
            call.key,
            call.fingerprint,
            call.principal,
            call.backend,
            int(call.state),
            self.note(call.key, call.note),
            "1" if call.idempotent else "0",
            call.question or "",
        )

    def take(self, call: NewCall, reply: Sequence[Any], replica: str) -> tuple[Any, ...] | None:
        """The arguments of the operation `take`, if `begin` has found a call of this replica's that may be unsent."""
        if reply[0] != b"exists":
            return None
        _, key, (_, _, _, state, note, holder, *_) = reply
        if _text(holder) != replica or _number(state) not in (REGISTERED, DISPATCHING):
            return None
        return (key.decode(), _packed(note or b""), self.note(key.decode(), call.note), int(call.state))

    def begin_result(self, reply: Sequence[Any], call: NewCall, replica: str) -> BeginResult:
        """Reads the reply to the operation `begin` (or `take`) of this replica."""
        match reply:
            case [b"new", created_ms]:
                return Created(call, replica, created_ms / 1000)
            case [b"new", created_ms, quota]:
                return Created(call, replica, created_ms / 1000, scarce=quota.decode())
            case [b"created", key, row]:
                existing = self.read(key, row)
                return Created(call, replica, existing.created_s, existing)
            case [b"exists", key, row]:
                return Exists(self.read(key, row))
            case [b"conflict"]:
                return Conflict()
            case [b"expired"]:
                return Expired()
            case [_, wait_ms, quota]:
                return Full(wait_ms / 1000, quota.decode())
            case _:
                raise AssertionError(reply[0])

    def read(self, key: bytes, row: list[bytes | None]) -> Record:
        """A record from its fields. One that cannot be opened or read counts as UNKNOWN."""
        fingerprint, principal, backend, number, note, replica, idempotent, question, created, outcome = row
        name = key.decode()
        try:
            state = _state(number, outcome)
            note = self._sealer.open(note, f"{name}/note".encode()) if note else b""
            outcome = None if outcome is None else self._sealer.open(outcome, f"{name}/outcome".encode())
        except (Unsealable, ValueError):
            log.warning("a stored call cannot be opened; it counts as unknown", extra={"backend": _text(backend)})
            state, note, outcome = CallState.UNKNOWN, b"", None
        return Record(
            key=CallKey(name),
            fingerprint=_text(fingerprint),
            principal=_text(principal),
            backend=_text(backend),
            state=state,
            replica=_text(replica),
            created_s=_number(created) / 1000,
            note=note,
            question=_text(question) or None,
            idempotent=idempotent == b"1",
            outcome=outcome,
        )


def _packed(data: bytes) -> Raw:
    """Bytes as MessagePack's `str 32`: Redis's own reader (cmsgpack 0.4.0) does not know the type for binary data."""
    return Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


def _text(field: bytes | None) -> str:
    return (field or b"").decode("utf-8", "replace")


def _number(field: bytes | None) -> int:
    return int(field) if field and field.isdigit() and len(field) <= MAX_DIGITS else 0


def _state(field: bytes | None, outcome: bytes | None) -> CallState:
    state = CallState(_number(field))
    if (state is CallState.DONE) != (outcome is not None):
        raise ValueError("a call has an outcome when it is done, and only then")
    return state
