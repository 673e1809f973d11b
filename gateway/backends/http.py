"""The backend for tool servers that speak OTC or OXP over HTTP, in any form real ones do."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from gateway import __version__, jsontext
from gateway.backends.credentials import Credentials
from gateway.dialects import definitions, recognise, replies
from gateway.errors import ErrorCode, GatewayError
from gateway.model import Invocation, Json, JsonObject, Listing, Rejected, ToolDefinition, ToolFailure, ToolResult
from gateway.ports import ServerDialect
from gateway.transport import Kind, Pool, Reply, TransportError
from gateway.wire import WireRequest

log = logging.getLogger("gateway.backends")

USER_AGENT = (b"user-agent", b"toolgate/" + __version__.encode())
MAX_LIST_BYTES = 64 * 1024 * 1024  # 20,000 tools of 3 KiB each
LIST_TIMEOUT_S = 30.0  # a catalogue is asked for in the background; nobody waits for it
CHECK_TIMEOUT_S = 5.0  # somebody waits for a challenge's status
MAX_CHECK_BYTES = 64 * 1024
RETRY_AFTER_S = 1.0  # told when a tool server cannot be reached; it may be restarting
READ_AT_ONCE = 256  # definitions read between two looks at the event loop, about 5 ms
UNAVAILABLE = "The tool is temporarily unavailable."
STATUSES = ("pending", "completed", "failed")
URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")  # RFC 3986, section 2: every character one may have


class HttpBackend:
    """One tool server behind one base URL. Durations in seconds, sizes in bytes.

    `dialect` None: learned from the tool server's catalogue, again each time it is listed.
    """

    asynchronous = False

    def __init__(
        self,
        name: str,
        pool: Pool,
        url: str,
        *,
        dialect: ServerDialect | None,
        asks_in: ServerDialect,
        credentials: Credentials,
        toolkit: str,
        max_response_bytes: int,
    ) -> None:
        self.name = name
        self._pool = pool
        self._url = url
        self._base_path = urlsplit(url).path.rstrip("/")
        self._fixed = dialect
        self._dialect = dialect or asks_in
        self._asks_in = asks_in
        self._credentials = credentials
        self._toolkit = toolkit
        self._max_response_bytes = max_response_bytes
        self._adapted: set[tuple[str, str]] = set()  # what was already told about names
        self._call_path: str | None = None  # set once a tool server was found not to have the first

    @property
    def dialect(self) -> str:
        """The wire form in use: fixed, or learned from the last list."""
        return self._dialect.name

    async def call(self, invocation: Invocation) -> ToolResult:
        """Runs a tool; every failure after the first byte went out is a result (RFC 9110: a POST is not repeated).

        Raises GatewayError: BACKEND_UNAVAILABLE while nothing was sent, or what the tool server refused with.
        """
        dialect, started = self._dialect, time.monotonic()
        request = dialect.request_call(invocation)
        if self._call_path is not None:
            request = replace(request, path=self._call_path)
        deadline = started + invocation.timeout_s
        try:
            reply = await self._exchange(request, invocation, deadline)
            if reply.status == 404:
                reply = await self._elsewhere(reply, request, invocation, deadline)
            result = replies.decode_reply(reply, invocation)
        except TransportError as exc:
            return self._broke_off(exc, invocation)
        except replies.BrokenReplyError as exc:
            log.warning("a tool server gave a broken answer", extra={"backend": self.name, "reason": str(exc)})
            return ToolResult(failure=ToolFailure(message="The tool server gave a broken answer."))
        except GatewayError as error:
            raise self._refused(error) from None
        challenge = replies.in_band_challenge(result.value) if dialect is recognise.LC else None
        if challenge is not None:
            raise self._refused(challenge)
        if result.duration_ms is None:
            result = replace(result, duration_ms=round((time.monotonic() - started) * 1000, 3))
        return result

    async def _exchange(self, request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
        """Sends once; a second time only if the route allows it and the connection broke before an answer."""
        try:
            return await self._send(request, invocation, deadline)
        except TransportError as exc:
            if exc.kind is not Kind.CLOSED or not invocation.idempotent or time.monotonic() >= deadline:
                raise
            try:
                return await self._send(request, invocation, deadline)
            except TransportError as again:
                # Whatever became of the second, the first was sent.
                raise TransportError(again.kind, str(again), sent=True) from exc

    async def _elsewhere(self, reply: Reply, request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
        """Tries the dialect's other path if the 404 was about the first: nothing ran there."""
        other = next((path for path in self._dialect.call_paths if path != request.path), None)
        if other is None or not _is_unknown_path(reply):
            return reply
        reply = await self._exchange(replace(request, path=other), invocation, deadline)
        self._call_path = other if reply.status == 200 else None
        return reply

    def _send(self, request: WireRequest, invocation: Invocation, deadline: float) -> Awaitable[Reply]:
        return self._pool.request(
            request.method,
            (self._base_path + request.path).encode("ascii"),
            (USER_AGENT, *request.headers, *self._credentials.headers(invocation.principal)),
            request.body,
            more=invocation.headers,
            timeout_s=max(deadline - time.monotonic(), 0.001),
            max_body=self._max_response_bytes,
        )

    def _broke_off(self, exc: TransportError, invocation: Invocation) -> ToolResult:
        """Raises BACKEND_UNAVAILABLE when nothing was sent; else tells the truth about what may have happened."""
        if not exc.sent:
            raise GatewayError(
                ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=f"{exc.kind}: {exc}", retry_after_s=RETRY_AFTER_S
            ) from exc
        log.warning("a tool server broke off", extra={"backend": self.name, "kind": str(exc.kind)})
        if exc.kind is Kind.TIMEOUT:
            message = f"The tool did not answer within {invocation.timeout_s:g} seconds; it may still be running."
        elif exc.kind in (Kind.PROTOCOL, Kind.TOO_LARGE):
            return ToolResult(failure=ToolFailure(message="The tool server gave a broken answer."))
        else:
            message = "The tool server broke off; the tool may have run."
        return ToolResult(failure=ToolFailure(message=message, can_retry=invocation.idempotent))

    def _refused(self, error: GatewayError) -> GatewayError:
        """Completes a tool server's refusal: challenges with URLs we can stand for, a warning if it refused us."""
        if error.code is ErrorCode.BACKEND_UNAVAILABLE:
            log.warning("a tool server does not accept our credential", extra={"backend": self.name})
        elif error.missing is not None and "authorization" in error.missing:
            challenges = [kept for challenge in error.missing["authorization"] if (kept := self._own(challenge))]
            if not challenges:
                return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail="a challenge without a safe url")
            error.missing = dict(error.missing) | {"authorization": challenges}
        return error

    def _own(self, challenge: JsonObject) -> JsonObject | None:
        """A challenge whose `url` a browser may open, its `check_url` absolute and at this tool server's origin."""
        if not is_https_or_loopback(challenge["url"]):
            log.warning("a challenge's url is neither https nor loopback", extra={"backend": self.name})
            return None
        if "check_url" not in challenge:
            return challenge
        check_url = _join(self._url, challenge["check_url"])
        if _origin(check_url) != _origin(self._url):
            log.warning("a challenge's check_url leads elsewhere", extra={"backend": self.name})
            return {key: value for key, value in challenge.items() if key != "check_url"}
        return challenge | {"check_url": check_url}

    async def list_tools(self) -> Listing:
        """Asks for the catalogue and learns the dialect. Raises BACKEND_UNAVAILABLE."""
        request = self._asks_in.request_list()
        headers = (USER_AGENT, *request.headers, *self._credentials.headers("anonymous"))
        target = (self._base_path + request.path).encode("ascii")
        try:
            reply = await self._pool.request(
                request.method, target, headers, b"", timeout_s=LIST_TIMEOUT_S, max_body=MAX_LIST_BYTES
            )
            if reply.status != 200:
                raise _unlisted(f"its answer has status {reply.status}")
            document = await asyncio.to_thread(jsontext.decode, reply.body)  # may take seconds
            entries = definitions.listed(document)
        except TransportError as exc:
            raise _unlisted(f"{exc.kind}: {exc}") from exc
        except (jsontext.JsonError, definitions.DefinitionError) as exc:
            raise _unlisted(str(exc)) from exc
        learned = self._fixed or recognise.of_server(tuple(reply.headers), document)
        if learned is not self._dialect:
            self._dialect, self._call_path = learned, None
        return await self._read(entries)

    async def _read(self, entries: list[Json]) -> Listing:
        tools: list[ToolDefinition] = []
        rejected: list[Rejected] = []
        adapted: set[tuple[str, str]] = set()
        for count, entry in enumerate(entries, 1):
            if count % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                definition, warnings = definitions.read_definition(entry, self._toolkit)
            except definitions.DefinitionError as exc:
                name = entry.get("id") if isinstance(entry, dict) else None
                rejected.append(Rejected(id=str(name)[:256], reason=str(exc)))
                continue
            tools.append(definition)
            adapted.update((definition.id, warning) for warning in warnings)
        ambiguous = {remote_id for remote_id, count in Counter(tool.remote_id for tool in tools).items() if count > 1}
        if ambiguous:  # or a caller of one version would run another
            reason = "its tool server lists several tools under this id, and no version tells them apart"
            rejected += [Rejected(id=tool.id, reason=reason) for tool in tools if tool.remote_id in ambiguous]
            tools = [tool for tool in tools if tool.remote_id not in ambiguous]
        for tool_id, why in sorted(adapted - self._adapted):
            log.warning("a tool's name was adapted", extra={"backend": self.name, "tool": tool_id, "reason": why})
        self._adapted = adapted
        return Listing(tools=tuple(tools), rejected=tuple(rejected))

    async def challenge_status(self, check_url: str) -> str:
        """Asks how a challenge stands; `pending` when it cannot be told now, `failed` when it never will."""
        parts = urlsplit(check_url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = (USER_AGENT, *self._credentials.headers("anonymous"))
        try:
            reply = await self._pool.request(
                b"GET", target.encode("ascii"), headers, b"", timeout_s=CHECK_TIMEOUT_S, max_body=MAX_CHECK_BYTES
            )
            document = jsontext.decode(reply.body)
        except (TransportError, UnicodeEncodeError, jsontext.JsonError):
            return "pending"
        if reply.status == 200 and isinstance(document, dict) and document.get("status") in STATUSES:
            return str(document["status"])
        return "failed" if 400 <= reply.status < 500 else "pending"

    async def aclose(self) -> None:
        await self._pool.aclose()


def _is_unknown_path(reply: Reply) -> bool:
    """Whether a 404 is about the path and not about a tool; FastAPI dresses the former like an error body."""
    return reply.status == 404 and replies.known_error(reply) in (None, {"detail": "Not Found"})


def _unlisted(reason: str) -> GatewayError:
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=reason)


def _join(base: str, url: str) -> str:
    try:
        return urljoin(base + "/", url)
    except ValueError:
        return ""


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ("", None, None)
    return parts.scheme, parts.hostname, port


def is_https_or_loopback(url: str) -> bool:
    """Whether a user's browser may be sent there. A line break would be read away here and not elsewhere."""
    if not URI.fullmatch(url):
        return False
    scheme, host, _ = _origin(url)
    return (scheme == "https" and bool(host)) or (scheme == "http" and host in ("localhost", "127.0.0.1", "::1"))
