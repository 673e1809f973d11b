"""A catalogue that asks tool servers which list what a test gives them, at times that pass when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.evaluation import ToolSource
from gateway.catalogue.published import PublishedTool, Route
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import (
    AuthorizationRequirement,
    JsonObject,
    Listing,
    Rejected,
    Requirements,
    ToolDefinition,
    ToolRef,
)
from gateway.core.ports import Caller
from gateway.core.tool_names import published_name
from tests.unit.published import Unasked

CALLER = Caller(principal="key:test")
DEADLINE_S = 30.0  # for what takes a second at most on an idle machine
DOWN = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "The tool server cannot be reached.", detail="refused")


class ToolServer(Unasked):
    """A backend that lists what a test gives it, or fails as a test says."""

    def __init__(self, name: str, *tools: ToolDefinition) -> None:
        self.name = name
        self.tools: Sequence[ToolDefinition] = tools
        self.rejected: tuple[Rejected, ...] = ()
        self.failure: Exception | None = None
        self.hangs = False
        self.delay: asyncio.Event | None = None  # before an answer

    async def list_tools(self) -> Listing:
        if self.delay is not None:
            await self.delay.wait()
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return Listing(tools=tuple(self.tools), rejected=self.rejected)


class Hours:
    """Time that passes when a test says so. Whoever sleeps is woken by `pass_`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._sleepers: list[asyncio.Future[None]] = []
        self._changed = asyncio.Condition()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._changed:
            self.waits.append(seconds)
            self._sleepers.append(woken)
            self._changed.notify_all()
        await woken

    async def until_asleep(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(lambda: len(self._sleepers) >= count)

    async def pass_(self, seconds: float = 60.0) -> None:
        """Wakes all sleepers, and returns when as many sleep again."""
        await self.until_asleep(self.wake(seconds))

    def wake(self, seconds: float = 60.0) -> int:
        """Wakes all sleepers; returns how many."""
        self.now += seconds
        sleepers, self._sleepers = self._sleepers, []
        for woken in sleepers:
            if not woken.done():  # else it was cancelled
                woken.set_result(None)
        return len(sleepers)


def tool(
    tool_id: str,
    schema: JsonObject | None = None,
    *,
    name: str | None = None,
    description: str = "",
    secrets: Sequence[str] = (),
    tokens: Sequence[str] = (),
) -> ToolDefinition:
    named, _, version = tool_id.partition("@")
    return ToolDefinition(
        tool=named,
        version=version or "1.0.0",
        name=name or published_name(named),
        description=description,
        input_schema=schema or {},
        output_schema=None,
        remote_id=tool_id,
        requires=Requirements(
            secrets=tuple(secrets), authorization=tuple(AuthorizationRequirement(id=token) for token in tokens)
        ),
    )


def route(server: ToolServer, tools: str = "*", **settings: Any) -> Route:
    return Route(tools=tools, backend_name=server.name, backend=server, timeout_s=30.0, **settings)


def source(
    server: ToolServer,
    routes: Sequence[Route],
    max_tools: int = 100,
    max_schema_bytes: int = 10_000,
    terms: object = None,
) -> ToolSource:
    return ToolSource(
        name=server.name,
        backend=server,
        refresh_s=60.0,
        max_tools=max_tools,
        max_schema_bytes=max_schema_bytes,
        routes={position: route for position, route in enumerate(routes) if route.backend_name == server.name},
        toolkit=server.name,
        terms=terms,
    )


@asynccontextmanager
async def running(
    *sources: ToolSource, hours: Hours | None = None, uniform: Callable[[float, float], float] = lambda low, high: 1.0
) -> AsyncIterator[tuple[Catalogue, Hours]]:
    hours = hours or Hours()
    catalogue = Catalogue(sources, clock=lambda: hours.now, uniform=uniform, sleep=hours.sleep)
    await catalogue.start()
    try:
        await hours.until_asleep(sum(1 for one in sources if not getattr(one.backend, "hangs", False)))
        yield catalogue, hours
    finally:
        await catalogue.aclose()


def one_backend(server: ToolServer, **bounds: Any) -> ToolSource:
    return source(server, [route(server)], **bounds)


def ids(catalogue: Catalogue) -> list[str]:
    return [published.definition.id for published in catalogue.router.tools_for(CALLER)]


def found(catalogue: Catalogue, tool_id: str) -> PublishedTool:
    named, _, version = tool_id.partition("@")
    return catalogue.router.resolve(ToolRef(tool=named, version=version or None), CALLER)
