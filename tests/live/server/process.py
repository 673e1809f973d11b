"""A server process for the tests of stopping: `/hold` waits until the admin listener is asked for anything.

Takes the grace and the delay in seconds; prints where it listens as a line of JSON, then `stopping` if there is a
delay, then `draining`, then `done`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import astuple, replace

from starlette.types import Receive, Scope, Send

from gateway.net.server import Addresses, Listener, Service, main_loop, run
from tests.live.server.harness import OPTIONS, Application, respond


async def main(grace_s: float, delay_s: float) -> None:
    application = Application()

    async def release(scope: Scope, receive: Receive, send: Send) -> None:
        application.gate.set()
        await respond(send, 200, str(len(application.seen)).encode())

    def ready(addresses: Addresses) -> None:
        print(json.dumps(astuple(addresses)), flush=True)

    def drain() -> None:
        print("draining", flush=True)

    def stop() -> None:
        print("stopping", flush=True)

    options = replace(OPTIONS, shutdown_grace_s=grace_s, drain_delay_s=delay_s)
    service = Service(app=application, on_drain=drain, on_stop=stop if delay_s else lambda: None)
    await run(Listener(options), service, release, on_ready=ready)
    await asyncio.sleep(0)
    print("done", flush=True)


if __name__ == "__main__":
    main_loop(main(float(sys.argv[1]), float(sys.argv[2])))
