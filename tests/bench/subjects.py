"""What a subject is: one server under test, what is put behind it, and what callers ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.calls import SMALL, Answer, Script, Size
from tests.bench.credentials import Config, Credentials, hs256
from tests.bench.machine import Cores
from tests.bench.poller import Poller
from tests.bench.rapserver import RapServer
from tests.bench.rcrtserver import RcrtServer
from tests.bench.toolserver import OtcServer, OxpServer, RestServer, ToolServer

TOOL_SERVERS: Mapping[str, Callable[[Poller, int], ToolServer]] = {
    "otc": OtcServer,
    "oxp": OxpServer,
    "callback": RapServer,
    "rcrt": RcrtServer,
    "rest": RestServer,
}
FEW_TOOLS = 10
FOUND_ANSWER = Answer()
CALLED_TOOLS = FEW_TOOLS - 1  # all but the one that waits; as many in a large catalogue, so that only its size differs


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

    The tool server behind it speaks `protocol` and lists `tools`, of which callers use `called`; `waiting` further
    calls wait there all the time. `config` replaces sections of the gateway's configuration; with `redis` it gets a
    state in a Redis server of its own.
    """

    name: str
    start: Callable[[Subject, Bed], AbstractContextManager[Running]]
    loads: tuple[Load, ...] = ()
    tools: int = FEW_TOOLS
    called: int = CALLED_TOOLS
    protocol: str = "oxp"
    redis: bool = False
    waiting: int = 0
    answer: Answer = FOUND_ANSWER
    credentials: Callable[[], Credentials] = hs256
    config: Config = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None  # why it cannot be measured here, if it cannot
