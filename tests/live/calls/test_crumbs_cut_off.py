"""Requests for breadcrumbs that are cut off on their way: no call waits for what was never stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.protocols.rcrt.breadcrumbs import NOT_STORED
from tests import plainhttp
from tests.live.calls.site import AGENT_ID, OWNER_ID, replica, taken
from tests.support.calling import call, result
from tests.support.processes import DemoServer, demo_server, settings

HELLO = {"message": "hello"}


@pytest.mark.anyio
async def test_a_call_whose_request_was_never_stored_fails_within_seconds() -> None:
    async with demo_server("rcrt") as crumbs:
        once = {"protocol": "rcrt", "url": crumbs.url, "owner_id": OWNER_ID, "agent_id": AGENT_ID, "timeout": "25s"}
        backends = {"once": once | {"toolkit": "Once"}, "again": once | {"toolkit": "Again"}}
        routes = [
            {"tools": "Once.*", "backend": "once"},
            {"tools": "Again.*", "backend": "again", "idempotent": True},
        ]
        async with replica(settings(backends, routes=routes)) as only:

            async def end_of(tool: str, **members: str) -> dict[str, Any]:
                return result(await call(only.http, tool, HELLO, **members))

            document = {"operation": "create", "fault": "reset", "times": 4}  # one each, two where it is sent again
            async with plainhttp.async_client() as http:
                (await http.post(f"{crumbs.url}/faults", json=document)).raise_for_status()
            kept, unkept, again = await asyncio.gather(
                end_of("Once.echo", call_id="kept"), end_of("Once.echo"), end_of("Again.echo", call_id="again")
            )
            assert await taken(crumbs)
            assert [end["error"]["message"] for end in (kept, unkept, again)] == [NOT_STORED] * 3
            assert [end["error"]["can_retry"] for end in (kept, unkept, again)] == [False, False, True]
            assert (await end_of("Once.echo", call_id="kept"))["error"] == kept["error"]
            assert (await end_of("Again.echo", call_id="again"))["value"] == {"echo": "hello"}
            assert set(await executions(crumbs)) == {1}


async def executions(crumbs: DemoServer) -> list[int]:
    """How often each request was run."""
    async with plainhttp.async_client() as http:
        return list((await http.get(f"{crumbs.url}/executions")).json()["requests"].values())
