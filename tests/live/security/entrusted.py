"""A gateway that is entrusted with a secret wherever one goes, and a note of all that somebody else could see."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.live.calls.site import AGENT_ID, OWNER_ID
from tests.live.security.test_canaries import SIGNING_SECRET, Canaries
from tests.support.processes import Settings, settings
from tests.support.redis_server import RedisServer
from tests.support.toolserver import Exchange, Handler, definition


class Seen:
    """Everything that somebody else could look at, by where it was seen."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def note(self, where: str, text: str) -> None:
        self.texts[where] = self.texts.get(where, "") + text + "\n"


def oxp_tools(canaries: Canaries) -> dict[str, Handler]:
    """A flat OXP server that answers, fails, and answers what it should not."""

    async def sends(exchange: Exchange) -> None:
        await exchange.reply({"call_id": exchange.request.call["call_id"], "success": True, "value": canaries["mail"]})

    async def bounces(exchange: Exchange) -> None:
        error = {"message": canaries["bounce"], "developer_message": canaries["bounce details"], "can_retry": True}
        await exchange.reply({"call_id": exchange.request.call["call_id"], "success": False, "error": error})

    async def garbles(exchange: Exchange) -> None:
        await exchange.reply([canaries["garbled"]], status=502)

    return {"Mail.Send": sends, "Mail.Bounce": bounces, "Mail.Garble": garbles}


async def oxp_list(exchange: Exchange) -> None:
    tools = [
        definition(f"Mail.{name}", input_schema={"type": "object"}, output_schema={})
        for name in ("Send", "Bounce", "Garble")
    ]
    await exchange.reply({"items": tools}, headers=[("OXP-Version", "1.0")])


def configuration(urls: dict[str, str], redis: RedisServer, port: int, canaries: Canaries) -> Settings:
    """Everything there is to configure, with a secret wherever one goes."""
    crumbs = {"url": urls["crumbs"], "owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": "Crumbs"}
    backends: dict[str, Settings] = {
        "lab": {"protocol": "otc", "url": urls["lab"], "timeout": "300ms", "auth": {"bearer": canaries["bearer"]}},
        "mail": {"protocol": "oxp", "url": urls["mail"], "auth": {"api_key": canaries["backend key"]}},
        "keeper": {
            "protocol": "callback",
            "url": urls["keeper"],
            "timeout": "500ms",
            "auth": {"jwt": {"secret": canaries["backend secret"] + "-of-32-bytes-and-more"}},
        },
        "crumbs": {"protocol": "rcrt", "timeout": "10s", **crumbs},
        "gone": {"protocol": "otc", "url": "http://127.0.0.1:1"},
    }
    secrets = {"OURS": canaries["route secret"]}
    return settings(
        backends,
        server={"port": port, "admin": {"port": 0}, "public_url": f"http://127.0.0.1:{port}"},
        auth={
            "jwt": [{"secret": SIGNING_SECRET}],
            "api_keys": [{"id": "job", "hash": f"sha256:{hashlib.sha256(canaries['api key'].encode()).hexdigest()}"}],
        },
        routes=[{"tools": "*", "backend": name, "secrets": secrets} for name in backends],
        state={"url": redis.url, "keys": [canaries["state key"] + "-of-32-characters-and-more"]},
        rate_limits=[
            {"name": "all", "key": "caller", "rate": "1000/s"},
            {"name": "dear", "key": "caller+tool+ip", "rate": "2/h", "tools": ["Mail.Send*"]},
        ],
        metrics={"token": canaries["metrics token"]},
    )


@asynccontextmanager
async def overheard(redis: RedisServer, seen: Seen) -> AsyncIterator[None]:
    """Notes every command that Redis is sent, scripts with all that is handed to them included, while it lives."""
    client = Redis.from_url(redis.url)

    async def listen() -> None:
        with suppress(RedisError):
            async with client.monitor() as monitor:
                async for command in monitor.listen():
                    seen.note("commands of Redis", command["command"])

    task = asyncio.create_task(listen())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await client.aclose()


def note_stored(directory: Path, seen: Seen) -> None:
    """What Redis has on its disk, which is every change there ever was."""
    for path in directory.rglob("*"):
        if path.is_file():
            seen.note("disk of Redis", path.read_bytes().decode("latin-1"))
