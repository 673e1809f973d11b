"""Tool servers that lead elsewhere, or answer with more than anybody can hold."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.live.faults.site import site
from tests.support.calling import call, caller, failure, value
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, Handler, definition, echo, tool_server

MIB = 1024 * 1024
LIST_BYTES = 100 * MIB
MAX_TOOLS = 20_000  # of one tool server, unless configured
# How many tools are listed, and how many are taken.
LISTS = [(10_000, 2000), pytest.param(100_000, MAX_TOOLS, marks=[pytest.mark.soak, pytest.mark.alone])]
PATIENCE_S = 2.0  # a call to another tool server, on a busy machine; undisturbed it takes 2 ms
JUDGED_S = 120.0  # 20,000 tools; alone on a core 4 s
REDIRECTS = (300, 301, 302, 303, 307, 308)
BROKEN = "The tool server gave a broken answer."
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def head(size: int, *lines: str) -> bytes:
    fields = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {size}", *lines]
    return "\r\n".join([*fields, "", ""]).encode()


@pytest.mark.anyio
async def test_no_redirect_is_followed() -> None:
    async with tool_server({"Lab.Echo": echo}) as elsewhere:

        async def redirect(exchange: Exchange) -> None:
            location = [("Location", elsewhere.url + exchange.request.target)]
            status = exchange.request.call["input"]["status"] if exchange.request.method == "POST" else 307
            await exchange.reply({"message": "over there"}, status=status, headers=location)

        async def challenge(exchange: Exchange) -> None:
            found = {"id": "c", "url": "https://door.example/", "check_url": "/check"}
            await exchange.reply({"message": "", "missing_requirements": {"authorization": [found]}}, status=400)

        async def list_or_redirect(exchange: Exchange) -> None:
            listed = {"tools": [definition("Lab.Away"), definition("Lab.Challenge")]}
            await (exchange.reply(listed) if exchange.request.target == "/tools" else redirect(exchange))

        tools: dict[str, Handler] = {"Lab.Away": redirect, "Lab.Challenge": challenge}
        async with (
            tool_server(tools, listing=list_or_redirect) as lab,
            tool_server({}, listing=redirect) as away,
            behind_one(lab=lab.url, away=away.url) as running,
            caller(running.url) as http,
        ):
            for status in REDIRECTS:
                assert failure(await call(http, "Lab.Away", {"status": status}))["message"] == BROKEN
            challenged = (await call(http, "Lab.Challenge")).json()["missing_requirements"]["authorization"][0]
            assert (await http.get(challenged["check_url"])).json() == {"status": "pending"}
            assert len((await http.get("/otc/tools")).json()["tools"]) == 2
            assert away.requests
        assert elsewhere.requests == []


@asynccontextmanager
async def behind_one(*, ready: bool = True, max_tools: int = MAX_TOOLS, **urls: str) -> AsyncIterator[GatewayProcess]:
    """Runs a gateway in front of several tool servers, none of which it leaves alone however often it is cheated."""
    lasting = {"protocol": "otc", "breaker": {"failures": 0}, "discovery": {"max_tools": max_tools}}
    async with gateway(settings({name: {**lasting, "url": url} for name, url in urls.items()}), ready=ready) as running:
        yield running


@pytest.mark.anyio
async def test_an_answer_of_any_size_costs_no_more_than_its_limit() -> None:
    async def flood(exchange: Exchange) -> None:
        await exchange.write(CHUNKED)
        while True:  # until the gateway hangs up
            await exchange.write(chunk(b" " * MIB))

    async def bomb(exchange: Exchange) -> None:
        result = {"call_id": exchange.request.call["call_id"], "success": True, "value": "0" * LIST_BYTES}
        packed = gzip.compress(json.dumps({"result": result}).encode(), 1)
        await exchange.write(head(len(packed), "Content-Encoding: gzip") + packed)

    tools: dict[str, Handler] = {"Lab.Flood": flood, "Lab.Bomb": bomb, "Lab.Echo": echo}
    async with site(tools, breaker={"failures": 0}) as place:
        before = place.running.peak_memory_bytes()
        for tool in ("Lab.Flood", "Lab.Bomb", *["Lab.Flood"] * 4):  # nor does it take that each time
            assert failure(await call(place.http, tool))["code"] == "result_too_large"
        assert place.running.peak_memory_bytes() - before < 40 * MIB  # 8 MiB are read, in pieces and joined
        await until(lambda: place.lab.connections <= 1, "the flood is cut off")
        assert value(await call(place.http, "Lab.Echo", {"n": 1})) == {"n": 1}


async def live_is_there(http: httpx.AsyncClient) -> bool:
    return (await call(http, "Live.Echo")).status_code == httpx.codes.OK


async def call_another(http: httpx.AsyncClient, over: asyncio.Event) -> None:
    """Calls another tool server until something is over; what disturbs it has one call take most of the time."""
    took_s = []
    while not over.is_set():
        started = time.monotonic()
        assert value(await call(http, "Live.Echo", {"n": 1})) == {"n": 1}
        took_s.append(time.monotonic() - started)
    assert max(took_s) < max(PATIENCE_S, sum(took_s) / 2)


@pytest.mark.anyio
async def test_a_list_of_a_hundred_megabytes_is_given_up_and_delays_no_other_call() -> None:
    asked, over = asyncio.Event(), asyncio.Event()
    piece = chunk(json.dumps(definition("Lab.Copy", description="x" * MIB)).encode() + b",")

    async def endless(exchange: Exchange) -> None:
        await asked.wait()
        try:
            await exchange.write(CHUNKED + chunk(b'{"tools":['))
            for _ in range(LIST_BYTES // MIB):
                await exchange.write(piece)
        finally:
            over.set()

    async with (
        tool_server({}, listing=endless) as lab,
        tool_server({"Live.Echo": echo}) as live,
        behind_one(live=live.url, lab=lab.url, ready=False) as running,
        caller(running.url) as http,
    ):
        await until(lambda: live_is_there(http), "the other tool server is listed")
        asked.set()
        await call_another(http, over)
        await until(lambda: bool(running.logged("a backend cannot be asked for its tools")), "the list is given up")
        assert running.peak_memory_bytes() < 300 * MIB  # 60 MiB of its own, 64 MiB of list in pieces and joined


@pytest.mark.anyio
@pytest.mark.parametrize(("many", "most"), LISTS)
async def test_too_many_tools_are_cut_to_the_limit_and_delay_no_other_call(many: int, most: int) -> None:
    listed = json.dumps({"tools": [definition(f"Lab.Tool{number}") for number in range(many)]}).encode()
    asked, over = asyncio.Event(), asyncio.Event()

    async def listing(exchange: Exchange) -> None:
        await asked.wait()
        await exchange.write(head(len(listed)) + listed)

    async with (
        tool_server({"Lab.Tool0": echo}, listing=listing) as lab,
        tool_server({"Live.Echo": echo}) as live,
        behind_one(live=live.url, lab=lab.url, ready=False, max_tools=most) as running,
        caller(running.url) as http,
    ):

        async def published() -> int:
            health = (await http.get(f"{running.admin_url}/health")).json()
            count: int = health["backends"]["lab"]["tools"]
            return count

        async def all_are_there() -> bool:
            return await published() > 0

        await until(lambda: live_is_there(http), "the other tool server is listed")
        calling = asyncio.create_task(call_another(http, over))
        asked.set()
        await until(all_are_there, "the many are listed", JUDGED_S)
        over.set()
        await calling
        assert await published() == most
        assert value(await call(http, "Lab.Tool0", {"n": 1})) == {"n": 1}
        assert running.peak_memory_bytes() < 400 * MIB  # 100,000 definitions at a time, of which a fifth stay
