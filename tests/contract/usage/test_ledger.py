"""The counts in Redis: added once, bounded, kept as long as asked, and printed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.cli import program
from gateway.usage import Ledger, Used
from gateway.usage.ledger import Row
from tests.support.limit_clients import store_at
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.anyio

TODAY = int(time.time()) // 86_400
ROWS: list[Row] = [
    ("key:nightly", "Calculator.Add", "ok", 2_000_000_000_000),
    ("key:nightly", "Calculator.Add", "failed", 3),
    ("jwt:https://issuer.example", "Calculator.Add", "refused", 4),
]
ADDED = {
    Used("key:nightly", "Calculator.Add", 2_000_000_000_003, 3, 0),
    Used("jwt:https://issuer.example", "Calculator.Add", 0, 0, 4),
}


@pytest.fixture(params=["redis_server", "redis_cluster"])
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator[Ledger]:
    url = request.getfixturevalue(request.param).url
    opened = Ledger(store_at(url), keep_days=30, max_rows=100)
    yield opened
    await opened.aclose()


async def test_what_is_added_twice_counts_once(ledger: Ledger) -> None:
    for writer, sequence in [("one", 1), ("one", 1), ("other", 1), ("one", 2), ("one", 1)]:
        await ledger.add(writer, sequence, TODAY, [("key:a", "Tool.T", "ok", 5)])
    assert await ledger.read(TODAY) == [Used("key:a", "Tool.T", 15, 0, 0)]


async def test_days_are_apart(ledger: Ledger) -> None:
    await ledger.add("one", 1, TODAY - 1, ROWS)
    await ledger.add("one", 2, TODAY, ROWS[:1])
    assert set(await ledger.read(TODAY - 1)) == ADDED
    assert [row.failed for row in await ledger.read(TODAY)] == [0]
    assert await ledger.read(TODAY - 2) == []


async def test_a_day_is_kept_as_long_as_asked(redis_server: RedisServer) -> None:
    ledger = Ledger(store_at(redis_server.url), keep_days=30, max_rows=100)
    await ledger.add("one", 1, TODAY, ROWS)
    await ledger.aclose()
    with redis_server.connect() as redis:
        assert redis.expiretime(f"toolgate:usage:{TODAY}") == (TODAY + 31) * 86_400
        assert [key for key in redis.keys("*usage*") if redis.ttl(key) < 0] == []


async def test_beyond_the_most_rows_of_a_day_tools_are_counted_as_one(ledger: Ledger) -> None:
    await ledger.add("one", 1, TODAY, [("key:a", f"Tool.T{number}", "ok", 1) for number in range(150)])
    await ledger.add("one", 2, TODAY, [("key:a", "Tool.T0", "ok", 1), ("key:b", "Tool.T0", "ok", 1)])
    found = {(row.account, row.tool): row.calls for row in await ledger.read(TODAY)}
    assert len(found) == 102
    assert (found["key:a", "Tool.T0"], found["key:a", "other"], found["key:b", "other"]) == (2, 50, 1)


CONFIG = """
auth: none
state: {{url: '{url}'}}
usage: {{}}
"""


def test_the_command_prints_days_or_months(
    redis_server: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(CONFIG.format(url=redis_server.url))
    day_before = 20_480  # 2026-01-27
    fields = {"key:nightly\0Mail.Send\0ok": 7, "key:nightly\0Mail.Send\0failed": 1}
    with redis_server.connect() as redis:
        for day in (day_before, day_before + 1, day_before + 6):
            redis.hset(f"toolgate:usage:{day}", mapping=fields)
    assert program.run(["usage", "-c", str(file), "--since", "2026-01-27"], imported=lambda: None) == 0
    assert capsys.readouterr().out.splitlines() == [
        "DAY         ACCOUNT      CALLS  FAILED  REFUSED  TOOL",
        *(
            f"{day}  key:nightly  8      1       0        Mail.Send"
            for day in ("2026-01-27", "2026-01-28", "2026-02-02")
        ),
        "",
        "24 calls of 1 tool by 1 account",
    ]
    words = ["usage", "-c", str(file), "--since", "2026-01-28", "--month", "--json"]
    assert program.run(words, imported=lambda: None) == 0
    counted = {"account": "key:nightly", "tool": "Mail.Send", "calls": 8, "failed": 1, "refused": 0}
    assert json.loads(capsys.readouterr().out) == {
        "since": "2026-01-28",
        "usage": [{"period": "2026-01"} | counted, {"period": "2026-02"} | counted],
    }
    with redis_server.connect() as redis:
        redis.flushall()
    assert program.run(["usage", "-c", str(file)], imported=lambda: None) == 0
    assert capsys.readouterr().err.startswith("No calls were counted since ")


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        ("auth: none", [], 2, "does not have calls counted: add `usage: {}`, and state.url, where they are."),
        (CONFIG.format(url="redis://127.0.0.1:1"), [], 1, "The counts cannot be read: redis://127.0.0.1:1/0: "),
        (CONFIG.format(url="redis://127.0.0.1:1"), ["--since", "5"], 2, "must be a day such as 2026-11-01"),
        ("auth: none\nusage: {}", [], 2, "usage: needs state.url, because it is stored there"),
    ],
)
def test_the_command_says_what_is_missing(
    text: str, words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    assert program.run(["usage", "-c", str(file), *words], imported=lambda: None) == code
    assert said in capsys.readouterr().err
