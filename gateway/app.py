"""The composition root: a configuration in, a gateway out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from gateway import __version__
from gateway.assembly import parts, remembering
from gateway.assembly.authenticators import Issuers
from gateway.assembly.measuring import label_values, readings
from gateway.assembly.retirement import Retirement
from gateway.assembly.setup import Front, Setup, with_fixed
from gateway.assembly.stamps import named_files, stamps
from gateway.assembly.surfaces import SURFACES
from gateway.backends.callback_receiver import absent_receivers
from gateway.backends.lists import LIST_MEMORY_BYTES
from gateway.backends.server import BackendContext, open_admission
from gateway.calls.callbacks import Callbacks, CallbackTokens
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.registry import Calls
from gateway.calls.status import PREFIX
from gateway.catalogue.catalogue import Catalogue
from gateway.challenges import Challenges, is_call
from gateway.checks import Checks
from gateway.http import middleware
from gateway.http.accesslog import AccessLog
from gateway.http.apps import admin_app, metrics_for, public_app
from gateway.http.edge import Edge
from gateway.http.observer import Observer
from gateway.http.routes import CALLBACKS, CALLS
from gateway.looks import Looks, digest
from gateway.memory import BodyMemory
from gateway.metrics import Metrics, Reading, Scraper, families
from gateway.model import JsonObject
from gateway.offload import Checker, Offload
from gateway.offload.checker import MEMORY_BYTES
from gateway.pipeline import Pipeline
from gateway.ports import Backend, Receiver, Surface
from gateway.request import Request
from gateway.responses import ResponseBuilder
from gateway.settings import Config, StateSettings
from gateway.state.sealing import Digester
from gateway.tracing import IdSource

LOOK_S = 0.1  # at the end, between two looks at whether anything is owed


class Gateway:
    """A gateway ready to be started: two ASGI applications and the work behind them.

    `requests` are the tasks of requests under way; whoever runs a listener puts its own there.
    """

    def __init__(
        self, config: Config, *, access: AccessLog | None = None, surfaces: Sequence[Surface] = SURFACES
    ) -> None:
        """`access` logs requests; without it they are not logged."""
        self._surfaces = surfaces
        remembered = config.state or StateSettings()
        keys = [key.reveal() for key in remembered.keys]
        self.requests: set[asyncio.Task[Any]] = set()
        self._draining = False
        self._pending_s = remembered.pending_ttl_s
        self._challenges = Challenges(keys, lifetime_s=self._pending_s, clock=time.time)
        self._looks = Looks(self._ask_challenge)
        self._address = config.server.host, config.server.port
        self._issuers = Issuers()
        self.memory = BodyMemory(config.server.max_memory_bodies_bytes)
        self._limits = remembering.rate_limits(config)
        self.state = remembering.state(remembered)
        # By name; also those that were taken out of the configuration, until they are closed.
        self.backends: dict[str, Backend] = {}
        self._receivers: dict[str, Receiver] = {}
        labels = label_values(config, surfaces)
        self.metrics = Metrics(labels, max_tools=config.metrics.max_tools, gauges=self._readings)
        self.observer = Observer(self.metrics, access or AccessLog(None))
        self._scraper = Scraper(self.metrics)
        self._checker = Checker(Offload(memory_bytes=MEMORY_BYTES))
        self._checks = Checks(self._checker)
        self._lists = Offload(memory_bytes=LIST_MEMORY_BYTES)  # apart: no call waits for lists
        self._responses = ResponseBuilder(
            self._challenges,
            self._checks,
            encoders={key: it for surface in surfaces for key, it in surface.encoders.items()},
            location=lambda call_id: f"{self._challenges.public_url}{CALLS}{call_id}",
            published=lambda tool: self.catalogue.router.published(tool),
            count=self.metrics.tool_call,
        )
        tokens = CallbackTokens(Digester(keys, "callbacks"))
        self._endings = endings = OutcomeRecorder(self.state, self._responses.ended)
        self.calls = Calls(
            self.state,
            Digester(keys, "calls"),
            endings,
            backends=self.backends,
            callback_url=lambda key, run: self._called_back_at + CALLBACKS + tokens.mint(key, run),
            alone=not remembering.is_shared(self.state),
        )
        self.callbacks = Callbacks(
            self.state,
            tokens,
            receivers=self._receivers,
            published=lambda tool: self.catalogue.router.published(tool),
            absent=absent_receivers(self.calls, self._checker),
            backlog=endings.backlog,
        )
        self._ids = IdSource()
        self._retirement = Retirement(self.state, self.backends, self._receivers, pending_s=self._pending_s)
        self._setup = self._set_up(config, None)
        self._front = Front(self._setup.public)
        self._take_in(self._setup)
        self.public: ASGIApp = self._front
        self.admin: ASGIApp = admin_app(self, self._scraper.text)

    def _set_up(self, config: Config, before: Setup | None) -> Setup:
        """Makes what follows the configuration, or takes it over from the setup before where that still fits."""
        backends, admissions = {}, {}
        files = {name: stamps(named_files(settings)) for name, settings in config.backends.items()}
        for name, settings in config.backends.items():
            if before is not None and before.has_backend(name, settings, files[name]):
                backends[name], admissions[name] = before.backends[name], before.admissions[name]
                continue
            patience_s = parts.patience_s(name, settings, config.routes)
            admissions[name] = admission = open_admission(name, settings, patience_s, self.memory)
            context = BackendContext(
                admission=admission,
                outcomes=self.calls,
                checker=self._checker,
                lists=self._lists,
                on_change=partial(self._refresh, name),
                pending_s=self._pending_s,
            )
            backends[name] = parts.ADAPTERS[type(settings)](name, settings, context)
        catalogue = Catalogue(parts.sources(config, backends), offload=self._lists)
        same_auth = before is not None and before.config.auth == config.auth
        authenticator = before.authenticator if before and same_auth else self._issuers.authenticator(config.auth)
        limits = (
            self._limits
            if before is None
            else before.limits.under(remembering.rate_limit_rules(config), config.limits_on_failure)
        )
        pipeline = Pipeline(
            authenticator=authenticator,
            limiter=limits,
            catalogue=catalogue,
            calls=self.calls,
            responses=self._responses,
            checks=self._checks,
            new_call_id=lambda: PREFIX + self._ids.draw()[:32].decode(),
            strict=config.errors.strict,
        )
        rest = before.rest if before is not None and before.has_rest_for(config) else self._rest(config)
        return Setup(
            config=config,
            backends=backends,
            admissions=admissions,
            stamps=files,
            catalogue=catalogue,
            authenticator=authenticator,
            limits=limits,
            pipeline=pipeline,
            rest=rest,
            public=self._edge(config, pipeline, rest),
        )

    def _rest(self, config: Config) -> ASGIApp:
        """Answers requests to no endpoint of a surface.

        It looks for the pipeline anew each time: Starlette's applications refer to themselves, and would keep an old
        pipeline in memory until the collector finds them.
        """
        token = config.metrics.token
        return public_app(
            self,
            self._challenge_status,
            middleware.description(config, __version__),
            calls=lambda: self._setup.pipeline,
            metrics=None if token is None else metrics_for(token.reveal(), self._scraper.text),
            strict=config.errors.strict,
        )

    def _edge(self, config: Config, pipeline: Pipeline, rest: ASGIApp) -> Edge:
        server = config.server
        return Edge(
            self._surfaces,
            answer=pipeline.answer,
            refuse=pipeline.refuse,
            callback=self.callbacks.answer,
            rest=rest,
            ip_of=middleware.ip_of(server),
            observer=self.observer,
            ids=self._ids,
            max_body_bytes=server.max_body_bytes,
            strict=config.errors.strict,
            hosts=middleware.allowed_hosts(server),
            cors=middleware.cors(config),
        )

    @property
    def config(self) -> Config:
        """What it runs by."""
        return self._setup.config

    @property
    def catalogue(self) -> Catalogue:
        return self._setup.catalogue

    async def start(self) -> None:
        """Begins to ask issuers for their keys and backends for their tools; returns at once."""
        await self._limits.start()
        await self.state.start()
        await self.calls.start()
        await self._setup.start()

    async def apply(self, config: Config) -> None:
        """Goes on by another configuration, as far as that can change. Requests under way end by the old one.

        Not to be called again before it has returned. Whatever it raises, nothing has changed then.
        """
        old = self._setup
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._issuers.keep, old.config.auth)
            new = self._set_up(with_fixed(config, old.config), old)
            undo.push_async_callback(new.discard, old)
            await new.follow(old)
            undo.pop_all()
        self._setup = new
        self._take_in(new)
        self._front.app = new.public
        await self._issuers.keep(new.config.auth)
        await old.catalogue.aclose()
        self._retirement.begin(old, new, {*self.requests, *self.calls.running()})

    def _take_in(self, setup: Setup) -> None:
        """Everything outside the setup that goes by its configuration."""
        config = setup.config
        self.backends.update(setup.backends)
        self._receivers.update(parts.receivers(setup.backends))
        parts.update_timeouts(setup.admissions, config)
        self.ip_of = middleware.ip_of(config.server)
        self.memory.change(config.server.max_memory_bodies_bytes)
        self.metrics.use_labels(label_values(config, self._surfaces), max_tools=config.metrics.max_tools)
        self.listens_on(*self._address)

    def listens_on(self, host: str, port: int) -> None:
        """Tells where callers and tool servers reach us when the configuration leaves it open."""
        server = self.config.server
        scheme = "http" if server.tls is None else "https"
        self._address = host, port
        shown = f"[{host}]" if ":" in host else host
        self._challenges.public_url = server.public_url or f"{scheme}://{shown}:{port}"
        self._called_back_at = server.callback_url or self._challenges.public_url

    def turn_away(self) -> None:
        """Turns readiness off; calls are still taken."""
        self._draining = True

    def drain(self) -> None:
        """Turns readiness off; calls are still answered.

        From here on, what is to be done apart from callers is waited for like requests.
        """
        self._draining = True
        last = asyncio.create_task(self._until_quiet())
        self.requests.add(last)
        last.add_done_callback(self.requests.discard)

    async def _until_quiet(self) -> None:
        """Returns when no call runs any more and nothing is owed. When it is cancelled, so are calls that still run."""
        try:
            while True:
                if under_way := {*self.requests, *self.calls.running()} - {asyncio.current_task()}:
                    await asyncio.wait(under_way)
                elif self._is_owed():
                    await asyncio.sleep(LOOK_S)
                else:
                    return
        except asyncio.CancelledError:
            for call in self.calls.running():
                call.cancel()
            raise

    def _is_owed(self) -> bool:
        """Whether results wait for the state, or calls for an outcome that would be lost with this process."""
        return bool(self._endings.backlog or remembering.unfinished_here(self.state))

    @property
    def lost_results(self) -> int:
        """How many results were taken and could not be written down; to be asked when it is closed."""
        return self._endings.backlog.lost

    async def aclose(self) -> None:
        """Stops discovery and closes every connection."""
        await self._looks.aclose()
        await self.calls.aclose()
        await self.catalogue.aclose()
        await self._retirement.aclose()
        for backend in self._setup.backends.values():
            await backend.aclose()
        await self._issuers.keep(None)
        await self._limits.aclose()
        await self.state.aclose()
        await self._checker.aclose()
        await self._lists.aclose()

    @property
    def status(self) -> str:
        if self._draining:
            return "draining"
        return "ok" if self.catalogue.ready else "starting"

    def details(self) -> JsonObject:
        """The detailed health: where calls are remembered, issuers and backends with their ages and what is wrong."""
        backends = {
            name: {"dialect": backend.dialect}
            | self.catalogue.status(name).as_json()
            | self._setup.admissions[name].snapshot().as_json()
            for name, backend in self._setup.backends.items()
        }
        return {
            "status": self.status,
            "version": __version__,
            "reloads": dict(self.metrics.reloads),
            "state": remembering.state_details(self.state),
            "issuers": {name: issuer.as_json() for name, issuer in self._issuers.status().items()},
            "backends": backends,
        }

    def _readings(self) -> Iterable[Reading]:
        setup = self._setup
        yield Reading(families.BODY_MEMORY, (), float(self.memory.held))
        yield Reading(families.BODY_MEMORY_LIMIT, (), float(self.memory.limit_bytes))
        yield from readings(setup.backends, setup.admissions, setup.catalogue, self.state, self._issuers.status())

    def _refresh(self, backend: str) -> None:
        """A tool server said that its tools have changed."""
        if backend in self.catalogue:
            self.catalogue.refresh(backend)

    async def _challenge_status(self, request: Request, token: str) -> str:
        """How the challenge of a token stands. Raises RATE_LIMITED."""
        opened = self._challenges.open(token)
        request.extra = self._setup.limits.admit_look(request.ip, opened and digest(opened))
        return "failed" if opened is None else await self._looks.status(*opened)

    async def _ask_challenge(self, name: str, check_url: str) -> str:
        if is_call(check_url):  # wherever its backend is
            return await self.calls.consent_status(check_url)
        backend = self.backends.get(name)
        return "failed" if backend is None else await backend.challenge_status(check_url)
