"""Callers that leave a call which is kept: it goes on, and its result waits for them."""

from __future__ import annotations

import asyncio

import pytest

from tests.live.faults.site import site
from tests.support.calling import WAYS, call, connect, encoded_call, leave, value
from tests.support.processes import until
from tests.support.toolserver import Exchange, echo


@pytest.mark.anyio
async def test_a_kept_call_outlives_its_caller_and_one_without_an_id_does_not() -> None:
    opened, hung_up = asyncio.Event(), asyncio.Event()

    async def held(exchange: Exchange) -> None:
        gone = asyncio.create_task(exchange.until_closed())
        opening = asyncio.create_task(opened.wait())
        await asyncio.wait({gone, opening}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            hung_up.set()
        opening.cancel()
        gone.cancel()
        await asyncio.gather(gone, opening, return_exceptions=True)
        if opened.is_set():
            await echo(exchange)

    async with site({"Lab.Held": held}, timeout="20s") as place:
        for number, way in enumerate(WAYS, 1):
            _, writer = await connect(place.running.url)
            writer.write(encoded_call("Lab.Held", {"it": "runs"}, call_id=f"k-{way}"))
            await until(lambda: len(place.lab.calls("Lab.Held")) == number, "the call runs")  # noqa: B023
            leave(writer, way)
            writer.close()
        _, writer = await connect(place.running.url)
        writer.write(encoded_call("Lab.Held", {"it": "runs"}))
        await until(lambda: len(place.lab.calls("Lab.Held")) == len(WAYS) + 1, "the last call runs")
        writer.close()
        await until(hung_up.is_set, "the gateway hangs up for a caller without an id")
        assert place.lab.connections == len(WAYS)

        opened.set()
        for way in WAYS:
            answer = await call(place.http, "Lab.Held", {"it": "runs"}, call_id=f"k-{way}")
            assert value(answer) == {"it": "runs"}
        assert len(place.lab.calls("Lab.Held")) == len(WAYS) + 1
        left = len(WAYS) + 1
        await until(
            lambda: [line["status"] for line in place.running.logged("request")].count(499) == left,
            "everyone who has left is logged so",
        )
