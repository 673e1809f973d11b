"""The credentials of calls to an HTTP API: the gateway's own and those that callers supply, each in its place.

A request has one Cookie header, with the cookies of all sources (RFC 6265, section 5.4). A target may hold a key in its
query, so no target is logged or quoted.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_plus

from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, Invocation
from gateway.core.wire import Headers, WireRequest
from gateway.net.client import Proxy
from gateway.protocols.openapi.document.plan import Access, KeyPlace, LentCredential
from gateway.protocols.openapi.settings_auth import (
    BasicAuthSettings,
    LoginSettings,
    OneCredential,
    OpenApiAuthSettings,
    PlacedKeyAuthSettings,
    SchemesAuthSettings,
)
from gateway.upstream.credentials import Credentials, Minted
from gateway.upstream.oauth import ClientCredentials
from gateway.upstream.replica_url import USER_AGENT
from gateway.upstream.settings import BearerAuthSettings, HeaderAuthSettings, JwtAuthSettings, OAuthAuthSettings

COOKIE = b"cookie"
AUTHORIZATION = b"authorization"
SENDABLE = re.compile(r"[\x20-\x7e]+")  # of a lent token in a header: no end of a line, and no letters beyond ASCII
SHORTEST_SECRET = 8  # characters; shorter ones may stand in any text by chance
LONG_SECRET = 16  # characters; a shorter one may be a word that stands in a result
MAX_OWN = 1024  # sets of credentials that are kept as they are sent; most documents have one or two
WHOLE = ""  # the name of the one credential of a backend that has not several


class PlacedCredentials(NamedTuple):
    """Credentials where they go: headers, parts of a query, parts of the Cookie header."""

    headers: Headers = ()
    query: tuple[str, ...] = ()
    cookies: tuple[str, ...] = ()

    def beside(self, other: PlacedCredentials) -> PlacedCredentials:
        """Both."""
        return PlacedCredentials(self.headers + other.headers, self.query + other.query, self.cookies + other.cookies)


Source = PlacedCredentials | str | Minted | ClientCredentials  # a text is a key that goes where the document says


class OwnCredentials(NamedTuple):
    """What the gateway sends of its own with the calls of an operation; at most one of the latter two is set.

    `headers` of `placed` begin with our User-Agent, and with that nothing is to be compressed.
    """

    placed: PlacedCredentials
    signed: Minted | None = None
    issued: ClientCredentials | None = None

    def headers(self, principal: str) -> Headers:
        """The headers of a request, with a token that is made or was issued for it."""
        return (*self.placed.headers, *self.token(principal))

    def token(self, principal: str) -> Headers:
        """The header with a token that is made, or was issued; empty if there is none."""
        token: Credentials | None = self.issued or self.signed
        return () if token is None else token(principal)


class OpenApiCredentials:
    """Those of one backend."""

    def __init__(
        self,
        backend: str,
        auth: OpenApiAuthSettings | None,
        tokens: Credentials,
        proxy: str | Proxy | None = None,
    ) -> None:
        """`tokens` are those of an `auth` that has them made or issued, for all of the backend; `proxy` is its own."""
        settings: Mapping[str, OneCredential] = {}
        if isinstance(auth, SchemesAuthSettings):
            settings = auth.schemes
        elif auth is not None:
            settings = {WHOLE: auth}
        self._sources: Mapping[str, Source]
        if isinstance(tokens, Minted | ClientCredentials):
            self._sources = {WHOLE: tokens}
        else:
            self._sources = {name: _source(backend, auth_settings, proxy) for name, auth_settings in settings.items()}
        self._own: dict[tuple[tuple[str, ...] | None, tuple[KeyPlace, ...]], OwnCredentials] = {}
        self._secrets = tuple(secret for auth_settings in settings.values() for secret in _secrets(auth_settings))
        self._long_secrets = tuple(filter(_is_long, self._secrets))

    def own(self, access: Access) -> OwnCredentials:
        """What the gateway sends of its own."""
        own = self._own.get((access.schemes, access.keys))
        if own is None:
            if len(self._own) >= MAX_OWN:  # the names are those of a document, which may have others every minute
                self._own.clear()
            own = self._own[access.schemes, access.keys] = self._joined(access)
        return own

    def _joined(self, access: Access) -> OwnCredentials:
        fixed, signed, issued = PlacedCredentials((USER_AGENT,)), None, None
        for name in (WHOLE,) if access.schemes is None else access.schemes:
            match self._sources.get(name):
                case PlacedCredentials() as placed:
                    fixed = fixed.beside(placed)
                case str() as key:
                    for place in access.keys:
                        if place.scheme == name:
                            fixed = fixed.beside(_placed(place.where, place.name, key))
                case Minted() as tokens:
                    signed = tokens
                case ClientCredentials() as tokens:
                    issued = tokens
        return OwnCredentials(fixed, signed, issued)

    def apply(self, request: WireRequest, invocation: Invocation, access: Access) -> WireRequest:
        """The request with all credentials but our own headers. Raises GatewayError: nothing was sent."""
        own = self.own(access).placed
        if not (access.lent or own.query or own.cookies):
            return request
        lent = _lent(access.lent, invocation.context)
        query, cookies = own.query + lent.query, own.cookies + lent.cookies
        path = with_query(request.path, query) if query else request.path
        headers = _with_cookies(request.headers, cookies) if cookies else request.headers
        return replace(request, path=path, headers=(*headers, *lent.headers))

    def in_query(self, invocation: Invocation, access: Access) -> Sequence[str]:
        """The parts of a query that are credentials of a call."""
        return self.own(access).placed.query + _lent(access.lent, invocation.context).query

    def secrets(self, invocation: Invocation, access: Access) -> Sequence[bytes]:
        """The credentials of a call, which must not come back in an answer, in every form in which they are sent."""
        more = self._of_call(invocation, access)
        return [secret for secret in (*self._secrets, *more) if len(secret) >= SHORTEST_SECRET]

    def long_secrets(self, invocation: Invocation, access: Access) -> Sequence[bytes]:
        """Those that stand in no result by chance."""
        more = self._of_call(invocation, access)
        return (*self._long_secrets, *filter(_is_long, more)) if more else self._long_secrets

    def _of_call(self, invocation: Invocation, access: Access) -> Sequence[bytes]:
        """The tokens and secrets that are those of a call alone."""
        tokens = [
            value.rpartition(b" ")[2].decode("latin-1") for _, value in self.own(access).token(invocation.principal)
        ]
        context = invocation.context  # what callers supply is not for models, and some of the secrets are the route's
        if not (tokens or context.secrets or context.tokens):
            return ()
        return [
            form
            for secret in (*tokens, *context.secrets.values(), *context.tokens.values())
            for form in forms_of(secret)
        ]

    async def aclose(self) -> None:
        """Stops asking for tokens."""
        for source in self._sources.values():
            if isinstance(source, ClientCredentials):
                await source.aclose()


def _source(backend: str, auth: OneCredential, proxy: str | Proxy | None = None) -> Source:
    """A credential in its place, a key that goes where the document says, or what makes or asks for tokens."""
    match auth:
        case BearerAuthSettings(bearer=token):
            return PlacedCredentials(_authorization(f"Bearer {token.get_secret_value()}"))
        case BasicAuthSettings(basic=login):
            return PlacedCredentials(_authorization(f"Basic {_pair(login)}"))
        case HeaderAuthSettings(header=own):
            return _placed("header", own.name, own.value.get_secret_value())
        case PlacedKeyAuthSettings(api_key=key):
            if key.where is None or key.name is None:
                return key.value.get_secret_value()
            return _placed(key.where, key.name, key.value.get_secret_value())
        case JwtAuthSettings(jwt=signing):
            return Minted(signing)
        case OAuthAuthSettings(oauth=client):
            return ClientCredentials(backend, client, proxy=proxy)


def document_headers(auth: BearerAuthSettings | BasicAuthSettings | HeaderAuthSettings | None) -> Headers:
    """The headers that fetch a document."""
    source = None if auth is None else _source("", auth)
    return source.headers if isinstance(source, PlacedCredentials) else ()


def _secrets(auth: OneCredential) -> Sequence[bytes]:
    """A fixed credential in every form in which it is sent."""
    match auth:
        case BearerAuthSettings(bearer=token):
            return forms_of(token.get_secret_value())
        case BasicAuthSettings(basic=login):
            return [*forms_of(login.password.get_secret_value()), *forms_of(_pair(login))]
        case HeaderAuthSettings(header=own):
            return forms_of(own.value.get_secret_value())
        case PlacedKeyAuthSettings(api_key=key):
            return forms_of(key.value.get_secret_value())
    return ()


def _is_long(secret: bytes) -> bool:
    """Whether a secret stands in no result by chance. Numbers stay: in JSON nothing could stand in their place."""
    return len(secret) >= LONG_SECRET and not secret.isdigit()


def _lent(lent: Sequence[LentCredential], context: CallContext) -> PlacedCredentials:
    """What a caller lends, in its places. Raises MISSING_REQUIREMENTS, INVALID_REQUEST."""
    result = PlacedCredentials()
    for credential in lent:
        what, offered = ("secret", context.secrets) if credential.is_secret else ("token", context.tokens)
        value = offered.get(credential.id)
        if not value:
            raise GatewayError(ErrorCode.MISSING_REQUIREMENTS, f"The tool needs a {what} of {credential.id} to run.")
        if SENDABLE.fullmatch(value) is None or value != value.strip():
            raise GatewayError(ErrorCode.INVALID_REQUEST, f"The {what} of {credential.id} cannot be sent in a request.")
        if credential.where == "bearer":
            result = result.beside(PlacedCredentials(_authorization(f"Bearer {value}")))
        else:
            result = result.beside(_placed(credential.where, credential.name, value))
    return result


def _placed(where: str, name: str, value: str) -> PlacedCredentials:
    if where == "query":
        return PlacedCredentials(query=(f"{quote(name, safe='')}={quote(value, safe='')}",))
    if where == "cookie":
        return PlacedCredentials(cookies=(f"{name}={quote(value, safe=COOKIE_OCTETS)}",))
    return PlacedCredentials(((name.lower().encode(), value.encode()),))


def _authorization(value: str) -> Headers:
    return ((AUTHORIZATION, value.encode()),)


def _pair(login: LoginSettings) -> str:
    """User and password as RFC 7617 has them."""
    return b64encode(f"{login.user}:{login.password.get_secret_value()}".encode()).decode()


def with_query(path: str, parts: Sequence[str]) -> str:
    """A path with these parts at the end of its query, each in the place of those with its name.

    What an argument or a redirect says under the name of a key is never sent.
    """
    before, _, query = path.partition("?")
    names = {_parameter(part) for part in parts}
    others = [part for part in query.split("&") if part and _parameter(part) not in names]
    return f"{before}?{'&'.join((*others, *parts))}"


def _parameter(part: str) -> str:
    return unquote_plus(part.partition("=")[0])


def _with_cookies(headers: Headers, cookies: Sequence[str]) -> Headers:
    """Headers whose one Cookie also has these; of one name the last counts."""
    names = {part.partition("=")[0] for part in cookies}
    before = [
        part
        for name, value in headers
        if name == COOKIE
        for part in value.decode("latin-1").split("; ")
        if part.partition("=")[0] not in names
    ]
    joined = "; ".join((*before, *cookies)).encode("latin-1")
    return (*(pair for pair in headers if pair[0] != COOKIE), (COOKIE, joined))


MASK = b"***"
COOKIE_OCTETS = "!#$%&'()*+-./:<=>?@[]^_`{|}~"  # RFC 6265, section 4.1.1, beside letters and digits
SHORT_ESCAPES = {"/": r"\/"} | {text: json.dumps(text)[1:-1] for text in '"\\\b\f\n\r\t'}

_plain = re.compile(r"[A-Za-z0-9._~-]+")  # what no encoder of JSON escapes


@lru_cache(1024)
def forms_of(secret: str) -> Sequence[bytes]:
    """A secret as it stands in headers, in URLs and in cookies."""
    forms = (secret, quote(secret, safe=""), quote(secret, safe=COOKIE_OCTETS))
    return [form.encode() for form in dict.fromkeys(forms)]


def masked(text: bytes, secrets: Sequence[bytes]) -> bytes:
    """A text without secrets, also where it is JSON that escapes some of their characters."""
    has_escapes = b"\\" in text
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
        if has_escapes and (escaped := _escaped(secret)) is not None and escaped.longest in text:
            text = escaped.pattern.sub(MASK, text)
    return text


class _Escaped:
    """A secret in JSON: what finds it, and the longest part of it that looks the same in all of its forms."""

    __slots__ = ("longest", "pattern")

    def __init__(self, secret: str) -> None:
        self.pattern = re.compile("".join(map(_any_form, secret)).encode())
        self.longest = max(_plain.findall(secret), key=len, default="").encode()


@lru_cache(1024)  # the credentials of some backends, and tokens of some callers
def _escaped(secret: bytes) -> _Escaped | None:
    """None for a secret that is never escaped, as most are."""
    text = secret.decode("utf-8", "replace")
    return None if _plain.fullmatch(text) else _Escaped(text)


def _any_form(character: str) -> str:
    """A pattern of a character in JSON: itself, a short escape, its number in hexadecimal digits of any case."""
    if _plain.match(character):
        return re.escape(character)
    units = character.encode("utf-16-be").hex()
    numbers = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    forms = (re.escape(character), numbers, re.escape(SHORT_ESCAPES.get(character, character)))
    return f"(?:{'|'.join(dict.fromkeys(forms))})"
