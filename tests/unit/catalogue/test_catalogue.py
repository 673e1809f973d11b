"""Discovery: which listed tools are published, what operators see, and readiness."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import re
import time
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.catalogue.catalogue import Catalogue
from gateway.core.model import Listing, Rejected, ToolRef
from tests.unit.catalogue.asking import (
    CALLER,
    DEADLINE_S,
    ToolServer,
    found,
    ids,
    one_backend,
    route,
    running,
    source,
    tool,
)
from tests.unit.schemas.compiling import errors_now

pytestmark = pytest.mark.anyio


def reasons(catalogue: Catalogue, server: ToolServer) -> dict[str, str]:
    return {rejected.id: rejected.reason for rejected in catalogue.status(server.name).rejected}


def names(catalogue: Catalogue) -> dict[str, str]:
    return {published.definition.tool: published.definition.name for published in catalogue.router.tools}


async def test_of_two_backends_with_one_name_for_two_tools_the_earlier_route_keeps_it() -> None:
    """Whose list comes first makes no difference; the other tool has a digest in its name."""
    one, other = ToolServer("one", tool("A_B.C")), ToolServer("other", tool("A.B_C"), tool("A.B_C@2.0.0"))
    routes = [route(one), route(other)]
    async with running(source(other, routes), source(one, routes)) as (catalogue, _):
        assert names(catalogue) == {"A_B.C": "A_B_C", "A.B_C": "A_B_C_72b705b6"}
        by_name = catalogue.router.resolve(ToolRef(tool="A_B_C_72b705b6", by_name=True), CALLER)
        assert by_name.id == "A.B_C@2.0.0"
        assert not reasons(catalogue, other)


async def test_of_one_backend_the_first_by_id_keeps_a_name() -> None:
    server = ToolServer("crm", tool("A_B.C"), tool("A.B_C"))
    async with running(one_backend(server)) as (catalogue, _):
        assert names(catalogue) == {"A.B_C": "A_B_C", "A_B.C": "A_B_C_cecdcd02"}


async def test_names_are_as_long_as_configured() -> None:
    server = ToolServer("crm", tool("Customers.Find"), tool("Customers.FindAllOfOneCountry"))
    short = dataclasses.replace(one_backend(server), longest_name=24)
    async with running(short) as (catalogue, _):
        assert names(catalogue) == {
            "Customers.Find": "Customers_Find",
            "Customers.FindAllOfOneCountry": "Customers_FindA_12a1519f",
        }


async def test_denying_one_of_two_that_collide_publishes_the_other() -> None:
    server = ToolServer("crm", tool("A_B.C"), tool("A.B_C"))
    routes = [route(server, "A_B.*", deny=True), route(server)]
    async with running(source(server, routes)) as (catalogue, _):
        assert ids(catalogue) == ["A.B_C@1.0.0"]


async def test_a_tool_with_a_broken_or_too_large_schema_is_left_out_with_its_reason() -> None:
    server = ToolServer(
        "crm",
        tool("A.Broken", {"type": "string"}),
        tool("A.Large", {"description": "x" * 20_000}),
        tool("A.Good", {"properties": {"a": {"type": "string"}}}),
    )
    server.rejected = (Rejected(id="odd", reason="It is not an object."),)
    async with running(one_backend(server)) as (catalogue, _):
        assert ids(catalogue) == ["A.Good@1.0.0"]
        assert reasons(catalogue, server) == {
            "odd": "It is not an object.",
            "A.Broken@1.0.0": "Its input schema cannot be used. "
            "It does not describe an object, and arguments always are one.",
            "A.Large@1.0.0": "Its input schema has 20018 bytes; 10000 are allowed.",
        }
        assert errors_now(found(catalogue, "A.Good").schema, {"a": 1}, 7) == {"a": "is not a string"}


async def test_a_tool_that_says_too_much_besides_its_schemas_is_left_out_with_its_reason() -> None:
    """Every caller reads it: one tool server must not fill everybody's list."""
    talkative = replace(tool("A.Talks"), description="x" * 20_000)
    exemplary = replace(tool("A.Shows"), examples=["x" * 20_000])
    server = ToolServer("crm", talkative, exemplary, tool("A.Good"))
    async with running(one_backend(server)) as (catalogue, _):
        assert ids(catalogue) == ["A.Good@1.0.0"]
        said = reasons(catalogue, server)
        assert said.keys() == {"A.Talks@1.0.0", "A.Shows@1.0.0"}
        assert all(
            re.fullmatch(r"Besides its schemas it has 20\d+ bytes; 10000 are allowed\.", it) for it in said.values()
        )


async def test_only_so_many_tools_of_a_backend_are_looked_at() -> None:
    server = ToolServer("crm", *(tool(f"A.T{number}") for number in range(5)))
    async with running(one_backend(server, max_tools=3)) as (catalogue, _):
        assert ids(catalogue) == ["A.T0@1.0.0", "A.T1@1.0.0", "A.T2@1.0.0"]
        assert reasons(catalogue, server) == {"crm": "It lists 5 tools; only the first 3 are looked at."}


async def test_a_tool_server_that_starts_empty_is_trusted_from_its_first_tools() -> None:
    server = ToolServer("crm")
    async with running(one_backend(server)) as (catalogue, hours):
        server.tools = [tool("A.X", secrets=["KEY"])]
        await hours.pass_()
        assert found(catalogue, "A.X").withheld == frozenset()


