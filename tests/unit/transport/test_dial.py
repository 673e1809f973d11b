"""Dialling: a name may have many addresses, and any of them may be dead."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from gateway.transport import Origin
from gateway.transport.dial import Address, Dialler, close_loser, first_connected, interleave
from tests.unit.transport.scripted import DEADLINE_S, echo_target, serving
from tests.unit.transport.test_pool import unanswering

pytestmark = pytest.mark.anyio

FOUR, SIX = socket.AF_INET, socket.AF_INET6


def test_address_families_take_turns_in_the_resolvers_order() -> None:
    given: list[Address] = [(SIX, "a"), (SIX, "b"), (SIX, "c"), (FOUR, "d"), (FOUR, "e")]
    assert interleave(given) == [(SIX, "a"), (FOUR, "d"), (SIX, "b"), (FOUR, "e"), (SIX, "c")]


def refusing(stack: contextlib.ExitStack) -> Address:
    sock = stack.enter_context(socket.socket())
    sock.bind(("127.0.0.1", 0))
    return FOUR, sock.getsockname()


async def test_addresses_that_refuse_are_passed_over_at_once() -> None:
    with contextlib.ExitStack() as stack:
        async with serving(echo_target) as server:
            good: Address = (FOUR, ("127.0.0.1", server.origin.port))
            started = time.monotonic()
            with await first_connected([*(refusing(stack) for _ in range(8)), good]) as sock:
                assert sock.getpeername()[1] == server.origin.port
            assert time.monotonic() - started < 1.0  # half of what eight would cost that do not answer


async def test_an_address_that_does_not_answer_costs_a_quarter_of_a_second() -> None:
    async with serving(echo_target) as server:
        good: Address = (FOUR, ("127.0.0.1", server.origin.port))
        with unanswering() as port:
            started = time.monotonic()
            with await first_connected([(FOUR, ("127.0.0.1", port)), good]) as sock:
                assert sock.getpeername()[1] == server.origin.port
            assert 0.2 < time.monotonic() - started < DEADLINE_S


async def test_when_all_addresses_fail_the_last_reason_is_raised() -> None:
    with contextlib.ExitStack() as stack, pytest.raises(ConnectionRefusedError):
        await first_connected([refusing(stack), refusing(stack)])
    with pytest.raises(OSError, match="no address"):
        await first_connected([])


async def test_an_attempt_that_succeeds_too_late_is_closed() -> None:
    async def connected() -> socket.socket:
        return socket.socket()

    async def refused() -> socket.socket:
        raise ConnectionRefusedError

    late, failed = asyncio.create_task(connected()), asyncio.create_task(refused())
    await asyncio.wait([late, failed])
    close_loser(late)
    close_loser(failed)
    assert late.result().fileno() == -1


async def test_lookups_of_the_same_moment_share_one_answer() -> None:
    dialler = Dialler(Origin("http", "localhost", 80), None, 2.0)
    first, second = await asyncio.gather(dialler._addresses(), dialler._addresses())
    assert first is second
    assert await dialler._addresses() is not first  # names may move
