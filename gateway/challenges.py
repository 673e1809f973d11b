"""Authorization challenges as callers see them: the tool server's `check_url` behind a token of ours.

OXP 1.0, Tool Authorization Challenges. How a check authenticates is left open there, so the token is the credential:
sealed with AES-256-GCM, unguessable, short-lived. It says to us alone which backend and which URL to ask.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway import jsontext
from gateway.model import Json, JsonObject

TOKEN_S = 3600.0  # an hour to get through a provider's pages
NONCE_BYTES = 12
MAX_CHECK_URL = 2048  # characters; the token, a third longer, must fit a request line
PURPOSE = b"toolgate challenge"
PATH = "/challenges/"


class Challenges:
    """Seals and opens challenge tokens. The first key seals, all open; without keys one is made for this process.

    `public_url` is where callers reach us, without a slash at its end.
    """

    def __init__(self, keys: Sequence[str], *, clock: Callable[[], float], public_url: str = "") -> None:
        secrets = [key.encode() for key in keys] or [os.urandom(32)]
        self._ciphers = [AESGCM(HKDF(SHA256(), 32, salt=None, info=PURPOSE).derive(secret)) for secret in secrets]
        self.public_url = public_url
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
        text = jsontext.encode([backend, check_url, self._clock() + TOKEN_S])
        nonce = os.urandom(NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + self._ciphers[0].encrypt(nonce, text, PURPOSE)).rstrip(b"=").decode()

    def open(self, token: str) -> tuple[str, str] | None:
        """The backend's name and its `check_url`; None for a token that is forged, damaged or expired."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        for cipher in self._ciphers:
            try:
                text = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], PURPOSE)
            except (InvalidTag, ValueError):
                continue
            backend, check_url, expires = jsontext.decode(text)
            return (backend, check_url) if self._clock() < expires else None
        return None
