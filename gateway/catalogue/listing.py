"""The catalogue as bytes: each tool encoded once per dialect, joined lists kept with their gzip and ETag."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from msgspec import Struct

from gateway.ports import Caller, Dialect
from gateway.routing import PublishedTool, Router
from gateway.wire import Head, Headers, WireReply

MAX_LISTS = 32  # by dialect, spelling and scopes; one of 10,000 tools has 5 MB
MIN_GZIP_BYTES = 1024  # below, a packet carries either
GZIP_LEVEL = 6
ENCODED_AT_ONCE = 500  # tools encoded between two looks at the event loop, about 5 ms

# The answer depends on these; on a bare path the dialect itself is read off two of them.
VARY_BARE = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version, User-Agent")
VARY_PREFIXED = (b"vary", b"Authorization, OXP-API-Key, OTC-API-Key, Accept-Encoding, OXP-Version")
PRIVATE = (b"cache-control", b"private, no-cache")
JSON_TYPE = (b"content-type", b"application/json")


class Listed(Struct, frozen=True):
    """One joined list; `packed` is its gzip, None for a short one."""

    body: bytes
    packed: bytes | None
    etag: bytes


class Lists:
    """Answers `GET /tools` from what is already encoded."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Hashable, Listed] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[Listed]] = {}
        self._newest: weakref.ref[Router] | None = None  # whose lists are kept

    async def answer(self, router: Router, caller: Caller, dialect: Dialect, spelling: str, head: Head) -> WireReply:
        """The list the caller may see, or 304 when it has it already (RFC 9110, 13.1.2)."""
        if self._newest is None or self._newest() is not router:
            self._newest = weakref.ref(router)
            self._lists.clear()  # nobody asks any more for those of a snapshot that is gone: 200 MB of 8,000 tools
        key = (dialect.name, spelling, router.visible_key(caller))
        listed = self._lists.get(key)
        if listed is None:
            making = self._making.get(key)
            if making is None:
                making = asyncio.create_task(self._make(key, router, caller, dialect, spelling))
                self._making[key] = making
            listed = await asyncio.shield(making)  # a caller that leaves does not end it for the others
        else:
            self._lists.move_to_end(key)
        return _reply(listed, dialect.answer_headers(spelling), head)

    async def _make(self, key: Hashable, router: Router, caller: Caller, dialect: Dialect, spelling: str) -> Listed:
        """Makes a list once for all who ask for it meanwhile: 200 of 8,000 tools, each on its own, took 1.4 GB."""
        try:
            listed = await self._join(router.tools_for(caller), dialect, spelling)
        finally:
            del self._making[key]
        if self._newest is not None and self._newest() is router:
            if len(self._lists) >= MAX_LISTS:
                self._lists.popitem(last=False)
            self._lists[key] = listed
        return listed

    async def _join(self, tools: Sequence[PublishedTool], dialect: Dialect, spelling: str) -> Listed:
        encoded = []
        for count, tool in enumerate(tools, 1):
            if count % ENCODED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if dialect.name not in tool.encoded:
                tool.encoded[dialect.name] = dialect.encode_definition(tool.listed)
            encoded.append(tool.encoded[dialect.name])
        body = dialect.encode_list(encoded, spelling)
        return await asyncio.to_thread(_pack, body) if len(body) >= MIN_GZIP_BYTES else _pack(body)


def _pack(body: bytes) -> Listed:
    packed = gzip.compress(body, GZIP_LEVEL, mtime=0) if len(body) >= MIN_GZIP_BYTES else None
    return Listed(body=body, packed=packed, etag=hashlib.sha256(body).hexdigest()[:32].encode())


def _reply(listed: Listed, dialect_headers: Headers, head: Head) -> WireReply:
    vary = VARY_BARE if head.prefix is None else VARY_PREFIXED
    zipped = listed.packed is not None and _accepts_gzip(head.headers.get(b"accept-encoding", b""))
    etag = b'"%b-gzip"' % listed.etag if zipped else b'"%b"' % listed.etag
    headers: Headers = ((b"etag", etag), PRIVATE, vary, *dialect_headers)
    if _matches(head.headers.get(b"if-none-match", b""), listed.etag):
        return WireReply(status=304, headers=headers)
    if zipped and listed.packed is not None:
        return WireReply(status=200, headers=(JSON_TYPE, (b"content-encoding", b"gzip"), *headers), body=listed.packed)
    return WireReply(status=200, headers=(JSON_TYPE, *headers), body=listed.body)


def _accepts_gzip(accepted: bytes) -> bool:
    """Whether `gzip` has a quality above zero; `*` speaks for it only when it is not named (RFC 9110, 12.5.3)."""
    wanted = {}
    for coding in accepted.lower().split(b","):
        name, _, parameters = coding.partition(b";")
        quality = parameters.strip().removeprefix(b"q=").strip()
        wanted[name.strip()] = not quality or quality.strip(b"0.") != b""
    return wanted.get(b"gzip", wanted.get(b"*", False))


def _matches(if_none_match: bytes, etag: bytes) -> bool:
    """Weak comparison; our two encodings of one list count as the same."""
    for candidate in if_none_match.split(b","):
        tag = candidate.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip")
        if tag in (etag, b"*"):
            return True
    return False
