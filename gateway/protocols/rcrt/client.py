"""Breadcrumbs over HTTP, as RCRT's server of November 2025 has them: create, find, read, delete."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.core.wire import Headers
from gateway.net.client import Reply
from gateway.offload import ChildTasks, OffloadError
from gateway.protocols.common.fields import JSON_TYPE
from gateway.protocols.rcrt.answers import AnswerError, BrokenAnswerError, check_type, decode, reason
from gateway.protocols.rcrt.breadcrumbs import MAX_DEPTH, OWN_TAG, REQUEST_SCHEMAS, Breadcrumb, decode_crumb
from gateway.protocols.rcrt.settings import RcrtBackendSettings
from gateway.protocols.rcrt.tokens import RcrtTokens
from gateway.upstream.replica_url import USER_AGENT, Server

OUTPUTS = (b"output", b"result")  # members of a breadcrumb's context that hold what a tool returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long an RCRT backend waits for what, in seconds. Of two values, pauses grow from the first to the second."""

    create_s: float = 10.0  # it takes milliseconds; a server that takes longer is asked what became of the request
    # Before each further look for a request that may not have been stored; all four take 4 s. A loaded server, or one
    # behind a proxy, stores what it was sent within some seconds or never.
    look_s: tuple[float, float] = (0.25, 2.0)
    looks: int = 4
    read_s: float = 10.0  # lists and records; only background tasks wait for them
    stream_open_s: float = 2.0  # a call waits for the first attempt to open the stream, then goes out without
    idle_s: float = 17.0  # the server pings every 5 s: three of them missed, and some room
    canary_s: float = 5.0  # our own request comes back as an event in some milliseconds, unless the stream is deaf
    backoff_s: float = 0.5  # before the first three reconnects, doubling; they follow an ordinary restart
    reconnect_s: float = 30.0  # later: each connection costs the server a thread for ever, of the 512 it has
    calm_s: float = 60.0  # after a stream that lasted as long, the quick reconnects start again
    poll_s: tuple[float, float] = (1.0, 5.0)  # between two polls for one call without a stream
    insurance_s: tuple[float, float] = (5.0, 60.0)  # and beside one
    untagged_s: float = 10.0  # between two looks at all responses without a tag, which only an unknown tool gets
    watch_s: float = 24 * 3600.0  # the outcome of a call is looked for as long as a call is kept while it is not over
    request_ttl_s: float = 3600.0  # a request breadcrumb is kept; a runner acts on it at once or never
    seen_s: float = 30.0  # a tool seen in the workspace is taken to be there
    change_s: float = 1.0  # changes of tools come in bursts; one listing answers a whole one
    workflow_s: float = 360.0  # the place of a workflow whose response was lost; a runner stops it after 300 s


class RcrtClient:
    """One server's breadcrumbs. Everything raises TransportError, AnswerError or GatewayError (`FAILURES`)."""

    def __init__(
        self, name: str, settings: RcrtBackendSettings, server: Server, checker: ChildTasks, timings: Timings
    ) -> None:
        self.name = name
        self.server = server
        self.timings = timings
        self.tokens = RcrtTokens(settings, server)
        self.max_response_bytes = settings.max_response_bytes
        self._checker = checker
        self._request_schema = REQUEST_SCHEMAS[settings.request_schema]

    async def create(self, body: bytes, key: str, timeout_s: float, more: Headers) -> str:
        """Stores a breadcrumb under an `Idempotency-Key`; its id, empty if the server did not say.

        `more` are headers of this request alone.
        """
        headers = (JSON_TYPE, (b"idempotency-key", key.encode("ascii")), *more)
        reply = await self._send(b"POST", "/breadcrumbs", headers, body, timeout_s=timeout_s)
        document = await self._decode(reply)
        crumb_id = document.get("id") if isinstance(document, dict) else None
        return crumb_id if isinstance(crumb_id, str) else ""

    async def find(
        self, schema: str, tag: str, *, limit: int, offset: int = 0, context: bool = False, narrow: bool = False
    ) -> list[Breadcrumb | None]:
        """The breadcrumbs of a schema with a tag, the last changed first; None for what is none of them.

        The list knows no tenants. `narrow`: raises WideAnswerError for an answer of very many values.
        """
        reply = await self.find_text(schema, tag, limit=limit, offset=offset, context=context)
        document = decode(reply) if narrow else await self._decode(reply)
        if not isinstance(document, list):
            raise BrokenAnswerError(reply.status, "not a list")
        return [decode_crumb(entry) for entry in document]

    async def find_request(self, request_id: str) -> str | None:
        """The id of a request's breadcrumb by its tag, which is ours alone."""
        crumbs = await self.find(self._request_schema, OWN_TAG + request_id, limit=1)
        return next((crumb.id for crumb in crumbs if crumb is not None), None)

    async def find_text(self, schema: str, tag: str, *, limit: int, offset: int = 0, context: bool = False) -> Reply:
        """As `find`, before it is read."""
        query: dict[str, str | int] = {"schema_name": schema, "tag": tag, "limit": limit}
        if offset:
            query["offset"] = offset
        if context:
            query["include_context"] = "true"
        return await self._send(b"GET", f"/breadcrumbs?{urlencode(query)}", entries=limit if context else 1)

    async def read(self, crumb_id: str, *, narrow: bool = False) -> JsonObject | None:
        """The whole record; None when it is gone. Other views may be rewritten for language models.

        `narrow` as for `find`.
        """
        try:
            reply = await self._send(b"GET", f"/breadcrumbs/{crumb_id}/full")
        except AnswerError as exc:
            if exc.status == 404:
                return None
            raise
        document = decode(reply) if narrow else await self._decode(reply)
        return document if isinstance(document, dict) else None

    async def delete(self, crumb_id: str) -> None:
        await self._send(b"DELETE", f"/breadcrumbs/{crumb_id}")

    async def _decode(self, reply: Reply) -> Json:
        """As `decode`; what tools returned stays text (`msgspec.Raw`) in an answer of very many values."""
        check_type(reply)
        if not jsontext.is_wide(reply.body):
            try:
                return decode(reply)
            except BrokenAnswerError:  # halves of characters in a long one are put right in the child
                if len(reply.body) <= jsontext.ALWAYS_HERE_BYTES:
                    raise
        try:
            return await self._checker.read_answer(reply.body, OUTPUTS, MAX_DEPTH, self.server.url)
        except (OffloadError, jsontext.JsonError) as exc:
            raise BrokenAnswerError(reply.status, f"it cannot be read: {exc!r}") from exc

    async def _send(
        self,
        method: bytes,
        path: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        entries: int = 1,
    ) -> Reply:
        """Sends a request, and after a 401 once more with a new token: what was refused so has done nothing."""
        for _ in range(2):
            credentials = await self.tokens.headers()
            reply = await self.server.pool.request(
                method,
                self.server.target(path),
                (USER_AGENT, *credentials, *headers),
                body,
                timeout_s=timeout_s or self.timings.read_s,
                max_body=entries * self.max_response_bytes,
            )
            if reply.status != 401 or not self.tokens.reject(credentials):
                break
        if reply.status == 401:
            self.tokens.check_issued(credentials)
        if reply.status != 200:
            # What a database says about a breadcrumb it refuses may quote it, arguments and all.
            quotable = not body or reply.status in (401, 403)
            raise AnswerError(reply.status, reason(reply) if quotable else "it was refused")
        return reply
