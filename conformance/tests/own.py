"""Toolgate as a client: its own `gateway.client`, and a gateway in front of a tool server of RAP or RCRT.

None of them is a command: each does in these tests what the kit asks of one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from gateway.client import RefusedError, Tool, Toolgate, ToolgateError, newest_by_name
from tests.support.processes import Settings, gateway, settings
from toolgate_conformance.clients.rap.subject import RapRuntime
from toolgate_conformance.clients.rcrt.subject import RcrtClient
from toolgate_conformance.clients.rest.subject import RestClient

GRACE_S = 0.3  # for callbacks after the result
INTERRUPTED = 130
UNREADY = "unfit-toolset"  # the scenario in which there are no tools to wait for

Ended = tuple[int | None, str, str]  # as a command: exit code, output, error output


class OwnClient(RestClient):
    """`gateway.client`, at a tool server of OXP."""

    async def start(
        self,
        words: Mapping[str, str],
        access: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
        *,
        interruption: asyncio.Event | None = None,
    ) -> Ended:
        async with Toolgate(words["url"], words["token"]) as client:
            return await _ended(client, words, access, secrets)


class OwnRuntime(RapRuntime):
    """A gateway in front of a RAP server, with a route that is idempotent."""

    async def start(
        self,
        words: Mapping[str, str],
        access: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
        *,
        interruption: asyncio.Event | None = None,
    ) -> Ended:
        config = _in_front_of("callback", words, auth={"bearer": words["token"]})
        is_ready = words["scenario"] != UNREADY
        async with gateway(config, ready=is_ready) as running, Toolgate(running.url, "") as client:
            calling = asyncio.create_task(_ended(client, words))
            interrupting = asyncio.create_task((interruption or asyncio.Event()).wait())
            await asyncio.wait((calling, interrupting), return_when=asyncio.FIRST_COMPLETED)
            interrupting.cancel()
            if not calling.done():
                calling.cancel()
                with suppress(asyncio.CancelledError):
                    await calling
                await client.ask("DELETE", f"/calls/{words['call_id']}")
            await asyncio.sleep(GRACE_S)
            return (INTERRUPTED, "", "") if calling.cancelled() else calling.result()


class OwnRcrtClient(RcrtClient):
    """A gateway in front of a server of RCRT, with a route that is idempotent."""

    async def start(
        self,
        words: Mapping[str, str],
        access: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
        *,
        interruption: asyncio.Event | None = None,
    ) -> Ended:
        config = _in_front_of("rcrt", words, owner_id=words["owner_id"], agent_id=words["agent_id"])
        async with gateway(config) as running, Toolgate(running.url, "") as client:
            return await _ended(client, words)


def _in_front_of(protocol: str, words: Mapping[str, str], **members: Any) -> Settings:
    backends = {"Kit": {"protocol": protocol, "url": words["url"], **members}}
    return settings(backends, routes=[{"tools": "*", "backend": "Kit", "idempotent": True}])


async def _ended(
    client: Toolgate, words: Mapping[str, str], access: Mapping[str, str] = {}, secrets: Mapping[str, str] = {}
) -> Ended:
    """Calls the tool that the words name."""
    try:
        tool = _named(await client.tools(), words["tool"])
        if tool is None:
            return 1, "", f"There is no tool {words['tool']}."
        value = await client.call(
            tool,
            json.loads(words["input"]),
            tokens={it.id: access[it.id] for it in tool.requirements.authorization if it.id in access},
            secrets={it.id: secrets[it.id] for it in tool.requirements.secrets if it.id in secrets},
            call_id=words["call_id"],
        )
    except ToolgateError as exc:
        return 1, "", f"{exc}\n{_details(exc) if isinstance(exc, RefusedError) else ''}"
    return 0, json.dumps(value), ""


def _named(tools: Sequence[Tool], name: str) -> Tool | None:
    """The tool with that id or name, the newest of them; a gateway puts a toolkit before the names of RAP and RCRT."""
    plain = name.replace("-", "_")
    found = [it for it in tools if it.id == name or it.id.partition("@")[0].replace("-", "_").endswith(plain)]
    return next(iter(newest_by_name(found).values()), None)


def _details(refused: RefusedError) -> str:
    refusal = refused.refusal
    pages = [consent.url for consent in refusal.missing_requirements.authorization]
    return "\n".join([*pages, *(f"{name} {text}" for name, text in refusal.parameter_errors.items())])
