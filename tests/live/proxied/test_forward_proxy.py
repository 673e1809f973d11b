"""A gateway that reaches the world through a forward proxy only: tool servers of every protocol, issuers, tokens.

The names of all of them are known to the proxy alone, and those with https show certificates for them.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from gateway.demo import mcp_server, openapi_server, otc_server, oxp_server, rap_server, rcrt_server
from gateway.demo.service import Site as DemoSite
from gateway.net.server import ServingContext
from tests.flow.caller import Caller
from tests.flow.gateways import Running, config, running, until
from tests.live.calls.site import AGENT_ID, OWNER_ID
from tests.live.server.harness import OPTIONS, serving_with
from tests.streams import Request, accepting, http_reply, read_request
from tests.support.authority import Authority
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.keys import jwk, private
from tests.support.ports import lasting_port
from tests.support.terminal import tool_server, toolgate

pytestmark = pytest.mark.anyio

DEMO = Namespace(callback_origin=[])
CRUMBS = {"owner_id": OWNER_ID, "agent_id": AGENT_ID, "toolkit": "Crumbs"}
LOGIN = "gateway:of-the-proxy"
ISSUER = "https://login.internal"


@dataclass(frozen=True)
class Site:
    gateway: Running
    proxy: ForwardProxy
    tokens: list[Request]  # requests to the token endpoint

    @property
    def caller(self) -> Caller:
        claims = {"iss": ISSUER, "sub": "ada", "aud": "toolgate", "exp": int(time.time()) + 300}
        return self.gateway.caller.with_token(jwt.encode(claims, private("rsa"), "RS256", headers={"kid": "one"}))


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    ours = Authority(tmp_path_factory.mktemp("proxied"))
    tokens: list[Request] = []
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(forward_proxy())
        proxy.login = LOGIN

        async def server(name: str, build: Any, scheme: str = "https") -> dict[str, Any]:
            port, host = lasting_port(), f"{name}.internal"
            tls = ServingContext(ours.serving(host)) if scheme == "https" else None
            app = build(DemoSite(f"{scheme}://{host}"), DEMO)
            await stack.enter_async_context(serving_with(app, replace(OPTIONS, port=port, tls=tls)))
            proxy.places[f"{host}:{443 if scheme == 'https' else 80}"] = port
            patient = {"connect_timeout": "20s", "discovery": {"refresh": "1s"}}  # on a busy machine
            return patient | {"url": f"{scheme}://{host}"} | ({"tls": {"ca": ours.path}} if tls else {})

        async def issue(reader: Any, writer: Any) -> None:
            while True:
                request = await read_request(reader)
                if request.method == "GET":
                    writer.write(http_reply(200, {"keys": [jwk("rsa", kid="one")]}))
                else:
                    tokens.append(request)
                    writer.write(http_reply(200, {"access_token": "issued", "token_type": "Bearer"}))

        login = await stack.enter_async_context(accepting(issue, ssl=ours_context(ours)))
        proxy.places["login.internal:443"] = login
        plain = await stack.enter_async_context(accepting(issue))
        proxy.places["tokens.internal:80"] = plain
        oauth = {
            "token_url": "http://tokens.internal/token",
            "allow_http": True,
            "client_id": "toolgate",
            "client_secret": "a-secret",
            "audience": "https://office.internal",
            "parameters": {"tenant": "acme", "level": 2},
        }
        studio = await server("studio", mcp_server.build)
        backends: dict[str, Any] = {
            "office": {"protocol": "otc", "auth": {"oauth": oauth}} | await server("office", otc_server.build),
            "postbox": {"protocol": "oxp"} | await server("postbox", oxp_server.build, "http"),
            "studio": {"protocol": "mcp", "toolkit": "Studio"} | studio | {"url": studio["url"] + "/mcp"},
            "weather": {
                "protocol": "openapi",
                "toolkit": "Weather",
                "document": "https://weather.internal/openapi.json",
            }
            | await server("weather", openapi_server.build)
            | {"url": "https://weather.internal/v1"},
            "builds": {"protocol": "callback"} | await server("builds", rap_server.build),
            "crumbs": {"protocol": "rcrt"} | CRUMBS | await server("crumbs", rcrt_server.build),
        }
        port = lasting_port()
        entry = {"issuer": ISSUER, "jwks_url": f"{ISSUER}/jwks", "tls": {"ca": ours.path}}
        text = config(
            backends,
            server={"callback_url": f"http://127.0.0.1:{port}"},
            auth={"jwt": [entry | {"algorithms": ["RS256"], "audience": ["toolgate"]}]},
            proxy=f"http://{LOGIN}@127.0.0.1:{proxy.port}",
        )
        gateway = await stack.enter_async_context(running(text))
        await stack.enter_async_context(serving_with(gateway.gateway.public, replace(OPTIONS, port=port)))
        await until(lambda: all(backend["up"] for backend in gateway.gateway.health.details()["backends"].values()))
        yield Site(gateway, proxy, tokens)


def ours_context(ours: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*ours.issue("login.internal"))
    return context


CALLS = [
    ("office", "Calculator.Add", {"a": 2, "b": 40}),
    ("postbox", "Sms.Send", {"to": "+4712345678", "text": "hello"}),
    ("studio", "Studio.palette", {"colour": "3366cc"}),
    ("weather", "Weather.readStation", {"station": "bergen"}),
    ("builds", "Builds.lint", {"source": "print(1) "}),
    ("crumbs", "Crumbs.random", {"min": 1, "max": 6}),
]


@pytest.mark.parametrize(("backend", "tool", "arguments"), CALLS)
async def test_a_tool_server_is_called_through_the_proxy(site: Site, backend: str, tool: str, arguments: Any) -> None:
    secrets = [{"id": "SMS_API_KEY", "value": "any"}]
    answer = await site.caller.call("oxp", tool, arguments, context={"secrets": secrets})
    assert answer.value is not None, answer
    details: dict[str, Any] = site.gateway.gateway.health.details()
    assert details["backends"][backend]["up"] is True
    if backend == "postbox":
        assert "POST http://postbox.internal/tools/call" in site.proxy.asked
    else:
        assert f"CONNECT {backend}.internal:443" in site.proxy.asked


async def test_keys_and_tokens_are_fetched_through_the_proxy(site: Site) -> None:
    await site.caller.call("oxp", "Calculator.Add", {"a": 2, "b": 40})
    assert "CONNECT login.internal:443" in site.proxy.asked
    assert "POST http://tokens.internal/token" in site.proxy.asked
    body = site.tokens[0].body.decode()
    assert body == ("grant_type=client_credentials&audience=https%3A%2F%2Foffice.internal&tenant=acme&level=2")


@pytest.mark.parametrize(("no_proxy", "is_up"), [("", True), ("other.example, .internal", False)])
async def test_the_variables_of_the_environment_count_where_the_file_says_so(
    no_proxy: str, is_up: bool, tmp_path: Path
) -> None:
    text = """
auth: none
proxy: {proxy}
backends: {{office: {{protocol: otc, url: "http://office.internal"}}}}
routes: [{{tools: "*", backend: office}}]
"""
    with tool_server() as url:
        async with forward_proxy() as proxy:
            proxy.places["office.internal:80"] = int(url.rpartition(":")[2])
            variables = {"HTTP_PROXY": proxy.url, "NO_PROXY": no_proxy}
            for choice, code in (("environment", 0 if is_up else 1), ("none", 1)):
                file = tmp_path / f"{choice}.yaml"
                file.write_text(text.format(proxy=choice))
                done = await asyncio.to_thread(toolgate, "check", str(file), "--live", env=variables)
                assert done.returncode == code, done.stdout
            assert ("GET http://office.internal/tools" in proxy.asked) is is_up
