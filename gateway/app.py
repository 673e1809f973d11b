"""The composition root: a configuration in, a gateway out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Scope

from gateway.assembly import factories, reporting, tracing
from gateway.assembly.address import PublicAddress
from gateway.assembly.authenticators import Issuers, accounts
from gateway.assembly.authorization import open_authorizer
from gateway.assembly.backends import BackendOpener
from gateway.assembly.challenge_lookup import ChallengeLookup
from gateway.assembly.draining import BackendDrainer, until_quiet
from gateway.assembly.expiry import expiries
from gateway.assembly.generation import Current, Generation, keep_or_make, with_fixed
from gateway.auth import IssuerStatus
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.registry import Calls
from gateway.catalogue.catalogue import Catalogue
from gateway.console.calls import RunningCalls
from gateway.console.host import ConsoleHost
from gateway.console.log import RecentLines
from gateway.console.public import public_console
from gateway.console.view import View
from gateway.core.ports import Backend, Receiver
from gateway.core.sealing import Digester, Sealer, TimedSealer
from gateway.core.surfaces import Surface
from gateway.core.tracing import random_digits
from gateway.http.accesslog import AccessLog
from gateway.http.apps import admin_app, public_app
from gateway.http.clientip import ip_of
from gateway.http.edge import Edge
from gateway.http.origins import Cors, PageOrigins, allowed_hosts
from gateway.http.routes import CALLBACKS, CALLS
from gateway.metrics import Metrics, Scraper
from gateway.net.body_memory import BodyMemory
from gateway.net.server import Listener
from gateway.offload import ChildTasks, Offload
from gateway.pipeline.callbacks import Callbacks, CallbackTokens
from gateway.pipeline.challenges import CLOCKS_DIFFER_S, ChallengeLinks, Consents
from gateway.pipeline.checks import Checks
from gateway.pipeline.listeners import Listeners
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.request import Request
from gateway.pipeline.responses import ResponseBuilder
from gateway.protocols.rap.receiver import absent_receivers
from gateway.settings import Config, StateSettings
from gateway.upstream.list_reader import LIST_MEMORY_BYTES


class Gateway:
    """A gateway ready to be started: two ASGI applications, and the background work they need."""

    def __init__(
        self,
        config: Config,
        *,
        access: AccessLog | None = None,  # logs requests; without it they are not logged
        file: Path | None = None,  # where the configuration was read
        more_surfaces: Sequence[Surface] = (),
        listener: Listener | None = None,  # will serve callers; without one, nothing is known of connections
        view: View | None = None,  # answers the console of several processes
    ) -> None:
        storage = config.state or StateSettings()
        keys = [key.get_secret_value() for key in storage.keys]
        pending_s = storage.pending_ttl_s
        self._more_surfaces = more_surfaces
        self.current = current = Current()
        self.address = address = PublicAddress(config.server)
        self.requests: set[asyncio.Task[Any]] = set() if listener is None else listener.tasks  # of requests under way
        self.running: set[Request] = set()  # under way to the endpoints of surfaces
        self.memory = listener.memory if listener else BodyMemory(config.server.max_memory_bodies_bytes)
        self._issuers = Issuers()
        self.state = factories.state(storage)
        is_shared = factories.is_shared(self.state)
        # By name; also those that were removed from the configuration, until they are closed.
        self.backends: dict[str, Backend] = {}
        self._receivers: dict[str, Receiver] = {}
        self._listeners = Listeners(current.router)
        self.metrics = metrics = Metrics(
            reporting.label_values(config, more_surfaces),
            max_tools=config.metrics.max_tools,
            gauges=reporting.Gauges(
                current=current,
                state=self.state,
                issuers=self._issuers,
                memory=self.memory,
                listeners=self._listeners,
                use_of_connections=listener.use if listener else lambda: (0, 0),
            ),
        )
        self.health = reporting.GatewayHealth(current=current, state=self.state, issuers=self._issuers, metrics=metrics)
        self._digits = random_digits()
        self._telemetry = telemetry = tracing.telemetry(config, self._digits)
        access = access or AccessLog(None)
        self._usage = usage = factories.usage(config)
        count_call = metrics.tool_call if usage is None else usage.beside(metrics.tool_call)
        self.observer = telemetry.observer(metrics, access, count_call)
        self._limits = factories.rate_limits(config, metrics.limit_used)
        self._checker = ChildTasks()
        self._checks = Checks(self._checker)
        self._lists = Offload(memory_bytes=LIST_MEMORY_BYTES)  # its own, so that no call waits for lists
        self._scraper = Scraper(metrics, partial(reporting.processes, self._checker, self._lists))
        self._challenges = ChallengeLinks(keys, address.public_url, lifetime_s=pending_s, clock=time.time)
        self._responses = ResponseBuilder(
            self._challenges,
            self._checks,
            encoders=dict(chain(factories.ENCODERS.items(), *(surface.encoders.items() for surface in more_surfaces))),
            path=CALLS,
            published=current.find_tool,
            count=count_call,
            pending_ttl_s=pending_s,
            result_ttl_s=storage.result_ttl_s,
        )
        tokens = CallbackTokens(Digester(keys, "callbacks"))
        state = telemetry.state(self.state, is_shared=is_shared)
        self._outcomes = OutcomeRecorder(state, self._responses.count_end)
        self.calls = Calls(
            state,
            Digester(keys, "calls"),
            self._outcomes,
            backends=self.backends,
            callback_url=lambda key, run: address.callback_url() + CALLBACKS + tokens.mint(key, run),
            alone=not is_shared,
        )
        self._challenge_lookup = ChallengeLookup(self._challenges, self.calls, self.backends, current)
        self.callbacks = Callbacks(
            state,
            tokens,
            receivers=self._receivers,
            published=current.find_tool,
            absent=absent_receivers(self.calls, self._checker),
            backlog=self._outcomes.backlog,
            linked=telemetry.link,
        )
        self._sessions = Sealer(keys, "mcp sessions")
        self._consent_states = TimedSealer(Sealer(keys, "mcp consents"), pending_s + CLOCKS_DIFFER_S, time.time)
        self._console_sealer = Sealer(keys, "console")
        self.console = ConsoleHost(
            current=current,
            state=self.state,
            issuers=self._issuers,
            health=self.health,
            address=address,
            metrics=metrics,
            recent=RecentLines(access),
            running=RunningCalls(self.state, self.calls.stored_calls, self.running),
            file=file,
            view=view,
        )
        self.state.on_tools_changed(partial(self._refresh, is_news=False))
        self.state.on_lost(metrics.state_lost)
        self.state.on_quota(metrics.quota_met)
        self._opener = BackendOpener(
            calls=self.calls,
            state=self.state,
            telemetry=telemetry,
            metrics=metrics,
            memory=self.memory,
            checker=self._checker,
            lists=self._lists,
            pending_s=pending_s,
            on_change=self._refresh,
        )
        self._drainer = BackendDrainer(self.state, self.backends, self._receivers, pending_s=pending_s)
        self.public: ASGIApp = current
        self.admin: ASGIApp = admin_app(self.health, self._scraper.text, self.console.for_operators)
        self._adopt(self._make_generation(config, None))

    def _make_generation(self, config: Config, before: Generation | None) -> Generation:
        """Makes the parts of a configuration, or takes them from the generation before where they still fit."""
        open_backends = self._opener.open(config, {} if before is None else before.open_backends)
        backends = {name: part.value.backend for name, part in open_backends.items()}
        catalogue = Catalogue(
            factories.sources(config, backends, self._telemetry.backends(backends, config)),
            offload=self._lists,
            on_rebuilt=self._listeners.look,
            on_changed=self.state.announce_tools_changed,
        )
        longest = config.server.max_head_bytes
        authentication = keep_or_make(
            None if before is None else before.authentication,
            (config.auth, longest),
            lambda: self._issuers.authenticator(config.auth, longest),
        )
        authorization = keep_or_make(
            None if before is None else before.authorization,
            config.authorize,
            lambda: None if config.authorize is None else open_authorizer(config.authorize, self.metrics),
        )
        rules = factories.rate_limit_rules(config)
        limits = self._limits if before is None else before.limits.under(rules, config.limits_on_failure)
        pipeline = Pipeline(
            authenticator=authentication.value,
            authorizer=authorization.value,
            limiter=limits,
            catalogue=catalogue,
            calls=self.calls,
            responses=self._responses,
            checks=self._checks,
            consents=Consents(self._challenges, self._challenge_lookup.looks),
            listeners=self._listeners,
            digits=self._digits,
            strict=config.errors.strict,
            continues=self._telemetry.continue_trace,
            step=self._telemetry.step,
        )
        scopes = frozenset(frozenset(route.scopes) for route in config.routes if not route.deny)
        shared = config.server, config.auth, config.mcp, scopes
        surfaces = keep_or_make(
            None if before is None else before.surfaces,
            (*shared, config.state is None),
            lambda: factories.surfaces(config, self._sessions, self._consent_states, self.address.public_url),
        )
        pages = keep_or_make(
            None if before is None else before.pages,
            (*shared, config.errors, config.metrics, config.console),
            lambda: self._make_pages(config),
        )
        return Generation(
            config=config,
            open_backends=open_backends,
            backends=backends,
            admissions={name: part.value.admission for name, part in open_backends.items()},
            authentication=authentication,
            authorization=authorization,
            surfaces=surfaces,
            pages=pages,
            expiries=expiries(config),
            catalogue=catalogue,
            limits=limits,
            pipeline=pipeline,
            public=self._make_edge(config, pipeline, (*surfaces.value, *self._more_surfaces), pages.value),
        )

    def _make_pages(self, config: Config) -> ASGIApp:
        """The public pages of the gateway's own."""
        console = public_console(config, self.console.app, self._issuers, self.current.limits, self._console_sealer)
        status, scrape, current = self._challenge_lookup.of_token, self._scraper.text, self.current
        return public_app(config, self.health, status, scrape, current.pipeline, self.address.public_url, console)

    def _make_edge(self, config: Config, pipeline: Pipeline, surfaces: Sequence[Surface], pages: ASGIApp) -> Edge:
        """What callers reach: every surface, callbacks, and the pages."""
        server = config.server
        forwarded = {name for backend in config.backends.values() for name in backend.forward_headers}
        return Edge(
            surfaces,
            answer=pipeline.answer,
            refuse=pipeline.refuse,
            callback=self.callbacks.answer,
            rest=pages,
            ip_of=ip_of(server),
            observer=self.observer,
            identify=self._telemetry.identify,
            max_body_bytes=server.max_body_bytes,
            strict=config.errors.strict,
            running=self.running,
            hosts=allowed_hosts(server),
            allows_page=PageOrigins(server, self.address.public_url).allows,
            cors=None if server.cors is None else Cors(server.cors, forwarded),
        )

    @property
    def generation(self) -> Generation:
        """The parts that follow the configuration in use."""
        return self.current.generation()

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self.generation.config

    @property
    def catalogue(self) -> Catalogue:
        return self.generation.catalogue

    async def start(self) -> None:
        """Starts to ask issuers for their keys and backends for their tools, without waiting for them."""
        await self._telemetry.start(self.metrics.spans)
        await self._limits.start()
        if self._usage is not None:
            await self._usage.start()
        await self.state.start()
        await self.calls.start()
        await self.console.start()
        await self.generation.start()

    async def apply(self, config: Config) -> None:
        """Applies another configuration, as far as it can change. Requests under way end under the old one.

        Not to be called again before it has returned. If it raises, nothing has changed.
        """
        old = self.generation
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._issuers.keep, old.config.auth)
            new = self._make_generation(with_fixed(config, old.config), old)
            undo.push_async_callback(new.discard, old)
            await new.follow(old)
            undo.pop_all()
        self._adopt(new)
        self._listeners.look()
        new.catalogue.catch_up(old.catalogue)
        await self._issuers.keep(new.config.auth)
        await old.catalogue.aclose()
        self._drainer.begin(old, new, self._under_way() - self._listeners.tasks)

    def _adopt(self, generation: Generation) -> None:
        """Puts a generation to use, and updates what outlives it and depends on its configuration."""
        config = generation.config
        self.current.use(generation)
        self.backends.update(generation.backends)
        self._receivers.update(factories.receivers(generation.backends))
        factories.update_timeouts(generation.admissions, config)
        self.address.change(config.server)
        self._ip_of = ip_of(config.server)
        self.memory.change(config.server.max_memory_bodies_bytes)
        listen = config.mcp.listen
        self._listeners.limit(listen.max if config.mcp.enabled else 0, listen.max_per_caller)
        self.metrics.use_labels(reporting.label_values(config, self._more_surfaces), max_tools=config.metrics.max_tools)
        if self._usage is not None:
            self._usage.use_accounts(accounts(config.auth))

    def ip_of(self, scope: Scope) -> str:
        """The address of a caller."""
        return self._ip_of(scope)

    def turn_away(self) -> None:
        """Turns readiness off; calls are still accepted."""
        self.health.is_draining = True

    def drain(self) -> None:
        """Turns readiness off, and has the listener wait for calls without callers as it does for requests.

        Callers who listen are sent away.
        """
        self.health.is_draining = True
        self._listeners.close()
        last = asyncio.create_task(until_quiet(self._under_way, self.calls, self._is_pending))
        self.requests.add(last)
        last.add_done_callback(self.requests.discard)

    def _under_way(self) -> set[asyncio.Task[Any]]:
        """The tasks of requests, and of calls that continue without theirs."""
        return {*self.requests, *self.calls.running()}

    def _is_pending(self) -> bool:
        """Whether results wait to be stored, or calls for an outcome that would be lost with this process."""
        return bool(self._outcomes.backlog or factories.unfinished_here(self.state))

    @property
    def lost_results(self) -> int:
        """How many results were accepted and could not be stored; final once the gateway is closed."""
        return self._outcomes.backlog.lost

    async def aclose(self) -> None:
        """Stops discovery and closes every connection."""
        for part in (
            self.console,
            self._listeners,
            self._challenge_lookup.looks,
            self.calls,
            self.catalogue,
            self._drainer,
            *self.generation.backends.values(),
        ):
            await part.aclose()
        await self._issuers.keep(None)
        for optional in (self.generation.authorizer, self._usage):
            if optional is not None:
                await optional.aclose()
        for shared in (self._limits, self.state, self._checker, self._lists, self._telemetry):
            await shared.aclose()

    @property
    def children(self) -> dict[str, int]:
        """The processes that work for this one, by name, while there are any."""
        return reporting.children(self._checker, self._lists)

    async def issuers(self) -> Mapping[str, IssuerStatus]:
        """How the issuers stand that publish their keys, after each was asked for them."""
        await self._issuers.refresh()
        return self._issuers.status()

    def _refresh(self, backend: str, *, is_news: bool = True) -> None:
        """Asks a backend for its tools again, because it, or with `is_news` off another replica, reported a change."""
        if backend in self.catalogue:
            self.catalogue.refresh(backend, is_news=is_news)
