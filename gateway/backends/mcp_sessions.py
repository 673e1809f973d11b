"""Which revision an MCP server speaks, and our sessions with it.

The era of each replica is found once and looked at again every hour (2026-07-28, Versioning: dual-era clients). Legacy
servers may keep state for a session, so each principal has a session of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from time import monotonic

from msgspec import Struct

from gateway import jsontext
from gateway.backends.mcp_channel import MAX_SIDE_BYTES, McpChannel
from gateway.backends.server import Server
from gateway.dialects import mcp_server, replies
from gateway.dialects.mcp_server import Agreed, RpcFailure
from gateway.dialects.mcp_wire import (
    HEADER_MISMATCH,
    LEGACY,
    MISSING_CAPABILITY,
    MODERN,
    PARAMS,
    SESSION,
    UNSUPPORTED_VERSION,
)
from gateway.model import Json, JsonObject
from gateway.transport import Kind, Reply, TransportError
from gateway.wire import WireRequest

log = logging.getLogger("gateway.backends")

AGREE_S = 15.0  # for both handshakes together
REPROBE_S = 3600.0  # a server that was taken for a legacy one may have been replaced
MAX_SESSIONS = 1000  # of one backend; the one not used for longest is ended first
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY)  # none but a modern server says these


class _Era(Struct, frozen=True):
    is_modern: bool
    found_at: float


class McpSessions:
    """What was agreed with each replica, by principal. `fixed` is the era that the settings name, if they do."""

    def __init__(
        self,
        name: str,
        channel: McpChannel,
        *,
        fixed: str | None = None,
        is_shared: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._name = name
        self._channel = channel
        self._is_shared = is_shared
        self._fixed = None if fixed is None else _Era(fixed == "modern", float("inf"))
        self._clock = clock
        self._eras: dict[str, _Era] = {}
        self._agreed: OrderedDict[tuple[str, str], Agreed] = OrderedDict()
        self._making: dict[tuple[str, str], asyncio.Task[Agreed]] = {}
        self.ids = count(1)  # of requests: never repeated, so unique in every session

    @property
    def version(self) -> str:
        """A revision in use, for operators; empty before the first handshake."""
        return next((agreed.version for agreed in reversed(self._agreed.values())), "")

    async def agree(self, server: Server, principal: str) -> Agreed:
        """What is agreed with a replica; made once for all who wait. Raises TransportError: nothing was called."""
        key = server.url, "" if self._is_shared else principal
        agreed = self._agreed.get(key)
        if agreed is not None:
            self._agreed.move_to_end(key)
            return agreed
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.create_task(self._make(key, server, principal))
            making.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(making)

    def forget(self, server: Server, principal: str, agreed: Agreed) -> None:
        """Drops what was agreed, if it still is: the server does not know it any more."""
        key = server.url, "" if self._is_shared else principal
        if self._agreed.get(key) is agreed:
            del self._agreed[key]

    def forget_era(self, server: Server) -> None:
        """Has a replica asked again which revisions it speaks."""
        self._eras.pop(server.url, None)

    async def _make(self, key: tuple[str, str], server: Server, principal: str) -> Agreed:
        try:
            async with asyncio.timeout(AGREE_S):
                is_modern = await self._is_modern(server, principal)
                agreed = Agreed(MODERN) if is_modern else await self._initialize(server, principal)
        except TransportError as exc:
            raise TransportError(exc.kind, str(exc), sent=False) from exc  # no tool was called
        except TimeoutError as exc:
            raise TransportError(Kind.TIMEOUT, "The handshake took too long.", sent=False) from exc
        self._agreed[key] = agreed
        while len(self._agreed) > MAX_SESSIONS:
            _, oldest = self._agreed.popitem(last=False)
            if oldest.session is not None:
                self._channel.tell(server, mcp_server.end(oldest), principal)
        return agreed

    # The era of a replica.

    async def _is_modern(self, server: Server, principal: str) -> bool:
        era = self._fixed or self._eras.get(server.url)
        if era is None or self._clock() > era.found_at + REPROBE_S:
            era = self._eras[server.url] = _Era(await self._probe(server, principal), self._clock())
        return era.is_modern

    async def _probe(self, server: Server, principal: str) -> bool:
        """Asks for what only modern servers know. Raises TransportError for a server that does not tell."""
        id_, agreed = next(self.ids), Agreed(MODERN)
        request = mcp_server.request(agreed, id_, "server/discover", {})
        reply = await self._ask(server, agreed, request, id_, principal)
        if reply.status in (401, 403) or reply.status >= 500:
            raise _refused("server/discover", reply.status)
        try:
            versions = _result(reply).get("supportedVersions")
        except RpcFailure as failure:
            if failure.code != UNSUPPORTED_VERSION:
                return failure.code in MODERN_ERRORS
            versions = failure.data.get("supported") if isinstance(failure.data, dict) else None
        except replies.BrokenReplyError:
            return False
        return isinstance(versions, list) and MODERN in versions

    # Legacy sessions.

    async def _initialize(self, server: Server, principal: str) -> Agreed:
        """Offers our newest revision, then the older ones to a server that refuses it instead of naming another."""
        for offered in LEGACY:
            id_ = next(self.ids)
            reply = await self._ask(server, None, mcp_server.initialize(id_, offered), id_, principal)
            try:
                version = _result(reply).get("protocolVersion")
            except RpcFailure as failure:
                if failure.code in (PARAMS, UNSUPPORTED_VERSION):
                    continue
                raise _refused("initialize", reply.status, str(failure)) from failure
            except replies.BrokenReplyError as exc:
                raise _refused("initialize", reply.status, str(exc)) from exc
            if version not in LEGACY:
                raise _refused("initialize", reply.status, "it speaks no revision that we speak")
            agreed = Agreed(version, reply.header(SESSION))
            begun = mcp_server.request(agreed, None, "notifications/initialized", {})
            await self._channel.post(server, begun, principal, timeout_s=AGREE_S)
            return agreed
        raise _refused("initialize", 200, "it refuses every revision that we speak")

    async def _ask(
        self, server: Server, agreed: Agreed | None, request: WireRequest, id_: int, principal: str
    ) -> Reply:
        return await self._channel.ask(
            server, agreed, request, id_, principal, timeout_s=AGREE_S, max_body=MAX_SIDE_BYTES
        )


def _result(reply: Reply) -> JsonObject:
    """The result in an answer. Raises RpcFailure, BrokenReplyError."""
    try:
        message: Json = jsontext.decode(replies.without_mark(reply.body))
    except jsontext.JsonError as exc:
        raise replies.BrokenReplyError(f"not JSON: {exc}") from exc
    return mcp_server.result_of(message)


def _refused(method: str, status: int, reason: str = "") -> TransportError:
    return TransportError(Kind.PROTOCOL, f"{method}: status {status} {reason}".strip(), sent=False)
