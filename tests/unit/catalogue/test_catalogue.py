"""Discovery: what is asked, what is published of it, and what an operator is told."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.catalogue.catalogue import Catalogue, Source
from gateway.errors import ErrorCode, GatewayError
from gateway.model import (
    AuthorizationRequirement,
    Invocation,
    JsonObject,
    Listing,
    Rejected,
    Requirements,
    ToolDefinition,
    ToolRef,
    ToolResult,
)
from gateway.naming import published_name
from gateway.ports import Caller
from gateway.routing import PublishedTool, Route

pytestmark = pytest.mark.anyio

CALLER = Caller(principal="key:test")
DEADLINE_S = 30.0  # for what takes a second at most on an idle machine
DOWN = GatewayError(ErrorCode.BACKEND_UNAVAILABLE, "The tool server cannot be reached.", detail="refused")


class ToolServer:
    """A backend that lists what a test gives it, or fails as a test says."""

    dialect = "otc"
    asynchronous = False

    def __init__(self, name: str, *tools: ToolDefinition) -> None:
        self.name = name
        self.tools: Sequence[ToolDefinition] = tools
        self.rejected: tuple[Rejected, ...] = ()
        self.failure: Exception | None = None
        self.hangs = False

    async def list_tools(self) -> Listing:
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return Listing(tools=tuple(self.tools), rejected=self.rejected)

    async def call(self, invocation: Invocation, turn: object = None) -> ToolResult:
        raise AssertionError

    async def challenge_status(self, check_url: str) -> str:
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError


class Hours:
    """Time that passes when a test says so. Whoever sleeps is woken by `pass_`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._sleepers: list[asyncio.Future[None]] = []
        self._changed = asyncio.Condition()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._changed:
            self.waits.append(seconds)
            self._sleepers.append(woken)
            self._changed.notify_all()
        await woken

    async def until_asleep(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(lambda: len(self._sleepers) >= count)

    async def pass_(self, seconds: float = 60.0) -> None:
        """Wakes all sleepers, and returns when as many sleep again."""
        self.now += seconds
        sleepers, self._sleepers = self._sleepers, []
        for woken in sleepers:
            woken.set_result(None)
        await self.until_asleep(len(sleepers))


def tool(
    tool_id: str,
    schema: JsonObject | None = None,
    *,
    name: str | None = None,
    description: str = "",
    secrets: Sequence[str] = (),
    tokens: Sequence[str] = (),
) -> ToolDefinition:
    named, _, version = tool_id.partition("@")
    return ToolDefinition(
        tool=named,
        version=version or "1.0.0",
        name=name or published_name(named),
        description=description,
        input_schema=schema or {},
        output_schema=None,
        remote_id=tool_id,
        requires=Requirements(
            secrets=tuple(secrets), authorization=tuple(AuthorizationRequirement(id=token) for token in tokens)
        ),
    )


def route(server: ToolServer, tools: str = "*", **settings: Any) -> Route:
    return Route(tools=tools, backend_name=server.name, backend=server, timeout_s=30.0, **settings)


def source(
    server: ToolServer,
    routes: Sequence[Route],
    max_tools: int = 100,
    max_schema_bytes: int = 10_000,
    terms: object = None,
) -> Source:
    return Source(
        name=server.name,
        backend=server,
        refresh_s=60.0,
        max_tools=max_tools,
        max_schema_bytes=max_schema_bytes,
        routes=routes,
        terms=terms,
    )


@asynccontextmanager
async def running(
    *sources: Source, hours: Hours | None = None, uniform: Callable[[float, float], float] = lambda low, high: 1.0
) -> AsyncIterator[tuple[Catalogue, Hours]]:
    hours = hours or Hours()
    catalogue = Catalogue(sources, clock=lambda: hours.now, uniform=uniform, sleep=hours.sleep)
    await catalogue.start()
    try:
        await hours.until_asleep(sum(1 for one in sources if not getattr(one.backend, "hangs", False)))
        yield catalogue, hours
    finally:
        await catalogue.aclose()


def one_backend(server: ToolServer, **bounds: Any) -> Source:
    return source(server, [route(server)], **bounds)


def ids(catalogue: Catalogue) -> list[str]:
    return [published.definition.id for published in catalogue.router.tools_for(CALLER)]


def found(catalogue: Catalogue, tool_id: str) -> PublishedTool:
    named, _, version = tool_id.partition("@")
    return catalogue.router.resolve(ToolRef(tool=named, version=version or None), CALLER)


def reasons(catalogue: Catalogue, server: ToolServer) -> dict[str, str]:
    return {rejected.id: rejected.reason for rejected in catalogue.status(server.name).rejected}


async def test_the_tools_of_all_backends_are_published() -> None:
    one, other = ToolServer("one", tool("A.X")), ToolServer("other", tool("B.Y"), tool("A.X@2.0.0"))
    routes = [route(one), route(other)]
    async with running(source(one, routes), source(other, routes)) as (catalogue, _):
        assert ids(catalogue) == ["A.X@1.0.0", "A.X@2.0.0", "B.Y@1.0.0"]
        assert found(catalogue, "A.X@1.0.0").backend is one
        assert found(catalogue, "A.X").backend is other
        assert catalogue.status("other").tools == 2


async def test_a_tool_takes_the_first_route_that_matches() -> None:
    server = ToolServer("crm", tool("A.Open"), tool("A.Hidden"), tool("A.Mail"), tool("B.Unrouted"))
    routes = [route(server, "A.Hidden", deny=True), route(server, "A.Mail", idempotent=True), route(server, "A.*")]
    async with running(source(server, routes)) as (catalogue, _):
        assert ids(catalogue) == ["A.Mail@1.0.0", "A.Open@1.0.0"]
        assert found(catalogue, "A.Mail").route is routes[1]
        assert reasons(catalogue, server) == {}  # what an operator left out is no problem


async def test_routes_of_other_backends_publish_nothing() -> None:
    server, other = ToolServer("crm", tool("A.X")), ToolServer("other")
    async with running(source(server, [route(other)])) as (catalogue, _):
        assert ids(catalogue) == []


async def test_of_two_backends_with_one_id_the_earlier_route_wins() -> None:
    one, other = ToolServer("one", tool("A.X"), tool("A.Z")), ToolServer("other", tool("A.X"), tool("A.Y"))
    routes = [route(other), route(one)]
    async with running(source(one, routes), source(other, routes)) as (catalogue, hours):
        assert found(catalogue, "A.X").backend is other
        assert reasons(catalogue, one) == {
            "A.X@1.0.0": "A.X@1.0.0 of backend 'other', whose route comes first, hides it."
        }
        assert catalogue.status("one").tools == 1
        other.tools = [tool("A.Y")]
        await hours.pass_()
        assert found(catalogue, "A.X").backend is one
        assert reasons(catalogue, one) == {}


async def test_of_two_backends_with_one_name_for_two_tools_the_earlier_route_wins() -> None:
    one, other = ToolServer("one", tool("A_B.C")), ToolServer("other", tool("A.B_C"))
    routes = [route(one), route(other)]
    async with running(source(other, routes), source(one, routes)) as (catalogue, _):
        assert ids(catalogue) == ["A_B.C@1.0.0"]
        assert list(reasons(catalogue, other)) == ["A.B_C@1.0.0"]


async def test_tools_of_one_backend_that_share_a_name_are_both_left_out() -> None:
    server = ToolServer("crm", tool("A_B.C"), tool("A.B_C"), tool("A.D"), tool("A.D@2.0.0"))
    async with running(one_backend(server)) as (catalogue, _):
        assert ids(catalogue) == ["A.D@1.0.0", "A.D@2.0.0"]  # versions share a name by right
        assert set(reasons(catalogue, server)) == {"A_B.C@1.0.0", "A.B_C@1.0.0"}


async def test_tools_of_one_backend_that_share_an_id_are_both_left_out() -> None:
    server = ToolServer("crm", tool("A.B", description="one"), tool("A.B", description="other"), tool("A.C"))
    async with running(one_backend(server)) as (catalogue, _):
        assert ids(catalogue) == ["A.C@1.0.0"]
        assert reasons(catalogue, server) == {"A.B@1.0.0": "Its id is listed more than once."}


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
        assert found(catalogue, "A.Good").schema.errors({"a": 1}) == {"a": "is not a string"}


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


async def test_schemas_are_listed_without_local_references() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}
    async with running(one_backend(ToolServer("crm", tool("A.X", schema)))) as (catalogue, _):
        assert found(catalogue, "A.X").definition.input_schema == {"properties": {"a": {"type": "string"}}}


