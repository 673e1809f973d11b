"""A second opinion on a reply: h11 reads the same bytes and says whether they are one, and what it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

import h11

PAST_ANY = 2**20  # bytes of head or chunk line h11 takes; more than any plan has


class State(Enum):
    """How far a reply got."""

    COMPLETE = auto()
    INCOMPLETE = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`body` is what has come of it even if the reply is not complete; `reusable`: another request may follow."""

    state: State
    status: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    reusable: bool = False
    until_closed: bool = False


def judge(method: bytes, raw: bytes, *, ended: bool) -> Verdict:
    """Reads `raw` as the reply to a request of that method; `ended`: the stream has a clean end after it."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=PAST_ANY)
    connection.send(h11.Request(method=method, target=b"/", headers=[(b"host", b"x")]))
    connection.send(h11.EndOfMessage())
    if raw:
        connection.receive_data(raw)  # nothing would be the end
    status, at_end, stays = 0, False, False
    headers: list[tuple[bytes, bytes]] = []
    body: list[bytes] = []
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            state = State.INCOMPLETE if at_end else State.REFUSED
            return Verdict(state, status, tuple(headers), b"".join(body))
        if event is h11.NEED_DATA and ended and not at_end:
            at_end = True
            connection.receive_data(b"")
        elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
            return Verdict(State.INCOMPLETE, status, tuple(headers), b"".join(body))
        elif isinstance(event, h11.Response):
            status, headers = event.status_code, [(name, value) for name, value in event.headers]
            # h11 ends every connection of HTTP/1.0, even one that is asked to stay (RFC 9112, 9.3).
            stays = event.http_version == b"1.0" and (b"connection", b"keep-alive") in [
                (k, v.lower()) for k, v in headers
            ]
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            surplus = connection.trailing_data[0].strip(b"\r\n")  # line ends can begin no reply, and do no harm
            reusable = (connection.their_state is h11.DONE or stays) and not surplus and not at_end
            return Verdict(State.COMPLETE, status, tuple(headers), b"".join(body), reusable, at_end)
        elif event is h11.PAUSED:
            return Verdict(State.REFUSED)


def forgiving(raw: bytes) -> bytes:
    """The same bytes without what llhttp forgives and h11 does not: blank lines before a reply, odd reason phrases."""
    raw = re.sub(rb"(\A|\r\n\r\n)[\r\n]+(?=HTTP/)", rb"\1", raw)
    return re.sub(rb"(?m)^(HTTP/1\.[01] \d{3}) [^\r\n]*(?=\r\n)", rb"\1", raw)
