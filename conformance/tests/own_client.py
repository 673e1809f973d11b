"""Our own client, `gateway.client`, as `toolgate-conformance client --protocol oxp` asks for it."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from gateway.client import Refusal, RefusedError, Toolgate, ToolgateError, newest_by_name


async def main() -> int:
    told = {name.removeprefix("TOOLGATE_KIT_"): value for name, value in os.environ.items() if "_KIT_" in name}
    access, secrets = json.loads(told["AUTHORIZATION"]), json.loads(told["SECRETS"])
    async with Toolgate(told["URL"], told["TOKEN"]) as gateway:
        try:
            tools = await gateway.tools()
            named = [it for it in tools if told["TOOL"] in (it.id, it.id.partition("@")[0])]
            if not named:
                print(f"There is no tool {told['TOOL']}.", file=sys.stderr)
                return 1
            tool = next(iter(newest_by_name(named).values()))
            needs = tool.requirements
            value = await gateway.call(
                tool,
                json.loads(told["INPUT"]),
                tokens={it.id: access[it.id] for it in needs.authorization if it.id in access},
                secrets={it.id: secrets[it.id] for it in needs.secrets if it.id in secrets},
                call_id=told["CALL_ID"],
            )
        except ToolgateError as exc:
            print(exc, file=sys.stderr)
            if isinstance(exc, RefusedError):
                print(_refusal(exc.refusal), file=sys.stderr)
            return 1
    print(json.dumps(value))
    return 0


def _refusal(refusal: Refusal) -> str:
    pages = [consent.url for consent in refusal.missing_requirements.authorization]
    return "\n".join([*pages, *(f"{name} {text}" for name, text in refusal.parameter_errors.items())])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