async def test_an_unchanged_answer_keeps_the_very_snapshot() -> None:
    server = ToolServer("crm", tool("A.X", {"type": "object", "properties": {}}), tool("A.Broken", {"type": "string"}))
    async with running(one_backend(server)) as (catalogue, hours):
        before = catalogue.router
        server.tools = [tool("A.X", {"properties": {}, "type": "object"}), tool("A.Broken", {"type": "string"})]
        await hours.pass_()
        assert catalogue.router is before


async def test_what_did_not_change_is_taken_over_into_a_new_snapshot() -> None:
    server = ToolServer("crm", tool("A.Same"), tool("A.Changed"))
    async with running(one_backend(server)) as (catalogue, hours):
        router, same, changed = catalogue.router, found(catalogue, "A.Same"), found(catalogue, "A.Changed")
        server.tools = [tool("A.Same"), tool("A.Changed", description="new")]
        await hours.pass_()
        assert catalogue.router is not router
        assert found(catalogue, "A.Same") is same
        assert found(catalogue, "A.Changed") is not changed
        assert found(catalogue, "A.Changed").definition.description == "new"


async def test_a_backend_that_fails_keeps_its_last_list_and_shows_its_age() -> None:
    server = ToolServer("crm", tool("A.X"))
    async with running(one_backend(server)) as (catalogue, hours):
        server.failure = DOWN
        await hours.pass_(60.0)
        await hours.pass_(5.0)
        status = catalogue.status("crm")
        assert ids(catalogue) == ["A.X@1.0.0"]
        assert (status.up, status.age_s, status.tools) == (False, 65.0, 1)
        assert status.last_error == "refused"
        server.failure = None
        await hours.pass_()
        status = catalogue.status("crm")
        assert (status.up, status.age_s, status.last_error) == (True, 0.0, None)


