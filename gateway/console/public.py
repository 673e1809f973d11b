"""The console on the listener for callers, from its settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Scope

from gateway.assembly.authenticators import Issuers
from gateway.auth.remote import system_authorities
from gateway.console.headers import HEADERS
from gateway.core.ports import Caller
from gateway.core.sealing import Sealer
from gateway.http.routes import CONSOLE, request_of
from gateway.ratelimit import RateLimited, RateLimits
from gateway.settings import Config
from gateway.upstream.proxies import proxy_for
from gateway.upstream.replica_url import client_context

if TYPE_CHECKING:
    from gateway.console.login import Login


class PublicListener:
    """What the login needs of the listener in front of it (`console.login.Listener`). `limits` are looked up."""

    def __init__(self, limits: Callable[[], RateLimits]) -> None:
        self._limits = limits

    def admit(self, scope: Scope) -> None:
        """Counts a step of a login by its address. Raises RateLimited."""
        request = request_of(scope)
        try:
            self._limits().admit_login(request.ip)
        except RateLimited as error:
            error.drop_trace()  # before the request knows it
            request.refusal = error
            raise

    def note(self, scope: Scope, *, principal: str = "", reason: str = "") -> None:
        """Notes for the log who sends a request, or a word for why it was refused."""
        request = request_of(scope)
        if principal:
            request.caller = Caller(principal=principal)
        request.reason = reason or request.reason


def public_console(
    config: Config, console: ASGIApp, issuers: Issuers, limits: Callable[[], RateLimits], sealer: Sealer
) -> Login | None:
    """The console behind a login, if the configuration wants one there."""
    settings, auth, public_url = config.console, config.auth, config.server.public_url
    login = settings.login
    if not settings.public or login is None:
        return None
    # Only gateways that need them pay for these.
    from gateway.console.login import Login
    from gateway.console.provider import Provider
    from gateway.console.session import Cookies

    entry = None if auth is None else auth.issuer(login.issuer)
    assert auth is not None  # the settings insist on all of this
    assert entry is not None
    assert public_url is not None
    access, identity = issuers.of_login(auth, login)
    secret = None if login.client_secret is None else login.client_secret.get_secret_value()
    asked = {"scope": login.requested} | ({} if login.resource is None else {"resource": login.resource})
    return Login(
        console,
        PublicListener(limits),
        Provider(
            login.issuer,
            login.client_id,
            secret,
            system_authorities if entry.tls is None else cache(partial(client_context, entry.tls)),
            allow_http=entry.allow_http,
            proxy=partial(proxy_for, entry.proxy),
        ),
        Cookies(
            sealer,
            is_secure=public_url.startswith("https:"),
            session_s=login.session_s,
            meant_for=(public_url, login.issuer, login.client_id, login.scope),
            clock=time.time,
        ),
        access=access,
        identity=identity,
        url=public_url + CONSOLE,
        scope=login.scope,
        asked=asked,
        headers=HEADERS,
    )
