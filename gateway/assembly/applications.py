"""The ASGI applications of a configuration: the edge for calls and lists, and the rest of the public listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway import __version__
from gateway.calls.callbacks import Callbacks
from gateway.http import openapi
from gateway.http.apps import ChallengeStatus, Health, metrics_for, public_app
from gateway.http.clientip import ip_of
from gateway.http.edge import Edge
from gateway.http.observer import Observer
from gateway.http.origins import AllowedHosts, Cors
from gateway.metrics import Scraper
from gateway.pipeline import Pipeline
from gateway.ports import Surface
from gateway.settings import Config, ServerSettings
from gateway.settings.server import EVERYWHERE


def rest_app(
    config: Config,
    health: Health,
    challenge_status: ChallengeStatus,
    scraper: Scraper,
    pipeline: Callable[[], Pipeline],
) -> ASGIApp:
    """Answers requests to no endpoint of a surface.

    It looks the pipeline up for each request: Starlette's applications refer to themselves, and would keep an old
    pipeline in memory until the collector finds them.
    """
    token, server = config.metrics.token, config.server
    description = openapi.document(__version__, server.public_url, openapi.credentials_for(config.auth))
    return public_app(
        health,
        challenge_status,
        description if server.openapi else None,
        pipeline=pipeline,
        metrics=None if token is None else metrics_for(token.get_secret_value(), scraper.text),
        strict=config.errors.strict,
    )


def edge(
    config: Config,
    surfaces: Sequence[Surface],
    pipeline: Pipeline,
    callbacks: Callbacks,
    rest: ASGIApp,
    observer: Observer,
    digits: Iterator[bytes],
) -> Edge:
    """Answers the endpoints of surfaces and callbacks, and passes all other requests on to `rest`."""
    server = config.server
    forwarded = {name for backend in config.backends.values() for name in backend.forward_headers}
    return Edge(
        surfaces,
        answer=pipeline.answer,
        refuse=pipeline.refuse,
        callback=callbacks.answer,
        rest=rest,
        ip_of=ip_of(server),
        observer=observer,
        digits=digits,
        max_body_bytes=server.max_body_bytes,
        strict=config.errors.strict,
        hosts=_allowed_hosts(server),
        cors=None if server.cors is None else Cors(server.cors, forwarded),
    )


def _allowed_hosts(server: ServerSettings) -> AllowedHosts | None:
    """The hosts of the configuration; the links we hand out must lead to us, so theirs are among them."""
    if not server.allowed_hosts:
        return None
    handed_out = [url for url in (server.public_url, server.callback_url) if url is not None]
    hosts = {*server.allowed_hosts, *(urlsplit(url).hostname or "" for url in handed_out)}
    if server.public_url is None and server.host not in EVERYWHERE:
        hosts.add(server.host)
    return AllowedHosts(hosts)
