"""Ids of sessions, and of the events that a legacy caller resumes from: sealed, so that nothing is kept of a session.

Any replica with the same keys opens them. One that is not ours, or another caller's, is as good as none.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Protocol

from msgspec import Struct

from gateway.core import jsontext
from gateway.core.jsontext import encode
from gateway.core.model import Json
from gateway.core.ports import Caller
from gateway.protocols.mcp.wire import RESUMABLE

EVENT = b"event\n"  # before the owner in the data of an event's seal; no principal has a line end
MAX_SEALED = 1024  # characters


class Sealing(Protocol):
    """Seals what callers bring back, so that any replica with the same keys can read it."""

    def seal(self, text: bytes, associated_data: bytes) -> bytes: ...

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        """Raises ValueError for what is not ours, is for something else, or is too old."""
        ...


class Session(Struct, frozen=True):
    """What the id of a session says: nothing is kept of it, and no request needs one.

    `key` tells it from all others: ids of requests are unique within it. `opens_urls`: its caller shows users a URL
    that a tool asks them to open.
    """

    version: str
    opens_urls: bool
    key: str

    def request_key(self, id_: Json) -> str:
        """What tells one request of this session from all others of its caller's."""
        return f"{self.key}.{blake2b(encode(id_), digest_size=16).hexdigest()}"


def owner_of(caller: Caller) -> str:
    """Whose a session is: its principal's; if the credential names a user, of that user alone."""
    return caller.principal if caller.user_id is None else f"{caller.principal}\n{caller.user_id}"


class SessionIds:
    """Makes and reads the ids; for `owner` see `owner_of`."""

    def __init__(self, sealer: Sealing) -> None:
        self._sealer = sealer

    def new(self, version: str, opens_urls: bool, owner: str) -> bytes:
        """The id of a new session."""
        return self._seal([version, opens_urls], owner.encode())

    def read(self, id_: bytes, owner: str) -> Session | None:
        """The session of an id; None for one that is not ours or another caller's."""
        opened = self._open(id_, owner.encode())
        if opened is None:
            return None
        version, opens_urls = opened
        return Session(version, opens_urls, blake2b(id_, digest_size=16).hexdigest())

    def event(self, session: Session, id_: Json, owner: str) -> bytes:
        """The id of the event from which the answer to a request is resumed."""
        return self._seal([session.request_key(id_), id_], EVENT + owner.encode())

    def read_event(self, id_: bytes, owner: str) -> tuple[str, Json] | None:
        """The key and the id of the request of an event; None for one that is not ours or another caller's."""
        opened = self._open(id_, EVENT + owner.encode())
        return None if opened is None else (opened[0], opened[1])

    def _seal(self, content: Json, associated_data: bytes) -> bytes:
        return urlsafe_b64encode(self._sealer.seal(encode(content), associated_data)).rstrip(b"=")

    def _open(self, id_: bytes, associated_data: bytes) -> Json:
        if len(id_) > MAX_SEALED:
            return None
        try:
            sealed = b64decode(id_ + b"=" * (-len(id_) % 4), altchars=b"-_", validate=True)
            return jsontext.decode(self._sealer.open(sealed, associated_data))
        except ValueError:
            return None


def is_resumable(session: Session | None, version: str) -> bool:
    """Whether the answers of a caller may begin with an event to resume from; others take that for an answer."""
    return session is not None and version == session.version == RESUMABLE
