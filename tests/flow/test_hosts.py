"""Requests meant for another host are refused where hosts are listed, in the caller's dialect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import Caller, every_dialect
from tests.flow.conftest import StartGateway
from tests.flow.gateways import config
from tests.flow.toolserver import ToolServer

pytestmark = pytest.mark.anyio

LISTED = {"allowed_hosts": ["tools.example.com", "*.svc.example", "192.0.2.1", "2001:db8::1"]}
URLS = {"public_url": "https://public.example/base", "callback_url": "http://inside.example:8080"}


async def caller_of(start: StartGateway, server: ToolServer, **settings: Any) -> Caller:
    return (await start(config({"scripted": server.url}, server={**LISTED, **URLS, **settings}))).caller


OURS = [
    *("tools.example.com", "TOOLS.example.COM", "tools.example.com:8443", "tools.example.com."),
    *("a.svc.example", "a.b.SVC.example:80", "192.0.2.1", "192.0.2.1:8080", "[2001:db8::1]:8080", "[2001:DB8::1]"),
    *("public.example", "inside.example:8080"),  # the links we hand out lead there
]
OTHERS = [
    *("evil.example", "tools.example.com.evil.example", "eviltools.example.com", "svc.example", "evilsvc.example"),
    *("192.0.2.2", "[2001:db8::2]", "localhost", "127.0.0.1:8080", "[::1]"),
]


async def test_hosts_of_the_list_and_of_our_links_are_served_whatever_the_port(
    start: StartGateway, server: ToolServer
) -> None:
    caller = await caller_of(start, server)
    for host in OURS:
        assert (await caller.list("oxp", headers={"host": host})).status == 200, host


async def test_other_hosts_are_refused_before_anything_else(start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server, cors={"origins": ["*"]})
    for host in OTHERS:
        answer = await caller.list("bare", "/tools", headers={"host": host})
        assert answer.status == 400, host
        assert answer.document == {
            "message": "The Host header does not name a host that is served here.",
            "code": "invalid_request",
        }
    elsewhere = ("/calls/health", "/challenges/health", "/callbacks/health", "/x/health", "/health/", "/oxp/oxp/health")
    for path in ("/calls/x", "/challenges/x", "/openapi.json", "/nowhere", *elsewhere):
        assert (await caller.http.get(path, headers={"host": OTHERS[0]})).status_code == 400
    asked = {"host": OTHERS[0], "origin": "https://a.example", "access-control-request-method": "GET"}
    assert (await caller.http.options("/tools", headers=asked)).status_code == 400


@every_dialect
async def test_the_refusal_is_in_the_callers_dialect(dialect: str, start: StartGateway, server: ToolServer) -> None:
    caller = await caller_of(start, server)
    assert (await caller.call(dialect, "Echo.Say", headers={"host": OTHERS[0]})).status == 400
    assert server.calls == []


async def test_health_is_told_whatever_the_host(start: StartGateway, server: ToolServer) -> None:
    """Ours: a kubelet calls a pod by its address, which nobody knows beforehand."""
    caller = await caller_of(start, server)
    for path in ("/health", "/oxp/health"):
        assert (await caller.http.get(path, headers={"host": "10.2.3.4:8080"})).status_code == 200


async def test_without_a_list_nobody_looks(start: StartGateway, server: ToolServer) -> None:
    text = config({"scripted": server.url})
    running = await start(text)
    assert (await running.caller.list("oxp", headers={"host": OTHERS[0]})).status == 200
