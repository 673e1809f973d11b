"""Starts and supervises the worker processes of a configuration.

It replaces workers that die or hang, hands all of them the configuration, serves operators on behalf of all, and stops
them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway import __version__
from gateway.assembly.generation import with_fixed
from gateway.assembly.reporting import label_values
from gateway.console.app import OperatorsOnly, console_app
from gateway.console.history import History
from gateway.console.host import address_of
from gateway.console.relay import Address, Relay
from gateway.core.model import JsonObject
from gateway.http.apps import admin_app
from gateway.logs import output
from gateway.metrics import GaugeSample, Metrics, Scraper, merge_samples
from gateway.net.server import Addresses, ServerError, ServerOptions, Stop, admin_listener, report_capacity
from gateway.processes.serving import server_options
from gateway.processes.slot import WorkerSlot
from gateway.processes.sockets import address_of as address_of_sockets
from gateway.processes.sockets import bind, close_all
from gateway.processes.view import SupervisorView
from gateway.settings import Config, ConsoleSettings

log = logging.getLogger("gateway.workers")

END_S = 20.0  # beyond shutdown_grace, to close connections, notices and the state
FORCED_S = 10.0  # for the same when a worker is to end at once


class Supervisor:
    """Runs the workers of a configuration."""

    def __init__(self, config: Config, file: Path | None = None) -> None:
        self._keys = (SecretStr(secrets.token_urlsafe(32)),)  # for the state, where the configuration names none
        self._config = config = self._with_keys(config)
        self._stop = Stop()
        self.has_lost = False  # workers accepted results that could not be stored
        self._started = asyncio.Event()
        self.metrics = Metrics(label_values(config), max_tools=config.metrics.max_tools, gauges=self._gauges)
        self._history = History(self.metrics)
        self._slots: list[WorkerSlot] = []
        view = SupervisorView(
            self._slots,
            self.metrics,
            self._history,
            status=self._get_status,
            config=self._get_config,
            file=file,
        )
        self._slots += [
            WorkerSlot(number, self._stop, self.metrics.add, self.metrics.worker_died, view)
            for number in range(config.server.workers)
        ]
        self._address = config.server.host, config.server.port
        self._console = OperatorsOnly(console_app(view, Relay(self._callers)), self._get_console)

    def _get_config(self) -> Config:
        return self._config

    def _get_console(self) -> ConsoleSettings:
        return self._config.console

    def _get_status(self) -> str:
        return self.status

    def _callers(self) -> Address:
        """Where the workers listen."""
        server = self._config.server
        host, port = self._address
        name = f"[{host}]" if ":" in host else host
        return address_of(self._config, self._address, server.public_url or f"//{name}:{port}")

    async def run(self, on_ready: Callable[[Addresses], None]) -> None:
        """Serves until SIGTERM or SIGINT, then has every worker drain; a second signal stops them at once.

        `on_ready` is called when all workers accept callers. Raises ServerError.
        """
        options = server_options(self._config, None)  # it serves no callers itself
        sockets = bind(options.host, options.port, len(self._slots))
        self._address = address_of_sockets(sockets)
        scraper = Scraper(self.metrics, self._processes, self._refresh)
        keeping = asyncio.create_task(self._history.run())
        try:
            async with admin_listener(admin_app(self, scraper.text, self._console), options, self._stop) as admin:
                with self._stop.on_signals():
                    report_capacity(options.max_connections)
                    await self._serve(sockets, options, lambda: on_ready(Addresses(self._address, admin)))
        finally:
            keeping.cancel()
            close_all(sockets)

    async def _serve(
        self, sockets: Sequence[list[socket.socket]], options: ServerOptions, on_ready: Callable[[], None]
    ) -> None:
        running = [
            asyncio.create_task(slot.run(own, self._get_config)) for slot, own in zip(self._slots, sockets, strict=True)
        ]
        try:
            await self._until_ready(running)
            self._started.set()
            if not self._stop.asked.is_set():
                on_ready()
            stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.asked.wait())
            await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            _raise_what_failed(running)
            log.info("draining", extra={"workers": len(self._slots)})
        finally:
            close_all(sockets)  # ours; each worker closes its own when it has drained
            await self._end(running)

    async def _until_ready(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Returns when all workers accept callers, or are to stop. Raises ServerError when one does not even start."""
        events = [self._stop.asked, *(slot.failed for slot in self._slots)]
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in events]
        ready = asyncio.gather(*(slot.ready.wait() for slot in self._slots))
        try:
            await asyncio.wait([ready, *ends, *running], return_when=asyncio.FIRST_COMPLETED)
            _raise_what_failed(running)
            if not ready.done() and any(slot.failed.is_set() for slot in self._slots):
                reasons = [slot.reason for slot in self._slots if slot.reason]
                raise ServerError(reasons[0] if reasons else "A worker could not start.")
        finally:
            for wait in (ready, *ends):
                wait.cancel()
            await asyncio.gather(ready, *ends, return_exceptions=True)  # else the loop logs how they ended

    async def _end(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Stops all workers and waits for them: with SIGTERM, then with a second signal, at last with SIGKILL."""
        self._stop.asked.set()
        for slot in self._slots:
            slot.terminate()
        delaying = asyncio.create_task(self._delay())
        grace_s = self._config.server.drain_delay_s + self._config.server.shutdown_grace_s + END_S
        forced: asyncio.Future[Any] = asyncio.ensure_future(self._stop.forced.wait())
        ended: asyncio.Future[Any] = asyncio.gather(*running, return_exceptions=True)
        await asyncio.wait([ended, forced], timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        delaying.cancel()
        if not ended.done():
            for slot in self._slots:
                slot.terminate(at_once=True)
            await asyncio.wait([ended], timeout=FORCED_S)
        # What a worker that has to be killed had accepted is unknown.
        self.has_lost = not ended.done()
        for slot in self._slots:
            slot.kill()
        await ended
        self.has_lost |= any(slot.has_lost for slot in self._slots)

    async def _delay(self) -> None:
        """Ends `drain_delay` in all workers when a second signal comes before it is over."""
        await self._stop.delay(self._config.server.drain_delay_s)
        if self._stop.skipped.is_set():
            for slot in self._slots:
                slot.terminate(without_delay=True)

    async def apply(self, config: Config) -> None:
        """Has all workers apply another configuration, once they have started.

        Raises ServerError if one cannot; then all of them return to the one before.
        """
        await self._started.wait()
        config = with_fixed(self._with_keys(config), self._config)
        # A worker that is replaced meanwhile starts with the old one, and may be ready before the others have the new.
        while lacking := [slot for slot in self._slots if slot.lacks(config)]:
            if not all(await asyncio.gather(*(slot.apply(config) for slot in lacking))):
                await self._go_back()
                raise ServerError("A worker could not put the configuration to use.")
        if config.logging != self._config.logging:
            output.configure(config.logging.level, config.logging.format)
        self._config = config
        for slot in self._slots:
            slot.hurry()
        self.metrics.use_labels(label_values(config), max_tools=config.metrics.max_tools)

    async def _go_back(self) -> None:
        """Has workers that applied another configuration return to the current one; replaces those that cannot."""
        ahead = [slot for slot in self._slots if slot.lacks(self._config)]
        for slot, could in zip(ahead, await asyncio.gather(*(slot.apply(self._config) for slot in ahead)), strict=True):
            if not could:
                slot.replace()

    def _with_keys(self, config: Config) -> Config:
        """The configuration with a key for the state that all workers share, if it names none."""
        if config.state is None or config.state.keys:
            return config
        return config.model_copy(update={"state": config.state.model_copy(update={"keys": self._keys})})

    async def _refresh(self) -> None:
        """Adds what the workers have counted up to now."""
        await asyncio.gather(*(slot.refresh() for slot in self._slots))

    def _processes(self) -> dict[str, int]:
        workers = (slot.processes.items() for slot in self._slots)
        return {"supervisor": os.getpid(), **dict(chain.from_iterable(workers))}

    def _gauges(self) -> Iterable[GaugeSample]:
        return merge_samples(reading for slot in self._slots for reading in slot.gauges)

    @property
    def status(self) -> str:
        if self._stop.asked.is_set():
            return "draining"
        return "ok" if any(slot.status == "ok" for slot in self._slots) else "starting"

    def details(self) -> JsonObject:
        """The detailed health of every worker, by its last report."""
        return {
            "status": self.status,
            "version": __version__,
            **self.metrics.about_reloads(),
            "workers": [slot.details() for slot in self._slots],
        }


def _raise_what_failed(running: Sequence[asyncio.Task[None]]) -> None:
    """Raises why a worker slot has ended."""
    for task in running:
        if task.done():
            task.result()
