"""Cookies of the console on the listener for callers: a login that has begun, and the session that it leads to.

Both are sealed, so that a page of another site, or a person, can neither read nor make one; and any replica with the
same keys opens them. Neither holds a token. A session cannot be withdrawn before its end: there is no list of them.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from gateway.core.sealing import Sealer, TimedSealer, Unsealable

ATTEMPT_S = 600.0  # for a person to log in at the issuer, with a password to be found and a second factor
MAX_COOKIE = 4096  # characters; browsers store no longer ones
RANDOM_BYTES = 32  # RFC 7636, section 7.1
SEPARATOR = "\n"

CookieHeader = tuple[str, str]


class LoginAttempt(NamedTuple):
    """A login that has begun: what the issuer has to send back, and what proves that the code is ours."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def begin(cls) -> LoginAttempt:
        """One of random texts."""
        return cls(*(secrets.token_urlsafe(RANDOM_BYTES) for _ in range(3)))

    @property
    def challenge(self) -> str:
        """What the issuer is told of the verifier (RFC 7636, section 4.2, S256)."""
        return _text(sha256(self.verifier.encode()).digest())


class Cookies:
    """Makes and opens the cookies of one configuration.

    `is_secure`: people come by https, and the cookies have the prefix with which a browser takes them only from this
    very host by https (RFC 6265bis, section 4.1.3.2). `meant_for` are texts of the configuration for which a session
    holds: under others, it has ended. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        sealer: Sealer,
        *,
        is_secure: bool,
        session_s: float,
        meant_for: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        prefix = "__Host-" if is_secure else ""
        self.session_name = f"{prefix}toolgate-console"
        self.attempt_name = f"{prefix}toolgate-console-login"
        # The prefix demands the path of the whole host.
        self._attributes = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_secure else "")
        self._attempts = TimedSealer(sealer, ATTEMPT_S, clock)
        self._sessions = TimedSealer(sealer, session_s, clock)
        self._session_s = session_s
        scope = SEPARATOR.join(_text(text.encode()) for text in meant_for).encode()
        self._attempt_data, self._session_data = b"attempt\n" + scope, b"session\n" + scope

    def begin(self, attempt: LoginAttempt) -> CookieHeader:
        """Sets the cookie of a login that begins."""
        sealed = self._attempts.seal(SEPARATOR.join(attempt).encode(), self._attempt_data)
        return self._set(self.attempt_name, _text(sealed), ATTEMPT_S)

    def attempt(self, cookie: str | None) -> LoginAttempt | None:
        """The login that a cookie says has begun; None without one that is ours and not too old."""
        text = _opened(self._attempts, cookie, self._attempt_data)
        return None if text is None else LoginAttempt(*text.split(SEPARATOR))

    def open_session(self, principal: str) -> CookieHeader:
        """Sets the cookie of a session that begins now."""
        sealed = self._sessions.seal(principal.encode(), self._session_data)
        return self._set(self.session_name, _text(sealed), self._session_s)

    def principal(self, cookie: str | None) -> str | None:
        """Whose session a cookie is; None without one that is ours and lasts."""
        return _opened(self._sessions, cookie, self._session_data)

    def forget(self, name: str) -> CookieHeader:
        """Deletes a cookie."""
        return self._set(name, "", 0)

    def _set(self, name: str, value: str, max_age_s: float) -> CookieHeader:
        return "set-cookie", f"{name}={value}; Max-Age={int(max_age_s)}{self._attributes}"


def _opened(sealer: TimedSealer, cookie: str | None, associated_data: bytes) -> str | None:
    if cookie is None or len(cookie) > MAX_COOKIE:
        return None
    try:
        sealed = urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        return sealer.open(sealed, associated_data).decode()
    except (ValueError, Unsealable):  # binascii.Error and UnicodeError are ValueErrors, and so is Unsealable
        return None


def _text(data: bytes) -> str:
    """Base64url without padding (RFC 7515, section 2)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()
