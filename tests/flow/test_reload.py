"""A new configuration while calls run: what stays, what goes, and what callers do not notice."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.load import read
from tests.flow.conftest import Start
from tests.flow.gateways import Running, config, running, until
from tests.flow.toolserver import ToolServer, hang_up, tool, tool_server
from tests.support.authority import Authority
from tests.support.changing import copy
from tests.support.tokens import SECRET, api_key, token
from tests.support.yard import WORK, yard

pytestmark = pytest.mark.anyio


async def reload(gateway: Running, text: str) -> None:
    await gateway.gateway.apply(read(text, env={}))


def few(count: int) -> list[dict[str, Any]]:
    return [{"name": "few", "key": "caller", "rate": "1/h", "burst": count}]


async def test_an_unchanged_limit_keeps_its_count(start: Start, server: ToolServer) -> None:
    backends = {"scripted": server.url}
    gateway = await start(config(backends, rate_limits=few(2)))
    for status in (200, 200, 429):
        assert (await gateway.caller.call("oxp", "Echo.Say")).status == status
    more = {"name": "more", "key": "ip", "rate": "1000/s"}
    await reload(gateway, config(backends, rate_limits=[more, *few(2)]))
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 429
    await reload(gateway, config(backends, rate_limits=few(3)))
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200
    await reload(gateway, config(backends))
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200


async def test_api_keys_change_at_once(start: Start, server: ToolServer) -> None:
    def keys(*names: str) -> str:
        entries = [api_key(name, name) for name in names]
        return config({"scripted": server.url}, auth={"jwt": [{"secret": SECRET}], "api_keys": entries})

    gateway = await start(keys("old"))
    callers = {name: gateway.caller.with_token(name) for name in ("old", "new")}
    signed = gateway.caller.with_token(token())
    assert [(await caller.call("oxp", "Echo.Say")).status for caller in callers.values()] == [200, 401]
    await reload(gateway, keys("new"))
    assert [(await caller.call("oxp", "Echo.Say")).status for caller in callers.values()] == [401, 200]
    assert (await signed.call("oxp", "Echo.Say")).status == 200


async def test_the_openapi_document_has_the_new_credentials(start: Start, server: ToolServer) -> None:
    backends = {"scripted": server.url}
    gateway = await start(config(backends))

    async def asked_for() -> set[str]:
        document = (await gateway.caller.http.get("/openapi.json")).json()
        return {name for way in document["security"] for name in way}

    assert await asked_for() == set()
    await reload(gateway, config(backends, auth={"jwt": [{"secret": SECRET}]}))
    assert await asked_for() == {"bearer"}
    key = api_key("agent", "key")
    await reload(gateway, config(backends, auth={"api_keys": [key]}))
    assert await asked_for() == {"bearer", "oxp_key", "otc_key"}


async def test_a_reload_asks_only_the_backends_that_it_changes(start: Start, server: ToolServer) -> None:
    """Ours: the others keep their lists and their connections, whatever else is new, their routes included."""
    gateway = await start(config({"scripted": server.url}))
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200
    connections = server.connections
    async with tool_server(tool("Other.Do")) as other:
        routes = [{"tools": "Echo.*", "backend": "scripted"}, {"tools": "*", "backend": "other"}]
        backends = {"scripted": server.url, "other": other.url}
        await reload(gateway, config(backends, routes, errors={"strict": True}, rate_limits=few(9)))
        changed = {"protocol": "oxp", "url": other.url, "max_concurrency": 7}
        await reload(gateway, config(backends | {"other": changed}, routes))
        assert (await gateway.caller.list("oxp")).ids == ["Echo.Say@1.0.0", "Other.Do@1.0.0"]
        assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200
        assert (server.lists, other.lists) == (1, 2)
        assert server.connections == connections
    assert gateway.gateway.catalogue.ready


async def test_a_reload_makes_surfaces_and_pages_anew_only_for_their_own_settings(start: Start) -> None:
    gateway = (await start(config({}))).gateway
    before = gateway.generation
    await gateway.apply(read(config({}, rate_limits=few(1)), env={}))
    limited = gateway.generation
    await gateway.apply(read(config({}, rate_limits=few(1), errors={"strict": True}), env={}))
    assert limited is not before
    assert (limited.surfaces, limited.pages) == (before.surfaces, before.pages)
    assert gateway.generation.surfaces is before.surfaces
    assert gateway.generation.pages is not before.pages


async def test_a_changed_file_of_authorities_is_used_for_the_keys_of_issuers(start: Start, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    keys = {"issuer": "https://127.0.0.1:1", "jwks_url": "https://127.0.0.1:1/keys", "algorithms": ["RS256"]}
    text = config({}, auth={"jwt": [keys | {"audience": ["tools"], "tls": {"ca": authority.path}}]})
    gateway = (await start(text)).gateway
    before = gateway.generation.authentication
    await gateway.apply(read(text, env={}))
    assert gateway.generation.authentication is before
    copy(other.path, authority.path)
    await gateway.apply(read(text, env={}))
    assert gateway.generation.authentication is not before


async def test_a_reload_tries_a_backend_again_that_could_not_be_asked(start: Start, server: ToolServer) -> None:
    server.list_handler = hang_up
    gateway = await start(config({"scripted": server.url}))
    server.list_handler = None
    await reload(gateway, config({"scripted": server.url}))
    await until(lambda: gateway.gateway.catalogue.status("scripted").up)
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200


async def test_tools_of_an_unreachable_backend_stay_published(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    server.list_handler = hang_up
    await reload(gateway, config({"scripted": server.url}, errors={"strict": True}))
    assert (await gateway.caller.list("oxp")).ids == ["Count.Up@1.0.0", "Echo.Say@1.0.0"]
    routes = [{"tools": "Echo.*", "backend": "scripted"}]
    await reload(gateway, config({"scripted": server.url}, routes))
    assert (await gateway.caller.list("oxp")).ids == ["Echo.Say@1.0.0"]
    assert gateway.gateway.catalogue.ready


@pytest.mark.parametrize("form", ["oxp-env", "rfc"])
async def test_a_rebuilt_backend_keeps_its_wire_form(start: Start, server: ToolServer, form: str) -> None:
    """How it wants to be spoken to was learned from its list, which is not there to be learned from again."""
    server.form = form
    backend = {"protocol": "otc" if form.startswith("oxp") else "oxp", "url": server.url}
    gateway = await start(config({"scripted": backend}))
    assert (await gateway.caller.call("oxp", "Echo.Say")).value == {}
    server.list_handler = hang_up
    await reload(gateway, config({"scripted": backend | {"max_concurrency": 7}}))
    assert (await gateway.caller.call("oxp", "Echo.Say")).value == {}
    before, after = server.calls
    assert (after.target, json.loads(after.body).keys()) == (before.target, json.loads(before.body).keys())
    assert gateway.gateway.catalogue.status("scripted").up is False


QUEUED: dict[str, Any] = {
    "max_queue": 7,
    "max_concurrency": 3,
    "timeout": "7s",
    "breaker": {"failures": 2},
    "forward_headers": ["x-tenant"],
}
OTHERWISE: list[dict[str, Any]] = [
    {"toolkit": "Other"},
    {"discovery": {"max_tools": 1}},
    {"dialect": "oxp"},
    {"auth": {"bearer": "a-token-of-sixteen-characters"}},
]


@pytest.mark.parametrize("change", [QUEUED, *OTHERWISE], ids=str)
async def test_a_rebuilt_backend_keeps_its_tools(change: dict[str, Any], start: Start, server: ToolServer) -> None:
    backend = {"protocol": "oxp", "url": server.url}
    gateway = await start(config({"scripted": backend}))
    server.list_handler = hang_up
    await reload(gateway, config({"scripted": backend | change}))
    stay = ["Count.Up@1.0.0", "Echo.Say@1.0.0"] if change is QUEUED else []
    assert (await gateway.caller.list("oxp")).ids == stay
    assert not gateway.gateway.catalogue.status("scripted").up


async def test_a_new_backend_is_listed_before_the_swap(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    async with tool_server(tool("Other.Do")) as other:
        await reload(gateway, config({"scripted": server.url, "other": other.url}))
        assert (await gateway.caller.call("oxp", "Other.Do")).status == 200
        rotated = {"protocol": "oxp", "url": other.url, "auth": {"bearer": "a-token-of-sixteen-characters"}}
        await reload(gateway, config({"scripted": server.url, "other": rotated}))
        assert (await gateway.caller.call("oxp", "Other.Do")).status == 200
        sent = [received.header("authorization") for received in other.calls]
        assert sent == [None, "Bearer a-token-of-sixteen-characters"]


async def test_a_cancelled_reload_changes_nothing(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    before = gateway.gateway.config
    task = asyncio.create_task(reload(gateway, config({"silent": "http://127.0.0.1:1"})))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gateway.gateway.config is before
    assert (await gateway.caller.call("oxp", "Echo.Say")).status == 200
    assert gateway.gateway.backends.keys() == {"scripted"}


async def test_what_is_replaced_is_freed(start: Start, server: ToolServer) -> None:
    """Ours: what stays after a reload stays after each of thousands."""
    gateway = await start(config({"scripted": server.url}))
    gc.disable()  # frozen parts are not even looked at
    try:
        catalogue = weakref.ref(gateway.gateway.catalogue)
        await reload(gateway, config({"scripted": server.url}, errors={"strict": True}))
        await until(lambda: catalogue() is None)
    finally:
        gc.enable()


async def test_a_process_that_ends_names_the_calls_that_end_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """Ours: by the ids that callers were given, digests that do not show who they are."""
    async with yard() as tools, running(config({"yard": {"protocol": "callback", "url": tools.url}})) as gateway:
        headers = {"prefer": "respond-async"}
        answer = await gateway.caller.call("oxp", WORK, {"number": 1}, call_id="mine", headers=headers)
        assert answer.status == 202
    (record,) = [record for record in caplog.records if record.message == "calls that are still running are lost"]
    lost = vars(record)
    assert lost["count"] == 1
    assert lost["calls"] == [answer.headers["toolgate-call-id"]]
