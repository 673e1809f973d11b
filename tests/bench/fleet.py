"""`python -m tests.bench.fleet 100x10 1000x100`: what a fleet of so many backends, with so many tools each, costs.

CPU time is user and system together, of the gateway with its children. All tool servers are one: each backend has a
path of its own there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tests.bench import calls
from tests.bench.calls import FOUND, Answer
from tests.bench.children import child, listens, status_of, wait_until
from tests.bench.credentials import hs256
from tests.bench.machine import BenchError, Cores, cpu_s, own_rss_bytes, pinned, raise_open_files
from tests.bench.poller import Peer, Poller, reply
from tests.bench.subjects import SHORT_MEMORY, Bed
from tests.bench.swarm import Swarm
from tests.bench.toolserver import FLAT, OxpServer
from tests.support.ports import lasting_port

LOOK_S, CALM = 0.5, 0.05  # a gateway that uses less than this part of a core has nothing more to do
PATIENCE_S = 900.0
REFRESH_S, CHANGES_S = 20, 2  # between two looks at a list, and at that of the first backend
LOOKS_PER_S = 100  # at most
WATCHED_S = 24.0  # above the longest time between two looks of a small fleet
CALLS, LISTS = 2000, 5
TOOL = "Find00000"  # is in every list
PATH = re.compile(rb"[A-Z]+ /b([0-9]+)/tools ")
HEAD = (
    "backends x tools | CPU to listen | CPU till all is listed | memory | CPU of a call | looking, one look"
    " | of a change | first list, again | memory"
)


class FleetServer(OxpServer):
    """All tool servers of a fleet, each with a toolkit of its own.

    `listed` counts what was asked, `changes` how often the first one has told another description of its tools since it
    was to do so each time.
    """

    def __init__(self, poller: Poller, fleet: Fleet) -> None:
        super().__init__(poller, 1)
        self._tools = msgspec.json.encode({"items": calls.definitions(fleet.tools + 1)[:-1]})
        self.listed = self.changes = 0
        self.is_changing = False

    def _answer(self, peer: Peer, request: bytes) -> None:
        found = PATH.match(request)
        if found is None:
            return super()._answer(peer, b"POST /" + request.split(b"/", 2)[2])
        self.listed += 1
        number = int(found[1])
        tools = self._tools.replace(b'"' + calls.TOOLKIT.encode(), b'"' + toolkit(number).encode())
        if number == 0 and self.is_changing:
            self.changes += 1
            tools = tools.replace(b"Finds", b"Finds now for the %d. time" % self.changes)
        return peer.send(reply(tools, FLAT))


def toolkit(number: int) -> str:
    """The toolkit of a backend."""
    return f"T{number:05}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many backends, and tools of each."""

    backends: int
    tools: int

    @classmethod
    def parse(cls, text: str) -> Fleet:
        backends, _, tools = text.partition("x")
        return cls(int(backends), int(tools))

    @property
    def last_tool(self) -> str:
        return f"{toolkit(self.backends - 1)}.Find{self.tools - 1:05}"

    def config(self, tools_port: int) -> dict[str, Any]:
        """Its backends and routes."""
        numbers, refresh_s = range(self.backends), max(REFRESH_S, self.backends // LOOKS_PER_S)
        return {
            "logging": {"level": "error"},
            "state": SHORT_MEMORY,
            "backends": {
                f"b{each}": {
                    "protocol": "oxp",
                    "dialect": "oxp",
                    "url": f"http://127.0.0.1:{tools_port}/b{each}",
                    "discovery": {"refresh": f"{refresh_s if each else CHANGES_S}s", "max_tools": self.tools},
                }
                for each in numbers
            },
            "routes": [{"tools": f"{toolkit(each)}.*", "backend": f"b{each}"} for each in numbers],
        }


class Subject:
    """The gateway before a fleet, as a process."""

    def __init__(self, bed: Bed, pid: int, port: int, bearer: str) -> None:
        self._bed, self.pid, self.port, self.bearer = bed, pid, port, bearer

    def settle(self) -> float:
        """Serves until the gateway has nothing more to do; returns the CPU time it has used since it began."""
        give_up, before_s = time.monotonic() + PATIENCE_S, cpu_s(self.pid)
        while time.monotonic() < give_up:
            self._bed.poller.serve_for(LOOK_S)
            now_s = cpu_s(self.pid)
            if now_s - before_s < CALM * LOOK_S:
                return now_s
            before_s = now_s
        raise BenchError("The gateway does not come to rest.")

    def ask(self, request: bytes, count: int, proof: str) -> float:
        """Seconds of CPU of each of so many requests."""
        with Swarm(self._bed.poller, self.port, iter([request] * count), Answer(200, proof), 1) as swarm:
            before_s = cpu_s(self.pid)
            swarm.repeat(count)
        return (cpu_s(self.pid) - before_s) / count

    def serve_for(self, seconds: float) -> float:
        """Serves for a while; returns the CPU time that the gateway uses."""
        before_s = cpu_s(self.pid)
        self._bed.poller.serve_for(seconds)
        return cpu_s(self.pid) - before_s


@contextmanager
def gateway(fleet: Fleet, bed: Bed) -> Iterator[tuple[Subject, float]]:
    """The gateway once it listens, and the CPU time which that took."""
    port, credentials, log = lasting_port(), hs256(), bed.folder / "toolgate.log"
    server = {"host": "127.0.0.1", "port": port, "admin": {"host": "127.0.0.1", "port": 0}}
    config = {"server": server, "auth": credentials.auth, **fleet.config(bed.server.port)}
    file = bed.folder / "toolgate.yaml"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "gateway", "serve", "-c", str(file)]
    with child(command, bed.cores.subject, log, measured=True) as process:
        wait_until(lambda: listens(port), process, log, bed.poller.serve_for)
        yield Subject(bed, process.pid, port, credentials.good), cpu_s(process.pid)


