"""JSON Web Tokens, genuine and forged."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import Any

import jwt

SECRET = "a secret of more than thirty-two bytes"
OTHER_SECRET = "another secret of more than thirty-two bytes"


def token(subject: str = "ada", *, secret: str = SECRET, expires_in_s: float = 600, **claims: Any) -> str:
    """A good token; a claim of None is left out."""
    body = {"sub": subject, "exp": int(time.time() + expires_in_s)} | claims
    return jwt.encode({key: value for key, value in body.items() if value is not None}, secret, "HS256")


def api_key(id_: str, key: str, **members: Any) -> dict[str, Any]:
    """An entry of `auth.api_keys`."""
    return {"id": id_, "hash": f"sha256:{sha256(key.encode()).hexdigest()}", **members}
