"""A gateway that serves https to callers with a certificate: the whole way, as it is configured and run."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.server.harness import Wire, calling, request
from tests.live.workers.team import metric
from tests.support.authority import Authority
from tests.support.calling import call, caller, value
from tests.support.changing import change, write
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import Exchange, echo, tool_server

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
        assert await metric(site.running, "toolgate_connections") == 1
        assert await metric(site.running, "toolgate_connections_limit") > 1
    for context in site.unknown:
        async with caller(site.url, verify=context) as http:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await http.get("/health")
    # Neither showed a certificate of an authority that counts; both are in the log and among the numbers.
    await until(lambda: len(_handshakes(site)) == len(site.unknown), "both are written down")
    for line in _handshakes(site):
        assert (line["status"], line["outcome"], line["route"]) == (0, "refused", "-")
        assert "CERTIFICATE" in line["reason"]
    expiry = "toolgate_certificate_expiry_timestamp_seconds"
    assert await metric(site.running, expiry, setting="server.tls.cert") > time.time()
    labels = {"dialect": "none", "operation": "handshake", "status": "none"}
    assert await metric(site.running, "toolgate_requests_total", **labels) == len(site.unknown)


def _handshakes(site: Site) -> list[dict[str, Any]]:
    return [line for line in site.running.logged("request") if line["operation"] == "handshake"]


async def test_a_caller_whose_authority_is_withdrawn_is_disconnected_after_its_answer(tmp_path: Path) -> None:
    servers, former, later = (Authority(tmp_path, name) for name in ("servers", "former", "later"))
    files, counting = servers.serving(), tmp_path / "counting.pem"
    tls = {"cert": files.cert, "key": files.key, "client_ca": str(counting)}
    known, taken, finishing = servers.trusting(former.issue("agent.example")), asyncio.Event(), asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        taken.set()
        await finishing.wait()
        await exchange.finish(value="done")

    first, second = (authority.signing.cert_pem.bytes().decode() for authority in (former, later))
    write(counting, first)
    async with tool_server({"Lab.Wait": wait}) as lab:
        config = settings(
            {"lab": {"protocol": "otc", "url": lab.url}}, server={"port": 0, "admin": {"port": 0}, "tls": tls}
        )
        async with gateway(config, ready=False) as running:
            host, _, port = running.url.removeprefix("http://").rpartition(":")
            where = (host, int(port))
            async with (
                calling(where, known) as idle,
                calling(where, known) as begun,
                calling(where, known) as waiting,
                greeting(where, known) as greeted,
            ):
                await until(lambda: is_listed(idle), "the tools are listed")
                begun.say(b"GET /tools HTTP/1.1\r\nHost: ")
                body = b'{"request": {"tool_id": "Lab.Wait"}}'
                waiting.say(request("/otc/call", "Content-Type: application/json", method="POST", body=body))
                await taken.wait()
                write(counting, first + second)
                await change(running, config)
                assert await is_listed(idle)  # another authority is no harm to those of the first
                write(counting, second)
                await change(running, config)
                assert await idle.is_cut()
                assert await begun.is_cut()
                assert not await greeted.is_answered()
                finishing.set()
                assert b'"done"' in (await waiting.answer()).body
                assert await waiting.is_cut()
            async with calling(where, servers.trusting(later.issue("agent.example"))) as other:
                assert await is_listed(other)


async def is_listed(wire: Wire) -> bool:
    """Whether the tools are listed to a caller, who stays."""
    wire.say(request("/tools"))
    answer = await wire.answer()
    return answer.status == httpx.codes.OK and b"Lab.Wait" in answer.body


class Greeting:
    """A handshake that is in its middle: the gateway has shown its certificate, the caller not yet."""

    def __init__(self, wire: Wire, client: ssl.SSLContext) -> None:
        self._wire = wire
        self._heard, self._says = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client.wrap_bio(self._heard, self._says, server_hostname="127.0.0.1")

    async def begin(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._wire.say(self._says.read())
        self._heard.write(await self._wire.reader.read(1 << 16))

    async def is_answered(self) -> bool:
        """Goes on, asks, and hears whether anything is said to that."""
        self._tls.do_handshake()
        self._tls.write(request("/tools"))
        self._wire.say(self._says.read())
        try:
            self._heard.write(await self._wire.rest())
            self._heard.write_eof()
            return bool(self._tls.read(1))
        except (ssl.SSLError, ConnectionError):
            return False


@asynccontextmanager
async def greeting(where: tuple[str, int], client: ssl.SSLContext) -> AsyncIterator[Greeting]:
    """A caller in the middle of its handshake."""
    async with calling(where) as wire:
        begun = Greeting(wire, client)
        await begun.begin()
        yield begun
