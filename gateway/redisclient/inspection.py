"""Finds out what an operator should know of a Redis before it is used; leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.redisclient.causes import cause
from gateway.redisclient.connections import place_of

ANSWERED_WITHIN_S = 5.0  # each question
SILENT = "it does not say whether it may lose calls"
KEY, CHANNEL = "toolgate:{check}:trial", "toolgate:wake:check"
# As the gateway does everything: in a script, which asks for the time, writes and deletes.
SCRIPT = "redis.call('TIME') redis.call('SET', KEYS[1], '', 'PX', 1000) return redis.call('DEL', KEYS[1])"

T = TypeVar("T")


class Findings(Struct, frozen=True, kw_only=True):
    """What an operator should know of a Redis."""

    version: str | None
    cause: str | None  # why calls cannot be kept there; None: they can
    warnings: list[str]  # ways in which they may get lost


async def inspect(redis: Redis) -> Findings:
    """Asks a server what matters here, and tries what the gateway does."""
    place = place_of(redis)
    about, silence = await ask(redis.info(), place)
    _, refused = await ask(redis.execute_command("EVAL", SCRIPT, 1, KEY), place)  # type: ignore[no-untyped-call]
    _, deaf = (None, None) if refused else await ask(subscribe(redis, CHANNEL), place)
    warnings: list[str] = []
    if about:
        warnings += await warnings_of(redis, about)
    elif refused is None:  # refusing INFO, as some providers do, is no reason not to use it
        warnings.append(f"{SILENT}: {silence}")
    if deaf is not None:
        warnings.append(
            f"replicas cannot notify each other, and learn late of results that another one received: {deaf}"
        )
    why = _cause(about) or refused if about else refused and silence
    return Findings(version=version_of(about) if about else None, cause=why, warnings=warnings)


async def risks(redis: Redis) -> list[str]:
    """In which ways a server may lose calls, as far as it says."""
    about, _ = await ask(redis.info(), place_of(redis))
    return await warnings_of(redis, about) if about else []


def version_of(about: Mapping[str, Any]) -> str:
    """What the server is. Valkey also says which Redis it stands in for."""
    if "valkey_version" in about:
        return f"Valkey {about['valkey_version']}"
    return f"Redis {about.get('redis_version', 'of an unknown version')}"


async def ask(question: Awaitable[T], place: str) -> tuple[T | None, str | None]:
    """The answer; or why there is none."""
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            return await question, None
    except TimeoutError:  # an OSError as well, so it comes first
        return None, f"no answer within {ANSWERED_WITHIN_S:g} s"
    except (RedisError, OSError) as exc:
        return None, cause(exc, place)


async def subscribe(redis: Redis, channel: str, *, sharded: bool = False) -> None:
    """Subscribes to a channel. Raises RedisError, OSError, TimeoutError."""
    async with redis.pubsub() as subscription:
        await (subscription.ssubscribe(channel) if sharded else subscription.subscribe(channel))
        if await subscription.get_message(timeout=ANSWERED_WITHIN_S) is None:
            raise TimeoutError


def _cause(about: Mapping[str, Any]) -> str | None:
    if "cluster" in (about.get("redis_mode"), about.get("server_mode")):  # the latter is what Valkey calls it
        return "it is a cluster; begin state.url with redis+cluster"
    if about.get("role") != "master":
        return "it is a replica, which accepts no writes; name the primary, or the sentinels that know it"
    if about.get("loading"):
        return "it is still loading its data"
    return None


async def warnings_of(redis: Redis, about: Mapping[str, Any]) -> list[str]:
    """What the settings of a server, which has told this of itself, make it lose."""
    warnings: list[str] = []
    policy = about.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        warnings.append(
            f"maxmemory-policy is {policy}: when memory is short, Redis drops running calls, which may "
            "then run twice; set it to noeviction"
        )
    save, _ = await ask(redis.config_get("save"), place_of(redis))  # most providers forbid this question
    if not about.get("aof_enabled") and save and save.get("save") == "":
        warnings.append(
            'nothing is written to disk (appendonly no, save ""): a restart loses every result, and calls whose '
            "result was lost may run twice; set appendonly to yes"
        )
    return warnings
