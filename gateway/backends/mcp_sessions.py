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

from gateway import jsontext
from gateway.backends.mcp_channel import MAX_SIDE_BYTES, McpChannel
from gateway.backends.mcp_messages import is_about_access
from gateway.backends.server import Server
from gateway.dialects import mcp_responses, mcp_results, mcp_server, replies
from gateway.dialects.mcp_responses import MODERN_ERRORS
from gateway.dialects.mcp_results import RpcFailure
from gateway.dialects.mcp_server import Agreed
from gateway.dialects.mcp_wire import (
    LEGACY,
    MODERN,
    PARAMS,
    SESSION,
    UNSUPPORTED_VERSION,
)
from gateway.model import Json, JsonObject
from gateway.transport import Kind, Reply, TransportError
from gateway.wire import WireRequest

AGREE_S = 15.0  # for both handshakes together
BEGUN_S = 3.0  # for what a server has to say to the notification that ends a handshake
END_S = 1.0  # for the ends of all sessions when the backend is closed
IDLE_S = 600.0  # a session that was not used for so long is ended
REPROBE_S = 3600.0  # a server that was taken for a legacy one may have been replaced
MAX_SESSIONS = 1000  # of one backend
SESSION_ID = re.compile(rb"[\x21-\x7e]{1,8192}")  # visible ASCII (2025-11-25, Session Management); some are tokens
# Some legacy servers fail at a method that they do not know.
NO_VERDICT = " (which says nothing of the revision; for a server up to 2025-11-25 set era: legacy)"
MAX_TOLD = 200  # characters
LISTENS: JsonObject = {"tools": {"listChanged": True}}  # of a server that was not asked, which may refuse


Key = tuple[str, str, str]  # URL of the replica, principal, user


class Session(Struct):
    """What was agreed with a replica for a user of a principal, and how many calls use it.

    All callers of a modern one share it. `used_at`: when the last of these began. `announces`: whether it says so when
    its list of tools changes, and `has_listened` whether a stream for that was ever open.
    """

    agreed: Agreed
    server: Server
    principal: str
    used_at: float
    user: str = ""
    announces: bool = False
    calls: int = 0
    has_listened: bool = False


class _Era(Struct):
    """Which era a replica is of; `modern` is the session of a modern one."""

    modern: Session | None
    found_at: float


