"""One round: a pool, a server with a plan for each call, and the judgement of how every call ended.

The laws: a reply is the one that was sent, or none is given; `sent=False` means the server saw nothing; no request
comes twice; no more connections than allowed are made; nothing is left.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, replace
from random import Random

from gateway.net.client import Kind, Limits, Origin, Pool, Reply, TransportError
from tests.fuzz.transport.loops import Leftovers, set_resolver, turns, until
from tests.fuzz.transport.oracle import State, Verdict, forgiving, judge
from tests.fuzz.transport.plans import HEAD_BYTES, LONG_S, MAX_BODY, SHORT_S, Ending, Plan, Tail, draw
from tests.fuzz.transport.server import Greeting, Server, listening
from tests.unit.net.client.scripted import Stats, stats_of

NAME = "tools.test"
ALIVE = ("127.0.0.1", "127.0.0.2")
DEAD = "127.0.0.3"  # nobody listens there
CALLS = 12
HANGING_S = 0.1  # how long a connection may be in the making where servers are silent

Outcome = Reply | TransportError | None  # None: cancelled


@dataclass(frozen=True, slots=True)
class Contexts:
    """TLS for both ends."""

    server: ssl.SSLContext
    trusting: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Setting:
    """How a round is played."""

    tls: Contexts | None
    one_by_one: bool
    unkind: bool  # some connections end before a request is read
    closes_early: bool  # the pool is closed while calls are under way
    connections: int


def draw_setting(dice: Random, contexts: Contexts) -> Setting:
    """Each kind of round with its share."""
    return Setting(
        tls=contexts if dice.random() < 0.3 else None,
        one_by_one=dice.random() < 0.5,
        unkind=dice.random() < 0.25,
        closes_early=dice.random() < 0.1,
        connections=dice.randint(1, 4),
    )


class Round:
    """The calls of one seed."""

    def __init__(self, dice: Random, setting: Setting) -> None:
        self._dice = dice
        self._setting = setting
        self._outcomes: dict[int, Outcome] = {}
        tls = setting.tls
        self.server = Server(NAME, tls.server if tls else None, strict=setting.one_by_one)

    async def play(self) -> int:
        """Plays and judges; returns how many plans a server carried out."""
        set_resolver(self._resolve)
        leftovers = Leftovers()
        async with listening(self.server, ALIVE) as server:
            server.plans = {key: draw(self._dice, key, calm=not self._setting.one_by_one) for key in range(CALLS)}
            if self._setting.unkind:
                # Without TLS a silent server is one that does not answer, which other plans have.
                kinds = [one for one in Greeting if self._setting.tls is not None or one is not Greeting.SILENCE]
                server.greetings.extend(self._dice.choices(kinds, k=4))
            pool = self._open_pool()
            try:
                await self._call_all(pool)
                assert_balanced(pool)
            finally:
                await pool.aclose()
            assert stats_of(pool) == Stats(0, 0, 0, 0)
            assert len(self._outcomes) == CALLS
        await leftovers.assert_none()
        self._judge()
        return len(self.server.answered)

    def _open_pool(self) -> Pool:
        tls = self._setting.tls
        limits = Limits(
            connections=self._setting.connections,
            head_bytes=HEAD_BYTES,
            stream_bytes=2000,
            connect_timeout_s=HANGING_S if self._setting.unkind else LONG_S,
        )
        origin = Origin("https" if tls else "http", NAME, self.server.port)
        return Pool(origin, limits, tls.trusting if tls else None)

    async def _resolve(self, name: str) -> list[str]:
        assert name == NAME
        await turns(self._dice.randrange(3))
        found = [*ALIVE, DEAD]
        self._dice.shuffle(found)
        return found[: self._dice.randint(2, 3)]  # one of them lives

    async def _call_all(self, pool: Pool) -> None:
        plans = list(self.server.plans.values())
        if self._setting.one_by_one:
            for plan in plans:
                await self._call(pool, plan)
                await self._settle(pool, plan)
            return
        calls = [asyncio.create_task(self._call(pool, plan)) for plan in plans]
        if self._setting.closes_early:
            await turns(self._dice.randrange(300))
            await pool.aclose()
        await asyncio.wait(calls)
        for call in calls:
            call.result()

    async def _call(self, pool: Pool, plan: Plan) -> None:
        """Makes a call, and for some gives up on it, and notes how it ended."""
        calling = asyncio.create_task(exchange(pool, plan, Random(plan.key)))
        if plan.cancel_after is not None:
            await turns(plan.cancel_after)
            calling.cancel()
        try:
            self._outcomes[plan.key] = await calling
        except TransportError as error:
            self._outcomes[plan.key] = error
        except asyncio.CancelledError:
            self._outcomes[plan.key] = None
        assert_balanced(pool)

    async def _settle(self, pool: Pool, plan: Plan) -> None:
        """Waits until the server has done its part, then disturbs the connection if that is the plan."""
        server = self.server
        assert stats_of(pool).waiting == 0
        if server.seen[plan.key]:
            await until(lambda: plan.key in server.answered or server.open == 0, f"plan {plan.key} done")
        elif self._outcomes[plan.key] is None:
            await until(lambda: stats_of(pool).connecting == 0, "connected")
        if plan.tail is not Tail.NONE and plan.key in server.answered and plan.ending is Ending.STAY:
            server.disturb(plan)

    def _judge(self) -> None:
        assert self.server.faults == [], self.server.faults
        twice = {key: times for key, times in self.server.seen.items() if times > 1}
        assert twice == {}, twice
        astray = [key for key in self._outcomes if not self._is_as_planned(key)]
        # A connection that ends costs at most the one call that was written to it, or that waited for it.
        ends = self.server.greeted + self.server.silent + (0 if self._setting.one_by_one else self.server.hung_up)
        details = "\n".join(_told(self.server.plans[key], self._outcomes[key]) for key in astray)
        if self._setting.closes_early and not self._setting.one_by_one:
            return
        assert len(astray) <= ends, f"{len(astray)} astray, {ends} ends\n{details}"

    def _is_as_planned(self, key: int) -> bool:
        """Whether a call ended as its own plan says. If not, another end must explain it; `sent` is true always."""
        plan, outcome, seen = self.server.plans[key], self._outcomes[key], bool(self.server.seen[key])
        if outcome is None:
            assert plan.cancel_after is not None
            return True
        if isinstance(outcome, TransportError):
            assert outcome.sent or not seen, _told(plan, outcome)
        if key in self.server.answered:
            verdict = judge(plan.method, plan.raw, ended=_ends_cleanly(plan, self._setting))
            if plan.wild and verdict.state is State.REFUSED:
                verdict = judge(plan.method, forgiving(plan.raw), ended=_ends_cleanly(plan, self._setting))
            fits = is_allowed(plan, verdict, outcome, self._setting)
            assert fits or self._is_cut_short(outcome), _told(plan, outcome, verdict)
            return True
        assert isinstance(outcome, TransportError), _told(plan, outcome)
        assert outcome.kind in self._kinds_without_answer(plan), _told(plan, outcome)
        if outcome.kind is Kind.TIMEOUT and self._setting.unkind and not outcome.sent:
            return True  # a server was silent, or this machine slow
        return outcome.kind is Kind.TIMEOUT and plan.timeout_s == SHORT_S

    def _kinds_without_answer(self, plan: Plan) -> set[Kind]:
        """How a call may end that was not answered: its connection was ended by something else."""
        kinds = {Kind.CLOSED}
        if plan.timeout_s == SHORT_S:
            kinds.add(Kind.TIMEOUT)
        if self._setting.unkind:
            kinds |= {Kind.PROTOCOL, Kind.TIMEOUT, Kind.TLS, Kind.CONNECT}
        return kinds

    def _is_cut_short(self, outcome: Outcome) -> bool:
        closed = isinstance(outcome, TransportError) and outcome.kind is Kind.CLOSED
        return closed and self._setting.closes_early and not self._setting.one_by_one


def _told(plan: Plan, outcome: Outcome, verdict: Verdict | None = None) -> str:
    """What a failure shows: bytes that fit on a screen."""
    short = replace(plan, body=plan.body[:20], raw=plan.raw[:2000], cuts=plan.cuts[:3])
    if isinstance(outcome, Reply):
        outcome = Reply(outcome.status, outcome.headers, outcome.body[:100])
    if verdict is not None:
        verdict = replace(verdict, body=verdict.body[:100])
    return (
        f"{outcome!r}\n{verdict}\n{short}, {len(plan.cuts)} cuts, {len(plan.body)} bytes of body, {len(plan.raw)} back"
    )


def _ends_cleanly(plan: Plan, setting: Setting) -> bool:
    return plan.ending in (Ending.FIN, Ending.HALF) or (plan.ending is Ending.CUT and setting.tls is None)


def is_allowed(plan: Plan, verdict: Verdict, outcome: Reply | TransportError, setting: Setting) -> bool:
    """Whether a plan that was carried out may end so."""
    if isinstance(outcome, Reply):
        return _is_that_reply(plan, verdict, outcome) and not plan.huge and len(outcome.body) <= MAX_BODY
    return outcome.sent and outcome.kind in _kinds(plan, verdict, setting)


def _kinds(plan: Plan, verdict: Verdict, setting: Setting) -> set[Kind]:
    """How a plan that was carried out may fail."""
    kinds: set[Kind] = set()
    if plan.ending is Ending.STALL:
        kinds.add(Kind.TIMEOUT)
    if plan.ending is Ending.RESET or (plan.reads is not None and plan.ending is not Ending.STAY):
        kinds.add(Kind.CLOSED)  # a reset, ours or the kernel's for what was not read, may overtake the reply
    if plan.wild:
        kinds |= {Kind.PROTOCOL, Kind.TOO_LARGE}
        if plan.ending is not Ending.STALL:
            kinds.add(Kind.CLOSED)
    if plan.huge or len(verdict.body) > MAX_BODY:
        kinds.add(Kind.TOO_LARGE)
    elif verdict.state is State.INCOMPLETE and plan.ending is not Ending.STALL:
        kinds.add(Kind.CLOSED)
    if plan.torn and setting.tls:
        kinds.add(Kind.CLOSED)
    return kinds


def _is_that_reply(plan: Plan, verdict: Verdict, reply: Reply) -> bool:
    # h11 writes a transfer coding in lower case; the pool leaves it as it came.
    headers = tuple((name, value.lower() if name == b"transfer-encoding" else value) for name, value in reply.headers)
    got = (reply.status, headers, reply.body)
    return verdict.state is State.COMPLETE and got == (verdict.status, verdict.headers, verdict.body)


async def exchange(pool: Pool, plan: Plan, dice: Random) -> Reply:
    """Makes a plan's call, and reads the reply in one piece, or in parts with pauses between them."""
    if not plan.streamed:
        return await pool.request(plan.method, plan.target, (), plan.body, timeout_s=plan.timeout_s, max_body=MAX_BODY)
    async with pool.stream(
        plan.method, plan.target, (), plan.body, timeout_s=LONG_S, idle_s=plan.timeout_s, max_body=MAX_BODY
    ) as reply:
        body = b""
        async for piece in reply:
            body += piece
            await turns(dice.randrange(3))
        return Reply(reply.head.status, reply.head.headers, body)


def assert_balanced(pool: Pool) -> None:
    """No more slots are taken than there are."""
    stats = stats_of(pool)
    assert stats.slots <= pool.limits.connections, stats


async def play(seed: int, contexts: Contexts) -> int:
    """Plays the round of a seed; a failure says which."""
    dice = Random(seed)
    setting = draw_setting(dice, contexts)
    try:
        return await Round(dice, setting).play()
    except AssertionError as exc:
        exc.add_note(f"seed {seed}, {replace(setting, tls=None)}, TLS: {setting.tls is not None}")
        raise
