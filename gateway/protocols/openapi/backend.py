"""The backend for HTTP APIs that an OpenAPI document describes: its operations are the tools."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Literal

from gateway.core.errors import unavailable
from gateway.core.jsontext import encode
from gateway.core.model import Invocation, Listing, ToolResult
from gateway.core.ports import Backend, DispatchGate
from gateway.core.wire import Headers, WireRequest
from gateway.net.client import Limits, Origin, Pool, Reply, TransportError
from gateway.protocols.openapi.calls import Deletion, OpenApiCalls, SecondReply
from gateway.protocols.openapi.credentials import OpenApiCredentials, OwnCredentials, document_headers, with_query
from gateway.protocols.openapi.document.codec import plan_of
from gateway.protocols.openapi.document.serialise import encoded_path
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.openapi.sources import MAX_HOPS, DocumentFile, Documents, DocumentUrl, Fetched, redirected
from gateway.protocols.openapi.terms import terms_of
from gateway.upstream.admission import Lease
from gateway.upstream.exchange import HttpExchange
from gateway.upstream.list_reader import ListReader
from gateway.upstream.proxies import proxy_for
from gateway.upstream.replica_url import USER_AGENT, BackendContext, Server, open_ssl_context, static_headers

LOOK = WireRequest(method=b"HEAD", path="")  # shows whether the API answers at all, and runs no operation
CONNECT_S = 10.0  # to the server of a document, which is fetched in the background
SAFE = (b"GET", b"HEAD")  # requests that follow redirects
NOT_IMPLEMENTED = 501  # a server that has no HEAD (RFC 9110, section 9.1, demands it)
MAX_LOOK = 64 * 1024  # bytes of the answer to a GET in its place; a longer one is an answer, too
SHORT_BYTES = 16 * 1024  # of a document that a thread reads
MAY_VANISH = 0.5  # of the tools of a document, at once


class OpenApiBackend:
    """One API, or several replicas of it."""

    deferred: Literal[False] = False
    max_exchange_s = inf

    def __init__(self, name: str, settings: OpenApiBackendSettings, context: BackendContext) -> None:
        self.name = name
        self._settings = settings
        self._max_response_bytes = settings.max_response_bytes
        self._forwards = bool(settings.forward_headers)
        self._exchange = HttpExchange(name, settings, context, LOOK, send=self._send, ask=self._look)
        self._credentials = OpenApiCredentials(name, settings.auth, self._exchange.credentials, settings.proxy)
        origins = [str(replica.target.pool.origin) for replica in context.admission.replicas]
        self._calls = OpenApiCalls(self._credentials, origins, name)
        self._documents = _documents(settings)
        terms = encode(terms_of(settings, name))
        self._reader = ListReader(
            read_operations, name, settings, context.lists, terms=terms, decoder=decoder, is_short=_is_short
        )
        self._note = ""
        self._listing: Listing | None = None
        self._version: object = None  # of the document that the listing was read from

    @property
    def dialect(self) -> str:
        """What the document is."""
        return self._note or "openapi"

    @property
    def report(self) -> bytes:
        """What became of the operations in the last document, as text: a `listings.Report`."""
        return self._reader.report

    def take_over(self, before: Backend) -> None:
        """Takes the document that the backend which it replaces has read."""
        if isinstance(before, OpenApiBackend):
            self._note, self._listing, self._version = before._note, before._listing, before._version
            self._reader.take_over(before._reader)

    # Calls.

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool; raises as `HttpExchange.call`."""
        return self._exchange.call(self._calls, invocation, gate)

    async def _send(self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float) -> Reply:
        """Sends a call, and follows where a redirect leads it. Raises TransportError."""
        plan, server = plan_of(invocation), lease.replica.target
        own = self._credentials.own(plan.access)
        once = partial(self._send_once, server, own, request, invocation, deadline)

        def send(target: bytes) -> Awaitable[Reply]:
            """Sends the request to a target, with a token that was issued if it takes one."""
            if own.issued is None:
                return once(target)
            return own.issued.authorized(partial(once, target), deadline - monotonic())

        target = server.target(request.path)
        try:
            reply = await send(target)
        except TransportError as exc:
            if exc.sent and isinstance(request, Deletion):
                request.broken_off.append(exc)
            raise
        if isinstance(request, Deletion) and request.broken_off:
            return SecondReply(reply.status, reply.headers, reply.body)
        if reply.status >= 300 and request.method in SAFE and not request.body:
            base_path = server.base_path + encoded_path(plan.prefix)
            return await self._follow(
                reply, target, server.pool.origin, base_path, self._calls.in_query(invocation), send
            )
        return reply

    async def _follow(
        self,
        reply: Reply,
        target: bytes,
        origin: Origin,
        base_path: str,
        parts: Sequence[str],
        send: Callable[[bytes], Awaitable[Reply]],
    ) -> Reply:
        """The answer at the end of some redirects; the last one itself if that may not be followed.

        `parts` are the credentials in the query, which no server has to repeat.
        """
        for _ in range(MAX_HOPS):
            location = redirected(reply, origin, target, base_path)
            if location is None:
                break
            target = with_query(location.decode("ascii"), parts).encode("ascii") if parts else location
            try:
                reply = await send(target)
            except TransportError as exc:  # the first of these requests did arrive
                raise TransportError(exc.kind, str(exc), sent=True) from exc
        return reply

    def _send_once(
        self,
        server: Server,
        own: OwnCredentials,
        request: WireRequest,
        invocation: Invocation,
        deadline: float,
        target: bytes,
    ) -> Awaitable[Reply]:
        headers = (*own.headers(invocation.principal), *request.headers)
        return server.pool.request(
            request.method,
            target,
            headers,
            request.body,
            more=_beside(headers, invocation.headers) if self._forwards else invocation.headers,
            timeout_s=max(deadline - monotonic(), 0.001),
            max_body=self._max_response_bytes,
        )

    async def _look(self, server: Server, timeout_s: float) -> Reply:
        """Asks the base URL of the API without a credential. Raises TransportError."""
        ask = partial(server.pool.request, target=server.target(""), headers=(USER_AGENT,), body=b"")
        reply = await ask(LOOK.method, timeout_s=timeout_s, max_body=MAX_LOOK)
        if reply.status == NOT_IMPLEMENTED:
            return await ask(b"GET", timeout_s=timeout_s, max_body=MAX_LOOK)
        return reply

    # The document.

    async def list_tools(self) -> Listing:
        """Reads the document if it has changed. Raises BACKEND_UNAVAILABLE, also for one that loses most tools."""
        previous = self._listing
        fetched = await self._documents.read(None if previous is None else self._version)
        if fetched is None and previous is not None:
            return previous
        assert fetched is not None  # nothing was known
        await self._check_pin(fetched)
        version = fetched.version
        reading = self._reader.read(fetched.text, beside=fetched.beside)
        del fetched
        note, listing = await reading
        if previous is not None and listing is not previous and self._settings.pin is None:
            _check_losses(previous, listing)
        self._note, self._listing, self._version = note, listing, version
        return listing

    async def _check_pin(self, fetched: Fetched) -> None:
        pin = self._settings.pin
        if pin is not None and (digest := await asyncio.to_thread(_digest, fetched.text)) != pin:
            raise unavailable(f"its document is not the one that is pinned, but {digest}")

    async def challenge_status(self, check_url: str) -> str:
        """How a challenge of this backend stands; an API has no way to ask."""
        return await self._exchange.challenge_status(check_url)

    async def aclose(self) -> None:
        """Refuses the calls that wait and closes every connection."""
        await self._documents.aclose()
        await self._credentials.aclose()
        await self._exchange.aclose()


