"""The issuer as an OpenID provider: where people log in, and how a code becomes tokens.

OpenID Connect Core 1.0, section 3.1 (authorization code flow), with PKCE (RFC 7636, S256); OpenID Connect Discovery 1.0
or RFC 8414 for its metadata; RFC 9207 for the issuer in its answers; RFC 8707 for the resource.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus, urlencode, urlsplit

from msgspec import Struct

from gateway.auth.remote import ProxyOf, StatusError, UnavailableError, direct, discover, fetch, named_url
from gateway.core.model import Json, JsonObject

ASK_S = 8.0  # for the metadata or for the tokens; a person waits for both
FRESH_S = 3600.0  # metadata rarely change
PAUSE_S = 3.0  # after a failure, so that a page that is loaded again and again asks no more often than that
EXCHANGES = 16  # at once in this process; a hundred operators log in within seconds all the same
OAUTH_WELL_KNOWN = "/.well-known/oauth-authorization-server"
TOKEN = re.compile(r"[!-~]{1,16384}")
# RFC 6749, sections 4.1.2.1 and 5.2, RFC 8707, OpenID Connect Core 3.1.2.6: what may be shown or logged of an error.
CODES = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
    | {"invalid_scope", "invalid_target", "access_denied", "unsupported_response_type", "server_error"}
    | {"temporarily_unavailable", "interaction_required", "login_required", "account_selection_required"}
    | {"consent_required", "invalid_request_uri", "invalid_request_object", "registration_not_supported"}
)


class TokensRefusedError(Exception):
    """The issuer has issued no tokens; `code` is its reason, `unknown` for one that no specification has."""

    def __init__(self, code: Json) -> None:
        self.code = code if isinstance(code, str) and code in CODES else "unknown"
        super().__init__(self.code)


class LoginTokens(Struct, frozen=True):
    """What a code was exchanged for; both may be anything yet."""

    access: str
    id: str


class Metadata(Struct, frozen=True, kw_only=True):
    """What is needed of an issuer's metadata. `names_itself`: its answers always have `iss`."""

    authorization_endpoint: str
    token_endpoint: str
    takes_basic: bool
    names_itself: bool

    @classmethod
    def read(cls, issuer: str, document: JsonObject, *, allow_http: bool = False) -> Metadata:
        """Raises UnavailableError where an endpoint is missing, or is not https as it has to be."""
        # RFC 8414, section 2: without the member it is client_secret_basic.
        methods = document.get("token_endpoint_auth_methods_supported")
        takes_basic = not isinstance(methods, list) or "client_secret_basic" in methods
        return cls(
            authorization_endpoint=named_url(issuer, document, "authorization_endpoint", allow_http=allow_http),
            token_endpoint=named_url(issuer, document, "token_endpoint", allow_http=allow_http),
            takes_basic=takes_basic or "client_secret_post" not in (methods or ()),
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        )


class Provider:
    """One issuer and our registration there. `trusted` makes what decides whom to trust; `clock` gives seconds."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        trusted: Callable[[], ssl.SSLContext],
        *,
        allow_http: bool = False,
        proxy: ProxyOf = direct,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self.client_id = client_id
        self._secret = client_secret
        self._trusted = trusted
        self._allow_http = allow_http
        self._proxy = proxy
        self._clock = clock
        self._metadata: Metadata | None = None
        self._ask_at = float("-inf")
        self._failure = ""
        self._asking = asyncio.Lock()
        self._exchanges = asyncio.Semaphore(EXCHANGES)

    async def metadata(self) -> Metadata:
        """The metadata, asked for once an hour; old ones stay while the issuer is away. Raises UnavailableError."""
        if self._metadata is not None and self._clock() < self._ask_at:
            return self._metadata
        async with self._asking:
            if self._clock() >= self._ask_at:
                await self._ask()
        if self._metadata is None:
            raise UnavailableError(self._failure)
        return self._metadata

    async def login_url(self, parameters: Mapping[str, str]) -> str:
        """Where a person is sent to log in. Raises UnavailableError."""
        endpoint = (await self.metadata()).authorization_endpoint
        asked = {"response_type": "code", "client_id": self.client_id, **parameters}
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> LoginTokens:
        """Exchanges a code (RFC 6749, section 4.1.3; RFC 7636, section 4.5). Raises UnavailableError, RefusedError."""
        metadata = await self.metadata()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier, "client_id": self.client_id}
        headers: dict[str, str] = {}
        if self._secret is not None and metadata.takes_basic:
            pair = f"{quote_plus(self.client_id)}:{quote_plus(self._secret)}"  # RFC 6749, section 2.3.1
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            del form["client_id"]
        elif self._secret is not None:
            form["client_secret"] = self._secret
        if self._exchanges.locked():
            raise UnavailableError("too many logins at once")
        async with self._exchanges:
            answer = await self._fetched(metadata.token_endpoint, form, headers)
        if "error" in answer:
            raise TokensRefusedError(answer["error"])
        return _tokens(answer)

    async def _fetched(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> JsonObject:
        try:
            async with asyncio.timeout(ASK_S):
                return await fetch(
                    url, self._trusted(), form=form, headers=headers, statuses=(200, 400, 401), proxy=self._proxy
                )
        except TimeoutError as exc:
            raise UnavailableError(f"no answer in {ASK_S:g} s") from exc
        except OSError as exc:  # the files of certificates
            raise UnavailableError(f"its certificates cannot be read: {exc.strerror}") from exc

    async def _ask(self) -> None:
        """Asks for the metadata once; notes when to ask again."""
        try:
            async with asyncio.timeout(ASK_S):
                document = await self._described(self._trusted())
            self._metadata = Metadata.read(self.issuer, document, allow_http=self._allow_http)
        except (UnavailableError, OSError, TimeoutError) as exc:
            self._failure = str(exc) or f"no answer in {ASK_S:g} s"
            self._ask_at = self._clock() + PAUSE_S
        else:
            self._ask_at = self._clock() + FRESH_S

    async def _described(self, trusted: ssl.SSLContext) -> JsonObject:
        """The metadata where OpenID Connect has them, else where RFC 8414, section 3.1, does."""
        try:
            return await discover(self.issuer, trusted, proxy=self._proxy)
        except StatusError as exc:
            if exc.status != 404:
                raise
        parts = urlsplit(self.issuer)
        at = f"{parts.scheme}://{parts.netloc}{OAUTH_WELL_KNOWN}{parts.path.rstrip('/')}"
        return await discover(self.issuer, trusted, at=at, proxy=self._proxy)


def _tokens(answer: JsonObject) -> LoginTokens:
    """Raises UnavailableError for an answer without both tokens."""
    access, kind, id_token = answer.get("access_token"), answer.get("token_type"), answer.get("id_token")
    if not isinstance(access, str) or TOKEN.fullmatch(access) is None:
        raise UnavailableError("the answer holds no access token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise UnavailableError("the access token is no bearer token")
    if not isinstance(id_token, str) or TOKEN.fullmatch(id_token) is None:
        raise UnavailableError("the answer holds no ID token; openid must be among the scopes that are asked for")
    return LoginTokens(access, id_token)
