"""Requests through a forward proxy: what it is told, and that `sent` is true of the request and not of the tunnel."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from gateway.net.client import Kind, Limits, Origin, Pool, Proxies, Proxy
from tests.support.forward_proxy import forward_proxy
from tests.unit.net.client.scripted import Peer, Server, Stats, call, echo_target, failure, serving, stats_of

pytestmark = pytest.mark.anyio


def through(proxy: str, server: Server, trusting: ssl.SSLContext | None = None, *, connect_s: float = 2.0) -> Pool:
    """Connections to a server by a name that only the proxy knows."""
    scheme = "http" if trusting is None else "https"
    origin = Origin(scheme, "localhost" if trusting else "tools.internal", 7443)
    return Pool(origin, Limits(connect_timeout_s=connect_s), trusting, proxy=Proxy.parse(proxy))


async def test_a_server_with_tls_is_reached_through_a_tunnel(
    server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with serving(echo_target, ssl_context=server_context, name="localhost") as server, forward_proxy() as proxy:
        proxy.places["localhost:7443"] = server.origin.port
        pool = through(proxy.url, server, trusting)
        for path in (b"/a", b"/b"):
            assert (await call(pool, path)).body == path
        assert proxy.asked == ["CONNECT localhost:7443"]
        assert server.requests[0].startswith(b"POST /a HTTP/1.1\r\nhost: localhost:7443\r\n")
        await pool.aclose()


async def test_a_server_without_tls_is_asked_through_the_proxy_by_whole_urls() -> None:
    async with serving(echo_target) as server, forward_proxy() as proxy:
        proxy.places["tools.internal:7443"] = server.origin.port
        proxy.login = "gate way:s3cret"
        pool = through(f"http://gate%20way:s3cret@127.0.0.1:{proxy.port}", server)
        assert (await call(pool, b"/a?b=c")).body == b"/a?b=c"
        assert proxy.asked == ["POST http://tools.internal:7443/a?b=c"]
        [request] = server.requests
        assert b"\r\nhost: tools.internal:7443\r\n" in request
        assert b"s3cret" not in request
        assert b"proxy-authorization" not in request.lower()
        await pool.aclose()


@pytest.mark.parametrize("is_tls", [True, False])
async def test_a_proxy_that_refuses_our_login_has_sent_nothing(
    is_tls: bool, server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with (
        serving(echo_target, ssl_context=server_context if is_tls else None, name="localhost") as server,
        forward_proxy() as proxy,
    ):
        proxy.login = "another:login"
        pool = through(f"http://gateway:s3cret@127.0.0.1:{proxy.port}", server, trusting if is_tls else None)
        error = await failure(call(pool, b"/a"))
        assert (error.kind, error.sent) == (Kind.CONNECT, False)
        assert str(error).endswith(f"through the proxy http://127.0.0.1:{proxy.port}, which said 407.")
        assert "s3cret" not in repr(error)
        assert server.requests == []
        await pool.aclose()


ANSWERS = {
    "no room there": (b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno", "which said 503"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "which gave a broken answer"),
    "an endless head": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20_000, "which gave a broken answer"),
    "an end": (b"HTTP/1.1 200", "which hung up"),
    "words of its own": (b"HTTP/1.1 200 OK\r\n\r\nhello", "which sent more than an answer"),
}


@pytest.mark.parametrize(("answer", "said"), ANSWERS.values(), ids=ANSWERS)
async def test_a_tunnel_that_does_not_come_about_has_sent_nothing(
    answer: bytes, said: str, server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with serving(echo_target, ssl_context=server_context, name="localhost") as server, forward_proxy() as proxy:
        proxy.answer = answer
        pool = through(proxy.url, server, trusting)
        error = await failure(call(pool, b"/a"))
        assert (error.kind, error.sent, said in str(error)) == (Kind.CONNECT, False, True)
        assert (server.requests, stats_of(pool)) == ([], Stats(0, 0, 0, 0))
        await pool.aclose()


async def test_a_silent_proxy_costs_no_more_than_the_time_for_a_connection(trusting: ssl.SSLContext) -> None:
    async def silent(peer: Peer) -> None:
        await peer.until_closed()

    async with serving(silent) as proxy:
        pool = through(f"http://127.0.0.1:{proxy.origin.port}", proxy, trusting, connect_s=0.05)
        error = await failure(call(pool, b"/a"))
        assert (error.kind, error.sent) == (Kind.TIMEOUT, False)
        assert "through the proxy" in str(error)
        await pool.aclose()


async def test_a_proxy_that_is_away_is_named(trusting: ssl.SSLContext) -> None:
    async with serving(echo_target) as gone:
        pass
    pool = through(f"http://127.0.0.1:{gone.origin.port}", gone, trusting)
    error = await failure(call(pool, b"/a"))
    assert (error.kind, error.sent) == (Kind.CONNECT, False)
    proxy = f"http://127.0.0.1:{gone.origin.port}"
    what = f"through the proxy {proxy}, which cannot be reached itself: connection refused."
    assert str(error).endswith(f" cannot be reached {what}")
    await pool.aclose()


async def test_an_answer_that_breaks_off_behind_a_tunnel_was_sent(
    server_context: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async def breaking_off(peer: Peer) -> None:
        await peer.request()
        peer.cut()

    async with serving(breaking_off, ssl_context=server_context, name="localhost") as server, forward_proxy() as proxy:
        proxy.places["localhost:7443"] = server.origin.port
        pool = through(proxy.url, server, trusting)
        error = await failure(call(pool, b"/a"))
        assert (error.kind, error.sent) == (Kind.CLOSED, True)
        await pool.aclose()


async def test_a_caller_who_leaves_while_a_tunnel_is_made_leaves_no_socket_open(trusting: ssl.SSLContext) -> None:
    """Warnings about sockets fail a test; the pool's own task finds that nobody waits."""
    asked = asyncio.Event()

    async def silent(peer: Peer) -> None:
        await peer.wait_for_input()
        asked.set()
        await peer.until_closed()

    async with serving(silent) as proxy:
        pool = through(f"http://127.0.0.1:{proxy.origin.port}", proxy, trusting)
        calling = asyncio.create_task(call(pool, b"/a"))
        await asked.wait()
        calling.cancel()
        await pool.aclose()
        assert stats_of(pool) == Stats(0, 0, 0, 0)


