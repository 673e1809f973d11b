"""The composition root: a configuration in, a gateway out."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from gateway import __version__
from gateway.admission import Admission
from gateway.assembly import parts, reporting
from gateway.assembly.authenticators import Issuers, accounts
from gateway.assembly.authorization import open_authorizer
from gateway.assembly.expiry import expiries
from gateway.assembly.setup import (
    BackendDrainer,
    Fingerprints,
    Setup,
    SwappableApp,
    fingerprints,
    named_files,
    until_quiet,
    with_fixed,
)
from gateway.auth import IssuerStatus
from gateway.authorization import HttpAuthorizer
from gateway.backends.callback_receiver import absent_receivers
from gateway.backends.lists import LIST_MEMORY_BYTES
from gateway.backends.server import BackendContext, Server, open_admission
from gateway.calls.callbacks import Callbacks, CallbackTokens
from gateway.calls.earlier import EarlierCalls
from gateway.calls.outcomes import OutcomeRecorder
from gateway.calls.registry import Calls
from gateway.catalogue.catalogue import Catalogue
from gateway.challenges import CLOCKS_DIFFER_S, CallChallenge, Challenge, Challenges, Consents, Looks, digest
from gateway.checks import Checks
from gateway.console.host import ConsoleHost
from gateway.console.public import public_console
from gateway.http.accesslog import AccessLog
from gateway.http.apps import admin_app, public_app
from gateway.http.clientip import ip_of
from gateway.http.edge import Edge
from gateway.http.origins import Cors, PageOrigins, allowed_hosts
from gateway.http.routes import CALLBACKS, CALLS
from gateway.listeners import Listeners
from gateway.memory import BodyMemory
from gateway.metrics import Metrics, Scraper
from gateway.model import JsonObject
from gateway.offload import ChildTasks, Offload
from gateway.pipeline import Pipeline
from gateway.ports import Backend, Outcomes, Receiver
from gateway.request import Request
from gateway.responses import ResponseBuilder
from gateway.server import Listener
from gateway.settings import BackendSettings, CallbackBackendSettings, Config, StateSettings
from gateway.state.sealing import Digester, Sealer, TimedSealer
from gateway.surfaces import Surface
from gateway.telemetry import wiring
from gateway.tracing import random_digits


class Gateway:
    """A gateway ready to be started: two ASGI applications, and the background work they need."""

    def __init__(
        self,
        config: Config,
        *,
        access: AccessLog | None = None,
        file: Path | None = None,
        more_surfaces: Sequence[Surface] = (),
        listener: Listener | None = None,
    ) -> None:
        """`access` logs requests; without it they are not logged. `file` is where the configuration was read.

        `listener` will serve callers; without one, nothing is known of connections.
        """
        self._more_surfaces = more_surfaces
        remembered = config.state or StateSettings()
        keys = [key.get_secret_value() for key in remembered.keys]
        self._listener = listener
        self.requests: set[asyncio.Task[Any]] = set() if listener is None else listener.tasks  # of requests under way
        self.running: set[Request] = set()  # under way to the endpoints of surfaces
        self._draining = False
        self._pending_s = remembered.pending_ttl_s
        self._challenges = Challenges(keys, lifetime_s=self._pending_s, clock=time.time)
        self._looks = Looks(self._ask_challenge)
        self._address = config.server.host, config.server.port
        self._issuers = Issuers()
        limit_bytes = config.server.max_memory_bodies_bytes
        self.memory = BodyMemory(limit_bytes) if listener is None else listener.memory
        self.state = parts.state(remembered)
        # By name; also those that were removed from the configuration, until they are closed.
        self.backends: dict[str, Backend] = {}
        self._receivers: dict[str, Receiver] = {}
        self.metrics = Metrics(
            reporting.label_values(config, more_surfaces),
            max_tools=config.metrics.max_tools,
            gauges=lambda: reporting.readings(self._setup, self.state, self._issuers.status(), self._load()),
        )
        self._digits = random_digits()
        self._telemetry = wiring.telemetry(config, self._digits)
        access = access or AccessLog(None)
        self.observer = self._telemetry.observer(self.metrics, access)
        self._limits = parts.rate_limits(config, self.metrics.limit_used)
        self._usage = parts.usage(config)
        if self._usage is not None:
            self.observer.count_call = self._usage.beside(self.metrics.tool_call)
        self._scraper = Scraper(self.metrics, lambda: {"gateway": os.getpid(), **self.children})
        self._checker = ChildTasks()
        self._checks = Checks(self._checker)
        self._lists = Offload(memory_bytes=LIST_MEMORY_BYTES)  # its own, so that no call waits for lists
        self._responses = ResponseBuilder(
            self._challenges,
            self._checks,
            encoders=dict(chain(parts.ENCODERS.items(), *(each.encoders.items() for each in more_surfaces))),
            path=CALLS,
            published=lambda tool: self.catalogue.router.published(tool),
            count=self.observer.count_call,
            pending_ttl_s=remembered.pending_ttl_s,
            result_ttl_s=remembered.result_ttl_s,
        )
        tokens = CallbackTokens(Digester(keys, "callbacks"))
        state = self._telemetry.state(self.state, is_shared=parts.is_shared(self.state))
        self._outcomes = outcomes = OutcomeRecorder(state, self._responses.ended)
        self.calls = Calls(
            state,
            Digester(keys, "calls"),
            outcomes,
            backends=self.backends,
            callback_url=lambda key, run: self._called_back_at + CALLBACKS + tokens.mint(key, run),
            alone=not parts.is_shared(self.state),
        )
        self.callbacks = Callbacks(
            state,
            tokens,
            receivers=self._receivers,
            published=lambda tool: self.catalogue.router.published(tool),
            absent=absent_receivers(self.calls, self._checker),
            backlog=outcomes.backlog,
            linked=self._telemetry.linked,
        )
        self._sessions = Sealer(keys, "mcp sessions")
        lifetime_s = self._pending_s + CLOCKS_DIFFER_S
        self._consent_states = TimedSealer(Sealer(keys, "mcp consents"), lifetime_s, time.time)
        self._console_sealer = Sealer(keys, "console")
        self.console = ConsoleHost(self, access, file)
        self._listeners = Listeners(lambda: self.catalogue.router)
        self.state.on_tools_changed(partial(self._refresh, is_news=False))
        self.state.on_lost(self.metrics.state_lost)
        self.state.on_quota(self.metrics.quota_met)
        self._drainer = BackendDrainer(self.state, self.backends, self._receivers, pending_s=self._pending_s)
        self._setup = self._set_up(config, None)
        self.public = SwappableApp(self._setup.public)
        self._adopt(self._setup)
        self.admin: ASGIApp = admin_app(self, self._scraper.text, self.console.for_operators)

    def _set_up(self, config: Config, before: Setup | None) -> Setup:
        """Makes the parts of a configuration, or takes them from the setup before where they still fit."""
        files = {name: fingerprints(named_files(settings)) for name, settings in config.backends.items()}
        backends, admissions = self._backends_of(config, files, before)
        catalogue = Catalogue(
            parts.sources(config, backends, self._telemetry.backends(backends, config)),
            offload=self._lists,
            on_rebuilt=self._listeners.look,
            on_changed=self.state.announce_tools_changed,
        )
        longest = config.server.max_head_bytes
        if before and (before.config.auth, before.config.server.max_head_bytes) == (config.auth, longest):
            authenticator = before.authenticator
        else:
            authenticator = self._issuers.authenticator(config.auth, longest)
        authorizer, authorizer_files = None, fingerprints(named_files(config.authorize))
        if before is not None and before.has_authorizer(config.authorize, authorizer_files):
            authorizer = before.authorizer
        elif config.authorize is not None:
            authorizer = open_authorizer(config.authorize, self.metrics)
        rules = parts.rate_limit_rules(config)
        limits = self._limits if before is None else before.limits.under(rules, config.limits_on_failure)
        pipeline = Pipeline(
            authenticator=authenticator,
            authorizer=authorizer,
            limiter=limits,
            catalogue=catalogue,
            calls=self.calls,
            responses=self._responses,
            checks=self._checks,
            consents=Consents(self._challenges, self._looks),
            listeners=self._listeners,
            digits=self._digits,
            strict=config.errors.strict,
            continues=self._telemetry.continued,
            step=self._telemetry.step,
        )
        return Setup(
            config=config,
            backends=backends,
            admissions=admissions,
            files=files,
            expiries=expiries(config),
            catalogue=catalogue,
            authenticator=authenticator,
            authorizer=authorizer,
            authorizer_files=authorizer_files,
            limits=limits,
            pipeline=pipeline,
            public=self._edge(config, pipeline),
        )

    def _backends_of(
        self, config: Config, files: Mapping[str, Fingerprints], before: Setup | None
    ) -> tuple[dict[str, Backend], dict[str, Admission[Server]]]:
        """The backends, and how calls are admitted to each; those that have not changed stay."""
        backends: dict[str, Backend] = {}
        admissions: dict[str, Admission[Server]] = {}
        patience_s = parts.patience_s(config)
        for name, settings in config.backends.items():
            if before is not None and before.has_backend(name, settings, files[name]):
                backends[name], admissions[name] = before.backends[name], before.admissions[name]
                continue
            admissions[name] = admission = open_admission(
                name, settings, patience_s[name], self.memory, self._telemetry.admission
            )
            context = BackendContext(
                admission=admission,
                outcomes=self._outcomes_for(settings),
                checker=self._checker,
                lists=self._lists,
                on_change=partial(self._refresh, name),
                pending_s=self._pending_s,
                count_dropped=partial(self.metrics.notice_dropped, name),
                memory=self.memory,
            )
            backends[name] = parts.ADAPTERS[type(settings)](name, settings, context)
        return backends, admissions

    def _edge(self, config: Config, pipeline: Pipeline) -> Edge:
        """What callers reach: every surface, callbacks, and the pages of the gateway's own."""
        server = config.server
        forwarded = {name for backend in config.backends.values() for name in backend.forward_headers}
        console = public_console(
            config, self.console.app, self._issuers, lambda: self._setup.limits, self._console_sealer
        )
        return Edge(
            (*parts.surfaces(config, self._sessions, self._consent_states, self.public_url), *self._more_surfaces),
            answer=pipeline.answer,
            refuse=pipeline.refuse,
            callback=self.callbacks.answer,
            rest=public_app(
                config,
                self,
                self._challenge_status,
                self._scraper.text,
                lambda: self._setup.pipeline,
                self.public_url,
                console,
            ),
            ip_of=ip_of(server),
            observer=self.observer,
            identify=self._telemetry.identify,
            max_body_bytes=server.max_body_bytes,
            strict=config.errors.strict,
            running=self.running,
            hosts=allowed_hosts(server),
            allows_page=PageOrigins(server, self.public_url).allows,
            cors=None if server.cors is None else Cors(server.cors, forwarded),
        )

    def _outcomes_for(self, settings: BackendSettings) -> Outcomes:
        """Where a backend reports outcomes: those of callbacks come with a request, which is traced itself."""
        is_called_back = isinstance(settings, CallbackBackendSettings)
        return self.calls if is_called_back else self._telemetry.outcomes(self.calls, self.state)

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._setup.config

    @property
    def setup(self) -> Setup:
        """The parts in use."""
        return self._setup

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens for callers."""
        return self._address

    @property
    def earlier(self) -> EarlierCalls:
        """What finds and ends calls that are kept."""
        return self.calls.earlier

    def issuer_status(self) -> Mapping[str, IssuerStatus]:
        """How the issuers stand that publish their keys, as last seen."""
        return self._issuers.status()

    @property
    def admissions(self) -> Mapping[str, Admission[Server]]:
        """How calls are admitted to each backend."""
        return self._setup.admissions

    @property
    def authorizer(self) -> HttpAuthorizer | None:
        """What asks the operator's own service about calls, if there is one."""
        return self._setup.authorizer

    @property
    def catalogue(self) -> Catalogue:
        return self._setup.catalogue

    async def start(self) -> None:
        """Starts to ask issuers for their keys and backends for their tools, without waiting for them."""
        await self._telemetry.start(self.metrics.spans)
        await self._limits.start()
        if self._usage is not None:
            await self._usage.start()
        await self.state.start()
        await self.calls.start()
        await self.console.start()
        await self._setup.start()

    async def apply(self, config: Config) -> None:
        """Applies another configuration, as far as it can change. Requests under way end under the old one.

        Not to be called again before it has returned. If it raises, nothing has changed.
        """
        old = self._setup
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._issuers.keep, old.config.auth)
            new = self._set_up(with_fixed(config, old.config), old)
            undo.push_async_callback(new.discard, old)
            await new.follow(old)
            undo.pop_all()
        self._setup = new
        self._adopt(new)
        self.public.app = new.public
        self._listeners.look()
        new.catalogue.catch_up(old.catalogue)
        await self._issuers.keep(new.config.auth)
        await old.catalogue.aclose()
        self._drainer.begin(old, new, self._under_way() - self._listeners.tasks)

    def _adopt(self, setup: Setup) -> None:
        """Updates what outlives the setup and depends on its configuration."""
        config = setup.config
        self.backends.update(setup.backends)
        self._receivers.update(parts.receivers(setup.backends))
        parts.update_timeouts(setup.admissions, config)
        self.ip_of = ip_of(config.server)
        self.memory.change(config.server.max_memory_bodies_bytes)
        asked = config.mcp
        self._listeners.limit(asked.listen.max if asked.enabled else 0, asked.listen.max_per_caller)
        self.metrics.use_labels(reporting.label_values(config, self._more_surfaces), max_tools=config.metrics.max_tools)
        if self._usage is not None:
            self._usage.accounts = accounts(config.auth)
        self.listens_on(*self._address)

    def listens_on(self, host: str, port: int) -> None:
        """Sets the address for callers and tool servers, as far as the configuration does not."""
        server = self.config.server
        scheme = "http" if server.tls is None else "https"
        self._address = host, port
        shown = f"[{host}]" if ":" in host else host
        self._challenges.public_url = server.public_url or f"{scheme}://{shown}:{port}"
        self._called_back_at = server.callback_url or self._challenges.public_url

    def public_url(self) -> str:
        """Where callers reach the gateway, without a slash at its end."""
        return self._challenges.public_url

    def turn_away(self) -> None:
        """Turns readiness off; calls are still accepted."""
        self._draining = True

    def drain(self) -> None:
        """Turns readiness off, and has the listener wait for calls without callers as it does for requests.

        Callers who listen are sent away.
        """
        self._draining = True
        self._listeners.close()
        last = asyncio.create_task(until_quiet(self._under_way, self.calls, self._is_pending))
        self.requests.add(last)
        last.add_done_callback(self.requests.discard)

    def _load(self) -> reporting.Load:
        open_count, most = (0, 0) if self._listener is None else self._listener.use()
        return reporting.Load(self.memory, len(self._listeners), open_count, most)

    def _under_way(self) -> set[asyncio.Task[Any]]:
        """The tasks of requests, and of calls that continue without theirs."""
        return {*self.requests, *self.calls.running()}

    def _is_pending(self) -> bool:
        """Whether results wait to be stored, or calls for an outcome that would be lost with this process."""
        return bool(self._outcomes.backlog or parts.unfinished_here(self.state))

    @property
    def lost_results(self) -> int:
        """How many results were accepted and could not be stored; final once the gateway is closed."""
        return self._outcomes.backlog.lost

    async def aclose(self) -> None:
        """Stops discovery and closes every connection."""
        for part in (
            self.console,
            self._listeners,
            self._looks,
            self.calls,
            self.catalogue,
            self._drainer,
            *self._setup.backends.values(),
        ):
            await part.aclose()
        await self._issuers.keep(None)
        for optional in (self.authorizer, self._usage):
            if optional is not None:
                await optional.aclose()
        for shared in (self._limits, self.state, self._checker, self._lists, self._telemetry):
            await shared.aclose()

    @property
    def children(self) -> dict[str, int]:
        """The processes that work for this one, by name, while there are any."""
        known = {"checker": self._checker.pid, "lister": self._lists.pid}
        return {name: pid for name, pid in known.items() if pid is not None}

    @property
    def status(self) -> str:
        if self._draining:
            return "draining"
        return "ok" if self.catalogue.ready else "starting"

    async def issuers(self) -> Mapping[str, IssuerStatus]:
        """How the issuers stand that publish their keys, after each was asked for them."""
        await self._issuers.refresh()
        return self._issuers.status()

    def details(self) -> JsonObject:
        """The detailed health, for operators."""
        about = {"status": self.status, "version": __version__, **self.metrics.about_reloads()}
        return about | reporting.details(self._setup, self.state, self._issuers.status())

    def _refresh(self, backend: str, *, is_news: bool = True) -> None:
        """Asks a backend for its tools again, because it, or with `is_news` off another replica, reported a change."""
        if backend in self.catalogue:
            self.catalogue.refresh(backend, is_news=is_news)

    async def _challenge_status(self, request: Request, token: str) -> str:
        """The status of the challenge of a token. Raises RATE_LIMITED."""
        opened = self._challenges.open(token)
        request.extra = self._setup.limits.admit_look(request.ip, None if opened is None else digest(opened))
        return "failed" if opened is None else await self._looks.status(opened)

    async def _ask_challenge(self, challenge: Challenge) -> str:
        if isinstance(challenge, CallChallenge):
            return await self.calls.consent_status(challenge.key)
        backend = self.backends.get(challenge.backend)
        return "failed" if backend is None else await backend.challenge_status(challenge.check_url)