async def test_a_backend_that_was_never_reached_has_no_age() -> None:
    server = ToolServer("crm")
    server.failure = DOWN
    async with running(one_backend(server)) as (catalogue, _):
        assert catalogue.status("crm").as_json() == {
            "up": False,
            "age_s": None,
            "tools": 0,
            "rejected_count": 0,
            "rejected": [],
            "withheld": [],
            "last_error": "refused",
        }


async def test_a_backend_made_anew_has_the_list_of_the_one_before_until_it_is_asked() -> None:
    server, anew = ToolServer("crm", tool("A.X")), ToolServer("crm", tool("A.X"), tool("A.Y"))
    anew.failure = DOWN
    async with running(one_backend(server, terms="the same")) as (catalogue, hours):
        hours.now += 5.0
        successor = Catalogue([one_backend(anew, terms="the same")], clock=lambda: hours.now, sleep=hours.sleep)
        await successor.adopt(catalogue)
        assert (ids(successor), successor.status("crm").age_s) == (["A.X@1.0.0"], 5.0)
        assert found(successor, "A.X").backend is anew
        await successor.start()
        assert not successor.ready
        await hours.until_asleep(2)
        assert (ids(successor), successor.status("crm").last_error) == (["A.X@1.0.0"], "refused")
        anew.failure = None
        await hours.pass_()
        assert ids(successor) == ["A.X@1.0.0", "A.Y@1.0.0"]
        await successor.aclose()


class Learned(ToolServer):
    """One that speaks as it has heard."""

    spoken: object = None

    def take_over(self, before: Any) -> None:
        self.spoken = before


async def test_a_backend_that_calls_what_another_listed_learns_from_it_how_to_speak() -> None:
    """Its tool server may not list its tools for a while, and would be called in a form that it does not speak."""
    server, anew, other = Learned("crm", tool("A.X")), Learned("crm"), Learned("crm")
    async with running(one_backend(server, terms="the same")) as (catalogue, _):
        await Catalogue([one_backend(anew, terms="the same")]).adopt(catalogue)
        await Catalogue([one_backend(other, terms="others")]).adopt(catalogue)
        await Catalogue([one_backend(server, terms="the same")]).adopt(catalogue)
        assert (anew.spoken, other.spoken, server.spoken) == (server, None, None)


