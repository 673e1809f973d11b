"""An RCRT backend in front of the demonstration server, or of a scripted one, with waits a test can afford."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from gateway.core.model import CallKey, Invocation, JsonObject, ToolDefinition, ToolResult, public_id
from gateway.net.client import Limits
from gateway.protocols.rcrt.backend import RcrtBackend
from gateway.protocols.rcrt.client import Timings
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.upstream.admitting import admission, context_of, settings_of

KEY = CallKey("1")
OWNER = "00000000-0000-0000-0000-000000000001"
AGENT = "00000000-0000-0000-0000-0000000000a1"
DEADLINE_S = 20.0  # for what takes milliseconds on an idle machine
MAX_RESPONSE = 4 * 2**20
LIMITS = Limits(connect_timeout_s=1.0)

# Everything short but the insurance: what a test sees within its deadline came from the stream.
SLOW_POLL = Timings(idle_s=1.0, canary_s=DEADLINE_S, backoff_s=0.02, reconnect_s=0.3, insurance_s=(60.0, 60.0))
FAST_POLL = Timings(
    idle_s=1.0,
    canary_s=0.3,
    backoff_s=0.02,
    reconnect_s=0.3,
    look_s=(0.02, 0.1),
    poll_s=(0.02, 0.1),
    insurance_s=(0.1, 0.2),
    untagged_s=0.05,
    seen_s=0.0,
    change_s=0.05,
)


class Kept:
    """Records the first outcome of each call."""

    def __init__(self) -> None:
        self.results: dict[CallKey, ToolResult] = {}
        self.settled: list[CallKey] = []
        self.over: set[CallKey] = set()  # calls that ended elsewhere

    async def settle(self, key: CallKey, result: ToolResult) -> bool:
        self.settled.append(key)
        return self.results.setdefault(key, result) is result

    async def is_open(self, key: CallKey, run: str) -> bool:
        return key not in self.results and key not in self.over

    async def challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        raise AssertionError("RCRT has no challenges")

    async def call(self, backend: RcrtBackend, invocation: Invocation) -> ToolResult:
        """Hands a call over and waits for its outcome."""
        assert await backend.dispatch(invocation, "") is None
        return await self.outcome(invocation.key)

    async def outcome(self, key: CallKey) -> ToolResult:
        await until(lambda: key in self.results)
        return self.results[key]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that the other side brings about."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - nothing is set when it comes true
            await asyncio.sleep(0.002)


def invocation(tool: str = "echo", key: CallKey = KEY, /, **changes: Any) -> Invocation:
    name = tool.replace("-", "_")
    definition = ToolDefinition(
        tool=f"Crumbs.{name}",
        version="2.1.0",
        name=f"Crumbs_{name}",
        description="",
        input_schema={},
        output_schema={},
        remote_id=tool,
    )
    call = Invocation(
        call_id=public_id(key), key=key, tool=definition, arguments={"message": "hello"}, timeout_s=DEADLINE_S
    )
    return replace(call, **changes)


def rcrt_settings(url: str, **keys: Any) -> Any:
    return settings_of("rcrt", url, owner_id=OWNER, agent_id=AGENT, toolkit="Crumbs", **keys)


@asynccontextmanager
async def facing(
    url: str,
    outcomes: Kept | None = None,
    *,
    timings: Timings | None = FAST_POLL,
    way_in: Admission[Server] | None = None,
    on_change: Callable[[], None] = lambda: None,
    pending_s: float = 60.0,
    token: str | None = None,
    **keys: Any,
) -> AsyncIterator[tuple[RcrtBackend, Kept]]:
    """A backend in front of a server, and the outcomes it finds."""
    outcomes = outcomes or Kept()
    settings = rcrt_settings(url, max_response="4MiB", auth=token and {"bearer": token}, **keys)
    way_in = way_in or admission(url, transport=LIMITS)
    context = context_of(way_in, outcomes=outcomes, on_change=on_change, pending_s=pending_s)
    async with aclosing(RcrtBackend("crumbs", settings, context, timings)) as backend:
        yield backend, outcomes


HELLO = {"echo": "hello"}  # what `invocation()` returns


def new_key() -> CallKey:
    return CallKey(new_run())


def new_run() -> str:
    return uuid.uuid4().hex


async def result_of(crumbs: Crumbs, tool: str = "echo", call: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Hands one call over and waits for its outcome."""
    key = new_key()
    async with facing(crumbs.url, **settings) as (backend, kept):
        assert await backend.dispatch(invocation(tool, key, **(call or {})), "") is None
        result = await kept.outcome(key)
        await until(lambda: backend.open_calls == 0)
    assert crumbs.executions(key) <= 1
    return result
