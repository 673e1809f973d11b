"""The model of Redis, held against a server: the same commands and scripts get the same replies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from redis import Redis
from redis.exceptions import ResponseError

from tests.simulation.commands import Data
from tests.simulation.script import evaluate
from tests.support.redis_server import running_redis

ROUNDS = 2000
LONG_MS = 10**9
ASK = b"return redis.call(unpack(ARGV))"
SLOW_MS = 10**6  # by which a server that takes its time may differ

KEYS = {kind: [f"{kind}{number}" for number in range(3)] for kind in ("string", "hash", "set", "sorted")}
NAMES = ["a", "b", "c", "d", "7", ""]
NUMBERS = ["0", "1", "-1", "2", "10", "1764000000000", "x"]
SCORES = ["0", "1", "2.5", "-3", "1764000000000", "+inf", "-inf", "0.1"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running, running.connect() as connection:
        yield connection


def commands(chance: random.Random) -> list[str]:
    """A command that the scripts could give; one in twenty on a key of another kind."""
    pick = chance.choice
    kinds = list(KEYS)

    def key(kind: str) -> str:
        return pick(KEYS[kind if chance.random() > 0.05 else pick(kinds)])

    def some(choices: list[str]) -> list[str]:
        return [pick(choices) for _ in range(chance.randint(1, 3))]

    def pairs(first: list[str], second: list[str]) -> list[str]:
        return [each for _ in range(chance.randint(1, 3)) for each in (pick(first), pick(second))]

    any_key = key(pick(kinds))
    return pick(
        [
            ["GET", key("string")],
            ["SET", key("string"), pick(NAMES), *pick([[], ["NX"], ["PX", str(LONG_MS)], ["PX", "0"], ["PX", "-5"]])],
            ["MGET", key("string"), any_key],
            ["DEL", any_key, key("string")],
            ["EXISTS", any_key, key("hash"), any_key],
            ["PEXPIRE", any_key, pick([str(LONG_MS), "-1", "x"])],
            ["PTTL", any_key],
            ["RENAME", key("hash"), key("hash")],
            ["HSET", key("hash"), *pairs(NAMES, NUMBERS)],
            ["HGET", key("hash"), pick(NAMES)],
            ["HMGET", key("hash"), *some(NAMES)],
            ["HDEL", key("hash"), *some(NAMES)],
            ["HINCRBY", key("hash"), pick(NAMES), pick(NUMBERS)],
            ["HSTRLEN", key("hash"), pick(NAMES)],
            ["SADD", key("set"), *some(NAMES)],
            ["SREM", key("set"), *some(NAMES)],
            ["SMEMBERS", key("set")],
            ["SPOP", key("set"), pick(["0", "99"])],  # all or nothing: the choice is the server's
            ["ZADD", key("sorted"), *pairs(SCORES, NAMES)],
            ["ZREM", key("sorted"), *some(NAMES)],
            ["ZCARD", key("sorted")],
            ["ZSCORE", key("sorted"), pick(NAMES)],
            ["ZCOUNT", key("sorted"), pick(SCORES), pick(SCORES)],
            [
                "ZRANGE",
                key("sorted"),
                pick(["0", "-2", "1"]),
                pick(["-1", "0", "2", "-9"]),
                *pick([[], ["WITHSCORES"]]),
            ],
            ["ZRANGEBYSCORE", key("sorted"), pick(SCORES), pick(SCORES), *pick([[], ["LIMIT", "0", "2"]])],
            ["ZREMRANGEBYSCORE", key("sorted"), pick(SCORES), pick(SCORES)],
        ]
    )


def of_model(data: Data, *words: str | bytes, script: bytes = ASK) -> Any:
    reply = evaluate(script, data, [], *[word.encode() if isinstance(word, str) else word for word in words])
    return plain(reply)


def of_server(server: Redis, *words: str | bytes, script: bytes = ASK) -> Any:
    try:
        return plain(server.eval(script.decode(), 0, *words))
    except ResponseError as exc:
        return plain(exc)


def plain(reply: Any) -> Any:
    """A reply that can be compared: of an error what it is, which is all that is read of one."""
    if isinstance(reply, list):
        return [plain(each) for each in reply]
    if isinstance(reply, (bytes, Exception)):
        text = reply if isinstance(reply, bytes) else str(reply).encode()
        return next(
            (kind for kind in (b"wrong kind", b"refused") if kind in text), reply if reply is text else b"error"
        )
    return reply


def unordered(command: list[str], reply: Any) -> Any:
    return sorted(reply) if isinstance(reply, list) and command[0] in ("SMEMBERS", "SPOP") else reply


def test_the_same_commands_get_the_same_replies_and_a_copy_gets_the_same_data(server: Redis) -> None:
    chance, copy = random.Random(1), Data()
    data = Data(write=lambda command: copy.run(command))
    server.flushall()
    asked = [commands(chance) for _ in range(ROUNDS)]
    with server.pipeline(transaction=False) as pipeline:
        for command in asked:
            pipeline.eval(ASK.decode(), 0, *command)
        replies = pipeline.execute(raise_on_error=False)
    for command, reply in zip(asked, replies, strict=True):
        expected, got = plain(reply), of_model(data, *command)
        if command[0] == "PTTL" and isinstance(expected, int) and expected > 0:
            assert abs(got - expected) < SLOW_MS, command
        else:
            assert unordered(command, got) == unordered(command, expected), command
    assert copy.copy() == data.copy()


# What a script may be given, and may do with it.
CONVERSIONS = [
    b"return {1, 2.9, -2.9, 'text', '', true, false, 3}",
    b"return {1, {2, {3, {}}}, nil, 4}",
    b"return {ok = 'yes'}",
    b"return {{ok = 'yes'}, 'x', {err = 'no'}}",
    b"return redis.error_reply('READONLY refused')",
    b"return redis.pcall('HGET', 'string', 'x')",
    b"return redis.call('HGET', 'string', 'x')",
    b"return {pcall(redis.call, 'HGET', 'string', 'x')}",
    b"local ok, problem = pcall(redis.call, 'HGET', 'string', 'x') return {ok, type(problem), type(problem.err)}",
    b"return redis.call('MGET', 'string', 'absent', 'string')[2] == false and 'false' or 'nil'",
    b"return type(redis.call('SET', 'string', 'x').ok)",
    b"return type(redis.call('GET', 'absent'))",
    b"redis.call('HSET', 'h', 1, 1764000000000, 2, 2^53, 3, 1.5, 4, 1/3) return redis.call('HMGET', 'h', 1, 2, 3, 4)",
    b"return tonumber(redis.call('TIME')[1]) > 1764000000 / 10",
    b"return {#KEYS, #ARGV, ARGV[1]}",
    b"return tostring(nil) .. tostring(1764000000000)",
    b"error('a bug')",
]
MESSAGES: list[Any] = [
    [1, -1, 127, 128, 255, 256, 65535, 65536, 2**32, 2**53, -32, -33, -128, -129, -32768, -32769, -(2**31) - 1],
    [1.5, 86400.0, True, False, "", "text", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65536],
    [["nested", [[]]], list(range(15)), list(range(16)), [None, 1], {"a": 1, "b": [2.5]}],
    msgspec.Raw(b"\x91\xdb\x00\x00\x00\x04\xff\x00\xfe\xc0"),  # as sealed bytes are sent
]
TELL = b"""
local function tell(value)
  if type(value) ~= 'table' then return type(value) .. ' ' .. tostring(value) end
  local told, names = {}, {}
  for name in pairs(value) do table.insert(names, name) end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do table.insert(told, { tostring(name), tell(value[name]) }) end
  return told
end
return tell(cmsgpack.unpack(ARGV[1]))
"""


@pytest.mark.parametrize("text", CONVERSIONS, ids=range(len(CONVERSIONS)))
def test_the_same_scripts_get_the_same_replies(server: Redis, text: bytes) -> None:
    server.flushall()
    server.set("string", "x")
    data = Data()
    data.now_ms = 1764000000000
    data.run([b"SET", b"string", b"x"])
    assert of_model(data, script=text) == of_server(server, script=text)


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_the_same_messages_are_read_the_same_way(server: Redis, message: Any) -> None:
    packed = msgspec.msgpack.encode(message)
    assert of_model(Data(), packed, script=TELL) == of_server(server, packed, script=TELL)
