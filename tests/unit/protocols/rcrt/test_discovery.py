"""Which tools a workspace offers: read record by record, judged, and heard of again when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Listing
from tests.unit.net.client.scripted import Peer, Server, serving
from tests.unit.protocols.rcrt.conftest import Crumbs
from tests.unit.protocols.rcrt.conftest import serving as crumbs_serving
from tests.unit.protocols.rcrt.crumbs import AGENT, OWNER, facing
from tests.unit.upstream.facing import at_paths, paths, reply

pytestmark = pytest.mark.anyio

TOKEN = reply(200, {"token": "t", "exp": None})
WORKSPACE = "workspace:tools"


@pytest.fixture(scope="module")
def as_shipped() -> Iterator[Crumbs]:
    yield from crumbs_serving("--as-shipped")


async def listed(crumbs: Crumbs) -> Listing:
    async with facing(crumbs.url) as (backend, _):
        return await backend.list_tools()


async def test_the_tools_of_a_workspace_are_listed(crumbs: Crumbs) -> None:
    listing = await listed(crumbs)
    tools = {tool.id: tool for tool in listing.tools}
    assert {"Crumbs.echo@2.1.0", "Crumbs.json_transform@2.1.0"} <= tools.keys()
    assert tools["Crumbs.json_transform@2.1.0"].remote_id == "json-transform"
    assert tools["Crumbs.echo@2.1.0"].input_schema["required"] == ["message"]
    assert tools["Crumbs.echo@2.1.0"].description
    assert listing.rejected == ()


async def test_where_tools_are_approved_only_those_are_callable(as_shipped: Crumbs) -> None:
    listing = await listed(as_shipped)
    assert {tool.remote_id for tool in listing.tools} == {"echo", "random", "timer"}
    assert {(one.id, one.reason) for one in listing.rejected} >= {
        ("Crumbs.workflow@2.1.0", "it is not approved on its tool server")
    }


async def test_approvals_and_new_tools_are_heard_of_though_an_approval_says_little(as_shipped: Crumbs) -> None:
    changed = asyncio.Event()
    [found] = as_shipped.listed(schema_name="tool.code.v1", tag="tool:workflow")
    token = as_shipped.http.post("/auth/token", json={"owner_id": OWNER, "agent_id": AGENT}).json()["token"]
    tags = ["tool", "tool:new", WORKSPACE, "approved"]
    draft = {"schema_name": "tool.code.v1", "title": "t", "tags": tags, "context": {"name": "new"}}
    async with facing(as_shipped.url, on_change=changed.set) as (backend, _):
        await backend.list_tools()
        await backend._stream.tried()
        for path, body, tool in (
            (f"/breadcrumbs/{found['id']}/approve", None, "workflow"),
            ("/breadcrumbs", draft, "new"),
        ):
            changed.clear()
            headers = {"authorization": f"Bearer {token}"}
            as_shipped.http.post(path, json=body, headers=headers).raise_for_status()
            async with asyncio.timeout(5):
                await changed.wait()
            assert tool in {listed.remote_id for listed in (await backend.list_tools()).tools}


# With a scripted server: what real ones rarely have.


def item(crumb_id: str, name: str, version: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "id": crumb_id,
        "tags": ["tool", f"tool:{name}", WORKSPACE],
        "schema_name": "tool.code.v1",
        "version": version,
        "updated_at": "2025-11-10T09:00:00Z",
    } | changes


def record(crumb_id: str, name: str, **changes: Any) -> dict[str, Any]:
    return item(crumb_id, name) | {"context": {"name": name}, "semantic_version": "1.0.0"} | changes


LIST = "/breadcrumbs?schema_name=tool.code.v1&tag=workspace%3Atools&limit=200"
CATALOG = "/breadcrumbs?schema_name=tool.catalog.v1&tag=workspace%3Atools&limit=1&include_context=true"


async def listed_at(known: dict[str, bytes]) -> Listing:
    known["/auth/token"] = TOKEN
    async with (
        serving(at_paths(known, reply(404, b"not found", "text/plain"))) as server,
        facing(server.url) as (backend, _),
    ):
        return await backend.list_tools()


async def test_tools_that_cannot_be_told_apart_or_reached_are_left_out() -> None:
    names = {"a": "x", "b": "x", "c": "y", "d": "z", "e": "gone", "f": "w"}
    records: dict[str, dict[str, Any]] = {
        "a": {"semantic_version": "1"},
        "b": {"semantic_version": "2"},
        "c": {},
        "d": {"context": {"name": "zed"}},
        "f": {"context": {"name": "w", "input_schema": 7}},
    }
    known = {LIST: reply(200, [*(item(crumb, name) for crumb, name in names.items()), "rubbish"])}
    for crumb, changes in records.items():
        known[f"/breadcrumbs/{crumb}/full"] = reply(200, record(crumb, names[crumb], **changes))
    listing = await listed_at(known)
    assert [tool.id for tool in listing.tools] == ["Crumbs.y@1.0.0"]
    assert {one.id: one.reason for one in listing.rejected} == {
        "Crumbs.x@1.0.0": "several tools of its tool server have this name",
        "Crumbs.x@2.0.0": "several tools of its tool server have this name",
        "tool:z": "its tags do not name it as its context does, tool:zed",
        "tool:w": "its input schema is not an object",
    }


async def test_a_record_of_very_many_values_is_left_out_alone_and_a_page_of_them_cannot_be_read() -> None:
    wide: list[Any] = [[]] * 20_000
    known = {LIST: reply(200, [item("a", "x"), item("b", "y")])}
    known["/breadcrumbs/a/full"] = reply(200, record("a", "x", context={"name": "x", "code": wide}))
    known["/breadcrumbs/b/full"] = reply(200, record("b", "y"))
    listing = await listed_at(known)
    assert [tool.id for tool in listing.tools] == ["Crumbs.y@1.0.0"]
    assert [(one.id, one.reason) for one in listing.rejected] == [("tool:x", "its record holds too many values")]
    with pytest.raises(GatewayError) as caught:
        await listed_at({LIST: reply(200, [item("a", "x", more=wide)])})
    assert "it holds too many values" in str(caught.value.detail)


async def test_a_workspace_without_tools_to_read_falls_back_to_its_catalogue() -> None:
    catalog = {"id": "c", "tags": [WORKSPACE], "context": {"tools": [{"name": "echo"}, {"name": ""}]}}
    listing = await listed_at({LIST: reply(200, []), CATALOG: reply(200, [catalog])})
    assert [tool.id for tool in listing.tools] == ["Crumbs.echo@1.0.0"]
    assert [one.reason for one in listing.rejected] == ["it has no name"]


async def test_an_empty_workspace_has_no_tools() -> None:
    assert await listed_at({LIST: reply(200, []), CATALOG: reply(200, [])}) == Listing()


BROKEN = [
    {LIST: reply(200, {"items": []})},
    {LIST: reply(200, [item("a", "x")]), "/breadcrumbs/a/full": reply(500, b"", "text/plain")},
    {LIST: reply(200, [item("a", "x")]), "/breadcrumbs/a/full": reply(200, b"{", "application/json")},
]


@pytest.mark.parametrize("known", BROKEN, ids=["no list", "no record", "broken record"])
async def test_a_listing_that_breaks_off_is_unavailable(known: dict[str, bytes]) -> None:
    with pytest.raises(GatewayError) as caught:
        await listed_at(dict(known))
    assert caught.value.code is ErrorCode.BACKEND_UNAVAILABLE
    assert caught.value.detail


def paged(total: int) -> Any:
    """A server with so many tools, listed as many at a time as it is asked for."""

    async def script(peer: Peer) -> None:
        while True:
            path = (await peer.request()).split(b" ")[1].decode()
            if path.endswith("/full"):
                number = path.split("/")[2]
                await peer.send(reply(200, record(number, f"t{number}")))
            elif path.startswith(LIST):
                offset = int(path.partition("&offset=")[2] or 0)
                page = range(offset, min(offset + 200, total))
                await peer.send(reply(200, [item(str(number), f"t{number}") for number in page]))
            else:
                await peer.send(TOKEN if path == "/auth/token" else reply(503, b"", "text/plain"))

    return script


def reads(server: Server) -> int:
    return sum(path.endswith("/full") for path in paths(server))


async def test_every_page_is_read_and_records_only_when_they_changed() -> None:
    async with serving(paged(450)) as server, facing(server.url) as (backend, _):
        first, second = await backend.list_tools(), await backend.list_tools()
    assert len(first.tools) == 450
    assert first == second
    assert reads(server) == 450


async def test_an_adapted_version_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    known = {
        LIST: reply(200, [item("a", "x")]),
        "/breadcrumbs/a/full": reply(200, record("a", "x", semantic_version="beta")),
    }
    known["/auth/token"] = TOKEN
    async with (
        serving(at_paths(known, reply(404, b"", "text/plain"))) as server,
        facing(server.url) as (backend, _),
    ):
        for _ in range(2):
            await backend.list_tools()
    assert [record.message for record in caplog.records].count("a tool's name was adapted") == 1
