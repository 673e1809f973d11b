"""Authorization challenges as callers see them: the tool server's `check_url` behind a token of ours.

OXP 1.0, Tool Authorization Challenges. How a check authenticates is left open there, so the token is the credential:
sealed with AES-256-GCM, unguessable. It tells us alone what to ask how the challenge stands.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gateway import jsontext
from gateway.model import Json, JsonObject
from gateway.state.sealing import Sealer, Unsealable

# Tokens live so much longer than calls: one replica seals them by its clock, another opens them by its own. These may
# differ by an hour either way, as where a clock is set to the wrong time zone.
CLOCKS_DIFFER_S = 2 * 3600.0
MAX_CHECK_URL = 2048  # characters; the token, a third longer, must fit a request line
ASSOCIATED_DATA = b"challenge"
PATH = "/challenges/"


class ServerChallenge(Struct, frozen=True):
    """A challenge whose tool server is asked at `check_url`."""

    backend: str
    check_url: str


class CallChallenge(Struct, frozen=True):
    """A challenge that the call with this key waits for: the record of the call tells how it stands."""

    backend: str
    key: str


Challenge = ServerChallenge | CallChallenge


class Challenges:
    """Seals and opens challenge tokens. The first key seals, all open; without keys one is made for this process.

    A tool server's `check_url` is asked for `lifetime_s` (as long as a call may take) at least. `public_url` is where
    callers reach us, without a slash at its end.
    """

    def __init__(self, keys: Sequence[str], *, lifetime_s: float, clock: Callable[[], float]) -> None:
        self._sealer = Sealer(keys, "challenge")
        self.public_url = ""
        self._lifetime_s = lifetime_s
        self._clock = clock

    def public(self, missing: Mapping[str, Json], backend: str) -> JsonObject:
        """`missing_requirements` of a tool server with each `check_url` replaced by one of ours."""
        body = dict(missing)
        if "authorization" in body:
            body["authorization"] = [self._public(challenge, backend) for challenge in body["authorization"]]
        return body

    def public_for_call(self, challenge: JsonObject, backend: str, key: str) -> JsonObject:
        """The challenge that the call with this key waits for, with a `check_url` of ours."""
        return challenge | {"check_url": self._url(backend, key)}

    def _public(self, challenge: JsonObject, backend: str) -> JsonObject:
        check_url = challenge.get("check_url")
        if check_url is None:
            return challenge
        if len(check_url) > MAX_CHECK_URL or _is_key(check_url):
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": self._url(backend, check_url)}

    def _url(self, backend: str, asked: str) -> str:
        text = jsontext.encode([backend, asked, self._clock() + self._lifetime_s + CLOCKS_DIFFER_S])
        token = base64.urlsafe_b64encode(self._sealer.seal(text, ASSOCIATED_DATA)).rstrip(b"=").decode()
        return self.public_url + PATH + token

    def open(self, token: str) -> Challenge | None:
        """The challenge of a token; None for a token that is invalid or has expired."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            backend, asked, expires = jsontext.decode(self._sealer.open(sealed, ASSOCIATED_DATA))
        except (ValueError, Unsealable):
            return None
        if _is_key(asked):  # its record has an end of its own
            return CallChallenge(backend, asked)
        return ServerChallenge(backend, asked) if self._clock() < expires else None


def _is_key(asked: str) -> bool:
    """Whether a token holds the key of a call in place of a URL, which has a slash."""
    return "/" not in asked
