"""Seals what leaves the process, and makes digests that name it; both with the operator's keys.

AES-256-GCM and HMAC-SHA256, with keys that are derived for each purpose (HKDF-SHA256, RFC 5869). The operator's first
key seals and digests, and all of them open, so that keys can be changed while the gateway runs.
"""

from __future__ import annotations

import hmac
import os
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MIN_KEY_CHARACTERS = 32
KEY_ID_BYTES = 4  # names the key that sealed; two keys that share one are both tried
NONCE_BYTES = 12
NONCES_PER_READ = 256
NONCES = Struct(f"{NONCE_BYTES}s" * NONCES_PER_READ)
EXPIRY = Struct(">d")  # seconds since 1970
URL_SAFE = bytes.maketrans(b"+/", b"-_")  # RFC 4648, section 5
LENGTH_BYTES = 8  # before each part of a digest, so that no two lists of parts are the same bytes


class Unsealable(ValueError):  # noqa: N818 - says what the bytes are
    """Bytes that were sealed with none of the keys, or with other associated data, or that were damaged since."""


class Sealer:
    """Seals and opens for one `purpose`. Without `keys` it makes one that only this process knows."""

    def __init__(self, keys: Sequence[str], purpose: str) -> None:
        self._ciphers = [
            (
                _derive(secret, f"toolgate {purpose} id", KEY_ID_BYTES),
                AESGCM(_derive(secret, f"toolgate {purpose}", 32)),
            )
            for secret in _secrets(keys)
        ]
        # Nonces must not be copied into another process: two texts under one nonce can be read. Workers start afresh.
        self._nonces: list[bytes] = []

    def seal(self, text: bytes, associated_data: bytes) -> bytes:
        """Seals a text so that it opens only with the same data: the text of one record is of no use in another."""
        if not self._nonces:  # many at once, because a system call for each costs as much as the sealing
            self._nonces.extend(NONCES.unpack(os.urandom(NONCES.size)))
        nonce = self._nonces.pop()
        key_id, cipher = self._ciphers[0]
        return key_id + nonce + cipher.encrypt(nonce, text, associated_data)

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        """The text. Raises Unsealable."""
        key_id, nonce = sealed[:KEY_ID_BYTES], sealed[KEY_ID_BYTES : KEY_ID_BYTES + NONCE_BYTES]
        for known_id, cipher in self._ciphers:
            if known_id != key_id:
                continue
            try:
                return cipher.decrypt(nonce, sealed[KEY_ID_BYTES + NONCE_BYTES :], associated_data)
            except (InvalidTag, ValueError):  # ValueError: a nonce cut short
                continue
        raise Unsealable


class TimedSealer:
    """Seals texts that can be opened for `lifetime_s`. `clock` gives seconds since 1970."""

    def __init__(self, sealer: Sealer, lifetime_s: float, clock: Callable[[], float]) -> None:
        self._sealer = sealer
        self._lifetime_s = lifetime_s
        self._clock = clock

    def seal(self, text: bytes, associated_data: bytes) -> bytes:
        """As `Sealer.seal`."""
        return self._sealer.seal(EXPIRY.pack(self._clock() + self._lifetime_s) + text, associated_data)

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        """The text. Raises Unsealable, also for one that is too old."""
        text = self._sealer.open(sealed, associated_data)
        (expires,) = EXPIRY.unpack_from(text)
        if expires <= self._clock():
            raise Unsealable
        return text[EXPIRY.size :]


class Digester:
    """Makes digests that cannot be guessed or reversed."""

    def __init__(self, keys: Sequence[str], purpose: str) -> None:
        self._keys = [_derive(secret, f"toolgate {purpose} digest", 32) for secret in _secrets(keys)]

    def digest(self, *parts: str | bytes) -> str:
        """43 characters of A-Z, a-z, 0-9, _ and -."""
        return self.digests(*parts)[0]

    def digests(self, *parts: str | bytes) -> tuple[str, ...]:
        """The digest under every key, the current one first."""
        # `surrogatepass`: a header that is no UTF-8 has a digest like any other.
        encoded = [part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts]
        framed = b"".join([len(part).to_bytes(LENGTH_BYTES, "big") + part for part in encoded])
        macs = [hmac.digest(key, framed, "sha256") for key in self._keys]
        return tuple([b2a_base64(mac, newline=False).translate(URL_SAFE, b"=").decode() for mac in macs])


def hashers(keys: Iterable[str], purpose: bytes, size_bytes: int) -> list[blake2b]:
    """Keyed BLAKE2b (RFC 7693) under each key, for texts that are digested often: a sixth of the cost of an HMAC.

    The key fills the first block. With the `purpose` behind it, that block is digested here, once, and a text costs a
    tenth.
    """
    return [blake2b(purpose, key=key.encode(), digest_size=size_bytes) for key in keys]


def hashed(hasher: blake2b, text: bytes) -> str:
    """The digest of a text in hexadecimal digits."""
    digest = hasher.copy()
    digest.update(text)
    return digest.hexdigest()


def _secrets(keys: Sequence[str]) -> list[bytes]:
    if any(len(key) < MIN_KEY_CHARACTERS for key in keys):
        raise ValueError(f"a key has at least {MIN_KEY_CHARACTERS} characters")
    return [key.encode() for key in keys] or [os.urandom(32)]


def _derive(secret: bytes, info: str, length: int) -> bytes:
    return HKDF(SHA256(), length, salt=None, info=info.encode()).derive(secret)
