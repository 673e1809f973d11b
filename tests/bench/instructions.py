"""`python -m tests.bench.instructions`, which is `make bench-instructions`: instructions per call, by valgrind.

The operating system's CPU time depends on the machine, and on what else it does; the number of instructions that a
process executes, without those of the kernel, hardly does. A server is run under cachegrind twice, with `FEW` and with
`MANY` calls of one caller, one after the other. The difference divided by the difference in calls is what one costs:
what starting, warming up and stopping cost is in both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import (
    BARE,
    CALLBACK,
    CLUSTER_KEYED,
    ECHO,
    ECHO_GRANIAN,
    ECHO_OWN,
    FROM_MCP,
    MCP_TO_MCP,
    MINIMAL,
    REDIS_KEYED,
    REFERENCE,
    TO_OPENAPI,
    TO_OPENAPI_GET,
)
from tests.bench.lineup import lineup
from tests.bench.machine import BenchError, Cores, pinned
from tests.bench.plan import QUICK
from tests.bench.poller import Poller
from tests.bench.rounds import Place
from tests.bench.subjects import Load, Subject

FEW, MANY = 200, 700  # calls: the first hundred fill caches
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of call: the subject that has the row of the benchmark named `row`, and whether calls have ids.

    `sample` is the part of its calls that is recorded for OpenTelemetry; None: there is no collector.
    """

    what: str
    row: str
    keyed: bool = False
    sample: float | None = None


KINDS = {
    "plain": Kind("a call", BARE),
    "mcp": Kind("a call by MCP", FROM_MCP),
    "mcp-mcp": Kind("a call by MCP of a tool of MCP", MCP_TO_MCP),
    "openapi": Kind("a call of an operation with a body", TO_OPENAPI),
    "openapi-get": Kind("a call of an operation with path and query", TO_OPENAPI_GET),
    "keyed": Kind("a call with a call_id", BARE, keyed=True),
    "keyed-redis": Kind("a call with a call_id, kept in Redis", REDIS_KEYED, keyed=True),
    "keyed-cluster": Kind("a call with a call_id, kept in a Redis Cluster", CLUSTER_KEYED, keyed=True),
    "reference": Kind("with a call_id, RS256, a limit and an access line", REFERENCE, keyed=True),
    "callback": Kind("a call of a callback tool, its callback included", CALLBACK),
    "untraced": Kind("a call, none of them recorded for OpenTelemetry", BARE, sample=0),
    "traced": Kind("a call, each of them recorded for OpenTelemetry", BARE, sample=1),
    "minimal": Kind("the minimal gateway", MINIMAL, keyed=True),
    "echo": Kind("uvicorn echo", ECHO),
    "echo-granian": Kind("granian echo", ECHO_GRANIAN),
    "echo-own": Kind("an echo on the gateway's server", ECHO_OWN),
}
USUAL = ("plain", "keyed")


def main() -> int:
    """Prints a line for each kind of call; exits 2 if they cannot be counted."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions", description="Instructions per call.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; without any: {', '.join(USUAL)}")
    kinds = parser.parse_args().kinds or USUAL
    if unknown := sorted(set(kinds) - set(KINDS)):
        parser.error(f"there is no {', '.join(unknown)}, but {', '.join(KINDS)}")
    if shutil.which(VALGRIND[0]) is None:
        print("Counting instructions needs valgrind (apt-get install valgrind).", file=sys.stderr)
        return 2
    os.environ["PYTHONHASHSEED"] = "0"  # the same collisions in every dictionary of every run
    try:
        for name in kinds:
            print(f"{KINDS[name].what:<50}{per_call(KINDS[name]):>10,.0f} instructions", flush=True)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    return 0


def per_call(kind: Kind) -> float:
    """Instructions of one call. Raises BenchError."""
    subject = next(each for each in lineup(10, 10) if any(load.row == kind.row for load in each.loads))
    if kind.sample is not None:  # nobody listens there: spans are encoded and sent all the same
        telemetry = {"otlp": "http://127.0.0.1:9", "sample": kind.sample}
        subject = replace(subject, config={**subject.config, "telemetry": telemetry})
    return (_instructions(subject, kind, MANY) - _instructions(subject, kind, FEW)) / (MANY - FEW)


def _instructions(subject: Subject, kind: Kind, calls: int) -> int:
    """Instructions of a whole run of the server that answers `calls` calls, all its processes together."""
    cores, poller = Cores.choose(), Poller()
    with TemporaryDirectory(prefix="bench-") as folder, pinned(cores.others):
        prefix = (*VALGRIND, f"--cachegrind-out-file={folder}/counts.%p")
        place = Place(QUICK, cores, poller, lambda step: None, prefix)
        load = Load(kind.row, 1, keyed=kind.keyed)
        with place.run(subject) as (_, running), place.swarm(running, load) as swarm:
            swarm.repeat(calls)
        found = sum(_summary(file) for file in Path(folder).glob("counts.*"))
    poller.close()
    if not found:
        raise BenchError("valgrind has counted nothing: the server did not end by itself.")
    return found


def _summary(file: Path) -> int:
    """The total of a file of cachegrind's."""
    lines = file.read_text(errors="replace").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("summary:"))


if __name__ == "__main__":
    sys.exit(main())
