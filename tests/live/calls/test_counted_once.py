"""Two replicas on one Redis: each run of a tool is counted by exactly one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests import plainhttp
from tests.live.calls.site import DONE_S, Replica, site
from tests.support.calling import call, value
from tests.support.processes import until
from tests.support.scraping import samples_of
from tests.support.toolserver import Exchange, tool_server

TOOL = "Desk.work"
CALLS = "toolgate_tool_calls_total"


async def counted(replica: Replica) -> Counter[str]:
    """The runs of each tool by how they ended, as `tool outcome`."""
    async with plainhttp.async_client() as http:
        found = samples_of((await http.get(f"{replica.running.admin_url}/metrics")).content)
    runs: Counter[str] = Counter()
    for name, count in found.items():
        if name.startswith(CALLS):
            labels = dict(each.split("=") for each in name[len(CALLS) + 1 : -1].split(","))
            runs[f"{labels['tool']} {labels['outcome']}"] += int(count)
    return +runs


@pytest.mark.anyio
async def test_a_run_is_counted_where_its_end_becomes_known_and_nowhere_else(tmp_path: Path) -> None:
    async with tool_server({TOOL: Exchange.until_closed}) as desk:
        others = {"desk": {"protocol": "otc", "url": desk.url, "timeout": "60s"}}
        async with site(tmp_path, others=others) as place:
            a, b = place.a, place.b
            # What is begun at one is called back for at the other.
            built = await call(a.http, "Builds.build", {"seconds": 0.1}, call_id="built")
            assert value(built)["status"] == "built"
            await call(b.http, "Builds.build", {"seconds": 0.1}, call_id="built")
            assert (await counted(a), await counted(b)) == (Counter(), Counter({"Builds.build ok": 1}))

            cancelled = asyncio.create_task(call(a.http, TOOL, call_id="cancelled"))
            await until(lambda: len(desk.calls(TOOL)) == 1, "the call to be cancelled runs")
            assert (await b.http.delete("/calls/cancelled")).status_code == 202
            await cancelled
            seen = Counter({"Builds.build ok": 1, f"{TOOL} unknown": 1})
            assert (await counted(a), await counted(b)) == (Counter(), seen)

            dying = asyncio.create_task(call(a.http, TOOL, call_id="dying"))
            await until(lambda: len(desk.calls(TOOL)) == 2, "the call whose replica dies runs")
            await a.kill()
            with pytest.raises(httpx.HTTPError):
                await dying
            seen[f"{TOOL} unknown"] += 1

            async def known() -> bool:
                return await counted(b) == seen

            await until(known, "the other replica knows that the outcome is unknown", DONE_S)
