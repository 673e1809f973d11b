"""What a subject is: one server under test, what is put behind it, and what callers ask of it; and Toolgate as one.

Toolgate has to prove that it does its full work before it is measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import calls
from tests.bench.calls import SMALL, Answer, Form, Script, Size
from tests.bench.children import child, demand, redis_server, status_of, wait_until
from tests.bench.credentials import Config, Credentials, hs256, new_secret
from tests.bench.machine import Cores
from tests.bench.poller import Poller
from tests.bench.rapserver import RapServer
from tests.bench.rcrtserver import AGENT_ID, OWNER_ID, RcrtServer
from tests.bench.toolserver import DOCUMENT_PATH, McpServer, OxpServer, RestServer, ToolServer
from tests.support.ports import lasting_port
from tests.support.redis_cluster import running_cluster

TOOL_SERVERS: Mapping[str, Callable[[Poller, int], ToolServer]] = {
    "oxp": OxpServer,
    "callback": RapServer,
    "rcrt": RcrtServer,
    "mcp": McpServer,
    # Behind proxies, which pass names on as they are, tools have the names that they have behind Toolgate.
    "mcp-named": partial(McpServer, prefix=f"{calls.TOOLKIT}_"),
    "rest": RestServer,
    "openapi": RestServer,
    "openapi-get": partial(RestServer, describe=calls.getting_api),
}
BACKEND = "bench"
# What a backend of that protocol needs besides.
BACKENDS: Mapping[str, Config] = {
    "oxp": {"dialect": "oxp"},
    "callback": {},
    "mcp": {"toolkit": calls.TOOLKIT},
    "rcrt": {"owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": calls.TOOLKIT},
    "openapi": {"toolkit": calls.TOOLKIT, "operations": {"methods": ["POST"]}},
    "openapi-get": {"toolkit": calls.TOOLKIT},
}
# Kept calls are forgotten again within the time of a slice or two: a run must not be measured in what it piles up.
SHORT_MEMORY: Config = {
    "result_ttl": "1s",
    "seen_ttl": "1s",
    "max_bytes": "1GiB",
    "max_pending_per_caller": 100_000,
    "max_records_per_caller": 1_000_000,
}
FEW_TOOLS = 10
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
FOUND_ANSWER = Answer()


@dataclass(frozen=True, slots=True)
class Bed:
    """Where a subject runs: its cores, a folder of its own, the tool server behind it; `prefix` runs its command."""

    cores: Cores
    folder: Path
    poller: Poller
    server: ToolServer
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A subject that answers: its port, the calls it gets and what every answer must be like.

    `pid` is its first process; None if it has none of its own, and so no CPU time either.
    """

    pid: int | None
    port: int
    script: Script
    answer: Answer = FOUND_ANSWER


@dataclass(frozen=True, slots=True)
class Load:
    """One row of the table: so many connections, busy all the time, or together sending `rate` calls a second.

    `keyed`: every call has an id of its caller's.
    """

    row: str
    connections: int
    keyed: bool = False
    rate: float | None = None
    size: Size = SMALL


@dataclass(frozen=True, slots=True)
class Subject:
    """One server under test, started afresh for every round and measured under each of its loads.

    The tool server behind it speaks `protocol` and lists `tools`; `waiting` further calls wait there all the time.
    `config` replaces sections of the gateway's configuration; with `redis` its state is in a Redis server of its own,
    with `cluster` in three that are a Redis Cluster.
    """

    name: str
    start: Callable[[Subject, Bed], AbstractContextManager[Running]]
    loads: tuple[Load, ...] = ()
    tools: int = FEW_TOOLS
    protocol: str = "oxp"
    redis: bool = False
    cluster: bool = False
    waiting: int = 0
    answer: Answer = FOUND_ANSWER
    credentials: Callable[[], Credentials] = hs256
    config: Config = field(default_factory=dict)
    form: Form = calls.OTC
    missing: Callable[[], str | None] = lambda: None  # why it cannot be measured here, if it cannot


@contextmanager
def toolgate(subject: Subject, bed: Bed) -> Iterator[Running]:
    """The gateway with tokens, validated arguments, one protocol towards callers and another behind."""
    port, log, credentials = lasting_port(), bed.folder / "toolgate.log", subject.credentials()
    config = {**_config(subject, port, bed.server.port), "auth": credentials.auth}
    with ExitStack() as stack:
        if subject.redis:
            url = stack.enter_context(redis_server(bed.cores.others, bed.folder))
            config["state"] = {**config["state"], "url": url, "keys": [new_secret()]}
        if subject.cluster:
            cluster = stack.enter_context(running_cluster(bed.folder / "cluster", replicas=False))
            config["state"] = {**config["state"], "url": cluster.url, "keys": [new_secret()]}
        file = bed.folder / "toolgate.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = [*bed.prefix, sys.executable, "-m", "gateway", "serve", "-c", str(file)]
        process = stack.enter_context(child(command, bed.cores.subject, log, measured=True))
        wait_until(lambda: status_of(port, HEALTH) == 200, process, log, bed.poller.serve_for)
        demand(401, status_of(port, calls.request(calls.WAIT_TOOL, {}, None)))
        wrong = calls.wrong_request(calls.find_tools(subject.tools)[-1], credentials.good)
        # A gateway that has many tools to read serves before it knows all of them, and refuses calls of the others.
        wait_until(lambda: status_of(port, wrong) not in (0, 400), process, log, bed.poller.serve_for)
        demand(422, status_of(port, wrong))
        yield Running(process.pid, port, Script(subject.tools, credentials.bearers, subject.form), subject.answer)


def _config(subject: Subject, port: int, tools_port: int) -> dict[str, Any]:
    """Sections that the subject's own configuration has too are put together, its keys winning."""
    ours: dict[str, Any] = {
        "server": {"host": "127.0.0.1", "port": port, "admin": {"host": "127.0.0.1", "port": 0}},
        "state": SHORT_MEMORY,
        "backends": {BACKEND: backend(subject.protocol, tools_port)},
        "routes": [{"tools": f"{calls.TOOLKIT}.*", "backend": BACKEND}],
    }
    theirs = dict(subject.config)
    # Where one tool server is to look like many, each of them has its address.
    for name in theirs.pop("further_backends", ()):
        ours["backends"][name] = backend(subject.protocol, tools_port)
    for section, keys in theirs.items():
        ours[section] = {**ours.get(section, {}), **keys} if isinstance(keys, Mapping) else keys
    return ours


def backend(protocol: str, tools_port: int) -> Config:
    """The section of one tool server."""
    url = f"http://127.0.0.1:{tools_port}"
    of_api = {"protocol": "openapi", "document": url + DOCUMENT_PATH} if protocol.startswith("openapi") else {}
    return {
        "protocol": protocol,
        "url": url,
        "timeout": "30m",  # waiting calls wait for us
        "max_concurrency": 8192,
        "discovery": {"refresh": "1h"},  # once: reading the catalogue is not the cost of a call
        **BACKENDS[protocol],
        **of_api,
    }
