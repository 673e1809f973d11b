"""What may be asked of a state: digests and notes in bounds, and calls that move forward."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain

from gateway.state.port import AWAITING_USER, DISPATCHING, MAX_NOTE_BYTES, CallState, NewCall

DIGEST = re.compile(r"[A-Za-z0-9_-]{1,64}")  # parts of Redis keys: nothing in them may mean anything there
MAX_DIGEST_CHARACTERS = 64
NOTE_TOO_LONG = f"a note has at most {MAX_NOTE_BYTES} bytes"
MAX_BACKEND_CHARACTERS = 200


def check_digest(*digests: str) -> None:
    # Of the usual ones this proves at half the cost what the expression would say of each.
    usual = (
        "".join(digests).encode().translate(None, b"-_").isalnum() and max(map(len, digests)) <= MAX_DIGEST_CHARACTERS
    )
    if not (usual and all(digests)) and not all(map(DIGEST.fullmatch, digests)):
        raise ValueError("a digest has 1 to 64 characters of A-Z, a-z, 0-9, _ and -")


def check_call(call: NewCall) -> None:
    """What a store that others share makes sure of; in a process of one's own nothing can come of it."""
    check_digest(call.key, call.fingerprint, call.principal)
    if call.older:
        check_digest(*chain(*call.older))
    if call.question is not None:
        check_digest(call.question)
    if call.state > DISPATCHING:
        raise ValueError("a call that begins is registered, or on its way to its tool server")
    if not 0 < len(call.backend) <= MAX_BACKEND_CHARACTERS:
        raise ValueError(f"a backend's name has 1 to {MAX_BACKEND_CHARACTERS} characters")
    check_note(call.note)


def check_note(note: bytes) -> None:
    if len(note) > MAX_NOTE_BYTES:
        raise ValueError(NOTE_TOO_LONG)


def check_move(from_states: Collection[CallState], to: CallState) -> None:
    """An outcome is what `settle` is for, and only a call that was not sent goes back, while it waits for its turn.

    One that waits for its user may be told anew what for.
    """
    furthest = AWAITING_USER if to is AWAITING_USER else DISPATCHING
    if to.is_over or not from_states or any(state > furthest for state in from_states):
        raise ValueError("a call moves forward, and only `settle` ends it")
