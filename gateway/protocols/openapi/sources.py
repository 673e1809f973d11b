"""Where an OpenAPI document comes from: a file or a URL, looked at again for as long as the gateway runs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

from gateway.core.errors import unavailable
from gateway.core.wire import Headers
from gateway.net.client import Origin, Pool, Reply, TransportError
from gateway.protocols.openapi.document.document import MAX_BYTES
from gateway.protocols.openapi.document.references import MAX_FILES, SUFFIXES
from gateway.protocols.openapi.document.serialise import UnsendableError, check_segment
from gateway.upstream.replica_url import USER_AGENT, path_and_query

FETCH_S = 30.0  # for one request, with connecting

SETTLED_S = 2.0  # a file that was written later than this before it was read may change again at the same time
ACCEPT: Headers = ((b"accept", b"application/json, application/yaml, text/yaml, */*;q=0.5"),)
# What tells versions of a document apart, and the header that asks for another one (RFC 9110, section 13.1).
VALIDATORS = ((b"etag", b"if-none-match"), (b"last-modified", b"if-modified-since"))


class Fetched(NamedTuple):
    """A document as it was read. `version` is what tells it from another one, as far as its source can say.

    `beside` tells what it was of the other files it may refer to.
    """

    text: bytes
    version: object = None
    beside: bytes = b""


class Documents(Protocol):
    """The source of one document."""

    async def read(self, known_version: object) -> Fetched | None:
        """Reads it; None if it still is the known version. Raises BACKEND_UNAVAILABLE."""
        ...

    async def aclose(self) -> None: ...


class DocumentFile:
    """A file, and others in its folder if it may refer to them.

    Times and sizes tell whether they have changed, once all have been left alone for a moment.
    """

    def __init__(self, path: str, *, with_folder: bool = False) -> None:
        self._path = Path(path)
        self._with_folder = with_folder

    async def read(self, known_version: object) -> Fetched | None:
        """As `Documents.read`."""
        return await asyncio.to_thread(self._read, known_version)

    def _read(self, previous: object) -> Fetched | None:
        try:
            with self._path.open("rb") as file:
                files = [os.fstat(file.fileno()), *(self._others() if self._with_folder else ())]
                version = tuple(
                    (file_status.st_mtime_ns, file_status.st_size, file_status.st_ino) for file_status in files
                )
                if version == previous:
                    return None
                text = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise unavailable(f"its document cannot be read: {exc.strerror}") from exc
        if len(text) > MAX_BYTES:
            raise unavailable(f"its document is larger than {MAX_BYTES} bytes")
        is_settled = time.time() - max(file_status.st_mtime for file_status in files) > SETTLED_S
        return Fetched(text, version if is_settled else None, repr(version[1:]).encode())

    def _others(self) -> Iterator[os.stat_result]:
        """The files of the folder and below that may be parts of a document, as far as they are looked at."""
        paths = (path for path in self._path.resolve().parent.rglob("*") if path.suffix.lower() in SUFFIXES)
        for path in sorted(islice(paths, MAX_FILES)):
            with suppress(FileNotFoundError):
                yield path.stat()

    async def aclose(self) -> None:
        """Nothing is open."""


class DocumentUrl:
    """A URL, asked with the validators of what it gave before. Redirects are followed at the same origin alone."""

    def __init__(self, url: str, credentials: Headers, pool: Pool) -> None:
        self._credentials = credentials
        self._target = path_and_query(url)
        self._pool = pool

    async def read(self, known_version: object) -> Fetched | None:
        """As `Documents.read`."""
        validators: Headers = known_version if isinstance(known_version, tuple) else ()
        try:
            async with asyncio.timeout(FETCH_S):
                reply = await self._get(validators)
        except TransportError as exc:
            raise unavailable(f"its document cannot be fetched: {exc.kind}: {exc}") from exc
        except TimeoutError as exc:
            raise unavailable(f"its document was not there within {FETCH_S:g} s") from exc
        if reply.status == 304 and validators:
            return None
        if reply.status != 200:
            raise unavailable(f"its document cannot be fetched: status {reply.status}")
        if (reply.header(b"content-encoding") or b"identity").lower() != b"identity":
            raise unavailable("its document is compressed, which was not asked for")
        version = tuple((ask, value) for tag, ask in VALIDATORS if (value := reply.header(tag)))
        return Fetched(reply.body, version or None)

    async def _get(self, validators: Headers) -> Reply:
        target = self._target
        for _ in range(MAX_HOPS + 1):
            headers = (USER_AGENT, *ACCEPT, *self._credentials, *validators)
            reply = await self._pool.request(b"GET", target, headers, b"", timeout_s=FETCH_S, max_body=MAX_BYTES)
            location = redirected(reply, self._pool.origin, target)
            if location is None:
                break
            target = location
        return reply

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._pool.aclose()


MOVED = frozenset((301, 302, 303, 307, 308))  # 300 offers a choice, 304 is none, 305 names a proxy (RFC 9110, 15.4)
MAX_HOPS = 3
MAX_LOCATION = 8192  # bytes


def redirected(reply: Reply, origin: Origin, target: bytes, base_path: str = "") -> bytes | None:
    """The path and query to ask for in place of `target`; None if the reply is no redirect, or leads elsewhere."""
    location = reply.header(b"location")
    if reply.status not in MOVED or location is None or len(location) > MAX_LOCATION:
        return None
    try:
        url = urljoin(f"{origin}{target.decode('ascii')}", location.decode("ascii"))
        if Origin.parse(url) != origin:
            return None
        return path_and_query(url) if _is_below(base_path, urlsplit(url).path) else None
    except ValueError:  # also UnicodeError
        return None


def _is_below(base_path: str, path: str) -> bool:
    """Whether a path stays below another one, however servers read its segments: as they do those of arguments."""
    if path != base_path and not path.startswith(base_path + "/"):
        return False
    try:
        for segment in filter(None, path[len(base_path) :].split("/")):
            check_segment(segment, may_hold_slash=True)
    except UnsendableError:
        return False
    return True
