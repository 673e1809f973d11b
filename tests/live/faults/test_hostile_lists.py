"""Lists of tools that are too much, within the limit of their size: what the neighbours notice, and what it takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.upstream.list_reader import WITHIN_S
from tests import plainhttp
from tests.live.faults.longlists import MANY_RECURSIVE, RECURSIVE
from tests.support.calling import call, caller, value
from tests.support.processes import GatewayProcess, gateway, listening, processor_s, settings, until
from tests.support.toolserver import echo, tool_server

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
HELD_S = 0.3  # of the gateway's processor time within one call; a quiet machine shows a fifth
MEMORY = 400 * MIB  # more than before, in the gateway and its children together
PAUSE_S = 0.005
LONG_LISTS = "tests.live.faults.longlists"
TAKEN_S = WITHIN_S + 30.0  # the gateway gives a list up by itself; before that, only the machine is slow


def of_process(pid: int) -> int:
    """The memory a process holds (proc_pid_statm(5)); 0 when it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return 0


def children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (thread / "children").read_text().split())


def memory(running: GatewayProcess) -> int:
    """What a gateway and its children hold now."""
    pid = running.process.pid
    return of_process(pid) + sum(map(of_process, children(pid)))


def children_s(running: GatewayProcess) -> float:
    """How long those of its children that are there have had a processor."""
    return sum(map(processor_s, children(running.process.pid)))


class Watched:
    """The longest a call to the good tool server took, and the most memory, since this began.

    `held_s` is what the gateway did meanwhile: unlike `longest_s` it does not depend on what else the machine does.
    """

    def __init__(self, running: GatewayProcess, http: httpx.AsyncClient) -> None:
        self._running, self._http = running, http
        self._before = memory(running)
        self.longest_s = self.held_s = 0.0
        self.most = 0

    async def watch(self) -> None:
        while True:
            begun, spent_s = time.monotonic(), self._running.processor_s()
            assert value(await call(self._http, "Good.Echo", {"n": 1})) == {"n": 1}
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            self.held_s = max(self.held_s, self._running.processor_s() - spent_s)
            self.most = max(self.most, memory(self._running) - self._before)
            await asyncio.sleep(PAUSE_S)


MIXED = ("mixed", RECURSIVE + 1, 20_001 - RECURSIVE - 1)  # tools published, and left out, with the one for the rest
FULL = [
    pytest.param("recursive", MANY_RECURSIVE, 0, marks=pytest.mark.soak),
    pytest.param("ordinary", 20_000, 0, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("name", "published", "left_out"), [MIXED, *FULL])
async def test_neighbours_do_not_notice_a_list(name: str, published: int, left_out: int) -> None:
    """Ours; and what has not changed is not read again."""
    async with tool_server({"Good.Echo": echo}) as good, listening(LONG_LISTS, name) as (_, url):
        late: dict[str, Any] = {"protocol": "otc", "url": url, "discovery": {"refresh": "1s"}}
        config = settings({"good": {"protocol": "otc", "url": good.url}, "hostile": late})
        async with gateway(config) as running, caller(running.url) as http, plainhttp.async_client() as admin:

            async def backend() -> dict[str, Any]:
                found: dict[str, Any] = (await admin.get(f"{running.admin_url}/health")).json()["backends"]["hostile"]
                return found

            async def is_taken() -> bool:
                found = await backend()
                return (found["tools"], found["rejected_count"]) == (published, left_out)

            watched = Watched(running, http)
            watching = asyncio.create_task(watched.watch())
            await until(is_taken, "the list is read", TAKEN_S)
            spent_s, ages = children_s(running), [(await backend())["age_s"]]

            async def is_read_again() -> bool:
                ages.append((await backend())["age_s"])
                return bool(ages[-1] < ages[-2])

            await until(is_read_again, "it is read again", TAKEN_S)
            assert children_s(running) <= spent_s
            watching.cancel()
            assert watched.held_s < HELD_S
            assert watched.most < MEMORY
