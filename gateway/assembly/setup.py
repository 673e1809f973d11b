"""What is made from one configuration and replaced by the next, how its backends are drained, and what stays fixed.

Also fingerprints of files, which show whether they have changed without reading them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.admission import Admission
from gateway.assembly.parts import is_shared
from gateway.authorization import HttpAuthorizer
from gateway.backends.server import Server
from gateway.calls.registry import Calls
from gateway.catalogue.catalogue import Catalogue
from gateway.errors import ConfigError
from gateway.metrics import Reading
from gateway.pipeline import Pipeline
from gateway.ports import Authenticator, Backend, Receiver
from gateway.ratelimit import RateLimits
from gateway.settings import AuthorizeSettings, BackendSettings, Config
from gateway.settings.sections import Section
from gateway.settings.web import FilePath
from gateway.state.port import State

log = logging.getLogger("gateway.reload")

CLOSED_S = 30.0  # to close backends that were made but not used
BACKEND_LOOK_S = 0.5  # between two looks at whether a backend still has open calls
QUIET_LOOK_S = 0.1  # between two looks at whether results are still to be stored


Fingerprint = tuple[int, int, int, int]  # time of the last change in nanoseconds, size, inode, device
Fingerprints = Mapping[str, Fingerprint | None]


class SwappableApp:
    """The application of the listeners, which passes requests on to another one; that can be replaced at any time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self.app(scope, receive, send)  # not awaited here: that would cost every call another frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts of a gateway that follow the configuration, with those of the setup before it that still fit.

    `files` has the fingerprints of the files that the settings of each backend name, `authorizer_files` those of
    `authorize`. `expiries` says until when the certificates are good. `public` answers everything.
    """

    config: Config
    backends: Mapping[str, Backend]
    admissions: Mapping[str, Admission[Server]]
    files: Mapping[str, Fingerprints]
    expiries: Sequence[Reading]
    catalogue: Catalogue
    authenticator: Authenticator
    authorizer: HttpAuthorizer | None
    authorizer_files: Fingerprints
    limits: RateLimits
    pipeline: Pipeline
    public: ASGIApp

    def has_backend(self, name: str, settings: BackendSettings, files: Fingerprints) -> bool:
        """Whether it has this backend, made from the same settings and files."""
        return self.config.backends.get(name) == settings and self.files[name] == files

    def has_authorizer(self, settings: AuthorizeSettings | None, files: Fingerprints) -> bool:
        """As `has_backend`, for the authorizer."""
        return self.config.authorize == settings and self.authorizer_files == files

    async def start(self) -> None:
        """Begins to ask issuers for their keys and backends for their tools; returns at once."""
        await self.authenticator.start()
        await self.catalogue.start()

    async def follow(self, before: Setup) -> None:
        """Starts with the tools that the setup before knows; returns once new backends were asked, or 10 s later."""
        await self.catalogue.adopt(before.catalogue)
        await self.start()
        await self.catalogue.wait_ready()

    def not_in(self, other: Setup) -> dict[str, Backend]:
        """The backends that the other setup does not have."""
        return {name: backend for name, backend in self.backends.items() if other.backends.get(name) is not backend}

    async def discard(self, before: Setup) -> None:
        """Closes what was made for this setup alone; the one before stays in use."""
        await self.catalogue.aclose()
        closing = [asyncio.ensure_future(backend.aclose()) for backend in self.not_in(before).values()]
        if self.authorizer is not None and self.authorizer is not before.authorizer:
            closing.append(asyncio.ensure_future(self.authorizer.aclose()))
        if closing:
            await asyncio.wait(closing, timeout=CLOSED_S)


class BackendDrainer:
    """Drains and closes backends that were removed from the configuration, and an authorizer that was.

    `backends` and `receivers` hold all of them by name; each is removed from both before it is closed. A call that
    `state` remembers ends within `pending_s` of its beginning.
    """

    def __init__(
        self, state: State, backends: dict[str, Backend], receivers: dict[str, Receiver], *, pending_s: float
    ) -> None:
        self._state = state
        self._backends = backends
        self._receivers = receivers
        self._pending_s = pending_s
        self._draining: dict[asyncio.Task[None], Backend | HttpAuthorizer] = {}

    def begin(self, old: Setup, new: Setup, requests: Collection[asyncio.Task[Any]]) -> None:
        """Drains the backends that the new setup does not have.

        Each is closed once these requests, any of which may yet call it, are over, and it has no open calls.
        """
        until = time.monotonic() + self._pending_s
        for name, backend in old.not_in(new).items():
            is_open = partial(self._is_open, name, backend, old.admissions[name], until)
            self._track(backend, self._drain(name, backend, requests, is_open))
        if old.authorizer is not None and old.authorizer is not new.authorizer:
            self._track(old.authorizer, self._close_after(old.authorizer, requests))

    def _track(self, part: Backend | HttpAuthorizer, draining: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(draining)
        self._draining[task] = part
        task.add_done_callback(self._ended)

    def _is_open(self, name: str, backend: Backend, admission: Admission[Server], until: float) -> bool:
        """Whether a removed backend has calls under way, or outcomes of its calls may yet arrive."""
        if admission.in_flight or admission.queued or (backend.deferred and backend.open_calls):
            return True
        receiver = backend.receiver if backend.deferred else None
        if receiver is None or self._receivers.get(name) is not receiver:  # another backend has its name by now
            return False
        # Where replicas share what they remember, an outcome for another one may arrive here.
        return bool(self._state.pending()[name]) or (is_shared(self._state) and time.monotonic() < until)

    async def _drain(
        self, name: str, backend: Backend, requests: Collection[asyncio.Task[Any]], is_open: Callable[[], bool]
    ) -> None:
        if requests:
            await asyncio.wait(requests)
        while is_open():  # noqa: ASYNC110 - outcomes arrive in many ways, and none of them sets an event
            await asyncio.sleep(BACKEND_LOOK_S)
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._receivers.pop(name, None)
        await backend.aclose()
        log.info("a backend that was taken out of the configuration is closed", extra={"backend": name})

    async def _close_after(self, authorizer: HttpAuthorizer, requests: Collection[asyncio.Task[Any]]) -> None:
        if requests:
            await asyncio.wait(requests)
        await authorizer.aclose()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        self._draining.pop(task, None)
        if (error := task.exception()) is not None:
            log.error("what was taken out of the configuration could not be closed", exc_info=error)

    async def aclose(self) -> None:
        """Closes all of them now."""
        draining = dict(self._draining)
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        for task, part in draining.items():
            if task.cancelled():
                await part.aclose()


async def until_quiet(
    under_way: Callable[[], set[asyncio.Task[Any]]], calls: Calls, is_pending: Callable[[], bool]
) -> None:
    """Returns when nothing is under way or pending. When it is cancelled, it stops the calls that are running.

    Its own task may be among those under way.
    """
    try:
        while True:
            if running := under_way() - {asyncio.current_task()}:
                await asyncio.wait(running)
            elif is_pending():
                await asyncio.sleep(QUIET_LOOK_S)
            else:
                return
    except asyncio.CancelledError:
        calls.stop()
        raise


def with_fixed(config: Config, running: Config) -> Config:
    """A new configuration with the running values of what takes effect only at a start; warns of what differs.

    Raises ConfigError if the two do not go together, for example when there is no address for callbacks.
    """
    server, now = config.server, running.server
    fixed = {"hosts": "host", "port": "port", "workers": "workers"}
    changed = [f"server.{key}" for name, key in fixed.items() if getattr(server, name) != getattr(now, name)]
    changed += [
        f"server.admin.{each}"
        for each in type(server.admin).model_fields
        if getattr(server.admin, each) != getattr(now.admin, each)
    ]
    if (server.tls is None) != (now.tls is None):
        changed.append("server.tls")
        server = server.model_copy(update={"tls": now.tls})
    started = {name: getattr(running, name) for name in ("state", "telemetry", "usage")}
    changed += [name for name, value in started.items() if getattr(config, name) != value]
    if changed:
        log.warning("a change takes effect only at the next start", extra={"keys": changed})
    fixed = {name: getattr(now, name) for name in ("hosts", "port", "workers", "admin")}
    kept = config.model_copy(update={"server": server.model_copy(update=fixed), **started})
    if problems := [f"{where}: {what}; before the next start it cannot be used" for where, what in kept.problems()]:
        raise ConfigError(problems)
    return kept


def fingerprints(paths: Iterable[str]) -> Fingerprints:
    """One for each path, None where there is no file. Links are followed: a folder above the file may be swapped."""
    return {path: _fingerprint(path) for path in paths}


def _fingerprint(path: str) -> Fingerprint | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: no path at all, as with a NUL in it
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def named_files(settings: object) -> Iterator[str]:
    """The paths of files that settings name, and that are read when the settings are used."""
    match settings:
        case FilePath():
            yield settings
        case Mapping():
            for value in settings.values():
                yield from named_files(value)
        case tuple():
            for value in settings:
                yield from named_files(value)
        case Section():
            for _, value in settings:
                yield from named_files(value)
