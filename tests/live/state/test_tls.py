"""Redis behind TLS: which authorities are trusted, client certificates, and what is never shown."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trustme
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.core.errors import StateUnavailable
from gateway.redisclient.address import RedisAddress
from gateway.redisclient.connections import Tls, connect
from gateway.redisclient.server_store import ScriptClient
from gateway.redisclient.store import ScriptOptions
from tests.live.state.replica import replica_at
from tests.live.state.tlsfront import tls_front
from tests.support.redis_server import RedisServer
from tests.support.stored_calls import ACCEPTED, DEADLINE_S, began, state_of

pytestmark = pytest.mark.anyio

PASSWORD = "hunter2-but-longer"


class Site:
    """A server behind TLS, and the files of its clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        self.ca = str(directory / "ca.pem")
        self.cert, self.key = str(directory / "cert.pem"), str(directory / "key.pem")
        self.authority.cert_pem.write_to_path(self.ca)
        ours = self.authority.issue_cert("toolgate.example.com")
        ours.cert_chain_pems[0].write_to_path(self.cert)
        ours.private_key_pem.write_to_path(self.key)
        self.port = self.strict_port = 0

    def context(self, name: str, *, asks: bool = False) -> ssl.SSLContext:
        """What a server called `name` presents; with `asks` it wants a certificate in return."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        self.authority.issue_cert(name).configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def address(
        self, host: str = "127.0.0.1", *, strict: bool = False, user: str = "", password: str = ""
    ) -> RedisAddress:
        port = self.strict_port if strict else self.port
        return RedisAddress.parse(f"rediss://{user}:{password}@{host}:{port}/0")


@pytest.fixture
async def site(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    async with AsyncExitStack() as fronts:
        site.port = await fronts.enter_async_context(tls_front(site.context("127.0.0.1"), redis_server.port))
        asking = site.context("127.0.0.1", asks=True)
        site.strict_port = await fronts.enter_async_context(tls_front(asking, redis_server.port))
        yield site


async def answers(address: RedisAddress, tls: Tls) -> bool:
    """Asks again where a busy machine takes longer for a handshake than a client waits."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(RedisTimeoutError):
                async with connect(address, tls=tls) as redis:
                    return bool(await redis.ping())


async def test_a_state_works_behind_tls_as_without(site: Site) -> None:
    redis = connect(site.address(), tls=Tls(ca=site.ca))
    state = replica_at(redis)
    await state.start()
    try:
        key = (await began(state, to=ACCEPTED)).key
        assert await state.settle(key, b"outcome")
        assert await state_of(state, key) is not None
    finally:
        await state.aclose()


async def test_the_log_says_what_is_wrong_with_a_connection_and_what_to_do(
    site: Site,
) -> None:
    """Never with a password."""
    ours = Tls(ca=site.ca, cert=site.cert, key=site.key)
    for where, tls, said in (
        (site.address(), Tls(), "its certificate is not trusted (.*); name in state.tls.ca who has signed it"),
        (site.address("localhost"), ours, "its certificate has another name (.*); state.url must name it .*"),
        (RedisAddress.parse(f"redis://127.0.0.1:{site.port}"), Tls(), "it closes the connection; if it speaks TLS, .*"),
        (site.address(user="nobody", password=PASSWORD), ours, "it refuses the login (.*); correct the user .*"),
    ):
        why = await failure(where, tls)
        assert re.fullmatch(f"{re.escape(repr(where))}: {said}", why)
        assert PASSWORD not in why


async def failure(where: RedisAddress, tls: Tls) -> str:
    """Why a script cannot be run there; asks again where a busy machine takes longer than a client waits."""
    async with connect(where, tls=tls) as redis, asyncio.timeout(DEADLINE_S):
        scripts = ScriptClient(redis, b"", ScriptOptions(max_batch=1), lambda reason: None)
        while True:
            with pytest.raises(StateUnavailable) as caught:
                await scripts.ask("anything", probing=True)
            if "in time" not in (why := str(caught.value)):
                return why


async def test_the_authorities_of_the_system_are_trusted_unless_the_file_names_one(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", site.ca)  # OpenSSL's way to name the system's list
    assert await answers(site.address(), Tls())
    another = tmp_path / "another.pem"
    trustme.CA().cert_pem.write_to_path(another)
    with pytest.raises(RedisConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        await answers(site.address(), Tls(ca=str(another)))


async def test_a_server_that_wants_a_certificate_gets_ours(site: Site) -> None:
    assert await answers(site.address(strict=True), Tls(ca=site.ca, cert=site.cert, key=site.key))
    with pytest.raises(RedisConnectionError):
        await answers(site.address(strict=True), Tls(ca=site.ca))


async def test_a_wrong_password_is_reported_but_not_shown(
    redis_server: RedisServer, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server.connect() as redis:
        redis.config_set("requirepass", "another one")
    where = site.address(password=PASSWORD)
    async with connect(where, tls=Tls(ca=site.ca)) as client:
        with pytest.raises(AuthenticationError) as caught:
            await client.ping()
        assert PASSWORD not in f"{caught.value!r} {client!r} {where!r} {caplog.text}"
