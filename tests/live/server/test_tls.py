"""TLS towards callers: what is spoken, whose certificates count, what may be replaced, and that waiting has an end."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.net.server import Addresses, ServerError, ServingContext, TlsFiles
from gateway.net.server.acceptor import LEAST
from gateway.net.server.request_reader import ReadState
from gateway.net.server.tls import Handshake
from tests.live.server.harness import (
    DEADLINE_S,
    LONG_S,
    OPTIONS,
    Application,
    calling,
    check_after,
    connections,
    request,
    serving_with,
)
from tests.support.authority import Authority
from tests.support.processes import until

pytestmark = pytest.mark.anyio

SHORT_S = 0.2
Address = tuple[str, int]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "strangers")


def serving_tls(
    context: ssl.SSLContext,
    application: Application | None = None,
    handshake_failed: Callable[[str], None] = lambda reason: None,
    **changes: Any,
) -> AbstractAsyncContextManager[Addresses]:
    options = replace(OPTIONS, tls=context, **changes)
    return serving_with(application or Application(), options, handshake_failed=handshake_failed)


def presenting(files: TlsFiles) -> ServingContext:
    return ServingContext(files)


async def is_answered(address: Address, client: ssl.SSLContext) -> bool:
    """Whether a caller gets through. In TLS 1.3 it is told of its bad certificate only when it reads."""
    try:
        async with calling(address, client) as wire:
            wire.say(request())
            return (await wire.answer()).status == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


async def serial_of(address: Address, client: ssl.SSLContext) -> str:
    """The certificate that new connections see."""
    async with calling(address, client) as wire:
        return str(wire.writer.get_extra_info("peercert")["serialNumber"])


async def test_callers_are_served_over_https_and_http_1_1(authority: Authority) -> None:
    client = authority.trusting()
    client.set_alpn_protocols(["h2", "http/1.1"])
    async with serving_tls(presenting(authority.serving())) as addresses, calling(addresses.public, client) as wire:
        spoken: ssl.SSLObject = wire.writer.get_extra_info("ssl_object")
        assert (spoken.version(), spoken.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1")
        for _ in range(2):
            wire.say(request("/", method="POST", body=b"b" * 100_000))
            answer = await wire.answer()
            assert answer.status == 200
            assert b'"scheme": "https"' in answer.body


@pytest.mark.parametrize(
    ("version", "ciphers", "is_spoken"),
    [
        (ssl.TLSVersion.TLSv1_2, "ECDHE+AESGCM", True),
        (ssl.TLSVersion.TLSv1_2, "ECDHE+CHACHA20", True),
        (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256", False),  # no forward secrecy
        (ssl.TLSVersion.TLSv1_2, "ECDHE+AES:!AESGCM:!AESCCM", False),  # CBC
        (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0", False),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_only_strong_ciphers_of_tls_1_2_and_newer_are_spoken(
    authority: Authority, version: ssl.TLSVersion, ciphers: str, is_spoken: bool
) -> None:
    client = authority.trusting()
    client.set_ciphers(ciphers)
    client.minimum_version = client.maximum_version = version
    async with serving_tls(presenting(authority.serving())) as addresses:
        assert await is_answered(addresses.public, client) is is_spoken


async def test_only_callers_with_a_good_certificate_get_in_where_one_is_required(
    authority: Authority, strangers: Authority
) -> None:
    application = Application()
    context = presenting(authority.serving(client_ca=authority.path))
    async with serving_tls(context, application) as addresses:
        for shown in (None, strangers.issue("caller.example"), authority.issue("caller.example", expired=True)):
            assert not await is_answered(addresses.public, authority.trusting(shown))
        assert application.seen == []
        assert await is_answered(addresses.public, authority.trusting(authority.issue("caller.example")))


async def test_a_certificate_that_is_not_required_must_still_be_good(
    authority: Authority, strangers: Authority
) -> None:
    context = presenting(authority.serving(client_ca=authority.path, requires_client=False))
    async with serving_tls(context) as addresses:
        assert await is_answered(addresses.public, authority.trusting())
        assert await is_answered(addresses.public, authority.trusting(authority.issue("caller.example")))
        assert not await is_answered(addresses.public, authority.trusting(strangers.issue("caller.example")))


async def test_a_renewed_certificate_is_for_new_connections_and_old_ones_go_on(authority: Authority) -> None:
    context, client = presenting(authority.serving()), authority.trusting()
    async with serving_tls(context) as addresses, calling(addresses.public, client) as wire:
        before = await serial_of(addresses.public, client)
        context.take(presenting(authority.serving()))
        assert await serial_of(addresses.public, client) != before
        wire.say(request())
        assert (await wire.answer()).status == 200


async def test_files_that_cannot_be_used_change_nothing(authority: Authority, tmp_path: Path) -> None:
    good = authority.serving()
    context, client = presenting(good), authority.trusting()
    async with serving_tls(context) as addresses:
        before = await serial_of(addresses.public, client)
        for bad in (str(tmp_path / "missing.pem"), good.key):
            with pytest.raises(ServerError, match=r"server\.tls"):
                context.take(presenting(replace(good, cert=bad)))
        assert await serial_of(addresses.public, client) == before


async def test_a_caller_whose_authority_is_gone_does_not_come_back_on_its_old_session(
    authority: Authority, strangers: Authority
) -> None:
    files = authority.serving(client_ca=strangers.path)
    context, client = presenting(files), authority.trusting(strangers.issue("caller.example"))
    async with serving_tls(context) as addresses:
        assert await is_answered(addresses.public, client)
        session = await asyncio.to_thread(_resume, addresses.public, client, None)
        assert session is not None
        assert await asyncio.to_thread(_resume, addresses.public, client, session) is not None
        context.take(presenting(replace(files, client_ca=authority.path)))
        assert await asyncio.to_thread(_resume, addresses.public, client, session) is None


def test_a_certificate_that_stands_for_itself_alone_does_not_count_once_it_is_gone(authority: Authority) -> None:
    """One without an authority gets in, too, where it is trusted itself."""
    one, other = authority.alone("one.example"), authority.alone("other.example")
    files = authority.serving(client_ca=one[0])
    context = presenting(files)
    shown = _handshaken(context, authority.trusting(one))
    assert context.admits(shown)
    context.take(presenting(replace(files, client_ca=other[0])))
    assert not context.admits(shown)
    assert context.admits(_handshaken(context, authority.trusting(other)))


def _handshaken(context: ServingContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's side of a handshake without a wire."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(up, down, server_side=True)
    for side in (client.wrap_bio(down, up, server_hostname="127.0.0.1"), ours) * 2:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert ours.version()
    return ours


def _resume(address: Address, client: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """Calls with a session of before; returns the one to go on with, None when there is no answer."""
    with socket.create_connection(address, DEADLINE_S) as plain:
        try:
            with client.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secured:
                secured.sendall(request())
                return secured.session if secured.recv(1) else None
        except (ssl.SSLError, ConnectionError):
            return None


async def test_plain_http_on_the_port_is_closed_and_others_are_served(authority: Authority) -> None:
    async with serving_tls(presenting(authority.serving())) as addresses:
        async with calling(addresses.public) as wire:
            wire.say(request())
            await wire.rest()
        assert await is_answered(addresses.public, authority.trusting())


@pytest.mark.parametrize(
    ("said", "told"),
    [(b"", []), (b"\x16\x03\x01\x02\x00\x01", ["UNFINISHED"])],
    ids=["silence", "half a greeting"],
)
async def test_a_handshake_that_hangs_is_cut_off_and_told_of_once_it_was_begun(
    authority: Authority, said: bytes, told: list[str]
) -> None:
    context, heard = presenting(authority.serving()), list[str]()
    async with serving_tls(context, handshake_failed=heard.append, head_timeout_s=SHORT_S) as addresses:
        async with calling(addresses.public) as wire:
            wire.say(said)
            assert await wire.is_cut()
        async with asyncio.timeout(DEADLINE_S):
            while heard != told:  # noqa: ASYNC110 - letting go says nothing
                await asyncio.sleep(0.01)


async def test_handshakes_that_hang_give_way_to_those_that_do_not(authority: Authority) -> None:
    context, client = presenting(authority.serving()), authority.trusting()
    async with serving_tls(context, max_connections=20) as addresses, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(calling(addresses.public)) for _ in range(LEAST + 20)]
        for wire in wires[:20]:
            assert await wire.is_cut()
        assert await is_answered(addresses.public, client)
        assert not any(wire.reader.at_eof() for wire in wires[21:])


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_connection_whose_handshake_fails_leaves_nothing_for_the_collector(
    authority: Authority, said: bytes
) -> None:
    context, counts = presenting(authority.serving()), list[int]()
    async with serving_tls(context) as addresses:
        gc.collect()
        gc.disable()
        try:
            for _ in range(2):
                for _ in range(10):
                    async with calling(addresses.public) as wire:
                        wire.say(said)
                await until(lambda: handshakes() == 0, "all are given up")
                counts.append(len(connections()))
        finally:
            gc.enable()
    assert counts == [0, 0]


def handshakes() -> int:
    """The server's sides of connections over TLS, in this process."""
    return sum(type(thing) is Handshake for thing in gc.get_objects())


