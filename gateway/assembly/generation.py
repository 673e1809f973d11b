"""What is made from one configuration and replaced by the next, how its parts are kept, and what stays fixed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.assembly.files import Fingerprints, fingerprints, named_files
from gateway.auth.service import HttpAuthorizer
from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.published import PublishedTool
from gateway.catalogue.routing import Router
from gateway.core.errors import ConfigError
from gateway.core.ports import Authenticator, Backend
from gateway.core.surfaces import Surface
from gateway.metrics import GaugeSample
from gateway.pipeline.pipeline import Pipeline
from gateway.ratelimit import RateLimits
from gateway.settings import Config
from gateway.upstream.admission import Admission
from gateway.upstream.replica_url import Server

T = TypeVar("T")

log = logging.getLogger("gateway.reload")

CLOSED_S = 30.0  # to close backends that were made but not used


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A part of a generation, and what it was made from."""

    value: T
    settings: object
    files: Fingerprints  # of the files that the settings name


def keep_or_make(before: Part[T] | None, settings: object, make: Callable[[], T]) -> Part[T]:
    """The part from before if its settings and files are the same, else a new one. `settings` may be a tuple."""
    files = fingerprints(named_files(settings))
    if before is not None and before.settings == settings and before.files == files:
        return before
    return Part(make(), settings, files)


@dataclass(frozen=True, slots=True)
class OpenBackend:
    """A backend, and how calls to it are admitted."""

    backend: Backend
    admission: Admission[Server]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The parts of a gateway that follow one configuration; those that still fit are the parts of the one before."""

    config: Config
    open_backends: Mapping[str, Part[OpenBackend]]  # by the names of the backends, as the next two
    backends: Mapping[str, Backend]
    admissions: Mapping[str, Admission[Server]]
    authentication: Part[Authenticator]
    authorization: Part[HttpAuthorizer | None]
    surfaces: Part[Sequence[Surface]]
    pages: Part[ASGIApp]  # answers at all public paths besides the surfaces and callbacks
    expiries: Sequence[GaugeSample]  # until when the certificates are good
    catalogue: Catalogue
    limits: RateLimits
    pipeline: Pipeline
    public: ASGIApp  # answers all requests of callers

    @property
    def authorizer(self) -> HttpAuthorizer | None:
        """What asks the operator's own service about calls, if there is one."""
        return self.authorization.value

    async def start(self) -> None:
        """Begins to ask issuers for their keys and backends for their tools; returns at once."""
        await self.authentication.value.start()
        await self.catalogue.start()

    async def follow(self, before: Generation) -> None:
        """Starts with the tools that the one before knows; returns once new backends were asked, or 10 s later."""
        await self.catalogue.adopt(before.catalogue)
        await self.start()
        await self.catalogue.wait_ready()

    def not_in(self, other: Generation) -> dict[str, Backend]:
        """The backends that the other generation does not have."""
        return {name: backend for name, backend in self.backends.items() if other.backends.get(name) is not backend}

    async def discard(self, before: Generation) -> None:
        """Closes what was made for this generation alone; the one before stays in use."""
        await self.catalogue.aclose()
        closing = [asyncio.ensure_future(backend.aclose()) for backend in self.not_in(before).values()]
        if self.authorizer is not None and self.authorizer is not before.authorizer:
            closing.append(asyncio.ensure_future(self.authorizer.aclose()))
        if closing:
            await asyncio.wait(closing, timeout=CLOSED_S)


class Current:
    """The generation in use, for parts that outlive it; as an ASGI application it passes requests on to it."""

    def __init__(self) -> None:
        self._generation: Generation | None = None
        self._app: ASGIApp = _refuse_to_serve

    def use(self, generation: Generation) -> None:
        """Puts another generation to use."""
        self._generation, self._app = generation, generation.public

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, send)  # not awaited here: that would cost every call another frame

    def generation(self) -> Generation:
        assert self._generation is not None  # nothing is asked before there is one
        return self._generation

    def pipeline(self) -> Pipeline:
        return self.generation().pipeline

    def limits(self) -> RateLimits:
        return self.generation().limits

    def router(self) -> Router:
        return self.generation().catalogue.router

    def find_tool(self, tool: str) -> PublishedTool | None:
        """A tool by its full id."""
        return self.router().find(tool)


async def _refuse_to_serve(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("there is no generation yet")


def with_fixed(config: Config, running: Config) -> Config:
    """A new configuration with the running values of what takes effect only at a start; warns of what differs.

    Raises ConfigError if the two do not go together, for example when there is no address for callbacks.
    """
    server, now = config.server, running.server
    fixed = {"hosts": "host", "port": "port", "workers": "workers"}
    changed = [f"server.{key}" for name, key in fixed.items() if getattr(server, name) != getattr(now, name)]
    changed += [
        f"server.admin.{name}"
        for name in type(server.admin).model_fields
        if getattr(server.admin, name) != getattr(now.admin, name)
    ]
    if (server.tls is None) != (now.tls is None):
        changed.append("server.tls")
        server = server.model_copy(update={"tls": now.tls})
    started = {name: getattr(running, name) for name in ("state", "telemetry", "usage")}
    changed += [name for name, value in started.items() if getattr(config, name) != value]
    if changed:
        log.warning("a change takes effect only at the next start", extra={"keys": changed})
    fixed = {name: getattr(now, name) for name in ("hosts", "port", "workers", "admin")}
    effective = config.model_copy(update={"server": server.model_copy(update=fixed), **started})
    if problems := [
        f"{where}: {what}; before the next start it cannot be used" for where, what in effective.problems()
    ]:
        raise ConfigError(problems)
    return effective
