"""A state that cannot be reached when the gateway starts: the log says why."""

from __future__ import annotations

import socket

import pytest

from gateway.state.address import Address
from gateway.state.connections import connect
from gateway.state.port import StateLimits
from gateway.state.redis import RedisState
from gateway.state.replica_sync import Timing
from gateway.state.sealing import Sealer

HASTY = Timing(lease_s=0.5, beat_s=0.05, settle_in_s=0.1)


@pytest.mark.anyio
async def test_what_keeps_it_away_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    address = Address.parse(f"redis://127.0.0.1:{port}")
    state = RedisState(connect(address), StateLimits(), Sealer(["k" * 32], "state"), timing=HASTY)
    try:
        await state.start()
    finally:
        await state.aclose()
    (warning,) = [record for record in caplog.records if record.message == "the state cannot be reached yet"]
    assert vars(warning)["detail"] == "the state cannot be reached: ConnectionError"
