"""What a tool server does with one request, drawn from seeded dice: every shape of a reply, and every way to spoil it.

RFC 9112. A plan is bytes and moments only; what must come of it is the oracle's to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from random import Random

LONG_S = 20.0  # the limit of a call that must not meet it
SHORT_S = 0.02  # the limit of a call that must: its server says nothing more
MAX_BODY = 40_000  # bytes
HEAD_BYTES = 8192  # the pool's limit in these tests; heads here are well below or well above

TCHAR = b"!#$%&'*+-.^_`|~09azAZbcdefgh"
VCHAR = bytes(range(0x21, 0x7F)) + b"\x80\xc3\xbc\xff"


class Ending(Enum):
    """What follows the bytes of a reply."""

    STAY = auto()  # the next request
    FIN = auto()  # a clean end: under TLS with close_notify
    HALF = auto()  # a clean end of sending; reading goes on
    RESET = auto()
    CUT = auto()  # the end of the TCP stream, under TLS without close_notify
    STALL = auto()  # nothing, until the other side closes


class Tail(Enum):
    """What happens to a connection that idles, before the loop can notice."""

    NONE = auto()
    FIN = auto()
    HALF = auto()
    RESET = auto()
    SURPLUS = auto()  # a whole reply that nobody asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One request and what its server does. `reads`: so many bytes of the request come before the reply (None: all).

    `cuts` are the places, as fractions, where the bytes on the wire are cut into segments; `pause` is how many turns of
    the loop lie between two.
    """

    key: int
    method: bytes = b"POST"
    body: bytes = b""
    streamed: bool = False
    reads: int | None = None
    raw: bytes
    cuts: tuple[float, ...] = ()
    pause: int = 0
    ending: Ending = Ending.STAY
    torn: bool = False  # under TLS: the last record is not sent whole
    tail: Tail = Tail.NONE
    timeout_s: float = LONG_S
    wild: bool = False  # the bytes may be no HTTP
    huge: bool = False  # the head passes the limit
    cancel_after: int | None = None  # turns

    @property
    def target(self) -> bytes:
        return b"/call/%d" % self.key

    def request(self, authority: bytes) -> bytes:
        """The bytes the server must read, no more and no fewer."""
        start = b"%b %b HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\n" % (self.method, self.target, authority)
        length = b"content-length: %d\r\n" % len(self.body) if self.body or self.method == b"POST" else b""
        return start + length + b"\r\n" + self.body


def draw(dice: Random, key: int, *, calm: bool) -> Plan:
    """One plan. `calm`: others call at the same time, so that no byte may follow a reply in a segment of its own."""
    method, body = _draw_request(dice)
    raw, surplus, ending = _draw_reply(dice, key, method)
    wild = huge = False
    fate = dice.random()
    if fate < 0.25:
        raw, surplus = _damaged(dice, raw + surplus), b""
        wild, ending = True, dice.choice((Ending.FIN, Ending.FIN, Ending.HALF, Ending.RESET, Ending.STALL))
    elif fate < 0.45:
        raw, surplus = raw[: dice.randrange(len(raw) + 1)], b""
        ending = dice.choice((Ending.FIN, Ending.HALF, Ending.RESET, Ending.CUT, Ending.STALL))
    elif fate < 0.48 and not raw.startswith(b"HTTP/1.1 1"):
        raw, huge = raw.replace(b"\r\n", b"\r\nX-Long: " + b"a" * (3 * HEAD_BYTES) + b"\r\n", 1), True
    return Plan(
        key=key,
        method=method,
        body=body,
        streamed=dice.random() < 0.4,
        reads=dice.randrange(len(body) + 60) if dice.random() < 0.06 else None,
        raw=raw + surplus,
        cuts=_draw_cuts(dice) if not (calm and (surplus or wild)) else (),
        pause=dice.choice((0, 1, 1, 2)),
        ending=ending,
        torn=ending is Ending.CUT and dice.random() < 0.3,
        tail=dice.choice(tuple(Tail)) if dice.random() < 0.3 else Tail.NONE,
        timeout_s=SHORT_S if ending is Ending.STALL else LONG_S,
        wild=wild,
        huge=huge,
        cancel_after=dice.randrange(25) if dice.random() < 0.1 else None,
    )


def _draw_request(dice: Random) -> tuple[bytes, bytes]:
    method = dice.choice((b"POST", b"POST", b"POST", b"GET", b"HEAD"))
    if method != b"POST":
        return method, b""
    size = dice.choice((0, 1, 10, 500, 500, 5000, 200_000 if dice.random() < 0.1 else 20))
    return method, dice.randbytes(size)


