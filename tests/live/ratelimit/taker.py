"""A replica as a process of its own that takes as fast as it can: `python -m tests.live.ratelimit.taker URL SECONDS`.

It prints how many of its takes passed, in how many callers' names, and by its own clock when the first was asked and
the last answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from gateway.ratelimit.rules import Plan
from tests.support.limit_clients import replica
from tests.unit.ratelimit.model import parts, rule

BURST, PER_S = 100, 500
CALLERS = 3
AT_ONCE = 30
PLAN = Plan((rule("all", parts=("route",), count=100_000, burst=100_000), rule(count=PER_S, burst=BURST)))


async def _main(url: str, seconds: float) -> None:
    async with replica(url) as buckets:
        passed = [0] * CALLERS

        async def take(number: int, until: float) -> None:
            while time.monotonic() < until:
                outcome = await buckets.take(PLAN, parts(f"key:{number % CALLERS}"))
                passed[number % CALLERS] += outcome.refused is None

        began = time.monotonic()  # of the machine, hence the same in every process
        await asyncio.gather(*(take(number, began + seconds) for number in range(AT_ONCE)))
        print(json.dumps({"passed": passed, "began": began, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], float(sys.argv[2])))
