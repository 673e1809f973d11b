"""The protocol between the supervisor and a worker, over a socket pair.

The supervisor sends orders, each with a number: a configuration to serve by, or None for a report. It also sends
questions of the console and answers to those of the worker. The worker sends one JSON object per line: `counted` and
`report` every second and when ordered, `done` for each order, `ready` once it accepts callers, `failed` with the reason
why it cannot start, `question` and `answer`.
"""

from __future__ import annotations

import asyncio
import copyreg
import pickle
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from io import BytesIO
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.processes.rpcs import RpcReply, RpcRequest
from gateway.settings import Config

OK, FAILED, LOST = 0, 1, 3  # exit codes; LOST: the worker accepted results that it could not store
WITHOUT_DELAY = signal.SIGUSR2  # ends the time in which new calls are still accepted
KILL_SIGNAL = signal.SIGUSR1  # kills a worker that does not handle signals yet
REPORT_S = 1.0  # between two reports of health and gauges; a worker without reports hangs
LENGTH_BYTES = 4
MAX_LINE_BYTES = 16 * 1024 * 1024  # one report about hundreds of backends, or MAX_ROWS rows
MAX_ROWS = 5_000  # of metrics in one line, some 200 bytes each

Order = tuple[int, Config | RpcRequest | RpcReply | None]


def packed(number: int, order: Config | RpcRequest | RpcReply | None) -> bytes:
    """Encodes what is sent to a worker. It is pickled, so that all workers have exactly what was read once."""
    buffer = BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    # Beside what pickle has learned already, such as regular expressions.
    pickler.dispatch_table = copyreg.dispatch_table | {MappingProxyType: lambda it: (_read_only, (dict(it),))}
    pickler.dump((number, order))
    data = buffer.getvalue()
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _read_only(items: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(items)


async def receive(reader: asyncio.StreamReader) -> Order:
    """Reads the next order. Raises IncompleteReadError when the supervisor is gone."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    order: Order = pickle.loads(await reader.readexactly(length))  # noqa: S301 - from the process that started this
    return order


def say(writer: asyncio.StreamWriter, **message: Any) -> None:
    """Sends a message to the supervisor."""
    if not writer.is_closing():
        writer.write(msgspec.json.encode(message) + b"\n")


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The messages of a worker until it closes the connection; half a line of one that died is left out."""
    with suppress(ConnectionError):
        while (line := await reader.readline()).endswith(b"\n"):
            yield msgspec.json.decode(line)
