"""The console of one gateway: what it watches, and the applications that show it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway.assembly.address import PublicAddress
from gateway.assembly.authenticators import Issuers
from gateway.assembly.generation import Current
from gateway.assembly.reporting import GatewayHealth
from gateway.console.app import OperatorsOnly, console_app
from gateway.console.calls import RunningCalls
from gateway.console.history import History
from gateway.console.local import LocalView
from gateway.console.log import RecentLines
from gateway.console.relay import Address, Relay
from gateway.console.view import View
from gateway.metrics import Metrics
from gateway.settings import Config, ConsoleSettings
from gateway.state.port import State


class ConsoleHost:
    """Makes the parts of a console, whose pages are answered by `local`, or by `view` for several processes."""

    def __init__(
        self,
        *,
        current: Current,
        state: State,
        issuers: Issuers,
        health: GatewayHealth,
        address: PublicAddress,
        metrics: Metrics,
        recent: RecentLines,
        running: RunningCalls,
        file: Path | None,
        view: View | None,
    ) -> None:
        """`file` is that of the configuration."""
        self._current = current
        self._public = address
        self._history = History(metrics)
        self._task: asyncio.Task[None] | None = None
        self.local = LocalView(
            current=current,
            state=state,
            issuers=issuers,
            health=health,
            public_url=address.public_url,
            metrics=metrics,
            history=self._history,
            recent=recent,
            running=running,
            file=file,
        )
        self._view = view or self.local
        self.app: ASGIApp = console_app(self._view, Relay(self._address))
        self.for_operators = OperatorsOnly(self.app, self._settings)

    def _settings(self) -> ConsoleSettings:
        return self._current.generation().config.console

    def _address(self) -> Address:
        return address_of(self._current.generation().config, self._public.listening, self._public.public_url())

    async def start(self) -> None:
        """Begins to keep the history, if its pages are answered here."""
        if self._view is self.local:
            self._task = asyncio.create_task(self._history.run())

    async def aclose(self) -> None:
        """Ends that."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def address_of(config: Config, listening: tuple[str, int], public_url: str) -> Address:
    """Where requests of the console are sent: the listener for callers, by the name that callers know."""
    return Address(*listening, is_tls=config.server.tls is not None, name=urlsplit(public_url).netloc)
