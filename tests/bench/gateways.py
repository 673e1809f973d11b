"""Starts Toolgate as a subject: its configuration, and the proof that it does its full work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.bench import calls
from tests.bench.calls import OTC, OXP, Script
from tests.bench.children import ask, child, demand, free_port, redis_server, status_of, wait_until
from tests.bench.credentials import Config, new_secret
from tests.bench.rcrtserver import AGENT_ID, OWNER_ID
from tests.bench.subjects import Bed, Running, Subject

BACKEND = "bench"
# What a backend of that protocol needs besides.
BACKENDS: Mapping[str, Config] = {
    "otc": {"dialect": "otc"},
    "oxp": {"dialect": "oxp"},
    "callback": {},
    "rcrt": {"owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": calls.TOOLKIT},
}
# Kept calls are forgotten again within the time of a slice or two: a run must not be measured in what it piles up.
SHORT_MEMORY: Config = {
    "result_ttl": "1s",
    "seen_ttl": "1s",
    "max_bytes": "1GiB",
    "max_pending_per_caller": 100_000,
    "max_records_per_caller": 1_000_000,
}


@contextmanager
def toolgate(subject: Subject, bed: Bed) -> Iterator[Running]:
    """The gateway with tokens, validated arguments, OTC towards callers and another protocol behind, or OXP and OTC."""
    port, log, credentials = free_port(), bed.folder / "toolgate.log", subject.credentials()
    config = {**_config(subject, port, bed.server.port), "auth": credentials.auth}
    with ExitStack() as stack:
        if subject.redis:
            url = stack.enter_context(redis_server(bed.cores.others, bed.folder))
            config["state"] = {**config["state"], "url": url, "keys": [new_secret()]}
        file = bed.folder / "toolgate.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = [*bed.prefix, sys.executable, "-m", "gateway", "serve", "-c", str(file)]
        process = stack.enter_context(child(command, bed.cores.subject, log, measured=True))
        wait_until(lambda: ask(port, "GET", "/health")[0] == 200, process, log, bed.poller.serve_for)
        demand(401, status_of(port, calls.request(calls.WAIT_TOOL, {}, None)))
        wrong = calls.wrong_request(calls.find_tools(subject.tools)[-1], credentials.good)
        # A gateway that has many tools to read serves before it knows all of them, and refuses calls of the others.
        wait_until(lambda: status_of(port, wrong) != 400, process, log, bed.poller.serve_for)
        demand(422, status_of(port, wrong))
        form = OXP if subject.protocol == "otc" else OTC
        script = Script(subject.tools, subject.called, credentials.bearers, form)
        yield Running(process.pid, port, script, subject.answer)


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
    return {
        "protocol": protocol,
        "url": f"http://127.0.0.1:{tools_port}",
        "timeout": "30m",  # waiting calls wait for us
        "max_concurrency": 8192,
        "discovery": {"refresh": "1h"},  # once: reading the catalogue is not the cost of a call
        **BACKENDS[protocol],
    }
