"""Headers as long as a head may be, made of what has readers look twice: none of them keeps everybody waiting."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from starlette.types import ASGIApp

from gateway.calls.preference import read_preference
from gateway.http.clientip import ClientIps
from tests.flow.gateways import config, running
from tests.flow.test_any_request import ask

SIZE = 32 * 1024  # of a head, unless configured
QUICK_S = 2.0  # of a processor; a millisecond does, and many seconds for what grows with the square
UNITS = [
    *(b'"', b'"\\', b'\\"', b'"a', b",", b";", b"; ", b" ", b"\t", b"=", b"a", b"9", b".", b"-", b"/"),
    *(b"q=", b", for=", b";for="),
]
STARTS = [b"", b'"', b"for=", b"wait=", b"for=a", b"Bearer ", b"application/json;", b"00-"]
LONG = [
    (start + unit * (SIZE // len(unit)))[:SIZE] + end
    for start in STARTS
    for unit in UNITS
    for end in (b"", b'"x', b"x")
]
HEADERS = [
    *("accept-encoding", "authorization", "content-encoding", "content-type", "forwarded", "host", "if-none-match"),
    *("origin", "oxp-version", "prefer", "traceparent", "tracestate", "user-agent", "x-forwarded-for", "x-request-id"),
]


def test_a_long_preference_is_soon_read() -> None:
    for header in LONG[::2]:
        started = time.process_time()
        read_preference(header)
        assert time.process_time() - started < QUICK_S, header[:20]


@pytest.mark.parametrize("name", [b"forwarded", b"x-forwarded-for"])
def test_a_long_way_is_soon_gone(name: bytes) -> None:
    ips = ClientIps([ip_network("10.0.0.0/8")])
    for header in LONG[::2]:
        started = time.process_time()
        assert ips({"type": "http", "client": ("10.0.0.1", 1), "headers": [(name, header)]})
        assert time.process_time() - started < QUICK_S, header[:20]


@pytest.fixture(scope="module")
async def app(anyio_backend: object) -> AsyncIterator[ASGIApp]:
    """A gateway that looks at the headers of everybody."""
    auth = {"jwt": [{"secret": "a secret of more than thirty-two bytes"}]}
    server = {"trusted_proxies": ["127.0.0.0/8"], "cors": {"origins": ["https://page.example"]}}
    patient = {"name": "patient", "key": "ip", "rate": "10000/s", "operations": ["failed_verification"]}
    text = config({"lab": "http://127.0.0.1:9"}, auth=auth, server=server, rate_limits=[patient])
    async with running(text) as gateway:
        yield gateway.gateway.public


@pytest.mark.anyio
@pytest.mark.parametrize("name", HEADERS)
async def test_a_request_with_a_long_header_is_soon_answered(app: ASGIApp, name: str) -> None:
    for header in LONG[::5]:
        for method, path in (("POST", "/tools/call"), ("GET", "/health")):
            started = time.process_time()
            await ask(app, method, path, [(name.encode(), header)], b"{}")
            assert time.process_time() - started < QUICK_S, header[:20]
