"""The subjects of the benchmark and what each is asked, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import calls, credentials, figures, peers, proxies
from tests.bench.calls import Answer, Size
from tests.bench.credentials import Config
from tests.bench.figures import ALONE, CROWD, FEW, LOAD, PACES, paced
from tests.bench.subjects import BACKEND, Bed, Load, Running, Subject, toolgate

Start = Callable[[Subject, Bed], AbstractContextManager[Running]]

GENTLE_PACE = 250.0  # calls a second: few enough that none waits for another
HUNDRED_KB, NOTES = Size(100_000), Size(100_000, notes=True)
MANY_ROUTES, MANY_BACKENDS = 1000, 100

QUIET: Config = {"logging": {"level": "warning"}}  # no line for each call
# A limit that is counted for each call and never met: what is measured is the counting.
COUNTED: Config = {"rate_limits": [{"name": "per-caller", "key": "caller", "rate": "1000000/s"}]}
AMPLE_PER_S, SPENT_PER_S = 1_000_000, 1 / 86400  # the same of the minimal gateway, and a limit that is always met
# Two calls, of all callers together, and those that prove that arguments are validated are these.
SPENT: Config = {"rate_limits": [{"name": "spent", "key": "route", "rate": "1/d", "burst": 2, "operations": ["call"]}]}
# Credentials that are refused cost what they cost, however many there are.
UNHINDERED: Config = {
    "rate_limits": [
        {"name": "failed-verifications", "key": "ip", "rate": "1000000/s", "operations": ["failed_verification"]}
    ]
}
REFUSAL = '"message"'  # is in every refusal


def lineup(many: int, crowd: int) -> list[Subject]:
    """All servers that are measured in rounds; `many` tools in large catalogues, `crowd` calls where calls wait."""
    return [*_proxies(), *_guard(), *_kept(), *_ways(), *_sizes(many, crowd), *_peers()]


def _proxies() -> Iterator[Subject]:
    nginx = (*_loads(figures.NGINX_PROXY, ALONE, LOAD), *_paces(figures.NGINX_PROXY))
    ample, spent = (partial(proxies.minimal, per_s=per_s) for per_s in (AMPLE_PER_S, SPENT_PER_S))
    refused, tokens = Answer(429, REFUSAL), credentials.rs256
    yield Subject("echo", proxies.echo, _loads(figures.ECHO, ALONE, LOAD))
    yield Subject("echo-own", proxies.echo, _loads(figures.ECHO_OWN, ALONE, LOAD))
    granian = peers.not_installed(proxies.GRANIAN)
    yield Subject("echo-granian", proxies.echo, _loads(figures.ECHO_GRANIAN, ALONE, LOAD), missing=granian)
    yield Subject("nginx", proxies.nginx, nginx, missing=proxies.no_nginx)
    yield Subject("minimal", ample, _loads(figures.MINIMAL, ALONE, LOAD, keyed=True), credentials=tokens)
    limited = _loads(figures.MINIMAL_LIMITED, LOAD, keyed=True)
    yield Subject("minimal-limited", spent, limited, answer=refused, credentials=tokens)
    yield Subject("direct", proxies.direct, _paces(figures.DIRECT))


def _guard() -> Iterator[Subject]:
    """What it costs to know and to limit callers, and to refuse them; the reference work is among it."""
    yield Subject("bare", toolgate, (Load(figures.BARE, LOAD),), config=QUIET)
    kept = (*_loads(figures.REFERENCE, ALONE, LOAD, keyed=True), *_paces(figures.REFERENCE, keyed=True))
    reference = (Load(figures.GUARDED, LOAD), *kept)
    yield Subject("reference", toolgate, reference, credentials=credentials.rs256, config=COUNTED)
    shared = (Load(figures.GUARDED_REDIS, LOAD), Load(figures.REFERENCE_REDIS, LOAD, keyed=True))
    yield Subject("reference-redis", toolgate, shared, redis=True, credentials=credentials.rs256, config=COUNTED)
    yield _refused("limited", figures.LIMITED, 429, credentials.rs256, SPENT)
    yield _refused("unknown", figures.UNKNOWN, 401, credentials.absent, UNHINDERED)
    yield _refused("forged", figures.FORGED, 401, credentials.forged, UNHINDERED)


def _refused(name: str, row: str, status: int, shown: Callable[[], credentials.Credentials], config: Config) -> Subject:
    loads = (Load(row, LOAD),)
    return Subject(name, toolgate, loads, answer=Answer(status, REFUSAL), credentials=shown, config=config)


def _kept() -> Iterator[Subject]:
    """Calls that are remembered, here and in Redis, and several processes that share what is remembered."""
    state = (Load(figures.REDIS, LOAD), Load(figures.REDIS_KEYED, LOAD, keyed=True))
    yield Subject("redis", toolgate, state, redis=True)
    yield Subject("cluster", toolgate, (Load(figures.CLUSTER_KEYED, LOAD, keyed=True),), cluster=True)
    two: Config = {"server": {"workers": 2}}
    yield Subject("workers", toolgate, (Load(figures.WORKERS, LOAD),), redis=True, config=two)


def _ways() -> Iterator[Subject]:
    """From callers of MCP, to servers of MCP, and to protocols whose tool servers answer later."""
    yield Subject("mcp", toolgate, (Load(figures.FROM_MCP, LOAD),), config=QUIET, form=calls.MCP_MODERN)
    to_mcp = _loads(figures.MCP_TO_MCP, ALONE, LOAD)
    yield Subject("mcp-mcp", toolgate, to_mcp, protocol="mcp", config=QUIET, form=calls.MCP_MODERN)
    posted, got = (Load(figures.TO_OPENAPI, LOAD),), (Load(figures.TO_OPENAPI_GET, LOAD),)
    yield Subject("openapi", toolgate, posted, protocol="openapi", config=QUIET, form=calls.OTC_BODY)
    yield Subject("openapi-get", toolgate, got, protocol="openapi-get", config=QUIET)
    beside_peers = _loads(figures.MCP_TO_OPENAPI, ALONE, LOAD)
    yield Subject(
        "mcp-openapi",
        toolgate,
        beside_peers,
        protocol="openapi",
        credentials=credentials.rs256,
        config=COUNTED,
        form=calls.MCP_MODERN_BODY,
    )
    yield Subject("rcrt", toolgate, (Load(figures.TO_RCRT, LOAD),), protocol="rcrt")
    yield _callbacks("callback", figures.CALLBACK, figures.CALLBACK_PACED)
    yield _callbacks("callback-redis", figures.CALLBACK_REDIS, figures.CALLBACK_REDIS_PACED, redis=True)


def _callbacks(name: str, busy: str, gentle: str, *, redis: bool = False) -> Subject:
    loads = (Load(busy, LOAD), Load(gentle, LOAD, rate=GENTLE_PACE))
    return Subject(name, toolgate, loads, protocol="callback", redis=redis)


def _sizes(many: int, crowd: int) -> Iterator[Subject]:
    """Few and many of everything there can be many of; one connection shows latency without queueing."""
    plain = _loads(figures.TOOLGATE, ALONE, FEW, LOAD, CROWD)
    yield Subject(figures.MAIN_SUBJECT, toolgate, (*plain, Load(figures.KEYED, LOAD, keyed=True)))
    # Many values are checked in another process, which lets 32 inputs of a caller wait.
    large = Load(figures.TOOLGATE_100K, LOAD, size=HUNDRED_KB), Load(figures.TOOLGATE_NOTES, FEW, size=NOTES)
    yield Subject("bodies", toolgate, large)
    yield Subject("many", toolgate, (Load(figures.TOOLGATE_MANY, LOAD),), tools=many)
    yield _spread("routes", figures.TOOLGATE_ROUTES, min(many, MANY_ROUTES))
    yield _spread("backends", figures.TOOLGATE_BACKENDS, min(many, MANY_BACKENDS), apart=True)
    yield Subject("crowd", toolgate, (Load(figures.TOOLGATE_CROWD, LOAD),), waiting=crowd)


def _spread(name: str, row: str, tools: int, *, apart: bool = False) -> Subject:
    """A route for each tool; and with `apart` a backend for each of them."""
    names = calls.find_tools(tools)
    servers = [f"{BACKEND}-{number}" for number in range(len(names))] if apart else [BACKEND] * len(names)
    routes = [{"tools": f"{tool}@*", "backend": server} for tool, server in zip(names, servers, strict=True)]
    config: Mapping[str, Any] = {
        "routes": [*routes, {"tools": calls.WAIT_TOOL + "@*", "backend": BACKEND}],
        "further_backends": servers if apart else [],
    }
    return Subject(name, toolgate, (Load(row, LOAD),), tools=tools, config=config)


def _peers() -> Iterator[Subject]:
    """Others of the trade, measured only where they are named."""
    yield _peer("envoy", peers.envoy, figures.ENVOY, peers.ENVOY)
    yield _peer("envoy-bridge", peers.envoy, figures.ENVOY_BRIDGE, peers.ENVOY, protocol="rest")
    yield _peer("fastmcp", peers.fastmcp, figures.FASTMCP, peers.FASTMCP, protocol="rest")
    yield _peer("fastmcp-proxy", peers.fastmcp_proxy, figures.FASTMCP_PROXY, peers.FASTMCP, protocol="mcp-named")


def _peer(name: str, start: Start, row: str, program: Path, *, protocol: str = "oxp") -> Subject:
    missing = peers.not_installed(program)
    loads = _loads(row, ALONE, LOAD)
    return Subject(name, start, loads, protocol=protocol, credentials=credentials.rs256, missing=missing)


def _loads(row: str, *connections: int, keyed: bool = False) -> tuple[Load, ...]:
    return tuple(Load(row, count, keyed=keyed) for count in connections)


def _paces(row: str, *, keyed: bool = False) -> tuple[Load, ...]:
    return tuple(Load(paced(row, rate), LOAD, keyed=keyed, rate=rate) for rate in PACES)


PEERS = frozenset({"envoy", "envoy-bridge", "fastmcp", "fastmcp-proxy"})
