"""What is measured: a stock uvicorn echo, nginx as a plain reverse proxy, Toolgate doing its full work."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import calls
from tests.bench.children import ask, child, free_port, wait_until
from tests.bench.machine import BenchError

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


@dataclass(frozen=True, slots=True)
class Bed:
    """Where a subject runs: its core, a folder of its own, the tool server behind it, how many tools are called."""

    cores: frozenset[int]
    folder: Path
    tools_port: int
    tools: int
    called: int


@dataclass(frozen=True, slots=True)
class Running:
    """A subject that answers: its first process, its port, the calls it gets and what every answer holds."""

    pid: int
    port: int
    script: calls.Script
    proof: str


Start = Callable[[Bed], AbstractContextManager[Running]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One server under test, started afresh for every round and measured at each number of connections.

    The tool server behind it lists `tools`, of which callers use `called`.
    """

    name: str
    start: Start
    tools: int
    called: int
    connections: tuple[int, ...]


@contextmanager
def echo(bed: Bed) -> Iterator[Running]:
    """Stock uvicorn at its fastest settings, answering each call with the call's own body."""
    port, log = free_port(), bed.folder / "echo.log"
    command = [sys.executable, "-m", "uvicorn", "tests.bench.echo:app", "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    with child(command, bed.cores, log) as process:
        wait_until(lambda: ask(port, "GET", "/")[0] == 200, process, log)
        yield Running(process.pid, port, calls.script(bed.tools, bed.called, _secret()), calls.ASKED)


@contextmanager
def nginx(bed: Bed) -> Iterator[Running]:
    """nginx with one worker and keep-alive on both sides, passing calls on as they are."""
    assert NGINX is not None
    port, log = free_port(), bed.folder / "nginx.log"
    config = bed.folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=bed.folder, port=port, tools=bed.tools_port))
    with child([NGINX, "-p", str(bed.folder), "-c", str(config)], bed.cores, log) as process:
        wait_until(lambda: ask(port, "GET", "/")[0] == 200, process, log)
        yield Running(process.pid, port, calls.script(bed.tools, bed.called, _secret()), calls.FOUND)


@contextmanager
def toolgate(bed: Bed) -> Iterator[Running]:
    """The gateway with HS256 tokens, validated arguments, OTC towards callers and OXP towards the tool server."""
    port, log, secret = free_port(), bed.folder / "toolgate.log", _secret()
    config = bed.folder / "toolgate.yaml"
    config.write_text(json.dumps(_toolgate_config(port, bed.tools_port, secret)))  # JSON is YAML
    with child([sys.executable, "-m", "gateway", "serve", "-c", str(config)], bed.cores, log) as process:
        wait_until(lambda: ask(port, "GET", "/health")[0] == 200, process, log)
        _demand_full_work(port, secret)
        yield Running(process.pid, port, calls.script(bed.tools, bed.called, secret), calls.FOUND)


def _secret() -> str:
    return secrets.token_hex(32)


def _toolgate_config(port: int, tools_port: int, secret: str) -> dict[str, Any]:
    backend = {
        "protocol": "oxp",
        "dialect": "oxp",
        "url": f"http://127.0.0.1:{tools_port}",
        "timeout": "2m",  # waiting calls wait for us
        "max_concurrency": 8192,
        "discovery": {"refresh": "1h"},  # once: reading the catalogue is not the cost of a call
    }
    return {
        "server": {"host": "127.0.0.1", "port": port, "admin": {"host": "127.0.0.1", "port": 0}},
        "auth": {"jwt": [{"secret": secret}]},
        "backends": {"bench": backend},
        "routes": [{"tools": "Bench.*", "backend": "bench"}],
    }


def _demand_full_work(port: int, secret: str) -> None:
    """Makes sure that what is measured includes authentication and validation.

    Raises:
        BenchError: a call without a token, or with an argument of the wrong type, was not refused.
    """
    tool = calls.find_tools(2)[0]
    token = calls.tokens(secret)[0]
    wrong = calls.arguments_of(tool) | {"limit": "many"}
    for expected, request in (
        (401, calls.request(tool, calls.arguments_of(tool), None)),
        (422, calls.request(tool, wrong, token)),
    ):
        status = _status(port, request)
        if status != expected:
            raise BenchError(f"Toolgate answered {status} where it owes {expected}: it is not doing its full work.")


def _status(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return int(connection.recv(64).split(b" ", 2)[1])
