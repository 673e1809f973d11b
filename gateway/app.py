"""The composition root: a configuration in, a gateway out."""

from __future__ import annotations

import os
import time

from starlette.types import ASGIApp

from gateway import __version__, assembly, openapi
from gateway.callbacks import PATH as CALLBACKS
from gateway.callbacks import Callbacks, CallbackTokens
from gateway.calls import Calls
from gateway.catalogue import Catalogue
from gateway.challenges import Challenges
from gateway.edge import Edge
from gateway.kept import PREFIX
from gateway.model import JsonObject
from gateway.pipeline import Pipeline
from gateway.ports import Backend
from gateway.settings import Config, StateSettings
from gateway.state.sealing import Digester
from gateway.surface import admin_app, public_app


class Gateway:
    """A gateway ready to be started: two ASGI applications and the work behind them."""

    def __init__(self, config: Config) -> None:
        server, remembered = config.server, config.state or StateSettings()
        keys = [key.reveal() for key in remembered.keys]
        self._public_url, self._callback_url = server.public_url, server.callback_url
        self._draining = False
        self._challenges = Challenges(keys, clock=time.time)
        self.listens_on(server.host, server.port)
        self.state = assembly.state(remembered)
        self.backends: dict[str, Backend] = {}
        tokens = CallbackTokens(Digester(keys, "callbacks"))
        self.calls = Calls(
            self.state,
            Digester(keys, "calls"),
            backends=self.backends,
            callback_url=lambda key: self._called_back_at + CALLBACKS + tokens.mint(key),
        )
        for name, settings in config.backends.items():
            self.backends[name] = assembly.backend(name, settings, self.calls, self._refresh)
        self.catalogue = Catalogue(assembly.sources(config, self.backends))
        self.callbacks = Callbacks(
            self.state, tokens, backends=self.backends, published=lambda tool: self.catalogue.router.published(tool)
        )
        pipeline = Pipeline(
            authenticator=assembly.authenticator(config.auth),
            catalogue=self.catalogue,
            challenges=self._challenges,
            calls=self.calls,
            new_call_id=CallIds(),
            location=lambda call_id: f"{self._challenges.public_url}/calls/{call_id}",
        )
        document = openapi.document(__version__, server.public_url) if server.openapi else None
        self.public: ASGIApp = Edge(
            call=pipeline.call,
            list_=pipeline.list,
            callback=self.callbacks.answer,
            rest=public_app(self, self._challenge_status, document, look=pipeline.look, cancel=pipeline.cancel),
            max_body_bytes=server.max_body_bytes,
            strict=config.errors.strict,
        )
        self.admin: ASGIApp = admin_app(self)

    async def start(self) -> None:
        """Begins to ask the backends for their tools; returns at once."""
        await self.state.start()
        await self.calls.start()
        await self.catalogue.start()

    def listens_on(self, host: str, port: int) -> None:
        """Tells where callers and tool servers reach us when the configuration leaves it open."""
        self._challenges.public_url = self._public_url or f"http://{_url_host(host)}:{port}"
        self._called_back_at = self._callback_url or self._challenges.public_url

    def drain(self) -> None:
        """Turns readiness off; calls are still answered."""
        self._draining = True

    async def aclose(self) -> None:
        """Stops discovery and closes every connection."""
        await self.calls.aclose()
        await self.callbacks.aclose()
        await self.catalogue.aclose()
        for backend in self.backends.values():
            await backend.aclose()
        await self.state.aclose()

    @property
    def status(self) -> str:
        if self._draining:
            return "draining"
        return "ok" if self.catalogue.ready else "starting"

    def details(self) -> JsonObject:
        """The detailed health: each backend with its tools, its age and what is wrong with it."""
        backends = {
            name: {"dialect": backend.dialect, **self.catalogue.status(name).as_json()}
            for name, backend in self.backends.items()
        }
        return {"status": self.status, "version": __version__, "backends": backends}

    def _refresh(self, backend: str) -> None:
        """A tool server said that its tools have changed."""
        self.catalogue.refresh(backend)

    async def _challenge_status(self, token: str) -> str:
        opened = self._challenges.open(token)
        backend = self.backends.get(opened[0]) if opened else None
        if opened is None or backend is None:
            return "failed"
        if backend.asynchronous:
            return await self.calls.consent_status(opened[1])
        return await backend.challenge_status(opened[1])


class CallIds:
    """Makes call ids of 128 random bits; the prefix tells a tool server's operator whom to ask.

    Randomness is fetched for many at once: a system call for each costs more than the rest of making it.
    """

    def __init__(self) -> None:
        self._random = b""
        self._used = 0

    def __call__(self) -> str:
        if self._used >= len(self._random):
            self._random, self._used = os.urandom(4096), 0
        start, self._used = self._used, self._used + 16
        return PREFIX + self._random[start : self._used].hex()


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
