"""Calls of the runner's tools, each with an id of its own."""

from __future__ import annotations

import uuid
from typing import Any

from tests.unit.backends.conftest import Crumbs
from tests.unit.backends.crumbs import facing, invocation, until

HELLO = {"echo": "hello"}


def new_id() -> str:
    return f"tg-{new_run()}"


def new_run() -> str:
    return uuid.uuid4().hex


async def result_of(crumbs: Crumbs, tool: str = "echo", call: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Hands one call over and waits for what comes home."""
    call_id = new_id()
    async with facing(crumbs.url, **settings) as (backend, kept):
        assert await backend.dispatch(invocation(tool, call_id, **(call or {})), "") is None
        result = await kept.outcome(call_id)
        await until(lambda: backend.open_calls == 0)
    assert crumbs.executions(call_id) <= 1
    return result
