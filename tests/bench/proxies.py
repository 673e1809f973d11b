"""What Toolgate is compared with everywhere: an echo on three servers, nginx, a minimal gateway, and nothing at all."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench import calls
from tests.bench.calls import ASKED, OTC, OXP, Answer, Form, Script
from tests.bench.children import ROOT, demand, server, status_of
from tests.bench.credentials import AUDIENCE, hs256, public_pem
from tests.bench.subjects import Bed, Running, Subject
from tests.support.ports import lasting_port

# Distributions install it where an ordinary user's PATH does not lead.
GRANIAN = ROOT / ".venvs/granian/bin/granian"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin")

NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_max_body_size 1m;
    client_body_buffer_size 256k;
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


UVICORN = (sys.executable, "-m", "uvicorn", "tests.bench.echo:app", "--loop", "uvloop", "--http", "httptools")
QUIET = ("--no-access-log", "--log-level", "warning")
ECHOES = {  # servers at their fastest settings; the port follows
    "echo": (*UVICORN, *QUIET, "--port"),
    "echo-granian": (str(GRANIAN), "tests.bench.echo:app", "--interface", "asgi", "--loop", "uvloop", *QUIET, "--port"),
    "echo-own": (sys.executable, "-m", "tests.bench.echo"),
}


@contextmanager
def echo(subject: Subject, bed: Bed) -> Iterator[Running]:
    """A server that answers each call with the call's own body."""
    port, log = lasting_port(), bed.folder / "echo.log"
    command = [*bed.prefix, *ECHOES[subject.name], str(port)]
    with server(command, port, bed.cores.subject, log) as process:
        yield Running(process.pid, port, _script(subject, OTC), Answer(200, ASKED))


@contextmanager
def nginx(subject: Subject, bed: Bed) -> Iterator[Running]:
    """nginx with one worker and keep-alive on both sides, passing calls on as they are."""
    assert NGINX is not None
    port, log = lasting_port(), bed.folder / "nginx.log"
    config = bed.folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=bed.folder, port=port, tools=bed.server.port))
    with server([NGINX, "-p", str(bed.folder), "-c", str(config)], port, bed.cores.subject, log) as process:
        yield Running(process.pid, port, _script(subject, OTC))


def no_nginx() -> str | None:
    """Why nginx is not measured, if it is not."""
    return None if NGINX else "nginx is not measured: not installed."


@contextmanager
def minimal(subject: Subject, bed: Bed, *, per_s: float) -> Iterator[Running]:
    """A gateway with nothing to choose; each caller may make `per_s` calls a second."""
    port, log, file = lasting_port(), bed.folder / "minimal.log", bed.folder / "minimal.json"
    ports = {"port": port, "tools_port": bed.server.port}
    settings = {**ports, "tools": subject.tools, "log": str(bed.folder / "lines.log")}
    file.write_text(json.dumps({**settings, "public_key": public_pem(), "audience": AUDIENCE, "per_s": per_s}))
    command = [*bed.prefix, sys.executable, "-m", "tests.bench.minimal", str(file)]
    with server(command, port, bed.cores.subject, log) as process:
        tool, shown = calls.find_tools(subject.tools)[0], subject.credentials()
        demand(401, status_of(port, calls.request(tool, calls.arguments_of(tool), None)))
        demand(429 if per_s < 1 else 422, status_of(port, calls.wrong_request(tool, shown.good)))
        script = Script(subject.tools, shown.bearers, OTC)
        yield Running(process.pid, port, script, subject.answer)


@contextmanager
def direct(subject: Subject, bed: Bed) -> Iterator[Running]:
    """Nothing between callers and the tool server."""
    yield Running(None, bed.server.port, _script(subject, OXP))


def _script(subject: Subject, form: Form) -> Script:
    return Script(subject.tools, hs256().bearers, form)
