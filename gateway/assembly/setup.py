"""What is made from one configuration and replaced as a whole by the next, and what is fixed until the next start.

Also fingerprints of files, which show whether they have changed without reading them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.admission import Admission
from gateway.backends.server import Server
from gateway.catalogue.catalogue import Catalogue
from gateway.errors import ConfigError
from gateway.pipeline import Pipeline
from gateway.ports import Authenticator, Backend
from gateway.ratelimit import Limits
from gateway.settings import BackendSettings, Config
from gateway.settings.sections import Section
from gateway.settings.web import FilePath

log = logging.getLogger("gateway.reload")

CLOSED_S = 30.0  # to close backends that were made but not used


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

    `files` has the fingerprints of the files that the settings of each backend name. `public` answers everything.
    """

    config: Config
    backends: Mapping[str, Backend]
    admissions: Mapping[str, Admission[Server]]
    files: Mapping[str, Fingerprints]
    catalogue: Catalogue
    authenticator: Authenticator
    limits: Limits
    pipeline: Pipeline
    public: ASGIApp

    def has_backend(self, name: str, settings: BackendSettings, files: Fingerprints) -> bool:
        """Whether it has this backend, made from the same settings and files."""
        return self.config.backends.get(name) == settings and self.files[name] == files

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
        if closing:
            await asyncio.wait(closing, timeout=CLOSED_S)


def with_fixed(config: Config, running: Config) -> Config:
    """A new configuration with the running values of what takes effect only at a start; warns of what differs.

    Raises ConfigError if the two do not go together, for example when there is no address for callbacks.
    """
    server, now = config.server, running.server
    changed = [f"server.{name}" for name in ("host", "port", "workers") if getattr(server, name) != getattr(now, name)]
    changed += [
        f"server.admin.{each}"
        for each in type(server.admin).model_fields
        if getattr(server.admin, each) != getattr(now.admin, each)
    ]
    if (server.tls is None) != (now.tls is None):
        changed.append("server.tls")
        server = server.model_copy(update={"tls": now.tls})
    if config.state != running.state:
        changed.append("state")
    if changed:
        log.warning("a change takes effect only at the next start", extra={"keys": changed})
    fixed = {name: getattr(now, name) for name in ("host", "port", "workers", "admin")}
    kept = config.model_copy(update={"server": server.model_copy(update=fixed), "state": running.state})
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
