"""A server process for the tests of stopping: `/hold` waits until the admin listener is asked for anything.

Takes the grace in seconds; prints where it listens as a line of JSON, then `draining`, then `done`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import astuple, replace

from starlette.types import Receive, Scope, Send

from gateway.server import Addresses, main_loop, run
from tests.live.server.harness import OPTIONS, Application, respond


async def main(grace_s: float) -> None:
    application = Application()

    async def release(scope: Scope, receive: Receive, send: Send) -> None:
        application.gate.set()
        await respond(send, 200, str(len(application.seen)).encode())

    def ready(addresses: Addresses) -> None:
        print(json.dumps(astuple(addresses)), flush=True)

    def drain() -> None:
        print("draining", flush=True)

    await run(application, release, replace(OPTIONS, shutdown_grace_s=grace_s), on_ready=ready, on_drain=drain)
    await asyncio.sleep(0)
    print("done", flush=True)


if __name__ == "__main__":
    main_loop(main(float(sys.argv[1])))
