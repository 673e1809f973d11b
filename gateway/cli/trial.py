"""What `toolgate check --live` tries in Redis: a server may answer INFO and still refuse writes or scripts."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

TRY_S = 5.0  # for either; each command has a time limit of its own, which is shorter
KEY = "toolgate:{check}:trial"
CHANNEL = "toolgate:wake:check"
# As the gateway does everything: in a script, which asks for the time, writes and deletes.
SCRIPT = "redis.call('TIME') redis.call('SET', KEYS[1], '', 'PX', 1000) return redis.call('DEL', KEYS[1])"


async def refusal(redis: Redis) -> str | None:
    """Why nothing can be kept there, such as that memory is full or scripts are forbidden; None if it can."""
    try:
        async with asyncio.timeout(TRY_S):
            await redis.execute_command("EVAL", SCRIPT, 1, KEY)  # type: ignore[no-untyped-call]
    except (RedisError, OSError) as exc:
        return str(exc) or type(exc).__name__
    except TimeoutError:
        return f"no answer within {TRY_S:g} s"
    return None


async def deafness(redis: Redis) -> str | None:
    """Why replicas cannot wake each other there; None if they can."""
    try:
        async with asyncio.timeout(TRY_S), redis.pubsub() as subscription:
            await subscription.subscribe(CHANNEL)
            answer: dict[str, Any] | None = await subscription.get_message(timeout=TRY_S)
    except (RedisError, OSError) as exc:
        return str(exc) or type(exc).__name__
    except TimeoutError:
        answer = None
    return None if answer is not None else f"no answer within {TRY_S:g} s"
