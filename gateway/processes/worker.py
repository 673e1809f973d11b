"""A process that serves callers: `python -m gateway.processes.worker`, started by the supervisor only.

It inherits bound sockets and one end of a socket pair (see `control`). When the other end closes, the supervisor is
gone, and the worker stops.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from gateway.core.model import JsonObject
from gateway.net.server import ServerError, Stop, listen, main_loop, serve
from gateway.processes.control import (
    FAILED,
    KILL_SIGNAL,
    LOST,
    MAX_LINE_BYTES,
    MAX_ROWS,
    OK,
    REPORT_S,
    WITHOUT_DELAY,
    receive,
    say,
)
from gateway.processes.rpcs import PendingRpcs, RpcReply, RpcRequest, reply_to
from gateway.processes.serving import Serving
from gateway.settings import Config

log = logging.getLogger("gateway.workers")


def main(words: Sequence[str] | None = None) -> int:
    """Serves until it is to stop; returns an exit code."""
    gc.freeze()  # what was imported stays; looking through it until this listens and again as it ends takes 0.1 s
    parser = argparse.ArgumentParser(prog="gateway.processes.worker")
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--listen", type=int, action="append", required=True)
    arguments = parser.parse_args(words)
    for number in (signal.SIGHUP, signal.SIGINT):  # the supervisor acts on them for all workers
        signal.signal(number, signal.SIG_IGN)
    return main_loop(_work(arguments.number, arguments.control, arguments.listen))


async def _work(number: int, control: int, listening: Sequence[int]) -> int:
    """Serves to the end, or reports to the supervisor why it cannot. Returns an exit code."""
    stop = _stop()
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=control), limit=MAX_LINE_BYTES)
    try:
        _, config = await receive(reader)
        assert isinstance(config, Config)  # a worker is asked for anything else only once it serves
        worker = Worker(number, config, writer)
        await worker.run(reader, [socket.socket(fileno=number_of_socket) for number_of_socket in listening], stop)
        return LOST if worker.serving.gateway.lost_results else OK
    except asyncio.IncompleteReadError:
        return OK  # the supervisor is gone
    except ServerError as exc:
        say(writer, kind="failed", reason=str(exc))
    except Exception:  # a bug of ours; the log has all of it, and the operator a sentence
        log.exception("a worker could not go on")
        say(writer, kind="failed", reason="A worker cannot go on; the log says why.")
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return FAILED


def _stop() -> Stop:
    """A stop that SIGTERM asks for, and only `KILL_SIGNAL` forces.

    A second SIGTERM changes nothing: systemd sends one to every process, and the supervisor another.
    """
    stop = Stop()

    def at_once() -> None:
        stop.asked.set()
        stop.forced.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.asked.set)
    loop.add_signal_handler(WITHOUT_DELAY, stop.skipped.set)
    loop.add_signal_handler(KILL_SIGNAL, at_once)
    return stop


class SupervisorLink:
    """The way to the supervisor. It answers the console of all workers, as a view of theirs."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.rpcs = PendingRpcs()

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """Asks the supervisor (`View.ask`). Raises RefusedQuestionError."""
        return await self.rpcs.ask(lambda number: self.say(kind="question", number=number, name=question, about=about))

    def say(self, **message: Any) -> None:
        """Sends a message to the supervisor."""
        say(self.writer, **message)


class Worker:
    """Serves by the configuration it received last, and reports to the supervisor."""

    def __init__(self, number: int, config: Config, writer: asyncio.StreamWriter) -> None:
        """Raises ServerError."""
        self._link = SupervisorLink(writer)
        self._writer = writer
        self._answering: set[asyncio.Task[None]] = set()
        self.serving = Serving(config, {"worker": number, "pid": os.getpid()}, view=self._link)

    async def run(self, reader: asyncio.StreamReader, sockets: Sequence[socket.socket], stop: Stop) -> None:
        """Accepts callers once it can serve them: until then, other workers do, or the kernel lets them wait."""
        gateway, listener, service = self.serving.gateway, self.serving.listener, self.serving.service
        obeying, reporting = asyncio.create_task(self._obey(reader, stop)), asyncio.create_task(self._report_on())
        try:
            gateway.address.listens_on(*sockets[0].getsockname()[:2])
            await gateway.start()
            ready = asyncio.create_task(gateway.catalogue.wait_ready())
            stopping = asyncio.create_task(stop.asked.wait())
            await asyncio.wait([ready, stopping], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            stopping.cancel()
            with closing(await listen(listener, service, sockets)) as acceptor:
                self._report()
                self._link.say(kind="ready")
                await serve(listener, service, acceptor, stop)
        finally:
            obeying.cancel()
            await asyncio.gather(obeying, return_exceptions=True)
            await gateway.aclose()
            reporting.cancel()  # last: a worker without reports hangs
            await asyncio.gather(reporting, return_exceptions=True)
            self._report()

    async def _obey(self, reader: asyncio.StreamReader, stop: Stop) -> None:
        """Carries out the supervisor's orders; stops when it is gone, for else it would have sent a signal."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                number, order = await receive(reader)
                if isinstance(order, RpcRequest):  # while a configuration is applied, too, which may take a while
                    task = asyncio.create_task(self._reply(number, order))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                elif isinstance(order, RpcReply):
                    self._link.rpcs.settle(order)
                else:
                    self._link.say(kind="done", number=number, ok=await self._carry_out(order))
        stop.ask()

    async def _reply(self, number: int, question: RpcRequest) -> None:
        answer = await reply_to(number, question, self.serving.gateway.console.local)
        self._link.say(kind="answer", **answer._asdict())

    async def _carry_out(self, config: Config | None) -> bool:
        if config is None:
            self._report()
            return True
        try:
            await self.serving.apply(config)
        except Exception:  # whatever a new configuration breaks, the old one goes on
            log.exception("a worker could not apply the configuration")
            return False
        return True

    async def _report_on(self) -> None:
        while True:
            self._report()
            await asyncio.sleep(REPORT_S)

    def _report(self) -> None:
        """Sends the health, the gauges, and what was counted since the last report."""
        if self._writer.transport.get_write_buffer_size() >= MAX_LINE_BYTES:
            return  # the supervisor does not read
        gateway = self.serving.gateway
        while rows := gateway.metrics.store.take(MAX_ROWS):
            self._link.say(kind="counted", rows=rows)
        gauges = [(family.name, labels, value) for family, labels, value in gateway.metrics.samples()]
        self._link.say(kind="report", details=gateway.health.details(), gauges=gauges, children=gateway.children)


if __name__ == "__main__":
    sys.exit(main())
