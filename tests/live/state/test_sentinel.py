"""Redis behind Sentinel: the primary is found, and found again when it is another one."""

from __future__ import annotations

import asyncio
import signal
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.causes import cause
from gateway.redisclient.connections import BATCH_TIMEOUT_S, Tls, connect
from gateway.state.port import Exists
from tests.live.state.replica import replica_at
from tests.live.state.sentinels import FAILOVER_S, PASSWORD, SENTINEL_PASSWORD, SERVICE, Watched
from tests.live.state.tlsfront import tls_front
from tests.support.stored_calls import ACCEPTED, DEADLINE_S, began, begins, call, joined, outcome_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Watched]:
    """Five processes of the test's own, to be killed."""
    watched = Watched(tmp_path / "watched")
    yield watched
    watched.kill()


@pytest.fixture(scope="module")
def all_watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    watched = Watched(tmp_path_factory.mktemp("all") / "watched")
    yield watched
    watched.kill()


@pytest.fixture
def watched(all_watched: Watched) -> Iterator[Watched]:
    """Five processes that many tests share; frozen ones go on afterwards."""
    yield all_watched
    for sentinel in all_watched.sentinels:
        sentinel.process.send_signal(signal.SIGCONT)


def address(watched: Watched, service: str = SERVICE) -> RedisAddress:
    hosts = ",".join(["127.0.0.1:1", *(f"127.0.0.1:{node.port}" for node in watched.sentinels)])  # one is down
    return RedisAddress.parse(f"redis+sentinel://:{quote(PASSWORD, safe='')}@{hosts}/{service}/0")


async def test_calls_outlive_the_primary(doomed: Watched, caplog: pytest.LogCaptureFixture) -> None:
    redis = connect(address(doomed), sentinel_password=SENTINEL_PASSWORD)
    state = replica_at(redis)
    await state.start()
    try:
        pending, finished = call(), call()
        await began(state, pending, ACCEPTED)
        await began(state, finished)
        await state.settle(finished.key, b"from the first")
        waiting = asyncio.create_task(state.wait(pending.key, DEADLINE_S + FAILOVER_S))
        assert await redis.wait(1, 1000) == 1  # the replica has it all
        doomed.lose_the_primary()

        await until(lambda: not state.is_up, "the state has noticed")
        with doomed.telling():
            await until(lambda: state.is_up, "there is another primary", FAILOVER_S)
        again = await joined(state, finished)
        assert again.outcome == b"from the first"
        assert isinstance(await state.begin(pending), Exists)
        assert await begins(state)
        assert await state.settle(pending.key, b"from the second")
        assert outcome_of(await waiting) == b"from the second"
    finally:
        await state.aclose()
    assert PASSWORD not in caplog.text
    assert SENTINEL_PASSWORD not in caplog.text


async def test_a_primary_that_cannot_be_found_is_reported_in_time_and_without_passwords(watched: Watched) -> None:
    for where, password, why in (
        (address(watched, "another"), SENTINEL_PASSWORD, "no sentinel that answers knows"),
        (address(watched), "a wrong password", "the sentinels refuse the login; correct state.sentinel_password"),
    ):
        async with connect(where, sentinel_password=password) as redis:
            with pytest.raises(RedisConnectionError) as caught:
                await redis.ping()
            assert why in cause(caught.value, repr(where))
            assert PASSWORD not in f"{caught.value!r} {redis!r}"
            assert password not in f"{caught.value!r} {redis!r}"


async def test_sentinels_behind_tls_are_asked_behind_tls(watched: Watched, tmp_path: Path) -> None:
    """As far as a server without TLS allows: it is found, and then spoken to in TLS, which it does not understand."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with tls_front(context, watched.sentinels[2].port) as port:
        where = RedisAddress.parse(f"rediss+sentinel://127.0.0.1:{port}/{SERVICE}")
        tls = Tls(ca=str(tmp_path / "ca.pem"))
        async with connect(where, tls=tls, sentinel_password=SENTINEL_PASSWORD) as redis:
            with pytest.raises(RedisTimeoutError, match="connecting to server"):
                await redis.ping()
        async with connect(where, sentinel_password=SENTINEL_PASSWORD) as redis:
            with pytest.raises(RedisConnectionError, match="no sentinel answers"):
                await redis.ping()


async def test_silent_sentinels_cost_next_to_nothing(watched: Watched) -> None:
    for sentinel in watched.sentinels[:2]:
        sentinel.process.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    async with connect(address(watched), sentinel_password=SENTINEL_PASSWORD) as redis:
        assert await redis.ping()
    assert time.monotonic() - start < 5 * BATCH_TIMEOUT_S  # they say nothing for as long as they are asked
