"""Listeners at several addresses: `::` is every address over both families, and a list is each of its hosts."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gateway.net.server import ListenError
from gateway.net.server.binding import bind_hosts
from tests import plainhttp
from tests.support.processes import gateway, settings, until

pytestmark = pytest.mark.anyio

BOTH = ("127.0.0.1", "[::1]")


@pytest.mark.parametrize(
    ("host", "admin", "workers"),
    [("::", ["127.0.0.1", "::1"], 1), (["127.0.0.1", "::1"], "::", 2)],
    ids=["everywhere", "list"],
)
async def test_callers_and_operators_come_over_both_families(
    host: Any, admin: Any, workers: int, redis_url: str
) -> None:
    server = {"host": host, "port": 0, "admin": {"host": admin, "port": 0}, "workers": workers}
    state = {"url": redis_url, "keys": ["a key of the tests with 32 characters"]}
    async with (
        gateway(settings({}, server=server, state=state)) as running,
        plainhttp.async_client() as http,
    ):
        port, operators = (url.rpartition(":")[2] for url in (running.url, running.admin_url))
        (line,) = running.logged("listening")
        several = [f"{name}:{port}" for name in BOTH], f"[::]:{operators}"
        one = f"[::]:{port}", [f"{name}:{operators}" for name in BOTH]
        assert (line["public"], line["admin"]) == (one if host == "::" else several)
        for name in BOTH:
            assert (await http.get(f"http://{name}:{port}/tools")).status_code == 200
            assert (await http.get(f"http://{name}:{operators}/livez")).status_code == 200

        def clients() -> set[str]:
            return {line["client"] for line in running.logged("request") if line["route"] == "/tools"}

        # IPv4 as itself, not inside of IPv6.
        await until(lambda: clients() == {"127.0.0.1", "::1"}, "both callers are in the log")


def test_all_sockets_of_a_list_have_one_port() -> None:
    sockets = bind_hosts(["127.0.0.1", "127.0.0.2", "::1", "localhost"], 0)
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1", "127.0.0.2", "::1"]
    finally:
        for sock in sockets:
            sock.close()


def test_a_host_of_a_list_that_cannot_be_bound_is_named_and_nothing_stays_bound() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.2:{port}: the port is in use"):
            bind_hosts(["127.0.0.1", "127.0.0.2"], port)
        for sock in bind_hosts("127.0.0.1", port):
            sock.close()
