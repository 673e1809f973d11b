"""Which revision an MCP server speaks, and our sessions with it.

The era of each replica is found once and looked at again every hour (2026-07-28, Versioning: dual-era clients). Legacy
servers may keep state for a session, so each user of each principal has a session of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.core.wire import WireRequest
from gateway.net.client import Kind, Reply, TransportError
from gateway.protocols.common import replies
from gateway.protocols.mcp.servers import requests as mcp_server
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.servers.channel import MAX_SIDE_BYTES, McpChannel, Peer
from gateway.protocols.mcp.servers.messages import is_about_access
from gateway.protocols.mcp.servers.requests import BEFORE_HANDSHAKE, NegotiatedSession
from gateway.protocols.mcp.servers.responses import MODERN_ERRORS
from gateway.protocols.mcp.servers.results import RpcFailure
from gateway.protocols.mcp.wire import LEGACY, MODERN, PARAMS, SESSION, UNSUPPORTED_VERSION
from gateway.upstream.replica_url import Server

HANDSHAKE_S = 15.0  # for both handshakes together
INITIALIZED_S = 3.0  # for what a server has to say to the notification that ends a handshake
END_S = 1.0  # for the ends of all sessions when the backend is closed
IDLE_S = 600.0  # a session that was not used for so long is ended
REPROBE_S = 3600.0  # a server that was taken for a legacy one may have been replaced
MAX_SESSIONS = 1000  # of one backend
SESSION_ID = re.compile(rb"[\x21-\x7e]{1,8192}")  # visible ASCII (2025-11-25, Session Management); some are tokens
# Some legacy servers fail at a method that they do not know.
NO_VERDICT = " (which says nothing of the revision; for a server up to 2025-11-25 set era: legacy)"
MAX_SHOWN = 200  # characters
LISTENS: JsonObject = {"tools": {"listChanged": True}}  # of a server that was not asked, which may refuse


Key = tuple[str, str, str]  # URL of the replica, principal, user


class SessionRecord(Struct):
    """The session with a replica for a user of a principal. All callers share that with a modern one."""

    peer: Peer  # without a principal if all share it
    used_at: float  # when the last call began
    user: str = ""
    announces: bool = False  # the server says so when its list of tools changes
    calls: int = 0  # that use it now
    has_listened: bool = False  # a stream for such announcements was open once

    def peer_for(self, principal: str) -> Peer:
        """The replica as this principal talks to it."""
        return self.peer if self.peer.principal == principal else replace(self.peer, principal=principal)


class _Era(Struct):
    """Which era a replica is of."""

    modern: SessionRecord | None  # the session with a modern one
    probed_at: float


class McpSessions:
    """The sessions with each replica, by principal and user, with `most` in all.

    `fixed` is the era that the settings name, if they do.
    """

    def __init__(
        self,
        channel: McpChannel,
        *,
        fixed: str | None = None,
        is_shared: bool = False,
        most: int = MAX_SESSIONS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.version = ""  # the last that was negotiated, for operators
        self.title = ""  # what the server calls itself; nothing of ours depends on it
        self.ids = count(1)  # of requests: never repeated, so unique in every session
        self._channel = channel
        self._is_shared = is_shared
        self._fixed = fixed
        self._most = most
        self._clock = clock
        self._eras: dict[str, _Era] = {}
        self._records: OrderedDict[Key, SessionRecord] = OrderedDict()  # of legacy servers; last used last
        self._making: dict[tuple[str, Key], asyncio.Task[Any]] = {}

    def current(self, server: Server, principal: str, user: str = "") -> SessionRecord | None:
        """The session that there is with a replica; None if a call has to `negotiate` one first."""
        era = self._eras.get(server.url)
        if era is not None and era.modern is not None:
            return era.modern
        key = self._key(server, principal, user)
        record = self._records.get(key)
        if record is not None:
            record.used_at = self._clock()
            self._records.move_to_end(key)
        return record

    async def negotiate(self, server: Server, principal: str, user: str = "") -> SessionRecord:
        """Shakes hands with a replica; once for all who wait. Raises TransportError: nothing was called."""
        record: SessionRecord = await self._once(
            ("session", self._key(server, principal, user)), partial(self._make, server, principal, user)
        )
        return record

    def is_current(self, record: SessionRecord) -> bool:
        """Whether calls still use a session."""
        era = self._eras.get(record.peer.server.url)
        if era is not None and era.modern is not None:
            return era.modern is record
        return self._records.get(self._key_of(record)) is record

    def forget(self, record: SessionRecord) -> None:
        """Drops a session, if it still is in use: the server does not know it any more."""
        key = self._key_of(record)
        if self._records.get(key) is record:
            del self._records[key]

    def forget_era(self, server: Server) -> None:
        """Has a replica asked again which revisions it speaks."""
        self._eras.pop(server.url, None)

    async def review(self, server: Server, principal: str) -> None:
        """Ends unused sessions, and asks a replica again which revisions it speaks if that was long ago."""
        self._end_idle()
        era = self._eras.get(server.url)
        if era is None or self._fixed is not None or self._clock() < era.probed_at + REPROBE_S:
            return
        with suppress(TransportError):
            now = await self._once(("era", (server.url, "", "")), partial(self._find_era, server, principal))
            if (now.modern is None) is not (era.modern is None):
                for record in [record for record in self._records.values() if record.peer.server is server]:
                    self.forget(record)

    def _key(self, server: Server, principal: str, user: str) -> Key:
        return (server.url, "", "") if self._is_shared else (server.url, principal, user)

    def _key_of(self, record: SessionRecord) -> Key:
        return self._key(record.peer.server, record.peer.principal, record.user)

    async def _once(self, key: tuple[str, Key], make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The outcome of what is made once for all who ask while it is made; none of them interrupts it."""
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.create_task(make())
            making.add_done_callback(partial(self._made, key))
        await asyncio.wait([making])  # `shield` reports a failure to the loop if its caller has gone (Python 3.14)
        return making.result()

    def _made(self, key: tuple[str, Key], making: asyncio.Task[Any]) -> None:
        del self._making[key]
        if not making.cancelled():
            making.exception()  # all who asked may have gone

    async def _make(self, server: Server, principal: str, user: str) -> SessionRecord:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                era = self._eras.get(server.url)
                if era is None:
                    era = await self._once(("era", (server.url, "", "")), partial(self._find_era, server, principal))
                if era.modern is not None:
                    return era.modern
                record = await self._initialize(server, principal)
        except TransportError as exc:
            self.forget_era(server)  # another server may answer there now
            if not exc.sent:
                raise
            raise TransportError(exc.kind, str(exc), sent=False) from exc  # no tool was called
        except TimeoutError as exc:
            raise TransportError(Kind.TIMEOUT, "The handshake took too long.", sent=False) from exc
        record.user = user
        self._records[self._key_of(record)] = record
        self.version = record.peer.session.version
        self._end_idle()
        return record

    # Ends of sessions.

    def _end_idle(self) -> None:
        """Ends the sessions that were not used for long, and those beyond the limit that no call uses.

        Beyond the limit it is the turn of the principal with the most: callers name users as they like.
        """
        due_s = self._clock() - IDLE_S
        for key, record in list(self._records.items()):
            if record.used_at >= due_s:
                break  # the others were used later
            if not record.calls:
                self._end(key)
        for _ in range(len(self._records) - self._most):
            idle = [key for key, record in list(self._records.items())[:-1] if not record.calls]
            counts = Counter(principal for _, principal, _ in self._records)
            if idle:
                self._end(max(idle, key=lambda key: counts[key[1]]))  # of these the one not used for longest

    def _end(self, key: Key) -> None:
        peer = self._records.pop(key).peer
        if peer.session.id is not None:
            self._channel.tell(peer, mcp_server.end(peer.session))

    async def aclose(self) -> None:
        """Ends all sessions, as far as their servers answer soon."""
        peers = [record.peer for record in self._records.values() if record.peer.session.id is not None]
        self._records.clear()
        ends = [self._channel.post(peer, mcp_server.end(peer.session), timeout_s=END_S) for peer in peers]
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.gather(*ends, return_exceptions=True)

    # The era of a replica.

    async def _find_era(self, server: Server, principal: str) -> _Era:
        discovered: JsonObject | None = {"capabilities": LISTENS} if self._fixed == "modern" else None
        if self._fixed is None:
            discovered = await self._probe(server, principal)
        now, modern = self._clock(), None
        if discovered is not None:
            peer = Peer(server, NegotiatedSession(MODERN), "")
            modern = SessionRecord(peer, now, announces=mcp_results.announces_changes(discovered))
            self.title = mcp_results.server_title(discovered)
            self.version = MODERN
        era = self._eras[server.url] = _Era(modern, now)
        return era

    async def _probe(self, server: Server, principal: str) -> JsonObject | None:
        """Asks for what only modern servers know; None for a legacy one. Raises TransportError if it does not tell."""
        id_, peer = next(self.ids), Peer(server, NegotiatedSession(MODERN), principal)
        reply = await self._ask(peer, mcp_server.request(peer.session, id_, "server/discover", {}), id_)
        if is_about_access(reply.status):
            raise _refused("server/discover", reply.status, f"{_error_text(reply)}{NO_VERDICT}")
        discovered: JsonObject = {}
        try:
            discovered = _result(reply)
            versions = discovered.get("supportedVersions")
        except RpcFailure as failure:
            if failure.code in MODERN_ERRORS:
                return discovered
            supported = failure.data.get("supported") if isinstance(failure.data, dict) else None
            versions = supported if failure.code == UNSUPPORTED_VERSION else None
        except replies.BrokenReplyError:
            return None
        return discovered if isinstance(versions, list) and MODERN in versions else None

    # Legacy sessions.

    async def _initialize(self, server: Server, principal: str) -> SessionRecord:
        """Offers our newest revision, then the older ones to a server that refuses it instead of naming another."""
        for offered in LEGACY:
            id_ = next(self.ids)
            reply = await self._ask(Peer(server, BEFORE_HANDSHAKE, principal), mcp_server.initialize(id_, offered), id_)
            try:
                result = _result(reply)
            except RpcFailure as failure:
                if failure.code in (PARAMS, UNSUPPORTED_VERSION):
                    continue
                raise _refused("initialize", reply.status, _error_text(reply)) from failure
            except replies.BrokenReplyError as exc:
                raise _refused("initialize", reply.status, _leads_to(reply) or str(exc)) from exc
            version = result.get("protocolVersion")
            if version not in LEGACY:
                foreign = f"it speaks revision {version!r:.40}, which Toolgate does not"
                reason = foreign if isinstance(version, str) else "it names no revision"
                raise _refused("initialize", reply.status, reason)
            session_id = reply.header(SESSION) or None
            if session_id is not None and SESSION_ID.fullmatch(session_id) is None:
                raise _refused("initialize", reply.status, "its id of the session is not visible ASCII")
            peer = Peer(server, NegotiatedSession(version, session_id, mcp_responses.cookies_of(reply)), principal)
            await self._say_initialized(peer)
            self.title = mcp_results.server_title(result)
            return SessionRecord(peer, self._clock(), announces=mcp_results.announces_changes(result))
        raise _refused("initialize", 200, "it refuses every revision that we speak")

    async def _say_initialized(self, peer: Peer) -> None:
        """Ends the handshake. How a server answers to that, if at all, says nothing. Raises TransportError."""
        request = mcp_server.request(peer.session, None, "notifications/initialized", {})
        try:
            await self._channel.post(peer, request, timeout_s=INITIALIZED_S)
        except TransportError as exc:
            if not exc.sent:
                raise

    async def _ask(self, peer: Peer, request: WireRequest, id_: int) -> Reply:
        deadline = monotonic() + HANDSHAKE_S
        return await self._channel.ask(peer, request, id_, deadline=deadline, max_body=MAX_SIDE_BYTES)