def _is_short(text: bytes) -> bool:
    """Whether reading a document takes a few milliseconds at most. Compiling one pattern may take 50 ms."""
    return len(text) <= SHORT_BYTES and b"pattern" not in text


def _beside(headers: Headers, passed_on: Headers) -> Headers:
    """What is passed on of a caller's headers, without those that the request has already."""
    names = {name for name, _ in headers}
    return tuple(pair for pair in passed_on if pair[0] not in names)


def _documents(settings: OpenApiBackendSettings) -> Documents:
    url = settings.document_url
    if not url:
        return DocumentFile(settings.document, with_folder=settings.references == "files")
    # The authorities of `tls` are those of the API: another server's document is trusted as the system does.
    is_ours = Origin.parse(url) in map(Origin.parse, settings.addresses)
    pool = Pool(
        Origin.parse(url),
        Limits(connections=2, connect_timeout_s=CONNECT_S),
        open_ssl_context(settings, (url,)) if is_ours else None,
        proxy=proxy_for(settings.proxy, url),
        headers=static_headers(settings) if is_ours else (),
    )
    return DocumentUrl(url, document_headers(settings.document_auth), pool)


def _check_losses(before: Listing, after: Listing) -> None:
    """Raises BACKEND_UNAVAILABLE for a document without most of the tools: most often it is the wrong one."""
    old, new = ({tool.tool for tool in listing.tools} for listing in (before, after))
    lost = len(old - new)
    if lost > MAY_VANISH * len(old):
        raise unavailable(
            f"its document has changed and lacks {lost} of {len(old)} tools, which all stay as they are; "
            "to take it, restart, or pin it"
        )


def _digest(text: bytes) -> str:
    return "sha256:" + hashlib.sha256(text).hexdigest()
