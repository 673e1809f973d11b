"""Where an OpenAPI document comes from: a file or a URL, looked at again for as long as the gateway runs."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.backends.openapi_redirects import MAX_HOPS, redirected
from gateway.backends.server import USER_AGENT, path_and_query
from gateway.errors import unavailable
from gateway.openapi.document import MAX_BYTES
from gateway.transport import Pool, Reply, TransportError
from gateway.wire import Headers

FETCH_S = 30.0  # for one request, with connecting
SETTLED_S = 2.0  # a file that was written later than this before it was read may change again at the same time
ACCEPT: Headers = (
    (b"accept", b"application/json, application/yaml, text/yaml, */*;q=0.5"),
    (b"accept-encoding", b"identity"),  # compressed, a MiB on the wire could be a GiB in memory
)
# What tells versions of a document apart, and the header that asks for another one (RFC 9110, section 13.1).
VALIDATORS = ((b"etag", b"if-none-match"), (b"last-modified", b"if-modified-since"))


class Fetched(NamedTuple):
    """A document as it was read. `version` is what tells it from another one, as far as its source can say."""

    text: bytes
    version: object = None


class Documents(Protocol):
    """The source of one document."""

    async def read(self, known: object) -> Fetched | None:
        """Reads it; None if it still is the `known` version. Raises BACKEND_UNAVAILABLE."""
        ...

    async def aclose(self) -> None: ...


class DocumentFile:
    """A file. Its time and its size tell whether it has changed, once it has been left alone for a moment."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def read(self, known: object) -> Fetched | None:
        """As `Documents.read`."""
        return await asyncio.to_thread(self._read, known)

    def _read(self, known: object) -> Fetched | None:
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                version = found.st_mtime_ns, found.st_size, found.st_ino
                if version == known:
                    return None
                text = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise unavailable(f"its document cannot be read: {exc.strerror}") from exc
        _check_size(len(text))
        is_settled = time.time() - found.st_mtime > SETTLED_S
        return Fetched(text, version if is_settled else None)

    async def aclose(self) -> None:
        """Nothing is open."""


class DocumentUrl:
    """A URL, asked with the validators of what it gave before. Redirects are followed at the same origin alone."""

    def __init__(self, url: str, credentials: Headers, pool: Pool) -> None:
        self._credentials = credentials
        self._target = path_and_query(url)
        self._pool = pool

    async def read(self, known: object) -> Fetched | None:
        """As `Documents.read`."""
        asked: Headers = known if isinstance(known, tuple) else ()
        try:
            async with asyncio.timeout(FETCH_S):
                reply = await self._get(asked)
        except TransportError as exc:
            raise unavailable(f"its document cannot be fetched: {exc.kind}: {exc}") from exc
        except TimeoutError as exc:
            raise unavailable(f"its document was not there within {FETCH_S:g} s") from exc
        if reply.status == 304 and asked:
            return None
        if reply.status != 200:
            raise unavailable(f"its document cannot be fetched: status {reply.status}")
        if (reply.header(b"content-encoding") or b"identity").lower() != b"identity":
            raise unavailable("its document is compressed, which was not asked for")
        version = tuple((ask, value) for tag, ask in VALIDATORS if (value := reply.header(tag)))
        return Fetched(reply.body, version or None)

    async def _get(self, asked: Headers) -> Reply:
        target = self._target
        for _ in range(MAX_HOPS + 1):
            headers = (USER_AGENT, *ACCEPT, *self._credentials, *asked)
            reply = await self._pool.request(b"GET", target, headers, b"", timeout_s=FETCH_S, max_body=MAX_BYTES)
            found = redirected(reply, self._pool.origin, target)
            if found is None:
                break
            target = found
        return reply

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._pool.aclose()


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise unavailable(f"its document is larger than {MAX_BYTES} bytes")
