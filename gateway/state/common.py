"""What both implementations share: the bounds of what they accept, and the waiters of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import chain

from gateway.state.port import ACCEPTED, AWAITING_USER, DISPATCHING, MAX_NOTE_BYTES, CallState, NewCall, Record

MAX_DIGEST_CHARACTERS = 64
NO_DIGEST = "a digest has 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
DASHES_AS_DIGITS = bytes.maketrans(b"-_", b"00")
MAX_BACKEND_CHARACTERS = 200

Waiter = asyncio.Future[Record | None]


def check_digest(*digests: str) -> None:
    """Refuses characters that mean something in a Redis key. Raises ValueError."""
    characters = "".join(digests).encode().translate(DASHES_AS_DIGITS)  # half the cost of a regular expression
    if not (characters.isalnum() and all(digests) and max(map(len, digests)) <= MAX_DIGEST_CHARACTERS):
        raise ValueError(NO_DIGEST)


def check_call(call: NewCall) -> None:
    """Checks a call before it goes to Redis, where it could harm other calls. Raises ValueError."""
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
    """Refuses a note that is too long. Raises ValueError."""
    if len(note) > MAX_NOTE_BYTES:
        raise ValueError(f"a note has at most {MAX_NOTE_BYTES} bytes")


def check_move(from_states: Collection[CallState], to: CallState) -> None:
    """Refuses moves backwards, except of a call that was not sent, and moves to an end. Raises ValueError.

    A call that waits for its user may be moved there again, with another challenge in its note.
    """
    furthest = AWAITING_USER if to is AWAITING_USER else DISPATCHING
    if to.is_over or not from_states or any(state > furthest for state in from_states):
        raise ValueError("a call moves forward, and only `settle` ends it")


class Waiters(dict[str, set[Waiter]]):
    """The waiters of this process, by the key of their call."""

    def add(self, key: str) -> Waiter:
        """A future that gets the record once the call is over or waits for its user, or None once it is gone.

        `remove` it then. A context manager would double the memory of each waiter, and thousands may wait for hours.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self.setdefault(key, set()).add(waiter)
        return waiter

    def remove(self, key: str, waiter: Waiter) -> None:
        """Forgets a future that `add` has made."""
        waiters = self.get(key, set())
        waiters.discard(waiter)
        if not waiters:
            self.pop(key, None)

    def notify(self, key: str, record: Record | None) -> None:
        """Wakes the waiters of a call with its record, unless it still runs."""
        if record is None or record.state > ACCEPTED:
            for waiter in self.get(key, ()):
                if not waiter.done():
                    waiter.set_result(record)