async def test_a_refusal_reaches_a_caller_who_is_still_sending(authority: Authority) -> None:
    async with (
        serving_tls(presenting(authority.serving())) as addresses,
        calling(addresses.public, authority.trusting()) as wire,
    ):
        wire.say(request("/early", "Content-Length: 10000000", method="POST") + bytes(200_000))
        assert (await wire.answer()).status == 401


async def test_a_slow_head_is_refused_over_tls_too_and_not_taken_for_a_failed_handshake(authority: Authority) -> None:
    context, heard = presenting(authority.serving()), list[str]()
    async with (
        serving_tls(context, handshake_failed=heard.append) as addresses,
        calling(addresses.public, authority.trusting()) as wire,
    ):
        wire.say(b"GET / HTTP/1.1\r\nHost: a\r\n")
        await until(lambda: any(each.state is ReadState.HEAD for each in connections()), "its head has begun")
        check_after(LONG_S)
        check_after(2 * LONG_S)
        assert (await wire.answer()).status == 408
        assert await wire.rest() == b""
    assert heard == []


async def test_the_operators_listener_stays_plain(authority: Authority) -> None:
    async with serving_tls(presenting(authority.serving())) as addresses, calling(addresses.admin) as wire:
        wire.say(request())
        assert (await wire.answer()).body == b'"admin"'
