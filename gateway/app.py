"""The composition root: a configuration in, a gateway out. The only file that names concrete classes."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway import __version__, openapi
from gateway.auth import JwtAuthenticator, JwtIssuer, NoAuthentication
from gateway.backends.credentials import Credentials, Fixed, Minted
from gateway.backends.http import HttpBackend
from gateway.catalogue import Catalogue, Source
from gateway.challenges import Challenges
from gateway.dialects import recognise
from gateway.edge import Edge
from gateway.model import JsonObject
from gateway.pipeline import Pipeline
from gateway.ports import Authenticator, Backend, ServerDialect
from gateway.routing import OutputCheck, Route
from gateway.settings import (
    ApiKeyAuthSettings,
    AuthSettings,
    BackendSettings,
    BearerAuthSettings,
    Config,
    HttpBackendSettings,
    JwtAuthSettings,
    RouteSettings,
)
from gateway.surface import admin_app, public_app
from gateway.transport import Limits, Origin, Pool

ASKS_IN: dict[str, ServerDialect] = {
    "otc": recognise.OTC,
    "oxp": recognise.OXP,
}  # how a tool server of unknown dialect is asked for its tools


class Gateway:
    """A gateway ready to be started: two ASGI applications and the work behind them."""

    def __init__(self, config: Config) -> None:
        self.backends = {name: _backend(name, settings) for name, settings in config.backends.items()}
        self.catalogue = Catalogue(_sources(config, self.backends))
        server = config.server
        self._public_url = server.public_url
        keys = [key.reveal() for key in config.state.keys] if config.state else []
        self._challenges = Challenges(keys, clock=time.time)
        self.listens_on(server.host, server.port)
        self._draining = False
        pipeline = Pipeline(
            authenticator=_authenticator(config.auth),
            catalogue=self.catalogue,
            challenges=self._challenges,
            new_call_id=CallIds(),
        )
        document = openapi.document(__version__, server.public_url) if server.openapi else None
        self.public: ASGIApp = Edge(
            call=pipeline.call,
            list_=pipeline.list,
            rest=public_app(self, self._challenge_status, document),
            max_body_bytes=server.max_body_bytes,
            strict=config.errors.strict,
        )
        self.admin: ASGIApp = admin_app(self)

    async def start(self) -> None:
        """Begins to ask the backends for their tools; returns at once."""
        await self.catalogue.start()

    def listens_on(self, host: str, port: int) -> None:
        """Tells where callers reach us when the configuration leaves it open."""
        self._challenges.public_url = self._public_url or f"http://{_url_host(host)}:{port}"

    def drain(self) -> None:
        """Turns readiness off; calls are still answered."""
        self._draining = True

    async def aclose(self) -> None:
        """Stops discovery and closes every connection."""
        await self.catalogue.aclose()
        for backend in self.backends.values():
            await backend.aclose()

    @property
    def status(self) -> str:
        if self._draining:
            return "draining"
        return "ok" if self.catalogue.ready else "starting"

    def details(self) -> JsonObject:
        """The detailed health: each backend with its tools, its age and what is wrong with it."""
        backends = {
            name: {"dialect": backend.dialect, **self.catalogue.status(name).as_json()}
            for name, backend in self.backends.items()
        }
        return {"status": self.status, "version": __version__, "backends": backends}

    async def _challenge_status(self, token: str) -> str:
        opened = self._challenges.open(token)
        backend = self.backends.get(opened[0]) if opened else None
        return await backend.challenge_status(opened[1]) if opened and backend else "failed"


class CallIds:
    """Makes call ids of 128 random bits; the prefix tells a tool server's operator whom to ask.

    Randomness is fetched for many at once: a system call for each costs more than the rest of making it.
    """

    def __init__(self) -> None:
        self._random = b""
        self._used = 0

    def __call__(self) -> str:
        if self._used >= len(self._random):
            self._random, self._used = os.urandom(4096), 0
        start, self._used = self._used, self._used + 16
        return "tg-" + self._random[start : self._used].hex()


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _authenticator(auth: AuthSettings | None) -> Authenticator:
    if auth is None:
        return NoAuthentication()
    issuers = [
        JwtIssuer(
            secret=entry.secret.reveal(),
            issuer=entry.issuer,
            audience=frozenset(entry.audience),
            require=entry.require,
            scope_claim=entry.scope_claim,
            leeway_s=entry.leeway_s,
            max_lifetime_s=entry.max_lifetime_s,
        )
        for entry in auth.jwt
    ]
    return JwtAuthenticator(issuers, clock=time.time)


def _backend(name: str, settings: BackendSettings) -> Backend:
    match settings:
        case HttpBackendSettings():
            return _http_backend(name, settings)
        case _:
            raise TypeError(f"no adapter for {type(settings).__name__}")


def _http_backend(name: str, settings: HttpBackendSettings) -> Backend:
    limits = Limits(
        connections=settings.max_concurrency,
        waiters=settings.max_queue,
        connect_timeout_s=settings.connect_timeout_s,
    )
    context = ssl.create_default_context() if urlsplit(settings.url).scheme == "https" else None
    dialect = None if settings.dialect == "auto" else recognise.SERVER_DIALECTS[settings.dialect]
    return HttpBackend(
        name,
        Pool(Origin.parse(settings.url), limits, context),
        settings.url,
        dialect=dialect,
        asks_in=dialect or ASKS_IN[settings.protocol],
        credentials=_credentials(settings),
        toolkit=settings.toolkit or name,
        max_response_bytes=settings.max_response_bytes,
    )


def _credentials(settings: BackendSettings) -> Credentials:
    match settings.auth:
        case None:
            return Fixed()
        case BearerAuthSettings(bearer=token):
            return Fixed.bearer(token.reveal())
        case ApiKeyAuthSettings(api_key=key):
            return Fixed.api_key(settings.protocol, key.reveal())
        case JwtAuthSettings(jwt=token):
            return Minted(
                token.secret.reveal(),
                issuer=token.issuer,
                audience=token.audience,
                subject=token.subject,
                ttl_s=token.ttl_s,
                clock=time.time,
            )


def _sources(config: Config, backends: dict[str, Backend]) -> Sequence[Source]:
    routes = [_route(entry, backends, config.backends[entry.backend]) for entry in config.routes]
    return [
        Source(
            name=name,
            backend=backends[name],
            refresh_s=settings.discovery.refresh_s,
            max_tools=settings.discovery.max_tools,
            max_schema_bytes=settings.discovery.max_schema_bytes,
            routes=routes,
        )
        for name, settings in config.backends.items()
    ]


def _route(entry: RouteSettings, backends: dict[str, Backend], backend: BackendSettings) -> Route:
    return Route(
        tools=entry.tools,
        backend_name=entry.backend,
        backend=backends[entry.backend],
        deny=entry.deny,
        timeout_s=entry.timeout_s or backend.timeout_s,
        scopes=frozenset(entry.scopes),
        secrets={key: secret.reveal() for key, secret in entry.secrets.items()},
        context=frozenset(entry.context),
        authorization_urls=entry.authorization_urls,
        idempotent=entry.idempotent,
        validate_output=OutputCheck(entry.validate_output),
        forward_headers=tuple(name.encode("ascii") for name in backend.forward_headers),
    )
