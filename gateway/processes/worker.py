"""One of several processes that serve callers: `python -m gateway.processes.worker`, started by `workers`, nobody else.

It is given sockets that are bound already, a directory to count in, and one end of a conversation: what to go by comes
in, how it stands goes out. When the other end closes, there is nobody left to serve for.
"""

from __future__ import annotations

import argparse
import asyncio
import copyreg
import gc
import json
import logging
import pickle
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.metrics import SharedStore
from gateway.processes.serving import Serving
from gateway.server import Listener, ServerError, Stop, cannot_listen, closing_all, listen, main_loop, serve
from gateway.settings import Config

log = logging.getLogger("gateway.workers")

OK, FAILED, LOST = 0, 1, 3  # exit codes; LOST: it has taken results that it could not write down
WITHOUT_DELAY = signal.SIGUSR2  # ends the time in which new calls are still taken
AT_ONCE = signal.SIGUSR1  # kills a worker that does not handle signals yet
REPORT_S = 1.0  # how old what others see of a worker's health and gauges may be; a worker without reports hangs
LENGTH_BYTES = 4
MAX_REPORT_BYTES = 16 * 1024 * 1024  # one line about hundreds of backends


def packed(number: int, config: Config) -> bytes:
    """A configuration as it travels to a worker: what was read once is the same for all of them.

    By its number the answer to it is known.
    """
    buffer = BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    # Beside what pickle has learned already, such as regular expressions.
    pickler.dispatch_table = copyreg.dispatch_table | {MappingProxyType: lambda it: (_read_only, (dict(it),))}
    pickler.dump((number, config))
    data = buffer.getvalue()
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _read_only(items: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(items)


async def receive(reader: asyncio.StreamReader) -> tuple[int, Config]:
    """The next configuration and its number. Raises IncompleteReadError when none will come."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    number, config = pickle.loads(await reader.readexactly(length))  # noqa: S301 - from the process that started this
    assert isinstance(config, Config)
    return number, config


def main(words: Sequence[str] | None = None) -> int:
    """Serves until it is told to stop; returns an exit code."""
    gc.freeze()  # what was imported stays; looking through it until this listens and again as it ends takes 0.1 s
    parser = argparse.ArgumentParser(prog="gateway.processes.worker")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--listen", type=int, action="append", required=True)
    parser.add_argument("--metrics", type=Path, required=True)
    given = parser.parse_args(words)
    for number in (signal.SIGHUP, signal.SIGINT):  # whoever started it passes on what it shall know
        signal.signal(number, signal.SIG_IGN)
    return main_loop(_work(given.control, given.listen, given.metrics))


async def _work(control: int, sockets: Sequence[int], metrics: Path) -> int:
    """Serves to the end, or says in one sentence why it cannot. Returns an exit code."""
    stop = _stop()
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=control), limit=MAX_REPORT_BYTES)
    try:
        _, config = await receive(reader)
        worker = Worker(config, store_in(metrics), writer)
        await worker.run(reader, [socket.socket(fileno=number) for number in sockets], stop)
        if worker.is_orphaned:
            shutil.rmtree(metrics, ignore_errors=True)  # the supervisor, whose it was, no longer can
    except asyncio.IncompleteReadError:
        return OK  # whoever has started it is gone
    except ServerError as exc:
        return await _failed(writer, str(exc))
    except Exception:  # a bug of ours; the log has all of it, and the operator a sentence
        log.exception("a worker could not go on")
        return await _failed(writer, "A worker cannot go on; the log says why.")
    return LOST if worker.has_lost else OK


def _stop() -> Stop:
    """Is asked by SIGTERM, and forced by `AT_ONCE` alone.

    A second SIGTERM means no more than the first: systemd sends one to every process, and the supervisor another.
    """
    stop = Stop()

    def at_once() -> None:
        stop.asked.set()
        stop.forced.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.asked.set)
    loop.add_signal_handler(WITHOUT_DELAY, stop.skipped.set)
    loop.add_signal_handler(AT_ONCE, at_once)
    return stop


def store_in(directory: Path) -> SharedStore:
    """Where this process counts. Raises ServerError."""
    try:
        return SharedStore(directory)
    except OSError as exc:
        raise ServerError(f"There is no place to count in, {directory}: {exc.strerror or exc}.") from exc


async def _failed(writer: asyncio.StreamWriter, reason: str) -> int:
    """Tells why no worker can serve. Returns an exit code."""
    say(writer, kind="failed", reason=reason)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return FAILED


def say(writer: asyncio.StreamWriter, **message: Any) -> None:
    """Tells whoever has started this process."""
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


class Worker:
    """Serves by the configuration it was given last, and says so."""

    def __init__(self, config: Config, store: SharedStore, writer: asyncio.StreamWriter) -> None:
        self._serving = Serving(config, store=store)
        self._writer = writer
        self.is_orphaned = False

    @property
    def has_lost(self) -> bool:
        """Whether results that were taken are lost."""
        return self._serving.gateway.lost_results > 0

    async def run(self, reader: asyncio.StreamReader, sockets: Sequence[socket.socket], stop: Stop) -> None:
        """Accepts callers once it can serve them: there are others that can already, or the kernel lets them wait."""
        gateway = self._serving.gateway
        listener = Listener(gateway.public, self._serving.options, self._serving.options.max_connections)
        self._serving.attach(listener)
        hearing, reporting = asyncio.create_task(self._hear(reader, stop)), asyncio.create_task(self._report())
        where: tuple[str, int] = sockets[0].getsockname()[:2]
        try:
            gateway.listens_on(*where)
            await gateway.start()
            ready = asyncio.create_task(gateway.catalogue.wait_ready())
            asked = asyncio.create_task(stop.asked.wait())
            await asyncio.wait([ready, asked], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            asked.cancel()
            try:
                servers = await listen(listener, sockets)
            except OSError as exc:
                raise cannot_listen(*where, exc) from exc
            with closing_all(servers):
                self._tell()
                say(self._writer, kind="ready")
                await serve(listener, servers, stop, gateway.drain, gateway.turn_away)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await gateway.aclose()
            reporting.cancel()  # last: a worker without reports hangs
            await asyncio.gather(reporting, return_exceptions=True)

    async def _hear(self, reader: asyncio.StreamReader, stop: Stop) -> None:
        """Goes by every configuration that comes; stops when the other end is gone."""
        try:
            while True:
                number, config = await receive(reader)
                try:
                    await self._serving.apply(config)
                except Exception:  # whatever a new configuration breaks, the old one goes on
                    log.exception("a worker could not put the configuration to use")
                    say(self._writer, kind="applied", number=number, ok=False)
                else:
                    say(self._writer, kind="applied", number=number, ok=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.is_orphaned = True  # it would have sent a signal first
            stop.ask()

    async def _report(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(REPORT_S)

    def _tell(self) -> None:
        """Has everybody see how this worker stands now."""
        gateway = self._serving.gateway
        gateway.metrics.publish()
        if self._writer.transport.get_write_buffer_size() < MAX_REPORT_BYTES:  # else nobody reads it
            say(self._writer, kind="report", details=gateway.details())


if __name__ == "__main__":
    sys.exit(main())
