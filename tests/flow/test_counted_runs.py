"""Each run of a tool is counted once, by its outcome, whether or not its caller waited. All of it is ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.flow.builds import builds
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config, until
from tests.flow.keeping import begun, finished, gated
from tests.flow.toolserver import Handler, ToolServer, always, tool
from tests.flow.watching import samples, scraped, watched
from tests.streams import Request, http_reply
from tests.support.scraping import samples_of

pytestmark = pytest.mark.anyio

CALLS, DURATIONS = "toolgate_tool_calls_total", "toolgate_tool_call_duration_seconds_count"
LATER = {"prefer": "respond-async"}
AT_ONCE = {"prefer": "wait=0"}


def ran(outcome: str, backend: str = "scripted", protocol: str = "oxp", tool: str = "Echo.Say") -> str:
    return f"{{backend={backend},outcome={outcome},protocol={protocol},tool={tool}}}"


def linted(outcome: str) -> str:
    return ran(outcome, "builds", "callback", "builds.lint")


async def durations(gateway: Running) -> float:
    found = samples_of((await scraped(gateway)).encode())
    return sum(value for name, value in found.items() if name.startswith(DURATIONS))


ENDINGS = {"a value": (None, "ok"), "a refusal": (always(http_reply(400, {"message": "No."})), "refused")}


@pytest.mark.parametrize(("handler", "outcome"), ENDINGS.values(), ids=ENDINGS)
async def test_a_call_answered_202_is_counted_when_it_ends(
    start: Start, server: ToolServer, handler: Handler | None, outcome: str
) -> None:
    answer = handler or server.echo
    opened = asyncio.Event()

    async def handle(received: Request) -> bytes:
        await opened.wait()
        return await answer(received)

    server.handler = handle
    gateway = await start(config({"scripted": server.url}))
    accepted = await gateway.caller.call("oxp", "Echo.Say", headers=LATER)
    assert accepted.status == 202
    await begun(server)
    assert not await samples(gateway, CALLS)
    opened.set()
    path = accepted.headers["location"]
    await finished(gateway.caller, "oxp", path)
    await gateway.caller.http.get(path)
    assert await samples(gateway, CALLS) == {ran(outcome): 1}
    assert await durations(gateway) == 1


async def test_lines_have_what_the_caller_was_answered(server: ToolServer) -> None:
    server.handler, opened = gated(server)
    async with watched(config({"scripted": server.url})) as gateway:
        for headers in (LATER, AT_ONCE):
            await gateway.caller.call("oxp", "Echo.Say", call_id="k", headers=headers)
        opened.set()
        await gateway.caller.call("oxp", "Echo.Say", call_id="k")
    assert [(line["status"], line["outcome"]) for line in gateway.lines] == [
        (202, "accepted"),
        (200, "timeout"),
        (200, "ok"),
    ]


@pytest.mark.parametrize("call_id", [{}, {"call_id": "k"}], ids=["", "named"])
async def test_a_late_callback_is_counted_by_its_result(call_id: dict[str, Any]) -> None:
    async with builds(backend={"timeout": "50ms"}) as server:
        assert (await server.call(**call_id)).error["message"] == "The tool is still running."
        assert not await samples(server.gateway, CALLS)
        invoked = await server.invoked()
        for _ in range(2):
            await invoked.bring("done")
        assert await samples(server.gateway, CALLS) == {linted("ok"): 1}
        assert await durations(server.gateway) == 1
        found = samples_of((await scraped(server.gateway)).encode())
        measured = found["toolgate_tool_call_duration_seconds_sum{backend=builds,protocol=callback}"]
        assert 0.05 <= measured < 10


async def test_a_call_cancelled_on_its_timeout_is_a_timeout() -> None:
    async with builds(route={"on_timeout": "cancel"}, backend={"timeout": "50ms"}) as server:
        await server.call()
        assert await samples(server.gateway, CALLS) == {linted("timeout"): 1}
        assert await durations(server.gateway) == 1


async def test_a_cancelled_call_is_unknown(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    gateway = await start(config({"scripted": server.url}))
    accepted = await gateway.caller.call("oxp", "Echo.Say", headers=LATER)
    await begun(server)
    for _ in range(2):
        await gateway.caller.http.delete(accepted.headers["location"])
    opened.set()
    await until(lambda: not gateway.gateway.calls.running())
    assert await samples(gateway, CALLS) == {ran("unknown"): 1}
    assert await durations(gateway) == 1


async def test_a_keyed_call_whose_caller_leaves_is_counted_when_it_ends(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    gateway = await start(config({"scripted": server.url}))
    left = asyncio.create_task(gateway.caller.call("oxp", "Echo.Say", call_id="k"))
    await begun(server)
    left.cancel()
    await asyncio.wait([left])
    assert not await samples(gateway, CALLS)
    opened.set()
    await gateway.caller.call("oxp", "Echo.Say", call_id="k")
    assert await samples(gateway, CALLS) == {ran("ok"): 1}


async def test_each_run_of_a_call_that_may_be_repeated_is_counted(start: Start, server: ToolServer) -> None:
    async def busy(received: Request) -> bytes:
        return server.failure(received, message="Busy.", can_retry=True)

    server.handler = busy
    gateway = await start(config({"scripted": server.url}))
    for runs in (1, 2):
        await gateway.caller.call("oxp", "Echo.Say", call_id="k")
        assert await samples(gateway, CALLS) == {ran("tool_error"): runs}


async def test_a_call_refused_for_its_id_is_counted_as_refused(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    for n in (1, 2):
        await gateway.caller.call("oxp", "Echo.Say", {"n": n}, call_id="k")
    assert await samples(gateway, CALLS) == {ran("ok"): 1, ran("refused"): 1}
    assert await durations(gateway) == 1


@pytest.mark.parametrize("members", [{}, {"call_id": "k"}], ids=["", "kept"])
async def test_a_value_that_breaks_schema_counts(start: Start, server: ToolServer, members: dict[str, Any]) -> None:
    server.tools.append(tool("Broken.Say", output_schema={"type": "integer"}))
    routes = [{"tools": "*", "backend": "scripted", "validate_output": "fail"}]
    gateway = await start(config({"scripted": server.url}, routes))
    answer = await gateway.caller.call("oxp", "Broken.Say", **members)
    assert answer.error["message"] == "The tool returned a value that does not fit its own output schema."
    assert await samples(gateway, CALLS) == {ran("tool_error", tool="Broken.Say"): 1}


async def test_a_call_that_waits_for_consent_is_counted_when_it_ends() -> None:
    async with builds() as server:
        calling = asyncio.create_task(server.call())
        invoked = await server.invoked()
        await invoked.post(invoked.message("oauth", auth_url="https://login.example/"))
        assert (await calling).status == 400
        assert not await samples(server.gateway, CALLS)
        await invoked.bring("done")
        assert await samples(server.gateway, CALLS) == {linted("ok"): 1}
