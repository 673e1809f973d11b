"""Which acknowledgements shut a callback tool or its server, and which do not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode
from gateway.upstream.admission import BreakerRules
from tests.unit.dispatch_gate import RecordingGate
from tests.unit.net.client.scripted import Peer, Script
from tests.unit.protocols.rap.calling_back import CALLBACK_URL, INVOCATION, Toolset, facing
from tests.unit.upstream.facing import refusal, reply

pytestmark = pytest.mark.anyio

LASTING = BreakerRules(failures=2, open_for_s=600.0)


async def silent(peer: Peer) -> None:
    await peer.until_closed()


OTHER = replace(INVOCATION, tool=replace(INVOCATION.tool, remote_id="Other"))


NOT_TAKEN: list[tuple[bytes | Script, bool]] = [(reply(500, b""), False), (silent, False), (reply(503, b""), True)]


@pytest.mark.parametrize(
    ("acknowledgement", "shuts_server"), NOT_TAKEN, ids=["status 500", "none in time", "status 503"]
)
async def test_a_callback_tool_or_server_that_takes_no_calls_gets_none_for_a_while(
    acknowledgement: bytes | Script, shuts_server: bool
) -> None:
    toolset = Toolset(acknowledgement)
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(2):
            await at.backend.dispatch(replace(INVOCATION, timeout_s=0.3), CALLBACK_URL)
        error = await refusal(at.backend.dispatch(INVOCATION, CALLBACK_URL))
        assert (error.code, len(toolset.noted)) == (ErrorCode.BACKEND_UNAVAILABLE, 2)
        assert at.way_in.breaker == ("open" if shuts_server else "closed")
        await at.backend.list_tools()  # it answers that, so one call may find out
        toolset.acknowledgement = reply(200, b"")
        assert await at.backend.dispatch(INVOCATION if shuts_server else OTHER, CALLBACK_URL) is None
        assert (at.way_in.breaker, at.way_in.in_flight) == ("closed", 0)


@pytest.mark.parametrize("acknowledgement", [reply(500, b""), silent], ids=["status 500", "none in time"])
async def test_a_callback_server_that_calls_back_first_goes_on_getting_calls(acknowledgement: bytes | Script) -> None:
    toolset = Toolset(acknowledgement)
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(3):
            answered = RecordingGate(answered=True)
            assert await at.backend.dispatch(replace(INVOCATION, timeout_s=0.3), CALLBACK_URL, answered) is None
        assert (at.way_in.breaker, at.way_in.tools_shut, at.way_in.in_flight, len(toolset.noted)) == ("closed", 0, 0, 3)


@pytest.mark.parametrize("status", [400, 401, 429])
async def test_a_callback_server_that_refuses_calls_goes_on_getting_them(status: int) -> None:
    toolset = Toolset(reply(status, b""))
    async with facing(toolset, breaker=LASTING) as at:
        for _ in range(5):
            assert await at.backend.dispatch(INVOCATION, CALLBACK_URL) is not None
        assert len(toolset.noted) == 5
