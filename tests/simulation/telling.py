"""Tells what servers do, for people who look for what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.script import unpack

QUIET = ("beat", "states", "restored", "restoring")
QUIET_REPLIES = ("claimed []",)
STATES = {b"1": "registered", b"2": "dispatching", b"3": "accepted", b"4": "awaiting", b"5": "unknown", b"6": "done"}


def told_operations(packed: bytes, reply: Any, calls: Mapping[str, str]) -> Iterator[str]:
    """A line for each operation of a batch that says something."""
    replies = reply if isinstance(reply, list) else []
    for operation, answer in zip(unpack(packed), replies, strict=False):
        name = operation[0].decode()
        told = _told(answer, calls)
        if name not in QUIET and told not in QUIET_REPLIES:
            subject = operation[1] if len(operation) > 1 else b""
            yield f"{name} {_told(subject, calls)} -> {told}"


def _told(value: Any, calls: Mapping[str, str]) -> str:
    match value:
        case bytes():
            text = value.decode(errors="replace")
            return calls.get(text, text if text.isprintable() else "...")
        case [b"record" | b"exists" | b"created" as kind, key, [_, _, _, state, _, replica, *_]]:
            return f"{kind.decode()} {_told(key, calls)} {STATES.get(state, state)} of {replica.decode()[:4]}"
        case list():
            return " ".join(_told(each, calls) for each in value) or "[]"
    return str(value)
