"""What our own server offers an application beyond ASGI, which every other server leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.wire import Headers

SERVED = "toolgate.served"  # the extension of the scope: a `ServerRequest`


class ServerRequest(Protocol):
    """A request as the server has it, for applications that know this server.

    `fields` are the headers by lower-case name, the last of each. `answered` is the status that the server has answered
    with in the application's place, once it has; 0 is none: it was cut off when the server ended.
    """

    fields: Mapping[bytes, bytes]
    answered: int | None
    holder: str  # the caller for whom its body is held in memory, once the application knows it

    def take_body(self) -> bytes | None:
        """The body, once, if all of it is there; None leaves it to be received."""
        ...

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Answers at once, without messages; false if that cannot be now. Only for those who hold the server's `send`.

        `status` is one that has a body. Content-Length is added, and no other header that frames a message or speaks of
        the connection may be given.
        """
        ...
