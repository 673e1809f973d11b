"""The event loop with names that mean what a test says, and the proof that nothing is left when a test is over."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import stat
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import uvloop

DEADLINE_S = 20.0  # no test waits longer for anything; only a fault makes it wait at all

Resolver = Callable[[str], Awaitable[list[str]]]
T = TypeVar("T")


def as_addresses(found: list[str], port: int) -> list[Any]:
    """What getaddrinfo returns for these numeric addresses."""
    return [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (one, port, 0, 0))
        if ":" in one
        else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
        for one in found
    ]


class UvLoop(uvloop.Loop):
    """uvloop; `resolver` answers for the name server."""

    resolver: Resolver

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        numeric = host[0].isdigit() or ":" in host  # it asks for what sock_connect is given, too
        return as_addresses([host] if numeric else await self.resolver(host), port)


def set_resolver(resolver: Resolver) -> None:
    """Lets names of the running loop mean what `resolver` says from now on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, UvLoop)
    loop.resolver = resolver


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` on uvloop. Whatever the loop would only have logged is a failure."""
    complaints: list[str] = []

    def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not _is_uvloops_own(context):
            complaints.append(repr(context))

    with asyncio.Runner(loop_factory=UvLoop) as runner:
        runner.get_loop().set_exception_handler(complain)
        result = runner.run(main)
    gc.collect()  # sockets and transports that nobody closed warn now, and warnings are errors
    assert complaints == [], complaints
    return result


def _is_uvloops_own(context: dict[str, Any]) -> bool:
    """Known gap of uvloop: a TLS handshake cancelled just before it fails leaves a future of the loop's unread."""
    unread = context["message"] == "Future exception was never retrieved"
    return unread and isinstance(context["exception"], ssl.SSLError | ConnectionError)


async def turns(count: int) -> None:
    """Lets the loop turn so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition that the other side brings about."""
    give_up = time.monotonic() + DEADLINE_S
    spins = 0
    while not condition():
        assert time.monotonic() < give_up, f"never came true: {what}"
        spins += 1
        await asyncio.sleep(0 if spins < 50 else 0.001)


def open_sockets() -> int:
    """How many sockets this process holds."""
    count = 0
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the listing held one itself
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
    return count


class Leftovers:
    """Compares tasks and sockets with those at its making."""

    def __init__(self) -> None:
        self._sockets = open_sockets()
        self._tasks = len(asyncio.all_tasks())

    async def assert_none(self) -> None:
        """Waits until all is as it was."""
        await until(lambda: len(asyncio.all_tasks()) <= self._tasks, "tasks ended")
        await until(lambda: open_sockets() <= self._sockets, "sockets closed")
