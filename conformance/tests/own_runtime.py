"""Toolgate as a RAP runtime: a gateway in front of the tool server, and one call through it."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from gateway.client import Refusal, RefusedError, Toolgate, ToolgateError
from tests.support.processes import gateway, settings

GRACE_S = 0.3  # for callbacks after the result
DRAIN_DELAY = "10s"  # Ctrl-C reaches the gateway too, which takes the cancellation all the same
INTERRUPTED = 130
UNREADY = "unfit-toolset"  # the scenario in which there are no tools to wait for


async def main() -> int:
    told = {name.removeprefix("TOOLGATE_KIT_"): value for name, value in os.environ.items() if "_KIT_" in name}
    backends = {"Kit": {"protocol": "callback", "url": told["URL"], "auth": {"bearer": told["TOKEN"]}}}
    config = settings(backends, routes=[{"tools": "*", "backend": "Kit", "idempotent": True}])
    config["server"]["drain_delay"] = DRAIN_DELAY
    async with gateway(config, ready=told["SCENARIO"] != UNREADY) as running, Toolgate(running.url, "") as client:
        try:
            tools = [it for it in await client.tools() if it.id.partition("@")[0].endswith(told["TOOL"])]
            if not tools:
                print(f"There is no tool {told['TOOL']}.", file=sys.stderr)
                return 1
            value = await client.call(tools[0], json.loads(told["INPUT"]), call_id=told["CALL_ID"])
            await asyncio.sleep(GRACE_S)
        except asyncio.CancelledError:  # by SIGINT
            await client.ask("DELETE", f"/calls/{told['CALL_ID']}")
            await asyncio.sleep(GRACE_S)
            return INTERRUPTED
        except ToolgateError as exc:
            print(exc, file=sys.stderr)
            if isinstance(exc, RefusedError):
                print(*_pages(exc.refusal), file=sys.stderr)
            return 1
    print(json.dumps(value))
    return 0


def _pages(refusal: Refusal) -> list[str]:
    return [consent.url for consent in refusal.missing_requirements.authorization]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
