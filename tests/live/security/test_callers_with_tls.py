"""A gateway that serves https to callers with a certificate: the whole way, as it is configured and run."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.faults.calling import call, caller, value
from tests.live.faults.processes import GatewayProcess, gateway, settings, until
from tests.live.faults.toolserver import echo, tool_server
from tests.live.server.authority import Authority
from tests.live.workers.team import metric

pytestmark = pytest.mark.anyio


class Site:
    """Where it listens, and who may come."""

    def __init__(self, running: GatewayProcess, servers: Authority, callers: Authority) -> None:
        self.running = running
        self.url = running.url.replace("http:", "https:")
        self.known = servers.trusting(callers.issue("agent.example"))
        self.unknown = [servers.trusting(shown) for shown in (None, servers.issue("agent.example"))]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    servers, callers = Authority(tmp_path, "servers"), Authority(tmp_path, "callers")
    files = servers.serving()
    tls = {"cert": files.cert, "key": files.key, "client_ca": callers.path}
    server = {"port": 0, "admin": {"port": 0}, "tls": tls}
    async with tool_server({"Lab.Echo": echo}) as lab:
        config = settings({"lab": {"protocol": "otc", "url": lab.url}}, server=server)
        async with gateway(config, ready=False) as running:
            yield Site(running, servers, callers)


async def test_a_caller_with_a_certificate_is_served_and_sent_back_to_https(site: Site) -> None:
    async with caller(site.url, verify=site.known) as http:

        async def ready() -> bool:
            return (await http.get("/health")).status_code == httpx.codes.OK

        await until(ready, "the gateway is ready")
        answer = await call(http, "Lab.Echo", {"n": 1}, call_id="kept")
        assert value(answer) == {"n": 1}
        assert answer.headers["location"].startswith(f"{site.url}/calls/")
        assert (await http.get(answer.headers["location"])).status_code == httpx.codes.OK
    for context in site.unknown:
        async with caller(site.url, verify=context) as http:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await http.get("/health")
    # Neither showed a certificate of an authority that counts; both are in the log and among the numbers.
    await until(lambda: len(_handshakes(site)) == len(site.unknown), "both are written down")
    for line in _handshakes(site):
        assert (line["status"], line["outcome"], line["route"]) == (0, "refused", "-")
        assert "CERTIFICATE" in line["reason"]
    labels = {"dialect": "none", "operation": "handshake", "status": "none"}
    assert await metric(site.running, "toolgate_requests_total", **labels) == len(site.unknown)


def _handshakes(site: Site) -> list[dict[str, Any]]:
    return [line for line in site.running.logged("request") if line["operation"] == "handshake"]
