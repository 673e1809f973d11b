"""Metrics where operators scrape them, and what is noted of requests outside the route of a call."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import LOOK_AGAIN_S, PUBLIC_URL, WAIT_S, config
from tests.flow.keeping import gated
from tests.flow.toolserver import ToolServer
from tests.flow.watching import samples, scraped, watched
from tests.support.scraping import samples_of

pytestmark = pytest.mark.anyio

TAKEN = {
    "calls_in_flight{backend=scripted}": 1.0,
    "calls_in_flight_limit{backend=scripted}": 1.0,
    "calls_waiting{backend=scripted}": 2.0,
    "calls_waiting_limit{backend=scripted}": 5.0,
    "backend_connections{backend=scripted,state=in_use}": 1.0,
    "backend_connections{backend=scripted,state=idle}": 0.0,
    "backend_connections{backend=scripted,state=opening}": 0.0,
    "backend_connections_limit{backend=scripted}": 17.0,
}
TOKEN = "the-token-of-the-scraper"


async def test_gauges_show_how_backends_catalogue_and_state_stand(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url, "dead": "http://127.0.0.1:1"}))
    found = samples_of((await scraped(gateway)).encode())
    assert found["toolgate_backend_up{backend=scripted}"] == 1
    assert found["toolgate_backend_up{backend=dead}"] == 0
    assert found["toolgate_catalogue_tools{backend=scripted}"] == 2
    assert found["toolgate_catalogue_age_seconds{backend=scripted}"] >= 0
    assert "toolgate_catalogue_age_seconds{backend=dead}" not in found
    assert found["toolgate_calls_in_flight{backend=scripted}"] == 0
    assert found["toolgate_breaker_state{backend=scripted}"] == 0
    assert found["toolgate_state_up"] == 1
    assert any(re.fullmatch(r"toolgate_build_info\{version=[0-9.]+\}", name) for name in found)


async def test_gauges_show_how_much_of_each_limit_is_taken(start: Start, server: ToolServer) -> None:
    server.handler, opened = gated(server)
    backends = {"scripted": {"protocol": "oxp", "url": server.url, "max_concurrency": 1, "max_queue": 5}}
    gateway = await start(config(backends))
    calls = [asyncio.create_task(gateway.caller.call("oxp", "Echo.Say")) for _ in range(3)]

    async def shown() -> dict[str, float]:
        found = samples_of((await scraped(gateway)).encode())
        return {name: found[f"toolgate_{name}"] for name in TAKEN}

    async with asyncio.timeout(WAIT_S):
        while await shown() != TAKEN:  # noqa: ASYNC110 - the calls are on their way
            await asyncio.sleep(LOOK_AGAIN_S)
    opened.set()
    await asyncio.gather(*calls)
    freed = await shown()
    for name in ("calls_in_flight{backend=scripted}", "calls_waiting{backend=scripted}"):
        assert freed[name] == 0
    assert freed["backend_connections{backend=scripted,state=in_use}"] == 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
async def test_promtool_accepts_the_metrics(start: Start, server: ToolServer) -> None:
    gateway = await start(config({"scripted": server.url}))
    text = (await scraped(gateway)).encode()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)  # noqa: ASYNC221
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Basic {TOKEN}", 401),
        ("Bearer another token of that kind", 401),
        (TOKEN, 401),
        ("", 401),
        ("Bearer \xff", 401),
    ],
)
async def test_the_public_listener_asks_for_the_metrics_token(start: Start, credential: str, status: int) -> None:
    gateway = await start(config({}, metrics={"token": TOKEN}))
    given = credential.encode("latin-1")
    answer = await gateway.caller.http.get("/metrics", headers=[(b"authorization", given)] if given else [])
    assert answer.status_code == status
    assert (b"toolgate_build_info" in answer.content) is (status == 200)
    assert ("www-authenticate" in answer.headers) is (status == 401)


async def test_without_a_token_for_them_the_public_listener_has_no_metrics(start: Start) -> None:
    gateway = await start(config({}))
    assert (await gateway.caller.http.get("/metrics")).status_code == 404


async def lines_of(text: str, requests: list[tuple[str, str, dict[str, str]]]) -> list[dict[str, Any]]:
    """What a gateway writes down of some requests."""
    async with watched(text) as gateway:
        for method, path, headers in requests:
            await gateway.caller.http.request(method, path, headers=headers)
    return gateway.lines


async def test_polls_and_challenges_are_written_down_by_the_template_of_their_path(anyio_backend: object) -> None:
    requests: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "/calls/tg-somebody", {"x-request-id": "first"}),
        ("DELETE", "/calls/tg-somebody", {}),
        ("GET", "/challenges/a-secret-of-sorts", {}),
        ("GET", "/health", {}),
        ("GET", "/openapi.json", {}),
    ]
    found = await lines_of(config({}), requests)
    assert [(line["operation"], line["route"], line["status"]) for line in found] == [
        ("poll", "/calls/{call_id}", 404),
        ("cancel", "/calls/{call_id}", 404),
        ("challenge", "/challenges/{token}", 200),
    ]
    assert found[0]["request_id"] == "first"
    assert found[0]["principal"] == "anonymous"
    assert found[0]["outcome"] == "refused"
    assert "secret-of-sorts" not in json.dumps(found)


NOWHERE = [
    *("/nowhere", "/calls", "/tools/", "/tools/call/", "//tools/call", "/health/x", "/rfc/nowhere", "/x/tools"),
    *("/callback/a-secret-of-sorts", "/base/callbacks/a-secret-of-sorts", "/challenge/a-secret-of-sorts"),
]


@pytest.mark.parametrize("path", NOWHERE)
async def test_what_is_at_no_path_is_written_down_without_it(path: str, anyio_backend: object) -> None:
    """Ours: scanners are logged, but a misspelt path may hold a token."""
    [line] = await lines_of(config({}), [("POST", f"{PUBLIC_URL}{path}?key=a-secret-of-sorts", {})])
    said = (line["operation"], line["route"], line["status"], line["outcome"])
    assert said == ("other", "-", 404, "refused")
    assert "a-secret-of-sorts" not in json.dumps(line)


async def test_a_probe_is_written_down_once_it_is_refused(anyio_backend: object) -> None:
    """Ours: a wrong token for the metrics may be a guess."""
    requests: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "/metrics", {"authorization": "Bearer a-secret-of-sorts"}),
        ("GET", "/metrics", {"authorization": "Bearer " + TOKEN}),
        ("POST", "/oxp/health", {}),
        ("HEAD", "/health", {}),
    ]
    found = await lines_of(config({}, metrics={"token": TOKEN}), requests)
    assert [(line["operation"], line["route"], line["status"]) for line in found] == [
        ("metrics", "/metrics", 401),
        ("health", "/health", 405),
    ]


async def test_requests_outside_the_route_of_a_call_are_counted(start: Start) -> None:
    gateway = await start(config({}))
    for path in ("/health", "/oxp/health", "/nowhere", "/nowhere/else", "/calls/x", "/openapi.json"):
        await gateway.caller.http.get(path)
    assert await samples(gateway, "toolgate_requests_total") == {
        "{dialect=none,operation=health,status=200}": 2,
        "{dialect=none,operation=other,status=404}": 2,
        "{dialect=none,operation=poll,status=404}": 1,
        "{dialect=none,operation=openapi,status=200}": 1,
    }
