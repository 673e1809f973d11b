"""Several processes that serve callers, and the one that looks after them: it starts them, replaces those that die
or hang, hands them the configuration, serves operators for all of them, and stops them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gateway import __version__
from gateway.assembly.measuring import known
from gateway.assembly.setup import with_fixed
from gateway.http.apps import admin_app
from gateway.logs import output
from gateway.metrics import Metrics, Scraper, SharedStore, read_shared
from gateway.model import JsonObject
from gateway.processes.place import Place
from gateway.processes.serving import server_options
from gateway.processes.sockets import address_of, bind, close_all
from gateway.processes.worker import store_in
from gateway.server import (
    Addresses,
    ServerError,
    ServerOptions,
    Stop,
    admin_listener,
    report_capacity,
)
from gateway.settings import Config, Secret, StateSettings

log = logging.getLogger("gateway.workers")

END_S = 20.0  # beyond shutdown_grace, for connections, notices and the state to be closed
FORCED_S = 10.0  # for the same when it is to end at once


class Supervisor:
    """Runs the workers of a configuration. Files that they share are there for as long as the block it is used in.

    `has_lost`: results that workers had taken are lost.
    """

    def __init__(self, config: Config) -> None:
        """Raises ServerError."""
        self._config = config = _with_keys(config)
        self._directory = _directory()
        self._stop = Stop()
        self.has_lost = False
        self._started = asyncio.Event()
        self._places = [Place(number, self._directory, self._stop) for number in range(config.server.workers)]
        self._store = self._own_store()
        self.metrics = Metrics(self._store, known(config), max_tools=0, gauges=lambda: ())

    def _own_store(self) -> SharedStore:
        try:
            return store_in(self._directory)
        except ServerError:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    async def run(self, on_ready: Callable[[Addresses], None]) -> None:
        """Serves until SIGTERM or SIGINT, then has every worker drain; a second signal ends that at once.

        `on_ready` is called when all workers accept callers. Raises ServerError.
        """
        options = server_options(self._config)
        sockets = bind(options.host, options.port, len(self._places))
        scraper = Scraper(lambda: None, lambda: read_shared(self._directory))
        try:
            async with admin_listener(admin_app(self, scraper.text), options, self._stop) as admin:
                with self._stop.on_signals():
                    report_capacity(options.max_connections)
                    await self._serve(sockets, options, lambda: on_ready(Addresses(address_of(sockets), admin)))
        finally:
            close_all(sockets)

    async def _serve(
        self, sockets: Sequence[list[socket.socket]], options: ServerOptions, on_ready: Callable[[], None]
    ) -> None:
        keeping = [
            asyncio.create_task(place.keep(own, lambda: self._config))
            for place, own in zip(self._places, sockets, strict=True)
        ]
        try:
            await self._until_ready(keeping)
            self._started.set()
            if not self._stop.asked.is_set():
                on_ready()
            stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.asked.wait())
            await asyncio.wait([stopping, *keeping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            _raise_what_failed(keeping)
            log.info("draining", extra={"workers": len(self._places)})
        finally:
            close_all(sockets)  # ours; each worker closes its own when it has drained. Nobody new is to be let in
            await self._end(keeping)

    async def _until_ready(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Returns when all workers accept callers, or are to stop. Raises ServerError when one does not even start."""
        events = [self._stop.asked, *(place.failed for place in self._places)]
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in events]
        ready = asyncio.gather(*(place.ready.wait() for place in self._places))
        try:
            await asyncio.wait([ready, *ends, *keeping], return_when=asyncio.FIRST_COMPLETED)
            _raise_what_failed(keeping)
            if not ready.done() and any(place.failed.is_set() for place in self._places):
                reasons = [place.reason for place in self._places if place.reason]
                raise ServerError(reasons[0] if reasons else "A worker could not start.")
        finally:
            for wait in (ready, *ends):
                wait.cancel()
            await asyncio.gather(ready, *ends, return_exceptions=True)  # else the loop complains of how they ended

    async def _end(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Has all workers stop, and waits for them: politely, then with a second signal, at last with force."""
        self._stop.asked.set()
        for place in self._places:
            place.terminate()
        delaying = asyncio.create_task(self._delay())
        grace_s = self._config.server.drain_delay_s + self._config.server.shutdown_grace_s + END_S
        forced: asyncio.Future[Any] = asyncio.ensure_future(self._stop.forced.wait())
        ended: asyncio.Future[Any] = asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.wait([ended, forced], timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        delaying.cancel()
        if not ended.done():
            for place in self._places:
                place.terminate(at_once=True)
            await asyncio.wait([ended], timeout=FORCED_S)
        # Nobody knows what one that has to be killed had taken.
        self.has_lost = not ended.done()
        for place in self._places:
            place.kill()
        await ended
        self.has_lost |= any(place.has_lost for place in self._places)

    async def _delay(self) -> None:
        """Has workers take no more calls when a second signal comes before they stop to by themselves."""
        await self._stop.delay(self._config.server.drain_delay_s)
        if self._stop.skipped.is_set():
            for place in self._places:
                place.terminate(without_delay=True)

    async def apply(self, config: Config) -> None:
        """Hands all workers another configuration, once they have started.

        Raises ServerError if one could not put it to use; then all go by the one before.
        """
        await self._started.wait()
        config = with_fixed(replace(config, state=self._with_our_keys(config)), self._config)
        # A worker that is replaced meanwhile begins by the old one, and may be ready while others take the new one.
        while lacking := [place for place in self._places if place.lacks(config)]:
            if not all(await asyncio.gather(*(place.apply(config) for place in lacking))):
                await self._go_back()
                raise ServerError("A worker could not put the configuration to use.")
        if config.logging != self._config.logging:
            output.configure(config.logging.level, config.logging.format)
        self._config = config
        for place in self._places:
            place.hurry()
        self.metrics.know(known(config), max_tools=0)

    async def _go_back(self) -> None:
        """Has workers that took another configuration go by the one that counts; one that cannot is replaced."""
        ahead = [place for place in self._places if place.lacks(self._config)]
        for place, could in zip(
            ahead, await asyncio.gather(*(place.apply(self._config) for place in ahead)), strict=True
        ):
            if not could:
                place.replace()

    def _with_our_keys(self, config: Config) -> StateSettings | None:
        """The state of a configuration that leaves it to us to make a key."""
        now = self._config.state
        if config.state is None or config.state.keys or now is None:
            return config.state
        return replace(config.state, keys=now.keys)

    @property
    def status(self) -> str:
        if self._stop.asked.is_set():
            return "draining"
        return "ok" if any(place.status == "ok" for place in self._places) else "starting"

    def details(self) -> JsonObject:
        """The detailed health of every worker, a second old at the most."""
        return {
            "status": self.status,
            "version": __version__,
            "reloads": dict(self.metrics.reloads),
            "workers": [place.details() for place in self._places],
        }


def _directory() -> Path:
    """A new place for the files that workers share, for nobody but us: mode 0700. Raises ServerError."""
    try:
        return Path(tempfile.mkdtemp(prefix="toolgate-"))
    except OSError as exc:
        why = exc.strerror or exc
        raise ServerError(
            f"There is no place for what workers count: {why}. Make /tmp writable, or set TMPDIR."
        ) from exc


def _raise_what_failed(keeping: Sequence[asyncio.Task[None]]) -> None:
    """Raises why a worker's place is not kept any more, such as that no process can be started."""
    for task in keeping:
        if task.done():
            task.result()


def _with_keys(config: Config) -> Config:
    """With a key that all workers share, where one process alone would make one for itself."""
    if config.state is None or config.state.keys:
        return config
    return replace(config, state=replace(config.state, keys=(Secret(secrets.token_urlsafe(32)),)))