@pytest.mark.parametrize("terms", [("some", "others"), (None, None)])
async def test_a_backend_made_anew_that_may_list_others_begins_without_a_list(terms: tuple[Any, Any]) -> None:
    server, anew = ToolServer("crm", tool("A.X")), ToolServer("crm")
    async with running(one_backend(server, terms=terms[0])) as (catalogue, _):
        successor = Catalogue([one_backend(anew, terms=terms[1])])
        await successor.adopt(catalogue)
        assert (ids(successor), successor.status("crm").age_s) == ([], None)


async def test_failures_are_retried_ever_more_slowly() -> None:
    server = ToolServer("crm")
    server.failure = DOWN
    async with running(one_backend(server)) as (_, hours):
        for _ in range(7):
            await hours.pass_()
        server.failure = None
        await hours.pass_()
        server.failure = DOWN
        await hours.pass_()
    assert hours.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 1.0]


async def test_each_wait_is_jittered_by_a_tenth() -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    async with running(one_backend(ToolServer("crm")), uniform=uniform) as (_, hours):
        assert asked == [(0.9, 1.1)]
        assert hours.waits == pytest.approx([66.0])


async def test_a_bug_in_an_adapter_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server, other = ToolServer("crm"), ToolServer("other", tool("A.X"))
    server.failure = KeyError("secret-value")
    routes = [route(server), route(other)]
    async with running(source(server, routes), source(other, routes)) as (catalogue, hours):
        assert ids(catalogue) == ["A.X@1.0.0"]
        assert catalogue.status("crm").last_error == "the gateway failed: KeyError"
        server.failure, server.tools = None, [tool("B.Y")]
        await hours.pass_()
        assert ids(catalogue) == ["A.X@1.0.0", "B.Y@1.0.0"]
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_a_snapshot_that_could_not_be_made_is_made_the_next_time() -> None:
    """Adapters owe us versions of numbers; one that does not deliver costs its own tools only."""
    server, other = ToolServer("crm", tool("A.X@nonsense")), ToolServer("other", tool("B.Y"))
    routes = [route(server), route(other)]
    async with running(source(server, routes), source(other, routes)) as (catalogue, hours):
        assert ids(catalogue) == ["B.Y@1.0.0"]
        assert not catalogue.status("crm").up
        server.tools = [tool("A.X")]
        await hours.pass_()
        assert ids(catalogue) == ["A.X@1.0.0", "B.Y@1.0.0"]


async def test_ids_of_the_first_listing_are_trusted_and_later_ones_are_withheld(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ToolServer("crm", tool("A.X", secrets=["KEY"], tokens=["google"]))
    async with running(one_backend(server)) as (catalogue, hours):
        assert found(catalogue, "A.X").withheld == frozenset()
        server.tools = [tool("A.X", secrets=["KEY", "MORE"], tokens=["google", "bank"]), tool("A.Y", secrets=["KEY"])]
        await hours.pass_()
        await hours.pass_()
        assert found(catalogue, "A.X").withheld == {"MORE", "bank"}
        assert found(catalogue, "A.Y").withheld == frozenset()
        assert catalogue.status("crm").withheld == ("MORE", "bank")
    warnings = [record for record in caplog.records if "withheld" in record.message]
    assert [(record.levelname, record.__dict__["ids"]) for record in warnings] == [("WARNING", ["MORE", "bank"])]


async def test_a_route_lets_newly_declared_ids_pass() -> None:
    server = ToolServer("crm", tool("A.X"))
    async with running(source(server, [route(server, context=frozenset({"MORE"}))])) as (catalogue, hours):
        server.tools = [tool("A.X", secrets=["MORE", "OTHER"])]
        await hours.pass_()
        assert found(catalogue, "A.X").withheld == {"OTHER"}


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


async def test_ready_when_every_backend_was_asked_once_even_in_vain() -> None:
    good, bad = ToolServer("good", tool("A.X")), ToolServer("bad")
    bad.failure = DOWN
    async with running(one_backend(good), one_backend(bad)) as (catalogue, _):
        assert catalogue.ready
        await catalogue.wait_ready()


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


async def test_without_backends_it_is_ready_at_once() -> None:
    catalogue = Catalogue([])
    await catalogue.start()
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

    watcher = asyncio.create_task(watch())
    async with running(one_backend(server, max_tools=5000)) as (catalogue, _):
        assert len(ids(catalogue)) == 2000
    watcher.cancel()
    assert max(gaps) < sum(gaps) / 10  # in one piece they would take most of it
    assert sum(gap > 0.004 for gap in gaps) > 10  # the work was indeed cut up
