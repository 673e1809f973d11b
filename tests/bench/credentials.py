"""What callers show: tokens of every kind that is measured, with the gateway's section on who may call."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

Config = Mapping[str, Any]  # of the gateway, as in its file

CALLERS = 8  # principals that share the load
FORGERIES = 500  # unsigned tokens, all different, so that a cache of refused ones does not help
TOKEN_LIFE_S = 3600  # longer than any run
ISSUER, AUDIENCE = "https://issuer.bench", "bench"
RSA_BITS = 2048  # the usual size
SECRET_BYTES = 32
BATCHES, BATCH = 5, 200  # of signatures that are checked to see what one costs: a tenth of a second in all


@dataclass(frozen=True, slots=True)
class Credentials:
    """`bearers` are what callers show, by turns; `good` is a token that is let in; `auth` is the gateway's section."""

    bearers: Sequence[str | None]
    good: str
    auth: Config


def hs256(callers: int = CALLERS) -> Credentials:
    """Tokens signed with a secret that the gateway has too."""
    secret = new_secret()
    issuer = {"issuer": ISSUER, "audience": [AUDIENCE], "secret": secret}
    bearers = [jwt.encode(each, secret, algorithm="HS256") for each in _claims(callers)]
    return Credentials(bearers, bearers[0], {"jwt": [issuer]})


def rs256() -> Credentials:
    """Tokens signed with a key of which the gateway has the public half."""
    bearers = _signed(CALLERS)
    return Credentials(bearers, bearers[0], _auth())


def absent() -> Credentials:
    """No token at all, where one is asked for."""
    return Credentials([None], _signed(1)[0], _auth())


def forged() -> Credentials:
    """Well-formed tokens whose signature is that of another token."""
    good = _signed(1)[0]
    head, _, signature = good.split(".")
    payloads = [jwt.utils.base64url_encode(json.dumps(each).encode()).decode() for each in _claims(1 + FORGERIES)]
    return Credentials([f"{head}.{each}.{signature}" for each in payloads[1:]], good, _auth())


def public_pem() -> str:
    """The public key of `rs256`."""
    return _key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_jwks() -> str:
    """The same key as a JWK set (RFC 7517)."""
    return json.dumps({"keys": [jwt.algorithms.RSAAlgorithm.to_jwk(_key().public_key(), as_dict=True)]})


def new_secret() -> str:
    """A random secret."""
    return secrets.token_hex(SECRET_BYTES)


def verification_us() -> float:
    """The CPU time of finding out, in this process, that one RS256 signature is not over what it is said to be over."""
    token = forged().bearers[0]
    assert token is not None
    signed, _, signature = token.rpartition(".")
    algorithm, key = jwt.get_algorithm_by_name("RS256"), _key().public_key()
    text, proof = signed.encode(), jwt.utils.base64url_decode(signature)
    taken_s = []
    for _ in range(BATCHES):
        begin = time.process_time()
        for _ in range(BATCH):
            assert not algorithm.verify(text, key, proof)
        taken_s.append(time.process_time() - begin)
    return median(taken_s) / BATCH * 1e6


@cache
def _key() -> RSAPrivateKey:
    """The key of this run; to find one takes a tenth of a second."""
    return generate_private_key(65537, RSA_BITS)


def _signed(count: int) -> list[str]:
    return [jwt.encode(each, _key(), algorithm="RS256") for each in _claims(count)]


def _claims(count: int) -> list[dict[str, Any]]:
    now = int(time.time())
    common = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + TOKEN_LIFE_S}
    return [{"sub": f"caller-{number}", **common} for number in range(count)]


def _auth() -> Config:
    issuer = {"issuer": ISSUER, "audience": [AUDIENCE], "algorithms": ["RS256"], "public_key": public_pem()}
    return {"jwt": [issuer]}
