"""httpx where nothing is encrypted, and no proxy asked.

Left to itself each client reads the authorities of the world first. That takes 20 ms, which is more than most tests do,
and many make a client for a single request.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpx

NO_AUTHORITY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing is encrypted, so nothing has to be trusted
ANSWER_S = 60.0  # a busy machine takes longer than the 5 s of httpx; tests that mean a shorter time say so


def client(**options: Any) -> httpx.Client:
    """A client for use as a context."""
    return httpx.Client(**_plain(options))


def async_client(**options: Any) -> httpx.AsyncClient:
    """The same for coroutines."""
    return httpx.AsyncClient(**_plain(options))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {"trust_env": False, "verify": NO_AUTHORITY, "timeout": ANSWER_S} | options