def _draw_reply(dice: Random, key: int, method: bytes) -> tuple[bytes, bytes, Ending]:
    """A good reply, what follows it in the same segment, and how it ends."""
    status = dice.choice((200, 200, 200, 201, 204, 304, 400, 404, 500, 503, 599))
    version = b"HTTP/1.0" if dice.random() < 0.08 else b"HTTP/1.1"
    fields = [b"X-Key:%b%d" % (_blank(dice), key), *(_field(dice) for _ in range(dice.randint(0, 5)))]
    body = b"%d:" % key + dice.randbytes(dice.choice((0, 1, 20, 20, 300, 300, 9000)))
    if dice.random() < 0.03:
        body += bytes(MAX_BODY)  # too much
    ending = Ending.STAY
    bodiless = status in (204, 304) or method == b"HEAD"
    framing = dice.choice(("length", "length", "chunks", "chunks", "close"))
    if framing == "length":
        fields.append(_cased(dice, b"Content-Length") + b":" + _blank(dice) + b"%d" % len(body) + _blank(dice))
    elif framing == "chunks" and version == b"HTTP/1.1":
        coding = _cased(dice, b"Chunked") + dice.choice((b"", b"", b" ", b"  "))  # a tab there is refused
        fields.append(_cased(dice, b"Transfer-Encoding") + b":" + _blank(dice) + coding)
        body = _chunked(dice, body)
    else:
        ending = dice.choice((Ending.FIN, Ending.HALF, Ending.RESET, Ending.CUT)) if not bodiless else Ending.STAY
    if dice.random() < 0.12:
        fields.append(_cased(dice, b"Connection") + b": " + _cased(dice, dice.choice((b"close", b"keep-alive"))))
    dice.shuffle(fields)
    reason = dice.choice((b"", b" ", b" OK", b" Not  so\tgood", b" \xfcber"))
    head = b"%b %d%b\r\n%b\r\n\r\n" % (version, status, reason, b"\r\n".join(fields))
    raw = _interim(dice) + head + (b"" if bodiless else body)
    if ending is Ending.STAY and dice.random() < 0.15:
        ending = dice.choice((Ending.FIN, Ending.HALF, Ending.RESET, Ending.CUT))
    surplus = _surplus(dice) if ending is Ending.STAY and len(raw) < 12_000 and dice.random() < 0.12 else b""
    return raw, surplus, ending


def foreign() -> bytes:
    """A good reply that belongs to nobody."""
    return b"HTTP/1.1 200 OK\r\nX-Key: foreign\r\nContent-Length: 7\r\n\r\nforeign"


def _surplus(dice: Random) -> bytes:
    return dice.choice((foreign(), b"\r\n", b"\0", b"H", b"0\r\n\r\n", dice.randbytes(dice.randint(1, 40))))


def _interim(dice: Random) -> bytes:
    if dice.random() < 0.8:
        return b""
    lines = (b"100 Continue", b"102 Processing", b"103 Early Hints\r\nLink: </a>;rel=x\r\nContent-Length: 9", b"199")
    return b"".join(b"HTTP/1.1 %b\r\n\r\n" % dice.choice(lines) for _ in range(dice.randint(1, 3)))


def _chunked(dice: Random, body: bytes) -> bytes:
    out = []
    while body:
        size = min(len(body), dice.choice((1, 3, 17, 400, 20_000)))
        digits = b"%x" % size if dice.random() < 0.5 else b"%X" % size
        out.append(b"0" * dice.choice((0, 0, 0, 3)) + digits + _extension(dice) + b"\r\n" + body[:size] + b"\r\n")
        body = body[size:]
    out.append(b"0" * dice.randint(1, 3) + _extension(dice) + b"\r\n")
    out += [_field(dice) + b"\r\n" for _ in range(dice.choice((0, 0, 0, 1, 3)))]
    return b"".join(out) + b"\r\n"


def _extension(dice: Random) -> bytes:
    return dice.choice((b"", b"", b"", b";a=b", b";a", b';a="q;x y"', b";a=b;c=d"))


def _field(dice: Random) -> bytes:
    name = b"X-" + bytes(dice.choice(TCHAR) for _ in range(dice.randint(1, 12)))
    words = [bytes(dice.choice(VCHAR) for _ in range(dice.randint(1, 15))) for _ in range(dice.randint(0, 3))]
    return _cased(dice, name) + b":" + _blank(dice) + dice.choice((b" ", b"\t", b"  ")).join(words) + _blank(dice)


def _cased(dice: Random, text: bytes) -> bytes:
    style = dice.randrange(4)
    if style == 3:
        return bytes(ord(chr(one).swapcase()) if dice.random() < 0.5 and one < 128 else one for one in text)
    return (text, text.lower(), text.upper())[style]


def _blank(dice: Random) -> bytes:
    return dice.choice((b"", b" ", b" ", b" ", b"\t", b"  \t "))


def _draw_cuts(dice: Random) -> tuple[float, ...]:
    """Mostly a few places; now and then so many that every byte of a short reply travels alone."""
    count = dice.choice((0, 0, 1, 1, 2, 5, 400 if dice.random() < 0.15 else 3))
    return tuple(sorted(dice.random() for _ in range(count)))


PIECES = (
    *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b";", b"0", b"0\r\n\r\n", b"-1", b"+", b"f", b","),
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 \r\n\r\n", b"HTTP/1.1 101 \r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"HTTP/2.0 "),
    *(
        b"Connection: close\r\n",
        b"Upgrade: h2c\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Trailer: x\r\n",
        b"\x16\x03\x01\x02",
        b"\x80",
    ),
)


def _damaged(dice: Random, raw: bytes) -> bytes:
    """The reply with a few changes, mostly in its head, or no reply at all."""
    if dice.random() < 0.1:
        return dice.choice((b"", b"HTTP/1.1 200")) + dice.randbytes(dice.randint(1, 100))
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(raw) + 1) if dice.random() < 0.4 else dice.randrange(min(len(raw), 200) + 1)
        if dice.random() < 0.4 and (line := raw.find(b"\n", at)) >= 0:
            at = line + 1  # where lines begin, more can go wrong
        piece = dice.choice((dice.choice(PIECES), dice.choice(PIECES), dice.randbytes(1), raw[:at][-30:], b""))
        raw = raw[:at] + piece + raw[at + dice.choice((0, 0, 1, 1, 2, 20)) :]
    return raw
