"""Finds out what an operator should know of a Redis before it is used; leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import RedisError

LOOK_S = 5.0  # for all questions together; each has a time limit of its own, which is shorter
KEY, CHANNEL = "toolgate:{check}:trial", "toolgate:wake:check"
# As the gateway does everything: in a script, which asks for the time, writes and deletes.
SCRIPT = "redis.call('TIME') redis.call('SET', KEYS[1], '', 'PX', 1000) return redis.call('DEL', KEYS[1])"


class Findings(Struct, frozen=True, kw_only=True):
    """`cause` is why calls cannot be kept there, None if they can; `warnings` are ways in which they may get lost."""

    version: str | None = None
    cause: str | None = None
    warnings: tuple[str, ...] = ()


async def look_at(redis: Redis) -> Findings:
    """Asks a server what matters here; an answer that fails, or does not come, is a `cause`."""
    try:
        async with asyncio.timeout(LOOK_S):
            about: dict[str, Any] = await redis.info()
            save = await _save(redis)
    except TimeoutError:  # an OSError as well, so it comes first
        return Findings(cause=f"no answer within {LOOK_S:g} s")
    except (RedisError, OSError) as exc:
        return Findings(cause=str(exc) or type(exc).__name__)
    version = str(about.get("redis_version", "unknown"))
    return Findings(version=version, cause=_cause(about), warnings=tuple(_warnings(about, save)))


async def refusal(redis: Redis) -> str | None:
    """Why nothing can be kept there, such as that memory is full or scripts are forbidden; None if it can."""
    return await _failure(redis.execute_command("EVAL", SCRIPT, 1, KEY))  # type: ignore[no-untyped-call]


async def deafness(redis: Redis) -> str | None:
    """Why replicas cannot wake each other there; None if they can."""
    return await _failure(_subscribe(redis))


async def _subscribe(redis: Redis) -> None:
    async with redis.pubsub() as subscription:
        await subscription.subscribe(CHANNEL)
        if await subscription.get_message(timeout=LOOK_S) is None:
            raise TimeoutError


async def _failure(attempt: Awaitable[object]) -> str | None:
    """Why an attempt failed or did not end in time; None if it succeeded."""
    try:
        async with asyncio.timeout(LOOK_S):
            await attempt
    except TimeoutError:
        return f"no answer within {LOOK_S:g} s"
    except (RedisError, OSError) as exc:
        return str(exc) or type(exc).__name__
    return None


async def _save(redis: Redis) -> str | None:
    """When it writes its data to disk; None where the question is forbidden, as at most providers."""
    try:
        answer = await redis.config_get("save")
    except RedisError:
        return None
    return answer.get("save")


def _cause(about: Mapping[str, Any]) -> str | None:
    if about.get("redis_mode") == "cluster":
        return "it is a cluster; one server is needed, with or without sentinels"
    if about.get("role") != "master":
        return "it is a replica, which takes no writes; name the primary, or the sentinels that know it"
    if about.get("loading"):
        return "it is still loading its data"
    return None


def _warnings(about: Mapping[str, Any], save: str | None) -> Iterator[str]:
    policy = about.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield (
            f"maxmemory-policy is {policy}: when memory is short, Redis drops calls that are under way, which may "
            "then run twice; set it to noeviction"
        )
    if not about.get("aof_enabled") and save == "":
        yield (
            'nothing is written to disk (appendonly no, save ""): a restart loses every result, and calls whose '
            "result was lost may run twice; set appendonly to yes"
        )
