"""Calls of a replica that died, taken over by one that does not have their backend yet: it goes on when it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.calls import status
from gateway.calls.orphans import adopt_orphans
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.status import PREFIX, CallMetadata, pack_metadata
from gateway.ports import Backend
from gateway.state.port import State
from tests.live.state.conftest import Replicas
from tests.support.stored_calls import ACCEPTED, DEADLINE_S, began, call, judges, until
from tests.unit.desk import Later

pytestmark = pytest.mark.anyio

RUN = "f0e1d2c3b4a59687"
NOTE = pack_metadata(
    CallMetadata(
        dialect="oxp", wire_version="1", call_id="k", tool="T.t@1.0.0", group="g", deferred=status.DeferredCall(run=RUN)
    )
)


@asynccontextmanager
async def adopting(state: State, backends: dict[str, Backend]) -> AsyncIterator[None]:
    """Adopts for as long as it is open; nothing here is to be cancelled."""
    endings = OutcomeRecorder(state, lambda run, ending: None)
    task = asyncio.create_task(adopt_orphans(state, endings, backends, _never, every_s=0.02))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _never(*_call: object) -> None:
    raise AssertionError


async def test_a_call_whose_backend_comes_later_is_gone_on_with_then(replicas: Replicas) -> None:
    dead, heir = await replicas.open(), await replicas.open()
    left = await began(dead, call(backend="crumbs", note=NOTE), ACCEPTED)
    await judges(heir, await replicas.open())
    later, backends = Later(), dict[str, Backend]()
    async with adopting(heir, backends):
        await dead.aclose()
        await until(lambda: heir.pending()["crumbs"] == 1, "the call is taken over")
        backends["crumbs"] = later
        async with asyncio.timeout(DEADLINE_S):
            await later.took.wait()
    assert later.resumed == [(PREFIX + left.key, RUN)]
