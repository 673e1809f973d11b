"""From the settings of `authorize` to the authorizer."""

from __future__ import annotations

from gateway.auth.service import HttpAuthorizer
from gateway.metrics import Metrics
from gateway.net.client import Limits, Origin, Pool
from gateway.settings import AuthorizeSettings, TlsSettings
from gateway.upstream.credentials import fixed_headers
from gateway.upstream.proxies import proxy_for
from gateway.upstream.replica_url import client_context, path_and_query

LONGEST_CONNECT_S = 2.0  # room for one lost SYN, which is sent again after 1 s


def open_authorizer(settings: AuthorizeSettings, metrics: Metrics) -> HttpAuthorizer:
    """Connects nowhere yet."""
    origin = Origin.parse(settings.url)
    connections = settings.max_concurrency + 1  # for our own question
    limits = Limits(connections=connections, connect_timeout_s=min(settings.timeout_s, LONGEST_CONNECT_S))
    trusted = client_context(settings.tls or TlsSettings()) if origin.is_tls else None
    return HttpAuthorizer(
        Pool(origin, limits, trusted, proxy=proxy_for(settings.proxy, settings.url)),
        path_and_query(settings.url),
        fixed_headers(settings.auth),
        places=settings.max_concurrency,
        timeout_s=settings.timeout_s,
        cache_s=settings.cache_s,
        runs_on_failure=settings.on_failure == "allow",
        with_arguments=settings.with_arguments,
        count=metrics.authorization,
        observe=metrics.authorization_asked,
    )
