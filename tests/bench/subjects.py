"""What is measured: a stock uvicorn echo, nginx as a plain reverse proxy, Toolgate doing its full work."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import calls
from tests.bench.children import ask, child, free_port, listens, redis_server, wait_until
from tests.bench.machine import BenchError, Cores
from tests.bench.poller import Poller
from tests.bench.rapserver import RapServer
from tests.bench.rcrtserver import AGENT_ID, OWNER_ID, RcrtServer
from tests.bench.toolserver import OxpServer, ToolServer

# Distributions install it where an ordinary user's PATH does not lead.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin")

NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 100000000;
    upstream tools {{
        server 127.0.0.1:{tools};
        keepalive 512;
        keepalive_requests 100000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://tools;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""

Config = Mapping[str, Any]  # of the gateway, as in its file

TOOL_SERVERS: Mapping[str, Callable[[Poller, int], ToolServer]] = {
    "oxp": OxpServer,
    "callback": RapServer,
    "rcrt": RcrtServer,
}
# What a backend of that protocol needs besides.
BACKENDS: Mapping[str, Config] = {
    "oxp": {"dialect": "oxp"},
    "callback": {},
    "rcrt": {"owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": calls.TOOLKIT},
}


@dataclass(frozen=True, slots=True)
class Bed:
    """Where a subject runs: its cores, a folder of its own, the tool server behind it, how many tools are called."""

    cores: Cores
    folder: Path
    poller: Poller
    server: ToolServer
    tools: int
    called: int


@dataclass(frozen=True, slots=True)
class Running:
    """A subject that answers: its first process, its port, the calls it gets and what every answer holds."""

    pid: int
    port: int
    script: calls.Script
    proof: str


@dataclass(frozen=True, slots=True)
class Load:
    """One row of the table: so many connections, busy all the time, or together sending `rate` calls a second.

    `keyed`: every call has an id of its caller's.
    """

    row: str
    connections: int
    keyed: bool = False
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What callers show, and the section of the gateway's configuration that lets them in."""

    bearers: list[str]
    auth: Config


def hs256() -> Credentials:
    """Tokens signed with a secret that the gateway has too."""
    secret = _secret()
    return Credentials(calls.tokens(secret), {"jwt": [{"secret": secret}]})


@dataclass(frozen=True, slots=True)
class Subject:
    """One server under test, started afresh for every round and measured under each of its loads.

    The tool server behind it speaks `protocol` and lists `tools`, of which callers use `called`. `config` replaces
    sections of the gateway's configuration; with `redis` it gets a state in a Redis server of its own.
    """

    name: str
    start: Callable[[Subject, Bed], AbstractContextManager[Running]]
    tools: int
    called: int
    loads: tuple[Load, ...] = ()
    protocol: str = "oxp"
    redis: bool = False
    credentials: Callable[[], Credentials] = hs256
    config: Config = field(default_factory=dict)


@contextmanager
def echo(_: Subject, bed: Bed) -> Iterator[Running]:
    """Stock uvicorn at its fastest settings, answering each call with the call's own body."""
    port, log = free_port(), bed.folder / "echo.log"
    command = [sys.executable, "-m", "uvicorn", "tests.bench.echo:app", "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    with child(command, bed.cores.subject, log) as process:
        wait_until(lambda: ask(port, "GET", "/")[0] == 200, process, log)
        yield Running(process.pid, port, _script(bed, hs256()), calls.ASKED)


@contextmanager
def nginx(_: Subject, bed: Bed) -> Iterator[Running]:
    """nginx with one worker and keep-alive on both sides, passing calls on as they are."""
    assert NGINX is not None
    port, log = free_port(), bed.folder / "nginx.log"
    config = bed.folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=bed.folder, port=port, tools=bed.server.port))
    with child([NGINX, "-p", str(bed.folder), "-c", str(config)], bed.cores.subject, log) as process:
        wait_until(lambda: listens(port), process, log)
        yield Running(process.pid, port, _script(bed, hs256()), calls.FOUND)


@contextmanager
def toolgate(subject: Subject, bed: Bed) -> Iterator[Running]:
    """The gateway with tokens, validated arguments, OTC towards callers and another protocol behind."""
    port, log, credentials = free_port(), bed.folder / "toolgate.log", subject.credentials()
    config = _toolgate_config(port, bed.server.port, subject.protocol)
    config = {**config, "auth": credentials.auth, **subject.config}
    with ExitStack() as stack:
        if subject.redis:
            url = stack.enter_context(redis_server(bed.cores.others, bed.folder))
            config["state"] = {**config["state"], "url": url, "keys": [_secret()]}
        file = bed.folder / "toolgate.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = [sys.executable, "-m", "gateway", "serve", "-c", str(file)]
        process = stack.enter_context(child(command, bed.cores.subject, log))
        wait_until(lambda: ask(port, "GET", "/health")[0] == 200, process, log, bed.poller.serve_for)
        _demand_full_work(port, credentials.bearers[0])
        yield Running(process.pid, port, _script(bed, credentials), calls.FOUND)


def _script(bed: Bed, credentials: Credentials) -> calls.Script:
    return calls.script(bed.tools, bed.called, credentials.bearers)


def _secret() -> str:
    return secrets.token_hex(32)


# Kept calls are forgotten again within the time of a slice or two: a run must not be measured in what it piles up.
SHORT_MEMORY: Config = {
    "result_ttl": "1s",
    "seen_ttl": "1s",
    "max_bytes": "1GiB",
    "max_pending_per_caller": 100_000,
    "max_records_per_caller": 1_000_000,
}


def _toolgate_config(port: int, tools_port: int, protocol: str) -> dict[str, Any]:
    backend = {
        "protocol": protocol,
        "url": f"http://127.0.0.1:{tools_port}",
        "timeout": "2m",  # waiting calls wait for us
        "max_concurrency": 8192,
        "discovery": {"refresh": "1h"},  # once: reading the catalogue is not the cost of a call
    }
    return {
        "server": {"host": "127.0.0.1", "port": port, "admin": {"host": "127.0.0.1", "port": 0}},
        "state": SHORT_MEMORY,
        "backends": {"bench": {**backend, **BACKENDS[protocol]}},
        "routes": [{"tools": f"{calls.TOOLKIT}.*", "backend": "bench"}],
    }


def _demand_full_work(port: int, bearer: str) -> None:
    """Makes sure that what is measured includes authentication and validation.

    Raises:
        BenchError: a call without a token, or with an argument of the wrong type, was not refused.
    """
    tool = calls.find_tools(2)[0]
    wrong: dict[str, Any] = {**calls.arguments_of(tool), "limit": "many"}
    for expected, request in (
        (401, calls.request(tool, calls.arguments_of(tool), None)),
        (422, calls.request(tool, wrong, bearer)),
    ):
        status = _status(port, request)
        if status != expected:
            raise BenchError(f"Toolgate answered {status} where it owes {expected}: it is not doing its full work.")


def _status(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return int(connection.recv(64).split(b" ", 2)[1])
