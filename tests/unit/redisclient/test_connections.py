"""What the gateway uses of redis-py beyond its documentation, and its errors in words for operators."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import Any

import pytest
from redis.exceptions import BusyLoadingError, InvalidResponse, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.redisclient.address import RedisAddress
from gateway.redisclient.causes import cause
from gateway.redisclient.connections import check_library, connect
from tests.streams import accepting


class Changed:
    """A class of the library that has lost a parameter."""

    def disconnect(self) -> None: ...


@pytest.mark.parametrize(("method", "parameters"), [("can_read", ()), ("disconnect", ("nowait",))])
def test_a_library_that_lacks_a_method_or_a_parameter_is_refused_and_the_error_names_it(
    method: str, parameters: tuple[str, ...]
) -> None:
    with pytest.raises(ImportError, match=rf"^redis [0-9.]+ cannot be used, Changed\.{method}\(.*\) is missing"):
        check_library([(Changed, method, parameters)])


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says yes to everything."""
    while data := await reader.read(4096):
        for command in data.split(b"*")[1:]:
            writer.write(b"+PONG\r\n" if b"PING" in command else b"+OK\r\n")


@pytest.mark.anyio
async def test_what_is_written_to_a_connection_that_was_just_closed_fails_as_a_closed_connection() -> None:
    """Not specified: uvloop raises an error of its own, which is none of redis-py and none of the system."""
    async with accepting(_answer) as port:
        client = connect(RedisAddress.parse(f"redis://127.0.0.1:{port}"))
        connection: Any = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        connection.socket_timeout = None
        connection._writer.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(RedisConnectionError, match="closed"):
            await connection.send_packed_command([b"*1\r\n$4\r\nPING\r\n"], check_health=False)
        await client.aclose()


@pytest.mark.anyio
async def test_what_is_written_while_the_connection_is_given_up_fails_as_a_closed_connection() -> None:
    """Not specified: redis-py writes in a task of its own if there is a limit of time, and finds no writer."""
    async with accepting(_answer) as port:
        client = connect(RedisAddress.parse(f"redis://127.0.0.1:{port}"))
        connection: Any = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        connection.socket_timeout = None
        connection._writer, writer = None, connection._writer

        async def keep_disconnected(*_: Any, **__: Any) -> None: ...

        connection.connect_check_health = keep_disconnected
        with pytest.raises(RedisConnectionError, match="closed"):
            await connection.send_packed_command([b"*1\r\n$4\r\nPING\r\n"], check_health=False)
        connection._writer = writer
        await client.aclose()


REFUSED = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), Connection refused"  # two addresses
CAUSES: list[tuple[str, Exception, Exception | None, str]] = [
    ("redis://h", RedisConnectionError("Error"), ConnectionRefusedError(), "nothing listens there;"),
    ("redis://h", RedisConnectionError("Error"), OSError(REFUSED), "nothing listens there;"),
    ("redis://h", RedisConnectionError("Error"), socket.gaierror(-2, "Name"), "its host is not known;"),
    (
        "redis://h",
        RedisTimeoutError("Timeout"),
        None,
        "it does not answer in time; see whether a firewall lies between",
    ),
    ("rediss://h", TimeoutError(), None, "it does not answer in time; .*, and whether it speaks TLS"),
    ("rediss://h", RedisConnectionError("Error"), ssl.SSLError(1, "x"), "the TLS handshake failed .*; if it speaks no"),
    ("rediss://h", RedisConnectionError("Error"), ConnectionResetError(), "it closes .* client certificate"),
    (
        "redis://h",
        RedisConnectionError("Connection closed by server."),
        None,
        "it closes .* begin state.url with rediss",
    ),
    ("redis://h", InvalidResponse("H"), None, "what answers there is not Redis;"),
    ("redis://h", BusyLoadingError("x"), None, "it is still loading its data;"),
    ("redis://h", RedisError(), None, "RedisError$"),
]


@pytest.mark.parametrize(("place", "raised", "below", "said"), CAUSES, ids=[said for *_, said in CAUSES])
def test_a_failed_connection_is_told_by_its_cause_and_by_what_to_do(
    place: str, raised: Exception, below: Exception | None, said: str
) -> None:
    raised.__context__ = below
    assert re.match(said, cause(raised, place))