async def test_headers_of_a_server_take_the_place_of_others() -> None:
    async with serving(echo_target) as server:
        pool = Pool(Origin.parse(server.url), headers=((b"x-tenant", b"acme"), (b"user-agent", b"ours/1")))
        reply = await pool.request(
            b"GET",
            b"/a",
            ((b"User-Agent", b"toolgate"), (b"accept", b"*/*")),
            b"",
            more=((b"x-tenant", b"of-a-caller"), (b"x-more", b"1")),
            timeout_s=5,
            max_body=100,
        )
        assert reply.status == 200
        lines = server.requests[0].split(b"\r\n")[2:-2]
        assert lines[-4:] == [b"accept: */*", b"x-tenant: acme", b"user-agent: ours/1", b"x-more: 1"]
        await pool.aclose()


FOUND = [
    ({"HTTP_PROXY": "http://a:1"}, "http://x.example", "http://a:1"),
    ({"HTTP_PROXY": "http://a:1"}, "https://x.example", None),
    ({"HTTPS_PROXY": "http://b:2"}, "https://x.example", "http://b:2"),
    ({"HTTPS_PROXY": "b:2"}, "https://x.example", "http://b:2"),
    ({"HTTPS_PROXY": "http://b"}, "https://x.example", "http://b:80"),
    ({"https_proxy": "http://c:3", "HTTPS_PROXY": "http://b:2"}, "https://x.example", "http://c:3"),
    ({"ALL_PROXY": "http://d:4", "HTTPS_PROXY": "http://b:2"}, "http://x.example", "http://d:4"),
    ({"ALL_PROXY": "http://d:4", "NO_PROXY": "*"}, "http://x.example", None),
    ({"HTTP_PROXY": "", "ALL_PROXY": ""}, "http://x.example", None),
]


@pytest.mark.parametrize(("environment", "url", "proxy"), FOUND)
def test_variables_say_which_proxy_is_for_which_targets(
    environment: dict[str, str], url: str, proxy: str | None
) -> None:
    found = Proxies.of_environment(environment).of(Origin.parse(url))
    assert (None if found is None else str(found)) == proxy


EXEMPT = [
    ("x.example", "https://x.example", True),
    ("x.example", "https://a.x.example", True),
    (".x.example", "https://a.x.example", True),
    ("*.x.example", "https://a.x.example", True),
    ("X.Example", "https://x.example", True),
    ("x.example", "https://yx.example", False),
    ("x.example:8443", "https://x.example:8443", True),
    ("x.example:8443", "https://x.example", False),
    ("other, 10.0.0.0/8", "https://10.1.2.3", True),
    ("10.0.0.0/8", "https://11.1.2.3", False),
    ("10.0.0.0/8", "https://10.example", False),
    ("127.0.0.1", "https://127.0.0.1:99", True),
    ("127.0.0.1:98", "https://127.0.0.1:99", False),
    ("fd00::/8", "https://[fd00::1]", True),
    ("[fd00::1]:8443", "https://[fd00::1]:8443", True),
    ("fd00::1", "https://[fd00::1]", True),
    ("  , ,", "https://x.example", False),
]


@pytest.mark.parametrize(("no_proxy", "url", "is_exempt"), EXEMPT)
def test_no_proxy_names_hosts_and_all_below_them_addresses_and_networks(
    no_proxy: str, url: str, is_exempt: bool
) -> None:
    proxies = Proxies.of_environment({"HTTPS_PROXY": "http://a:1", "NO_PROXY": no_proxy})
    assert (proxies.of(Origin.parse(url)) is None) is is_exempt


@pytest.mark.parametrize(
    "url", ["socks5://a:1", "https://a:1", "http://", "http://a:0", "http://a:99999", "http://a/b"]
)
def test_a_proxy_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Proxy.parse(url)


def test_a_proxy_is_shown_without_its_login() -> None:
    proxy = Proxy.parse("http://us%40er:pa%3Ass@[::1]:3128")
    assert (proxy.user, proxy.password) == ("us@er", "pa:ss")
    assert str(proxy) == "http://[::1]:3128"
    assert "pa:ss" not in repr(proxy)
    assert proxy.url == "http://us%40er:pa%3Ass@[::1]:3128"
