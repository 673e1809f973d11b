"""An issuer that changes its keys, dies and comes back while callers with tokens of their own never stop calling."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jwt
import pytest

from tests.live.security.issuer import Issuer, issuer_process
from tests.live.workers.team import details, metric
from tests.support.calling import call, caller, value
from tests.support.keys import jwk, private
from tests.support.processes import GatewayProcess, gateway, settings, until
from tests.support.toolserver import definition, echo, tool_server

pytestmark = pytest.mark.anyio

CALLERS = 6
SOME = 30  # calls; enough to be on their way at any moment of what happens meanwhile
COOLDOWN_S = 1
PATIENCE_S = 10.0  # a call on a busy machine, a fetch of the keys included; undisturbed it takes some milliseconds


class Load:
    """Callers, each call of theirs with a new token, which is signed with key `number`."""

    def __init__(self, url: str, issuer: Issuer) -> None:
        self.number = 0
        self.done = 0
        self.longest_s = 0.0
        self._url = url
        self._issuer = issuer
        self._subjects = itertools.count()

    def token(self) -> str:
        claims = {"iss": self._issuer.url, "aud": "toolgate", "exp": int(time.time()) + 600}
        named = claims | {"sub": f"caller-{next(self._subjects)}"}
        return jwt.encode(named, private("ed25519", self.number), "EdDSA", headers={"kid": f"key-{self.number}"})

    async def call_on(self) -> None:
        """Calls until it is cancelled. No call may be refused, or take long."""
        async with caller(self._url) as http:
            while True:
                http.headers["authorization"] = f"Bearer {self.token()}"
                started = time.monotonic()
                assert value(await call(http, "Lab.Echo", {"n": self.done})) is not None
                self.longest_s = max(self.longest_s, time.monotonic() - started)
                self.done += 1

    async def go_on(self) -> None:
        """Waits for some more calls."""
        enough = self.done + SOME
        await until(lambda: self.done >= enough, "calls go on")


@asynccontextmanager
async def load(issuer: Issuer, refresh: str) -> AsyncIterator[tuple[Load, GatewayProcess]]:
    """The load, running, and the gateway it is on."""
    auth = {"issuer": issuer.url, "jwks_url": issuer.jwks_url, "algorithms": ["EdDSA"], "audience": ["toolgate"]}
    often = {"jwks_refresh": refresh, "jwks_cooldown": f"{COOLDOWN_S}s"}
    async with tool_server({"Lab.Echo": echo}, [definition("Lab.Echo")]) as lab:
        config = settings({"lab": {"protocol": "otc", "url": lab.url}}, auth={"jwt": [auth | often]})
        async with gateway(config) as running:
            found = Load(running.url, issuer)
            async with asyncio.TaskGroup() as callers:
                tasks = [callers.create_task(found.call_on()) for _ in range(CALLERS)]
                yield found, running
                for task in tasks:
                    task.cancel()


async def test_no_caller_is_refused_while_an_issuer_is_away_or_comes_back_with_other_keys() -> None:
    async with issuer_process() as issuer:
        await issuer.publish(jwk("ed25519", 0, kid="key-0"))
        async with load(issuer, "1s") as (running, loaded):
            await running.go_on()
            await issuer.kill()
            await until(lambda: bool(loaded.logged("the keys of an issuer could not be fetched")), "it is missed")
            await running.go_on()
            await assert_operators_see_that_it_is_away(loaded, issuer.url)
            async with issuer_process(issuer.port) as back:
                await back.publish(*(jwk("ed25519", each, kid=f"key-{each}") for each in (0, 1)))
                await until(lambda: len(loaded.logged("the keys of an issuer have changed")) == 2, "it is back")
                running.number = 1
                await running.go_on()
            assert running.longest_s < PATIENCE_S


async def assert_operators_see_that_it_is_away(running: GatewayProcess, url: str) -> None:
    """Detailed health and metrics show how old the keys are, and the kind of error."""
    shown = (await details(running))["issuers"][url]
    assert (shown["up"], shown["keys"] > 0, shown["age_s"] > 0) == (False, True, True)
    assert shown["last_error"] in ("connection refused", "connection reset by peer", "ReadError", "RemoteProtocolError")
    assert await metric(running, "toolgate_issuer_up", issuer=url) == 0
    assert await metric(running, "toolgate_issuer_keys_age_seconds", issuer=url) > 0
