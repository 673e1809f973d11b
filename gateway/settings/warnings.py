"""What is valid in a configuration but rarely meant: one sentence for each, with its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from gateway.configfile.web import is_loopback
from gateway.protocols import PROTOCOLS
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.settings import Config, RouteSettings
from gateway.settings.server import EVERYWHERE

ANY = "*"
KEYLESS = (
    "state.keys is not set: only this process can read what it stores in Redis, and only until it restarts; "
    "a call that is repeated after that runs again"
)
HEEDED_BY: Mapping[str, frozenset[str]] = {  # for keys of routes that only some protocols heed: these
    key: frozenset(word for word, protocol in PROTOCOLS.items() if key in protocol.route_keys)
    for key in RouteSettings.model_fields
    if any(key in protocol.route_keys for protocol in PROTOCOLS.values())
}
UNWRITTEN = RouteSettings(tools=ANY, backend=ANY)  # as a route is that has none of them


def warnings(config: Config) -> Iterator[str]:
    """One sentence for each, with its key; first those about who may call."""
    yield from _of_callers(config)
    yield from _of_authorization(config)
    yield from _of_state(config)
    yield from _of_quotas(config)
    yield from _of_backends(config)
    yield from _of_routes(config)


def dangers(config: Config) -> Iterator[str]:
    """The gravest of these: anyone may call, or a call may run twice."""
    yield from _of_strangers(config)
    yield from _of_keys(config)


def _of_strangers(config: Config) -> Iterator[str]:
    if config.auth is None and not config.server.is_private:
        reached = next(host for host in config.server.hosts if not is_loopback(host))
        yield f"auth: none lets everybody call who can reach {reached}"


def _of_keys(config: Config) -> Iterator[str]:
    if config.state is not None and config.state.url is not None and not config.state.keys:
        yield KEYLESS


def _of_callers(config: Config) -> Iterator[str]:
    server = config.server
    yield from _of_strangers(config)
    if server.public_url is None and server.host in EVERYWHERE:
        yield f"server.public_url is not set, so links of challenges begin with {server.host} and lead nowhere"
    if config.auth is not None and server.tls is None and not server.is_private and not server.trusted_proxies:
        yield "neither server.tls nor trusted_proxies is set: tokens are sent unencrypted, unless a proxy handles TLS"
    yield from _of_keys_in_clear(config)
    yield from _of_tokens_for_mcp(config)
    if server.cors is not None and ANY in server.cors.origins:
        yield "server.cors.origins lets the pages of every site call; list the origins that you mean"


def _of_keys_in_clear(config: Config) -> Iterator[str]:
    for entry in () if config.auth is None else config.auth.jwt or ():
        parts = urlsplit(entry.jwks_url or (entry.issuer if entry.discovery else None) or "")
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield f"auth.jwt: whoever is between the gateway and {parts.netloc} can let anybody in; use https"


def _of_tokens_for_mcp(config: Config) -> Iterator[str]:
    """Finds issuers whose tokens are not for the address that callers of MCP ask them for (RFC 8707)."""
    if not config.mcp.enabled or config.auth is None or config.server.public_url is None:
        return
    resource = config.server.public_url + config.mcp.path
    for entry in config.auth.jwt or ():
        issuer = entry.authorization_server
        if issuer is not None and entry.header is None and resource not in entry.audience:
            yield f"auth.jwt: the audience of {issuer} lacks {resource}, which MCP clients ask for in their tokens"


def _of_authorization(config: Config) -> Iterator[str]:
    service = config.authorize
    if service is None:
        return
    parts = urlsplit(service.url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield f"authorize.url: whoever is between the gateway and {parts.netloc} can allow any call; use https"
    if service.on_failure == "allow":
        yield "authorize.on_failure is allow: while the service gives no decisions, every call runs"


def _of_state(config: Config) -> Iterator[str]:
    state = config.state
    if state is None or state.url is None:
        return
    yield from _of_keys(config)
    if state.insecure:
        yield "state.insecure lets calls be sent to Redis, or stored there, unencrypted"


def _of_quotas(config: Config) -> Iterator[str]:
    """Finds counts of days and months that are not as exact as they look."""
    state = config.state
    is_shared = state is not None and state.url is not None and bool(state.keys)
    lacking = "state.url" if state is None or state.url is None else "state.keys"
    for limit in config.rate_limits:
        if limit.rate.window is None:
            continue
        start = f"rate_limits: {limit.name} counts the {limit.rate.window}'s requests"
        if limit.is_local:
            yield f"{start} of an address in each process by itself, and anew with each start"
        elif not is_shared:
            yield f"{start} anew with each start, in each process by itself: {lacking} is not set"


def _of_backends(config: Config) -> Iterator[str]:
    routes_to = {route.backend for route in config.routes if not route.deny}
    for name, backend in config.backends.items():
        if name not in routes_to:
            yield f"backends.{name}: no route publishes any of its tools"
        parts = [urlsplit(url) for url in backend.addresses]
        in_clear = [
            address.netloc for address in parts if address.scheme == "http" and not is_loopback(address.hostname or "")
        ]
        if backend.auth is not None and in_clear:
            yield f"backends.{name}.auth: the credential is sent unencrypted to {', '.join(in_clear)}; use https"
        if isinstance(backend, OpenApiBackendSettings) and backend.document_auth is not None:
            host = urlsplit(backend.document_url)
            if host.scheme == "http" and not is_loopback(host.hostname or ""):
                yield f"backends.{name}.document_auth: the credential is sent unencrypted to {host.netloc}; use https"


def _of_routes(config: Config) -> Iterator[str]:
    for number, route in enumerate(config.routes, 1):
        if not route.deny:
            for remark in _of_route(config, route):
                yield f"route {number} ({route.tools} of {route.backend}): {remark}"


def _and(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _of_route(config: Config, route: RouteSettings) -> Iterator[str]:
    if config.auth is None and route.scopes:
        yield "with auth: none nobody has its scopes"
    if route.validate_input == "off":
        yield "validate_input is off: arguments are sent unchecked"
    if route.validate_output == "off":
        yield "validate_output is off: results are not checked"
    protocol = config.backends[route.backend].protocol
    if protocol == "openapi" and route.validate_output == "fail":
        yield "validate_output is fail: a successful call fails if its result does not fit the API's own document"
    for name, protocols in HEEDED_BY.items():
        if protocol not in protocols and getattr(route, name) != getattr(UNWRITTEN, name):
            yield f"{name} has no effect on tools of {protocol}, only on those of {_and(sorted(protocols))}"