class McpSessions:
    """What was agreed with each replica, by principal and user, with `most` sessions in all.

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
        self.version = ""  # the last that was agreed on, for operators
        self.title = ""  # what the server calls itself; nothing of ours depends on it
        self.ids = count(1)  # of requests: never repeated, so unique in every session
        self._channel = channel
        self._is_shared = is_shared
        self._fixed = fixed
        self._most = most
        self._clock = clock
        self._eras: dict[str, _Era] = {}
        self._sessions: OrderedDict[Key, Session] = OrderedDict()  # of legacy servers; last used last
        self._making: dict[tuple[str, Key], asyncio.Task[Any]] = {}

    def known(self, server: Server, principal: str, user: str = "") -> Session | None:
        """What is agreed with a replica already; None if a call has to `agree` first."""
        era = self._eras.get(server.url)
        if era is not None and era.modern is not None:
            return era.modern
        key = self._key(server, principal, user)
        session = self._sessions.get(key)
        if session is not None:
            session.used_at = self._clock()
            self._sessions.move_to_end(key)
        return session

    async def agree(self, server: Server, principal: str, user: str = "") -> Session:
        """Agrees with a replica; once for all who wait. Raises TransportError: nothing was called."""
        session: Session = await self._once(
            ("session", self._key(server, principal, user)), partial(self._make, server, principal, user)
        )
        return session

    def is_current(self, session: Session) -> bool:
        """Whether calls still use a session."""
        era = self._eras.get(session.server.url)
        if era is not None and era.modern is not None:
            return era.modern is session
        return self._sessions.get(self._key(session.server, session.principal, session.user)) is session

    def forget(self, session: Session) -> None:
        """Drops a session, if it still is in use: the server does not know it any more."""
        key = self._key(session.server, session.principal, session.user)
        if self._sessions.get(key) is session:
            del self._sessions[key]

    def forget_era(self, server: Server) -> None:
        """Has a replica asked again which revisions it speaks."""
        self._eras.pop(server.url, None)

    async def review(self, server: Server, principal: str) -> None:
        """Ends unused sessions, and asks a replica again which revisions it speaks if that was long ago."""
        self._end_idle()
        era = self._eras.get(server.url)
        if era is None or self._fixed is not None or self._clock() < era.found_at + REPROBE_S:
            return
        with suppress(TransportError):
            found = await self._once(("era", (server.url, "", "")), partial(self._find_era, server, principal))
            if (found.modern is None) is not (era.modern is None):
                for session in [one for one in self._sessions.values() if one.server is server]:
                    self.forget(session)

    def _key(self, server: Server, principal: str, user: str) -> Key:
        return (server.url, "", "") if self._is_shared else (server.url, principal, user)

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

    async def _make(self, server: Server, principal: str, user: str) -> Session:
        try:
            async with asyncio.timeout(AGREE_S):
                era = self._eras.get(server.url)
                if era is None:
                    era = await self._once(("era", (server.url, "", "")), partial(self._find_era, server, principal))
                if era.modern is not None:
                    return era.modern
                agreed, announces = await self._initialize(server, principal)
        except TransportError as exc:
            self.forget_era(server)  # another server may answer there now
            if not exc.sent:
                raise
            raise TransportError(exc.kind, str(exc), sent=False) from exc  # no tool was called
        except TimeoutError as exc:
            raise TransportError(Kind.TIMEOUT, "The handshake took too long.", sent=False) from exc
        session = Session(agreed, server, principal, self._clock(), user, announces)
        self._sessions[self._key(server, principal, user)] = session
        self.version = agreed.version
        self._end_idle()
        return session

    # Ends of sessions.

    def _end_idle(self) -> None:
        """Ends the sessions that were not used for long, and those beyond the limit that no call uses.

        Beyond the limit it is the turn of the principal with the most: callers name users as they like.
        """
        due_s = self._clock() - IDLE_S
        for key, session in list(self._sessions.items()):
            if session.used_at >= due_s:
                break  # the others were used later
            if not session.calls:
                self._end(key)
        for _ in range(len(self._sessions) - self._most):
            idle = [key for key, session in list(self._sessions.items())[:-1] if not session.calls]
            counts = Counter(principal for _, principal, _ in self._sessions)
            if idle:
                self._end(max(idle, key=lambda key: counts[key[1]]))  # of these the one not used for longest

    def _end(self, key: Key) -> None:
        session = self._sessions.pop(key)
        if session.agreed.session is not None:
            self._channel.tell(session.server, mcp_server.end(session.agreed), session.principal)

    async def aclose(self) -> None:
        """Ends all sessions, as far as their servers answer soon."""
        sessions = [session for session in self._sessions.values() if session.agreed.session is not None]
        self._sessions.clear()
        ends = [
            self._channel.post(session.server, mcp_server.end(session.agreed), session.principal, timeout_s=END_S)
            for session in sessions
        ]
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
            modern = Session(Agreed(MODERN), server, "", now, announces=mcp_results.announces_changes(discovered))
            self.title = mcp_results.server_title(discovered)
            self.version = MODERN
        era = self._eras[server.url] = _Era(modern, now)
        return era

    async def _probe(self, server: Server, principal: str) -> JsonObject | None:
        """Asks for what only modern servers know; None for a legacy one. Raises TransportError if it does not tell."""
        id_, agreed = next(self.ids), Agreed(MODERN)
        request = mcp_server.request(agreed, id_, "server/discover", {})
        reply = await self._ask(server, agreed, request, id_, principal)
        if is_about_access(reply.status):
            raise _refused("server/discover", reply.status, f"{_told(reply)}{NO_VERDICT}")
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

    async def _initialize(self, server: Server, principal: str) -> tuple[Agreed, bool]:
        """Offers our newest revision, then the older ones to a server that refuses it instead of naming another.

        Returns what was agreed, and whether the server announces changes of its list.
        """
        for offered in LEGACY:
            id_ = next(self.ids)
            reply = await self._ask(server, None, mcp_server.initialize(id_, offered), id_, principal)
            try:
                result = _result(reply)
            except RpcFailure as failure:
                if failure.code in (PARAMS, UNSUPPORTED_VERSION):
                    continue
                raise _refused("initialize", reply.status, _told(reply)) from failure
            except replies.BrokenReplyError as exc:
                raise _refused("initialize", reply.status, _leads_to(reply) or str(exc)) from exc
            version = result.get("protocolVersion")
            if version not in LEGACY:
                spoken = f"it speaks revision {version!r:.40}, which Toolgate does not"
                named = spoken if isinstance(version, str) else "it names no revision"
                raise _refused("initialize", reply.status, named)
            session = reply.header(SESSION) or None
            if session is not None and SESSION_ID.fullmatch(session) is None:
                raise _refused("initialize", reply.status, "its id of the session is not visible ASCII")
            agreed = Agreed(version, session, mcp_responses.cookies_of(reply))
            await self._say_begun(server, agreed, principal)
            self.title = mcp_results.server_title(result)
            return agreed, mcp_results.announces_changes(result)
        raise _refused("initialize", 200, "it refuses every revision that we speak")

    async def _say_begun(self, server: Server, agreed: Agreed, principal: str) -> None:
        """Ends the handshake. How a server answers to that, if at all, says nothing. Raises TransportError."""
        request = mcp_server.request(agreed, None, "notifications/initialized", {})
        try:
            await self._channel.post(server, request, principal, timeout_s=BEGUN_S)
        except TransportError as exc:
            if not exc.sent:
                raise

    async def _ask(
        self, server: Server, agreed: Agreed | None, request: WireRequest, id_: int, principal: str
    ) -> Reply:
        deadline = monotonic() + AGREE_S
        return await self._channel.ask(
            server, agreed, request, id_, principal, deadline=deadline, max_body=MAX_SIDE_BYTES
        )


def _result(reply: Reply) -> JsonObject:
    """The result in an answer. Raises RpcFailure, BrokenReplyError."""
    try:
        message: Json = jsontext.decode_answer(replies.without_mark(reply.body))
    except jsontext.JsonError as exc:
        raise replies.BrokenReplyError(f"not JSON: {exc}") from exc
    return mcp_results.result_of(message)


def _leads_to(reply: Reply) -> str:
    """Where a redirect leads, for operators; empty for other answers."""
    location = (reply.header(b"location") or b"").partition(b"?")[0][:MAX_TOLD].decode("latin-1")
    is_redirect = 300 <= reply.status < 400 and location != ""
    return "".join(filter(str.isprintable, f"a redirect to {location}")) if is_redirect else ""


def _told(reply: Reply) -> str:
    """What the error in an answer says, for operators."""
    try:
        _result(reply)
    except RpcFailure as failure:
        return f"error {failure.code}: {failure.message[:MAX_TOLD]}"
    except replies.BrokenReplyError:
        pass
    return ""


def _refused(method: str, status: int, reason: str = "") -> TransportError:
    what = f"status {status} {reason}".strip() if status != 200 or not reason else reason
    return TransportError(Kind.PROTOCOL, f"{method}: {what}", sent=False)
