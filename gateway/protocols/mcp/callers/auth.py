"""What callers of MCP are told about authorization: where to get a token, and which scopes a call needs.

RFC 9728 (OAuth 2.0 Protected Resource Metadata), RFC 6750 (section 3) and MCP 2026-07-28 (Authorization).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gateway.core.jsontext import encode
from gateway.core.model import JsonObject
from gateway.core.ports import Caller
from gateway.core.wire import Headers, WireReply

WELL_KNOWN = "/.well-known/oauth-protected-resource"
RESOURCE_NAME = "Toolgate"
CHALLENGE = b"www-authenticate"
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, section 3.3: no others can be asked for
TOKEN = "jwt:"  # noqa: S105 - begins the principals of callers with tokens


class Protection(Struct, frozen=True, kw_only=True):
    """How callers of the resource at `path` get tokens. `public_url` is where callers reach the gateway.

    Without `issuers` there is no metadata: callers would begin with OAuth and could not end it. `scopes` are those that
    every tool needs.
    """

    path: str
    public_url: Callable[[], str]
    issuers: Sequence[str] = ()
    scopes: Sequence[str] = ()

    def at(self, path: str) -> Protection:
        """That of the resource at another path, which has metadata of its own."""
        return self if path == self.path else replace(self, path=path)

    def unauthenticated(self, reply: WireReply) -> WireReply:
        """A 401 with what its caller needs for a token, in the same challenge (RFC 9728, section 5.1)."""
        if not self.issuers:
            return reply
        more = self._where()
        if self.scopes:
            more += b', scope="%b"' % _scope(self.scopes)
        headers = [(name, value + more if name == CHALLENGE else value) for name, value in reply.headers]
        return WireReply(status=reply.status, headers=tuple(headers), body=reply.body)

    def insufficient_scope(self, scopes: Iterable[str]) -> Headers:
        """The challenge of a call that needs these scopes (RFC 6750, section 3.1)."""
        value = b'Bearer realm="toolgate", error="insufficient_scope", scope="%b"' % _scope(sorted(scopes))
        return ((CHALLENGE, value + self._where() if self.issuers else value),)

    def _where(self) -> bytes:
        url = f"{self.public_url()}{WELL_KNOWN}{self.path}"
        return b', resource_metadata="%b"' % url.encode("ascii", "replace")


def can_get_scopes(caller: Caller) -> bool:
    """Whether a caller may come back with more scopes: a token is issued anew, an API key never changes."""
    return caller.principal.startswith(TOKEN)


def metadata(resource: str, issuers: Sequence[str], scopes: Sequence[str]) -> bytes:
    """The metadata of a protected resource (RFC 9728, section 2)."""
    document: JsonObject = {"resource": resource, "authorization_servers": issuers}
    if scopes:
        document["scopes_supported"] = [*filter(SCOPE.fullmatch, scopes)]
    return encode({**document, "bearer_methods_supported": ["header"], "resource_name": RESOURCE_NAME})


def _scope(scopes: Iterable[str]) -> bytes:
    return " ".join(filter(SCOPE.fullmatch, scopes)).encode()
