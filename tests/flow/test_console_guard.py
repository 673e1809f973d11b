"""Who may use the console on the operators' listener: its own pages, at a host that is meant."""

from __future__ import annotations

import pytest

from tests.flow.conftest import Start
from tests.flow.gateways import config
from tests.flow.operators import OPERATORS, console_of
from tests.flow.toolserver import ToolServer

pytestmark = pytest.mark.anyio

CROSS_SITE = {"sec-fetch-site": "cross-site"}
LINK = CROSS_SITE | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
JSON = {"content-type": "application/json"}


async def test_pages_may_not_do_what_their_policy_forbids(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        for path in ("/console/", "/console/main.js", "/console/api/overview", "/console/nothing", "/console/api/x"):
            answer = await page.http.get(path)
            policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
            assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert policy["require-trusted-types-for"] == "'script'"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "set-cookie" not in answer.headers
            assert answer.headers["cache-control"] == (
                "no-cache" if answer.status_code < 300 and "api" not in path else "no-store"
            )


async def test_the_path_without_a_slash_leads_to_the_page(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        answer = await page.http.get("/console")
        assert (answer.status_code, answer.headers["location"]) == (308, "/console/")


@pytest.mark.parametrize(
    "path", ["index.html/", "main.js/", "api/overview/", "api/tools/X.Y/", "nothing/", "/", "/index.html"]
)
async def test_a_slash_too_many_leads_nowhere(start: Start, server: ToolServer, path: str) -> None:
    """A redirect would lead to whatever host the request names."""
    async with console_of(await start(config({"own": server.url}))) as page:
        answer = await page.http.get(f"/console/{path}", headers={"host": "127.0.0.1"})
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


async def test_files_are_asked_for_anew_and_sent_only_if_they_have_changed(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        first = await page.http.get("/console/main.js")
        assert first.headers["content-type"] == "text/javascript; charset=utf-8"
        again = await page.http.get("/console/main.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await page.http.get("/console/..%2fapp.py")).status_code == 404
        assert (await page.http.get("/console/__init__.py")).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("10.1.2.3:9464", 200),
        ("[::1]:9464", 200),
        ("localhost:9464", 200),
        ("console.corp.example:9464", 200),
        ("a.ops.example", 200),
        ("attacker.example", 403),
        ("attacker.example:9464", 403),
        ("127.0.0.1.attacker.example", 403),
        ("ops.example.attacker.example", 403),
        ("", 403),
    ],
)
async def test_a_name_that_may_have_been_led_here_is_refused(
    start: Start, server: ToolServer, host: str, status: int
) -> None:
    """DNS rebinding: a page of another site has its own name lead to this listener."""
    hosts = {"hosts": ["console.corp.example", "*.ops.example"]}
    async with console_of(await start(config({"own": server.url}, console=hosts))) as page:
        for path in ("/console/", "/console/api/overview"):
            answer = await page.http.get(path, headers={"host": host})
            assert answer.status_code == status, answer.text
        if status == 403:
            assert "console.hosts" in answer.json()["message"]
        for path in ("/metrics", "/health"):
            answer = await page.http.get(path, headers={"host": host})
            assert answer.status_code == status, answer.text
            assert ("toolgate" in answer.text) is (status == 200 and path == "/metrics")
        assert (await page.http.get("/livez", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://attacker.example", "null", "http://127.0.0.1:9465", "http://localhost:9464"]
)
async def test_pages_of_other_origins_are_refused(start: Start, server: ToolServer, origin: str) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        for method, path in (("GET", "/console/api/overview"), ("POST", "/console/api/backends/own/refresh")):
            answer = await page.http.request(method, path, headers={"origin": origin} | JSON, content=b"{}")
            assert (answer.status_code, list(answer.json())) == (403, ["message"])
        own = {"origin": OPERATORS, "sec-fetch-site": "same-origin"} | JSON
        answer = await page.http.post("/console/api/backends/own/refresh", headers=own, content=b"{}")
        assert answer.status_code == 200


async def test_links_of_other_sites_lead_to_the_page_and_to_nothing_else(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        assert (await page.http.get("/console/", headers=LINK)).status_code == 200
        assert (await page.http.get("/console/", headers=CROSS_SITE)).status_code == 403
        assert (await page.http.get("/console/main.js", headers=CROSS_SITE)).status_code == 403
        for headers in (LINK, CROSS_SITE, {"sec-fetch-site": "same-site"}):
            assert (await page.http.get("/console/api/overview", headers=headers)).status_code == 403


async def test_what_changes_something_takes_a_post_of_json(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}))) as page:
        for path in ("backends/own/refresh", "calls/cancel", "send"):
            url = f"/console/api/{path}"
            assert (await page.http.get(url)).status_code == 405
            assert (await page.http.head(url)).status_code == 405
            form = await page.http.post(url, data={"id": "x"})
            assert form.status_code == 415
            plain = await page.http.post(url, content=b"{}", headers={"content-type": "text/plain"})
            assert plain.status_code == 415
            assert (await page.http.post(url, content=b"{", headers=JSON)).status_code == 400
            assert (await page.http.post(url, content=b"[]", headers=JSON)).status_code == 400


async def test_a_console_that_is_switched_off_is_not_there(start: Start, server: ToolServer) -> None:
    async with console_of(await start(config({"own": server.url}, console={"enabled": False}))) as page:
        for path in ("/console/", "/console/main.js", "/console/api/overview"):
            answer = await page.http.get(path)
            assert answer.status_code == 404
            assert "console.enabled" in answer.json()["message"]
        assert (await page.http.get("/health")).status_code == 200


async def test_callers_do_not_reach_it(start: Start, server: ToolServer) -> None:
    running = await start(config({"own": server.url}))
    for path in ("/console", "/console/", "/console/api/overview", "/console/main.js"):
        assert (await running.caller.http.get(path)).status_code == 404
