"""The ASGI applications of a configuration: the edge for calls and lists, and the rest of the public listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from starlette.types import ASGIApp

from gateway import __version__
from gateway.calls.callbacks import Callbacks
from gateway.http import middleware
from gateway.http.apps import ChallengeStatus, Health, metrics_for, public_app
from gateway.http.edge import Edge
from gateway.http.observer import Observer
from gateway.metrics import Scraper
from gateway.pipeline import Pipeline
from gateway.ports import Surface
from gateway.settings import Config


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
    token = config.metrics.token
    return public_app(
        health,
        challenge_status,
        middleware.description(config, __version__),
        calls=pipeline,
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
    return Edge(
        surfaces,
        answer=pipeline.answer,
        refuse=pipeline.refuse,
        callback=callbacks.answer,
        rest=rest,
        ip_of=middleware.ip_of(server),
        observer=observer,
        digits=digits,
        max_body_bytes=server.max_body_bytes,
        strict=config.errors.strict,
        hosts=middleware.allowed_hosts(server),
        cors=middleware.cors(config),
    )