def measure(fleet: Fleet, bed: Bed, server: FleetServer) -> str:
    """A line of figures."""
    with gateway(fleet, bed) as (subject, listening_s):
        wrong = calls.wrong_request(fleet.last_tool, subject.bearer)
        while server.listed < fleet.backends or status_of(subject.port, wrong) != 422:
            bed.poller.serve_for(LOOK_S)
        started_s, memory = subject.settle(), own_rss_bytes(subject.pid)
        call = calls.request(fleet.last_tool, {"query": "x", "limit": 1}, subject.bearer)
        subject.ask(call, CALLS // 10, FOUND)
        call_s = subject.ask(call, CALLS, FOUND)
        listed = server.listed
        looking_s = subject.serve_for(WATCHED_S)
        look_s = looking_s / (server.listed - listed)
        server.is_changing = True
        change_s = (subject.serve_for(WATCHED_S) - looking_s) / server.changes
        server.is_changing = False
        listing = f"GET /tools HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {subject.bearer}\r\n\r\n".encode()
        first_s, again_s = subject.ask(listing, 1, TOOL), subject.ask(listing, LISTS, TOOL)
        filled = own_rss_bytes(subject.pid)
    return (
        f"{fleet.backends:>6} x {fleet.tools:<6} | {listening_s:6.2f} s | {started_s:7.2f} s | {memory / 1e6:6.1f} MB"
        f" | {call_s * 1e6:4.0f} us | {looking_s / WATCHED_S:5.1%} of a core, {look_s * 1e3:.2f} ms"
        f" | {change_s * 1e3:6.0f} ms | {first_s * 1e3:6.0f} ms, {again_s * 1e3:6.1f} ms | {filled / 1e6:6.1f} MB"
    )


def main() -> int:
    """Prints a line for each fleet; exits 2 if one cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description="What a fleet costs.")
    parser.add_argument("fleets", nargs="+", type=Fleet.parse, metavar="BACKENDSxTOOLS")
    fleets = parser.parse_args().fleets
    raise_open_files()
    poller, cores = Poller(), Cores.choose()
    print(HEAD)
    for fleet in fleets:
        server = FleetServer(poller, fleet)
        try:
            with TemporaryDirectory(prefix="bench-") as folder, pinned(cores.others):
                print(measure(fleet, Bed(cores, Path(folder), poller, server), server), flush=True)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 2
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
