"""The console of one gateway: what it watches, and the applications that show it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway.assembly.setup import Setup
from gateway.auth import IssuerStatus
from gateway.calls.earlier import EarlierCalls
from gateway.console.app import OperatorsOnly, console_app
from gateway.console.calls import RunningCalls
from gateway.console.history import History
from gateway.console.local import LocalView
from gateway.console.log import RecentLines
from gateway.console.relay import Address, Relay
from gateway.console.view import View
from gateway.http.accesslog import AccessLog
from gateway.metrics import Metrics
from gateway.model import JsonObject
from gateway.request import Request
from gateway.settings import Config
from gateway.state.port import State


class Watched(Protocol):
    """What the console needs of its gateway."""

    state: State
    metrics: Metrics
    running: set[Request]  # under way to the endpoints of surfaces

    @property
    def setup(self) -> Setup: ...

    @property
    def status(self) -> str: ...

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def earlier(self) -> EarlierCalls: ...

    def public_url(self) -> str: ...

    def issuer_status(self) -> Mapping[str, IssuerStatus]: ...


class ConsoleHost:
    """Makes the parts of a console. `view` answers its pages: `local`, or what stands for several processes."""

    def __init__(self, gateway: Watched, access: AccessLog, file: Path | None) -> None:
        self._gateway = gateway
        self._history = History(gateway.metrics)
        self._task: asyncio.Task[None] | None = None
        self.local = LocalView(
            setup=lambda: gateway.setup,
            state=gateway.state,
            issuers=gateway.issuer_status,
            status=lambda: gateway.status,
            public_url=gateway.public_url,
            metrics=gateway.metrics,
            history=self._history,
            recent=RecentLines(access),
            running=RunningCalls(gateway.state, lambda: gateway.earlier, gateway.running),
            file=file,
        )
        self.view: View = self.local
        self.app: ASGIApp = console_app(self, Relay(self._address))
        self.for_operators = OperatorsOnly(self.app, lambda: gateway.setup.config.console)

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """As `View.ask`."""
        return await self.view.ask(question, about)

    def _address(self) -> Address:
        return address_of(self._gateway.setup.config, self._gateway.address, self._gateway.public_url())

    async def start(self) -> None:
        """Begins to keep the history, if its pages are answered here."""
        if self.view is self.local:
            self._task = asyncio.create_task(self._history.run())

    async def aclose(self) -> None:
        """Ends that."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def address_of(config: Config, listening: tuple[str, int], public_url: str) -> Address:
    """Where requests of the console are sent: the listener for callers, by the name that callers know."""
    return Address(*listening, is_tls=config.server.tls is not None, name=urlsplit(public_url).netloc)
