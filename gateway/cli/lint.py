"""What is allowed in a configuration but rarely meant: said by `toolgate check`, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.settings import Config
from gateway.settings.server import EVERYWHERE
from gateway.settings.web import is_loopback

ANY = "*"


def warnings(config: Config) -> Iterator[str]:
    """One sentence for each, with the key that it is about; what lets strangers in comes first."""
    yield from _of_callers(config)
    yield from _of_state(config)
    yield from _of_backends(config)
    yield from _of_routes(config)


def _of_callers(config: Config) -> Iterator[str]:
    server = config.server
    is_private = is_loopback(server.host)
    if config.auth is None and not is_private:
        yield f"auth: none lets everybody call who can reach {server.host}"
    if server.public_url is None and server.host in EVERYWHERE:
        yield f"server.public_url is not set, and {server.host} in the links of challenges leads nowhere"
    if config.auth is not None and server.tls is None and not is_private and not server.trusted_proxies:
        yield "neither server.tls nor trusted_proxies is set: tokens travel in clear, unless a proxy sees to it"
    if server.cors is not None and ANY in server.cors.origins:
        yield "server.cors.origins lets pages of every site call; list those that are meant"


def _of_state(config: Config) -> Iterator[str]:
    state = config.state
    if state is None or state.url is None:
        return
    if not state.keys:
        yield "state.keys is not set: nobody but this process can read what it keeps in Redis, nor it once restarted"
    if state.insecure:
        yield "state.insecure lets what is kept travel in clear, or lie in Redis as it is"


def _of_backends(config: Config) -> Iterator[str]:
    routed = {route.backend for route in config.routes if not route.deny}
    for name, backend in config.backends.items():
        if name not in routed:
            yield f"backends.{name}: no route publishes any of its tools"
        parts = [urlsplit(url) for url in backend.addresses]
        in_clear = [it.netloc for it in parts if it.scheme == "http" and not is_loopback(it.hostname or "")]
        if backend.auth is not None and in_clear:
            yield f"backends.{name}.auth: the credential travels in clear to {', '.join(in_clear)}; use https"


def _of_routes(config: Config) -> Iterator[str]:
    for number, route in enumerate(config.routes, 1):
        if config.auth is None and route.scopes and not route.deny:
            yield f"route {number} ({route.tools} of {route.backend}): nobody has its scopes under auth: none"
        if not route.deny and route.validate_output == "off":
            yield f"route {number} ({route.tools} of {route.backend}): validate_output is off: values are not checked"
