"""What metrics show of the calls that are not over."""

from __future__ import annotations

import pytest

from gateway.state.port import State
from tests.support.stored_calls import ACCEPTED, began, call

pytestmark = pytest.mark.anyio


async def test_calls_that_are_not_over_are_counted_by_backend(state: State) -> None:
    builds = [await began(state, call(backend="builds"), ACCEPTED) for _ in range(3)]
    mail = await began(state, call(backend="mail"))
    assert state.pending() == {"builds": 3, "mail": 1}
    assert await state.settle(builds[0].key, b"the end")
    await state.forget(mail.key)
    assert state.pending() == {"builds": 2}
