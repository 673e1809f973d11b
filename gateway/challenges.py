"""Authorization challenges as callers see them: the tool server's `check_url` behind a token of ours.

OXP 1.0, Tool Authorization Challenges. How a check authenticates is left open there, so the token is the credential:
sealed with AES-256-GCM, unguessable. It says to us alone which backend and which URL to ask, or which call of ours
waits for its user; in that case the record of the call tells, and the token has no end of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

from gateway import jsontext
from gateway.model import Json, JsonObject
from gateway.state.sealing import Sealer, Unsealable

# Tokens live so much longer than calls: one replica seals them by its clock, another opens them by its own. These may
# differ by an hour either way, as where a clock is set to the wrong time zone.
CLOCKS_DIFFER_S = 2 * 3600.0
MAX_CHECK_URL = 2048  # characters; the token, a third longer, must fit a request line
PLACE = b"challenge"
PATH = "/challenges/"


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

    def _public(self, challenge: JsonObject, backend: str) -> JsonObject:
        check_url = challenge.get("check_url")
        if check_url is None:
            return challenge
        if len(check_url) > MAX_CHECK_URL:
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": self.public_url + PATH + self._seal(backend, check_url)}

    def _seal(self, backend: str, check_url: str) -> str:
        text = jsontext.encode([backend, check_url, self._clock() + self._lifetime_s + CLOCKS_DIFFER_S])
        return base64.urlsafe_b64encode(self._sealer.seal(text, PLACE)).rstrip(b"=").decode()

    def open(self, token: str) -> tuple[str, str] | None:
        """The backend's name and its `check_url`, or the key of a call; None for a token that is no good (any more)."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            backend, check_url, expires = jsontext.decode(self._sealer.open(sealed, PLACE))
        except (ValueError, Unsealable):
            return None
        return (backend, check_url) if is_call(check_url) or self._clock() < expires else None


def is_call(check_url: str) -> bool:
    """Whether this is no URL but the key of a call, whose record tells how the consent it waits for stands."""
    return "/" not in check_url
