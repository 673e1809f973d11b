"""Calls that a process owns, dated by the clock of Redis."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from gateway.state.owned_calls import OwnedCalls
from gateway.state.port import ACCEPTED, Record, StateLimits
from gateway.state.records import Records
from gateway.state.script_client import ScriptClient
from gateway.state.sealing import Sealer

TTL_S = 600.0
KEY = "k" * 43


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_call_is_owned_for_its_whole_time_though_redis_has_another_clock(ahead_s: float) -> None:
    owned = OwnedCalls(cast(ScriptClient, None), Records(Sealer((), "state")), StateLimits(pending_ttl_s=TTL_S))
    redis_s = time.time() + ahead_s
    made: dict[str, Any] = {"fingerprint": "f", "principal": "p", "backend": "b", "state": ACCEPTED, "replica": "r"}
    owned.add(Record(key=KEY, created_s=redis_s, **made))
    owned.set_clock(redis_s + TTL_S / 2)
    assert owned.expired() == []
    assert owned.current(KEY) is not None
    owned.set_clock(redis_s + TTL_S + 1)
    assert owned.expired() == [KEY]
    assert owned.current(KEY) is None