def _result(reply: Reply) -> JsonObject:
    """The result in an answer. Raises RpcFailure, BrokenReplyError."""
    try:
        message: Json = jsontext.decode_answer(replies.strip_bom(reply.body))
    except jsontext.JsonError as exc:
        raise replies.BrokenReplyError(f"not JSON: {exc}") from exc
    return mcp_results.result_of(message)


def _leads_to(reply: Reply) -> str:
    """Where a redirect leads, for operators; empty for other answers."""
    location = (reply.header(b"location") or b"").partition(b"?")[0][:MAX_SHOWN].decode("latin-1")
    is_redirect = 300 <= reply.status < 400 and location != ""
    return "".join(filter(str.isprintable, f"a redirect to {location}")) if is_redirect else ""


def _error_text(reply: Reply) -> str:
    """What the error in an answer says, for operators."""
    try:
        _result(reply)
    except RpcFailure as failure:
        return f"error {failure.code}: {failure.message[:MAX_SHOWN]}"
    except replies.BrokenReplyError:
        pass
    return ""


def _refused(method: str, status: int, reason: str = "") -> TransportError:
    what = f"status {status} {reason}".strip() if status != 200 or not reason else reason
    return TransportError(Kind.PROTOCOL, f"{method}: {what}", sent=False)
