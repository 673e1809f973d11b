"""Judges the programs of these tests: what fails, and what does not pass."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import IO, Any, TypeVar

from tests.support.forking import Program
from toolgate_conformance.checks import Check, Report, Status
from toolgate_conformance.clients.program import LIMIT_S, ProgramUnderTest
from toolgate_conformance.clients.rap.subject import RapRuntime
from toolgate_conformance.clients.rcrt.subject import RcrtClient
from toolgate_conformance.clients.rest.subject import RestClient
from toolgate_conformance.protocols import CLIENTS
from toolgate_conformance.running import run
from toolgate_conformance.servers.rest.forms import FORMS

T = TypeVar("T")
AT_ONCE = 8  # programs that are tried: most of it is waiting


def grouped(faults: Sequence[T]) -> list[list[T]]:
    """Faults in groups, each for one test, which tries some at a time."""
    return [list(faults[start : start + 2 * AT_ONCE]) for start in range(0, len(faults), 2 * AT_ONCE)]


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module of these tests."""
    return [sys.executable, "-m", f"conformance.tests.{module}", *words]


async def judge(
    protocol: str, program: AbstractAsyncContextManager[Any], within: Iterable[str] | None = None
) -> Report:
    """The report of the checks of a client that need no more than some scenarios; of all without any."""
    checks = CLIENTS[protocol].checks()
    scenarios = {name for check in checks for name in check.scenarios} if within is None else set(within)
    async with program as client:
        # At the same time, which the checks by themselves would not do.
        await asyncio.gather(*(client.seen(name) for name in scenarios))
        return await run(protocol, "client", [it for it in checks if scenarios.issuperset(it.scenarios)], client)


def failures(report: Report) -> dict[str, str]:
    """What was expected of the checks that failed, by id."""
    return reasons(report, Status.FAILED)


def reasons(report: Report, status: Status) -> dict[str, str]:
    """What came of the checks of a status, by id."""
    return {it.check.id: it.reason for it in report.of(status)}


def check_of(protocol: str, number: int) -> Check:
    """The check of clients with a number."""
    (check,) = (it for it in CLIENTS[protocol].checks() if it.id.endswith(f"-{number:03d}"))
    return check


class _Forked(ProgramUnderTest[Any]):
    """Starts its command as a copy of one interpreter, which takes a hundredth of the time."""

    async def execute(
        self, command: Sequence[str], environment: Mapping[str, str], interruption: asyncio.Event
    ) -> tuple[int | None, str, str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            program = _started(command[2], command[3:], environment, out, err)
            interrupting = asyncio.create_task(_interrupt(program, interruption))
            try:
                async with asyncio.timeout(self._limit_s):
                    await _end_of(program)
            except TimeoutError:
                program.kill()
                await _end_of(program)
                return None, _text(out), _text(err)
            finally:
                interrupting.cancel()
            code = program.returncode
            program.close()
            return code, _text(out), _text(err)


class ForkedRestClient(_Forked, RestClient):
    """A client of OTC or OXP."""


class ForkedRapRuntime(_Forked, RapRuntime):
    """A RAP runtime."""


class ForkedRcrtClient(_Forked, RcrtClient):
    """A client of RCRT."""


def forked(protocol: str, command: Sequence[str], limit_s: float = LIMIT_S) -> AbstractAsyncContextManager[Any]:
    """A program of these tests that speaks a protocol."""
    match protocol:
        case "rap":
            return ForkedRapRuntime(command, limit_s=limit_s)
        case "rcrt":
            return ForkedRcrtClient(command, limit_s=limit_s)
    return ForkedRestClient(FORMS[protocol], command, limit_s=limit_s)


def _started(
    module: str, words: Sequence[str], environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> Program:
    """A program in an environment; it is given ours, as it is at that moment."""
    ours = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        return Program(module, words, out.fileno(), err.fileno())
    finally:
        os.environ.clear()
        os.environ.update(ours)


async def _end_of(program: Program) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(program.fileno(), ended.set)
    try:
        while program.returncode is None:
            await ended.wait()
            ended.clear()
    finally:
        loop.remove_reader(program.fileno())


async def _interrupt(program: Program, interruption: asyncio.Event) -> None:
    await interruption.wait()
    program.send_signal(2)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
