"""Other gateways with as much of the work as they can do: Envoy, and FastMCP before an API and before an MCP server.

Each is installed in an environment of its own by `make bench-peers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench import calls
from tests.bench.calls import MCP, MCP_MODERN, OTC, Form, Script
from tests.bench.children import ROOT, demand, server, status_of
from tests.bench.credentials import AUDIENCE, ISSUER, public_jwks, public_pem
from tests.bench.subjects import Bed, Running, Subject
from tests.support.ports import lasting_port

ENVOY = ROOT / ".venvs/envoy/bin/envoy"
FASTMCP = ROOT / ".venvs/fastmcp/bin/python"
TYPES = "type.googleapis.com/envoy.extensions"
AMPLE = 1_000_000  # calls a second, and calls at once: counted, and never refused
LIMIT = {"max_tokens": AMPLE, "tokens_per_fill": AMPLE, "fill_interval": "1s"}
ALWAYS = {"default_value": {"numerator": 100}}


@contextmanager
def envoy(subject: Subject, bed: Bed) -> Iterator[Running]:
    """Envoy with one worker. Before an API it makes tools of it, else it passes calls on as they are.

    It verifies RS256 and remembers whom it verified, counts against a limit, writes a line of JSON and keeps its
    metrics. It validates no arguments.
    """
    port, log = lasting_port(), bed.folder / "envoy.log"
    bridged = subject.protocol == "rest"
    filters = [_jwt(), _limit(), *([_bridge(subject.tools)] if bridged else []), _filter("router", "Router")]
    config = bed.folder / "envoy.json"
    config.write_text(json.dumps(_envoy_config(port, bed.server.port, filters, bed.folder)))
    command = [str(ENVOY), "-c", str(config), "--concurrency", "1", "--use-dynamic-base-id", "-l", "error"]
    with server(command, port, bed.cores.subject, log) as process:
        yield _guarded(subject, process.pid, port, MCP if bridged else OTC)


@contextmanager
def fastmcp(subject: Subject, bed: Bed) -> Iterator[Running]:
    """FastMCP with tools made from an OpenAPI file."""
    api = {
        "api": f"http://127.0.0.1:{bed.server.port}",
        "openapi": calls.posting_api(subject.tools, f"{calls.TOOLKIT}_"),
    }
    yield from _fastmcp(subject, bed, MCP, api)


@contextmanager
def fastmcp_proxy(subject: Subject, bed: Bed) -> Iterator[Running]:
    """FastMCP as a proxy of an MCP server, both in the modern revision."""
    yield from _fastmcp(subject, bed, MCP_MODERN, {"proxied": f"http://127.0.0.1:{bed.server.port}/mcp"})


def _fastmcp(subject: Subject, bed: Bed, form: Form, behind: Mapping[str, Any]) -> Iterator[Running]:
    """FastMCP without sessions, verifying RS256; under uvicorn at its fastest."""
    port, log = lasting_port(), bed.folder / "fastmcp.log"
    file = bed.folder / "fastmcp.json"
    settings = {"port": port, "issuer": ISSUER, "audience": AUDIENCE, "public_key": public_pem(), **behind}
    file.write_text(json.dumps(settings))
    program = Path(__file__).with_name("fastmcp_program.py")
    with server([str(FASTMCP), str(program), str(file)], port, bed.cores.subject, log) as process:
        yield _guarded(subject, process.pid, port, form)


def _guarded(subject: Subject, pid: int, port: int, form: Form) -> Running:
    """A peer that is up. Raises BenchError if it lets in a caller without a token."""
    tool = calls.find_tools(subject.tools)[0]
    demand(401, status_of(port, calls.request(tool, calls.arguments_of(tool, form=form), None, form=form)))
    return Running(pid, port, Script(subject.tools, subject.credentials().bearers, form))


def not_installed(program: Path) -> Callable[[], str | None]:
    """Why a peer cannot be measured, if it cannot."""

    def missing() -> str | None:
        name = program.relative_to(ROOT / ".venvs").parts[0]
        return None if program.exists() else f"{name} is not measured: install it with make bench-peers."

    return missing


def _filter(name: str, kind: str, **settings: Any) -> dict[str, Any]:
    return {
        "name": f"envoy.filters.http.{name}",
        "typed_config": {"@type": f"{TYPES}.filters.http.{name}.v3.{kind}", **settings},
    }


def _jwt() -> dict[str, Any]:
    provider = {
        "issuer": ISSUER,
        "audiences": [AUDIENCE],
        "local_jwks": {"inline_string": public_jwks()},
        "jwt_cache_config": {"jwt_cache_size": 1000},
    }
    rule = {"match": {"prefix": "/"}, "requires": {"provider_name": "bench"}}
    return _filter("jwt_authn", "JwtAuthentication", providers={"bench": provider}, rules=[rule])


def _limit() -> dict[str, Any]:
    on = {"filter_enabled": ALWAYS, "filter_enforced": ALWAYS}
    return _filter("local_ratelimit", "LocalRateLimit", stat_prefix="limit", token_bucket=LIMIT, **on)


def _bridge(tools: int) -> dict[str, Any]:
    rules = [
        {"name": f"{calls.TOOLKIT}_{word}", "http_rule": {"post": calls.path_of(word), "body": "*"}}
        for word in calls.find_words(tools)
    ]
    return _filter("mcp_json_rest_bridge", "McpJsonRestBridge", tool_config={"tools": rules})


def _envoy_config(port: int, tools_port: int, filters: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    line = {"time": "%START_TIME%", "status": "%RESPONSE_CODE%", "ms": "%DURATION%", "bytes": "%BYTES_SENT%"}
    access = {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{TYPES}.access_loggers.file.v3.FileAccessLog",
            "path": str(folder / "access.log"),
            "log_format": {"json_format": {**line, "id": "%REQ(X-REQUEST-ID)%", "path": "%REQ(:PATH)%"}},
        },
    }
    route = {"match": {"prefix": "/"}, "route": {"cluster": "tools", "timeout": "30s"}}
    manager = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "codec_type": "HTTP1",
        "access_log": [access],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    endpoint = {"lb_endpoints": [{"endpoint": {"address": _address(tools_port)}}]}
    cluster = {
        "name": "tools",
        "type": "STATIC",
        "connect_timeout": "2s",
        "circuit_breakers": {
            "thresholds": [{"max_connections": AMPLE, "max_pending_requests": AMPLE, "max_requests": AMPLE}]
        },
        "load_assignment": {"cluster_name": "tools", "endpoints": [endpoint]},
    }
    return {
        "static_resources": {
            "listeners": [{"address": _address(port), "filter_chains": [chain]}],
            "clusters": [cluster],
        }
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
