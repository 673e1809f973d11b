"""Stored calls are sealed; one whose bytes were damaged counts as unknown."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from redis import Redis

from tests.contract.state.conftest import OpenReplica
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import ACCEPTED, UNKNOWN, began, call, joined, state_of

CANARY = b"canary-in-a-coal-mine"


@pytest.mark.anyio
async def test_redis_sees_neither_notes_nor_outcomes(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    state = await open_replica()
    key = (await began(state, call(note=CANARY), ACCEPTED)).key
    await state.settle(key, CANARY)
    with redis_server.connect() as redis:
        for name in redis.scan_iter():
            assert CANARY not in name + (redis.dump(name) or b"")


DAMAGES: list[dict[str, Any]] = [
    {"outcome": b"no longer what it was"},
    {"outcome": b""},
    {"note": b"\x00"},
    {"state": b"7"},
    {"state": b"4"},
    {"state": b"done"},
]


@pytest.mark.anyio
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_call_counts_as_unknown(
    damage: dict[str, Any], open_replica: OpenReplica, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    state = await open_replica()
    new = call(note=b"note")
    await began(state, new)
    await state.settle(new.key, b"outcome")
    with redis_server.connect() as redis:
        redis.hset(f"toolgate:{{{new.key}}}:call", mapping=damage)
    with caplog.at_level(logging.WARNING, "gateway.state"):
        begun = await joined(state, new)
    assert (begun.state, begun.outcome, begun.note) == (UNKNOWN, None, b"")
    assert "cannot be opened" in caplog.text


@pytest.mark.anyio
async def test_a_body_moved_to_another_call_does_not_open(open_replica: OpenReplica, redis_server: RedisServer) -> None:
    state = await open_replica()
    mine, theirs = (await began(state)).key, (await began(state)).key
    for key in (mine, theirs):
        await state.settle(key, key.encode())
    with redis_server.connect() as redis:
        _swap_outcomes(redis, mine, theirs)
    assert await state_of(state, mine) is UNKNOWN


def _swap_outcomes(redis: Redis, one: str, other: str) -> None:
    names = [f"toolgate:{{{key}}}:call" for key in (one, other)]
    bodies = [redis.hget(name, "outcome") for name in names]
    for name, body in zip(names, reversed(bodies), strict=True):
        redis.hset(name, "outcome", body)
