"""From settings to what looks at a request first: certificates, hosts, origins, proxies.

What is not configured is not there, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.http import openapi
from gateway.http.clientip import ClientIps, peer
from gateway.http.cors import Cors
from gateway.http.hosts import AllowedHosts
from gateway.server import ServingContext, TlsFiles
from gateway.settings import AuthSettings, Config, ServerSettings
from gateway.settings.server import EVERYWHERE


def ip_of(server: ServerSettings) -> Callable[[Scope], str]:
    """How the caller's address is found."""
    return ClientIps(server.trusted_proxies) if server.trusted_proxies else peer


def allowed_hosts(server: ServerSettings) -> AllowedHosts | None:
    """The hosts of the configuration; the links we hand out must lead to us, so theirs are among them."""
    if not server.allowed_hosts:
        return None
    handed_out = [url for url in (server.public_url, server.callback_url) if url is not None]
    hosts = {*server.allowed_hosts, *(urlsplit(url).hostname or "" for url in handed_out)}
    if server.public_url is None and server.host not in EVERYWHERE:
        hosts.add(server.host)
    return AllowedHosts(hosts)


def cors(config: Config) -> Cors | None:
    """Which pages may call from a browser; None: none, and answers have no CORS headers."""
    settings = config.server.cors
    if settings is None:
        return None
    return Cors(
        origins=settings.origins,
        headers={name for backend in config.backends.values() for name in backend.forward_headers},
        credentials=settings.credentials,
        max_age_s=settings.max_age_s,
    )


def credentials(auth: AuthSettings | None) -> tuple[str, ...]:
    """The names of the security schemes of the OpenAPI document; keys may come as bearer tokens, too."""
    if auth is None:
        return ()
    return (*openapi.BY_TOKEN, *(openapi.BY_KEY if auth.api_keys else ()))


def description(config: Config, version: str) -> bytes | None:
    """The OpenAPI document; None where it is switched off."""
    server = config.server
    return openapi.document(version, server.public_url, credentials(config.auth)) if server.openapi else None


def serving_context(server: ServerSettings) -> ServingContext | None:
    """What the listener presents for https; None serves plain http. Raises ServerError for files it cannot use."""
    tls = server.tls
    if tls is None:
        return None
    files = TlsFiles(cert=tls.cert, key=tls.key, client_ca=tls.client_ca, requires_client=tls.require_client_cert)
    return ServingContext(files, server.max_connections)
