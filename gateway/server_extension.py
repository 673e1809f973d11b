"""What our own server offers an application beyond ASGI, which every other server leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.wire import Headers

# Extensions of the scope: a `ServerRequest`, and its `answer`. Middleware that changes the messages of an application
# has to remove the latter: an answer given through it sends no message.
SERVED = "toolgate.served"
ANSWER = "toolgate.answer"


class ServerRequest(Protocol):
    """A request as the server has it, for applications that know this server.

    `fields` are the headers by lower-case name, the last of each. `answered` is the status that the server has answered
    with in the application's place, once it has; 0 is none: it was cut off when the server ended.
    """

    fields: Mapping[bytes, bytes]
    answered: int | None
    holder: str  # for whom its body is held in memory; the application sets it once it knows the caller

    def take_body(self) -> bytes | None:
        """The body, once, if all of it is there; None leaves it to be received."""
        ...

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Answers at once, without messages; false if that cannot be now.

        `status` is one that has a body. Content-Length is added, and no other header that frames a message or speaks of
        the connection may be given.
        """
        ...