async def test_what_is_left_out_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    server = ToolServer("crm", tool("A.Broken", {"type": "string"}))
    async with running(one_backend(server)) as (_, hours):
        await hours.pass_()
        await hours.pass_()
        said = [record for record in caplog.records if "left out" in record.message]
        assert [(record.levelname, record.__dict__["count"]) for record in said] == [("WARNING", 1)]


async def test_a_refresh_that_ends_while_another_makes_the_snapshot_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The snapshot is made in a thread; backends without a usable tool need none, and are done sooner."""
    caplog.set_level(logging.INFO, "gateway.catalogue")
    good = ToolServer("good", tool("A.X"))
    invalid = [ToolServer(f"invalid{number}") for number in range(29)]
    for server in invalid:
        server.rejected = (Rejected(id=server.name, reason="the toolset is not valid"),)
    async with running(*map(one_backend, [good, *invalid])) as (catalogue, hours):
        for server in invalid:
            assert reasons(catalogue, server) == {server.name: "the toolset is not valid"}
        said = [record.getMessage() for record in caplog.records]
        assert said.count("tools of a backend are left out") == len(invalid)
        assert said.count("no tool of a backend is left out any more") == 0
        good.tools = [tool("A.X", description="new")]
        await hours.pass_()
        assert all(reasons(catalogue, server) for server in invalid)


async def test_an_older_list_of_a_backend_never_replaces_a_newer_one() -> None:
    """Its tool server says that its tools have changed while the regular refresh still waits for an answer."""
    server = Slow("crm", tool("A.Old"))
    async with running(one_backend(server)) as (catalogue, hours):
        server.answering.clear()
        catalogue.refresh("crm")  # after a pause
        await hours.until_asleep(2)
        hours.wake()
        async with asyncio.timeout(DEADLINE_S):
            while server.asked < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        server.tools = [tool("A.New")]
        server.answering.set()
        await hours.until_asleep(1)
        async with asyncio.timeout(DEADLINE_S):
            while ids(catalogue) != ["A.New@1.0.0"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert server.at_once == 1


async def test_mcp_73_a_change_while_a_backend_is_being_asked_has_it_asked_once_more() -> None:
    server = Slow("crm", tool("A.Old"))
    async with running(one_backend(server)) as (catalogue, hours):
        server.answering.clear()
        for _ in range(3):  # are one
            catalogue.refresh("crm")
        await hours.until_asleep(2)
        hours.wake()
        async with asyncio.timeout(DEADLINE_S):
            while server.asked < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        server.tools = [tool("A.New")]
        catalogue.refresh("crm")
        server.answering.set()
        await hours.until_asleep(2)  # the regular refresh, and the one for the change
        assert server.asked == 3


class Slow(ToolServer):
    """Lists the tools it had when it was asked, once it may answer."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.answering = asyncio.Event()
        self.answering.set()
        self.asked = self.open = self.at_once = 0

    async def list_tools(self) -> Listing:
        self.asked, self.open = self.asked + 1, self.open + 1
        self.at_once = max(self.at_once, self.open)
        try:
            listing = await super().list_tools()
            await self.answering.wait()
        finally:
            self.open -= 1
        return listing


async def test_changes_are_logged_with_hashes(caplog: pytest.LogCaptureFixture) -> None:
    server = ToolServer("crm", tool("A.Changed"), tool("A.Gone"))
    async with running(one_backend(server)) as (_, hours):
        caplog.set_level(logging.INFO, "gateway.catalogue")
        server.tools = [tool("A.Changed", description="new"), tool("A.New"), tool("A.Newer")]
        await hours.pass_()
        await hours.pass_()
    counts, change = (record.__dict__ for record in caplog.records)
    assert (counts["appeared"], counts["vanished"], counts["changed"]) == (2, 1, 1)
    assert change["tool"] == "A.Changed@1.0.0"
    assert len(change["old"]) == len(change["new"]) == 12
    assert change["old"] != change["new"]


async def test_ready_after_a_while_although_a_backend_hangs() -> None:
    good, hung = ToolServer("good", tool("A.X")), ToolServer("hung")
    hung.hangs = True
    async with running(one_backend(good), one_backend(hung)) as (catalogue, hours):
        assert not catalogue.ready
        assert ids(catalogue) == ["A.X@1.0.0"]
        hours.now += 10.0
        assert catalogue.ready


async def test_waiting_for_readiness_ends_with_its_limit() -> None:
    hung = ToolServer("hung")
    hung.hangs = True
    catalogue = Catalogue([one_backend(hung)], ready_limit_s=0.05)
    assert not catalogue.ready
    await catalogue.start()
    async with asyncio.timeout(5):
        await catalogue.wait_ready()
    assert catalogue.ready
    await catalogue.aclose()


async def test_thousands_of_schemas_do_not_keep_the_loop_from_others() -> None:
    """Another task gets its turn all the time while 2,000 schemas are compiled (about 5 ms each turn)."""
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(20)}}
    server = ToolServer("crm", *(tool(f"A.T{number}", schema) for number in range(2000)))
    gaps: list[float] = []

    async def watch() -> None:
        last = time.thread_time()  # of this thread: how long others had the processor is not what is measured
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    gc.disable()  # a pass over all that other tests left in this process takes longer than a turn
    try:
        watcher = asyncio.create_task(watch())
        async with running(one_backend(server, max_tools=5000)) as (catalogue, _):
            assert len(ids(catalogue)) == 2000
        watcher.cancel()
    finally:
        gc.enable()
    assert max(gaps) < sum(gaps) / 10  # in one piece, or in a few, they would take most of it
