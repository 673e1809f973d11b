"""Refuses requests meant for other hosts: a page that had its own name lead here, a proxy that mixed names up.

`/health` is answered whoever is meant: probes of a cluster call a pod by its address, and it tells one word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects import recognise
from gateway.errors import ErrorCode, GatewayError
from gateway.http.instrumentation import route_of
from gateway.http.observer import Observer
from gateway.request import head_of
from gateway.tracing import IdSource, identify

HEALTH = frozenset({"/health", *(f"/{dialect}/health" for dialect in recognise.DIALECTS)})
ABSENT = b""
REFUSED = "The Host header does not name a host that is served here."


class AllowedHosts:
    """Passes on what is meant for one of `names`: a host, an address, or `*.` and what all of its hosts end in.

    `observer` hears of what is not. `ip_of` tells the caller's address.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Iterable[str],
        observer: Observer,
        chance: IdSource,
        ip_of: Callable[[Scope], str],
    ) -> None:
        self._app = app
        self._observer = observer
        self._chance = chance
        self._ip_of = ip_of
        written = [host_of(name) for name in names]
        self._exact = frozenset(name.encode("ascii") for name in written if not name.startswith("*."))
        self._endings = tuple(name[1:].encode("ascii") for name in written if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_ours(dict(scope["headers"]).get(b"host", ABSENT)):
            return await self._app(scope, receive, send)
        if scope["path"] in HEALTH:
            return await self._app(scope, receive, send)
        head = head_of(scope)
        trace = identify(head.headers, self._chance)
        reply = recognise.refusal(GatewayError(ErrorCode.INVALID_REQUEST, REFUSED), head)
        operation, route = route_of(head.method, head.path)
        client = self._ip_of(scope)
        self._observer.turned_away(reply.status, REFUSED, client, operation, route, head.prefix, trace.request_id)
        headers = [*reply.headers, (b"content-length", b"%d" % len(reply.body)), trace.sent[0]]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        return await send({"type": "http.response.body", "body": reply.body})

    def _is_ours(self, header: bytes) -> bool:
        if header in self._exact:  # nearly always
            return True
        host = host_of(header.decode("latin-1")).encode("latin-1")
        return host in self._exact or (bool(self._endings) and host.endswith(self._endings))


def host_of(authority: str) -> str:
    """The host of `host:port` in the form in which hosts are compared; an IPv6 address without brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    if authority.count(":") > 1:  # an IPv6 address as a configuration writes it
        return authority.lower()
    return authority.partition(":")[0].rstrip(".").lower()
