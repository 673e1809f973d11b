"""`python -m tests.bench`, which is `make bench`: measures, prints, and exits 1 when a figure exceeds its limit."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tests.bench import plan, report
from tests.bench.machine import BenchError, Cores
from tests.bench.plan import FULL, QUICK
from tests.bench.poller import Poller
from tests.bench.rounds import Place
from tests.bench.verdicts import lines


def main() -> int:
    """Runs the benchmark and returns the exit code: 0 within the limits, 1 beyond one, 2 if it cannot be measured.

    A quick run shows that the benchmark works; it is too short to judge by.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures what a call costs.")
    parser.add_argument("--quick", action="store_true", help="one short round, not judged")
    parser.add_argument("--only", type=_names, default=[], metavar="NAME[,NAME]", help=", ".join(plan.names()))
    parser.add_argument("--rounds", type=_count, metavar="N", help=f"instead of {FULL.rounds}, or of 1 if quick")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    if sys.platform != "linux":
        print("The benchmark reads CPU time from /proc and runs on Linux only.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _leave)
    effort, cores = QUICK if options.quick else FULL, Cores.choose()
    effort = replace(effort, rounds=options.rounds or effort.rounds)
    try:
        outcome = plan.run(Place(effort, cores, Poller(), _say), options.only)
    except (BenchError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(report.text(outcome, effort, cores))
    if options.json:
        options.json.write_text(json.dumps(report.document(outcome, effort, cores), indent=1) + "\n")
    return 0 if options.quick or all(line.ok for line in lines(outcome)) else 1


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


def _say(step: str) -> None:
    print(f"bench: {step}", file=sys.stderr, flush=True)


def _leave(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)  # unwinds, so that every child is stopped


if __name__ == "__main__":
    sys.exit(main())
