"""Toolgate as a client of RCRT: a gateway in front of the server, and one call through it."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from gateway.client import Toolgate, ToolgateError
from tests.support.processes import gateway, settings


async def main() -> int:
    told = {name.removeprefix("TOOLGATE_KIT_"): value for name, value in os.environ.items() if "_KIT_" in name}
    identity = {"owner_id": told["OWNER_ID"], "agent_id": told["AGENT_ID"]}
    backends = {"Kit": {"protocol": "rcrt", "url": told["URL"], **identity}}
    config = settings(backends, routes=[{"tools": "*", "backend": "Kit", "idempotent": True}])
    async with gateway(config) as running, Toolgate(running.url, "") as client:
        try:
            (tool,) = await client.tools()
            value = await client.call(tool, json.loads(told["INPUT"]), call_id=told["CALL_ID"])
        except ToolgateError as exc:
            print(exc, file=sys.stderr)
            return 1
    print(json.dumps(value))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
