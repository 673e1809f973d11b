"""What a gateway counts of the calls of a key is in Redis once the gateway has ended."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import program
from tests.flow.gateways import config, running
from tests.flow.toolserver import object_of, tool, tool_server
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import KEYS
from tests.support.tokens import api_key

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"


async def test_runs_of_a_key_are_counted_once_whether_they_are_kept_or_not(
    redis_server: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sections: dict[str, Any] = {
        "auth": {"api_keys": [api_key("job", KEY)]},
        "state": {"url": redis_server.url, "keys": KEYS},
    }
    numbered = tool("Count.Up", input_schema=object_of(n={"type": "integer"}))
    async with tool_server(tool("Echo.Say"), numbered) as server:
        text = config({"scripted": server.url}, usage={"flush": "10m"}, **sections)
        async with running(text) as gateway:
            headers = {"oxp-api-key": KEY}
            await gateway.caller.call("oxp", "Echo.Say", headers=headers)
            for _ in range(3):
                await gateway.caller.call("oxp", "Echo.Say", call_id="k", headers=headers)
            await gateway.caller.call("oxp", "Count.Up", {"n": "one"}, headers=headers)
            await gateway.caller.call("oxp", "No.Tool", headers=headers)
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    words = ["usage", "-c", str(file), "--json"]
    assert await asyncio.to_thread(program.run, words, imported=lambda: None) == 0
    day = time.strftime("%Y-%m-%d", time.gmtime())
    counted = [{name: row[name] for name in ("tool", "calls", "failed", "refused")} for row in _rows(capsys, day)]
    assert counted == [
        {"tool": "Count.Up", "calls": 0, "failed": 0, "refused": 1},
        {"tool": "Echo.Say", "calls": 2, "failed": 0, "refused": 0},
    ]


def _rows(capsys: pytest.CaptureFixture[str], day: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["usage"]
    assert {(row["period"], row["account"]) for row in rows} == {(day, "key:job")}
    return rows
