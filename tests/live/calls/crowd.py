"""Callers who do not give up: they repeat a call as they are told to, on whatever replica is left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import httpx

from tests.support.calling import call_once, result

ANSWER_S = 45.0  # from a call to an answer of any kind; the longest timeout in these tests is 30 s
PAUSE_S = 0.1  # before a refused call is repeated, so that a crowd does not ask all the time


async def insist(urls: Sequence[str], tool: str, arguments: Any, call_id: str, within_s: float) -> dict[str, Any]:
    """The result of a call that is asked for at each replica in turn. None of the answers may be late, or a 5xx."""
    last = "nothing"
    try:
        async with asyncio.timeout(within_s):
            for url in itertools.cycle(urls):
                try:
                    async with asyncio.timeout(ANSWER_S):
                        response = await call_once(url, tool, arguments, call_id=call_id)
                except (ConnectionError, asyncio.IncompleteReadError) as exc:
                    last = repr(exc)
                    await asyncio.sleep(PAUSE_S)
                    continue
                last = response.text
                ended = _ended(response)
                if ended is not None:
                    return ended
                if response.status_code != httpx.codes.OK:
                    await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"the call {call_id} is not over after {within_s:g} s; the last answer: {last}") from None
    raise AssertionError("there is no replica")


def _ended(response: httpx.Response) -> dict[str, Any] | None:
    """The result; None if the caller has to come back, which it must have been told."""
    if response.status_code != httpx.codes.OK:
        assert response.status_code == httpx.codes.BAD_REQUEST, response.text
        assert "retry-after" in response.headers, response.text
        return None
    ended = result(response)
    return ended if ended["success"] is True or not ended["error"].get("can_retry", False) else None
