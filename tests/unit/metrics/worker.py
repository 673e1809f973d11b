"""A worker process that counts: it does what it is told on standard input and answers when it is done."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.metrics import Reading, SharedStore, families
from tests.support.scraping import made


def main(directory: Path, name: str) -> None:
    store = SharedStore(directory)
    metrics = made(store, gauges=[Reading(families.IN_FLIGHT, ("mail",), 2.0), Reading(families.STATE_UP, (), 1.0)])
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            metrics.request("otc", "call", 200, 0.5, 0.25)
            metrics.tool_call("mail", f"Mail.{name}", "ok", 0.25)
        metrics.publish()
        print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
