"""Names whose meaning changes while a pool lives: new connections go where the name points now, old ones stay."""

from __future__ import annotations

import socket
from random import Random

import pytest

from gateway.transport import Kind, Limits, Origin, Pool, Reply, TransportError
from tests.fuzz.transport.loops import Leftovers, run, set_resolver, turns
from tests.fuzz.transport.plans import LONG_S, Plan
from tests.fuzz.transport.rounds import NAME, Contexts, assert_balanced, exchange
from tests.fuzz.transport.server import Server, listening

STEPS = 12


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


ALIVE = ("127.0.0.1", "127.0.0.2", *(("::1",) if _has_ipv6() else ()))
DEAD = ("127.0.0.3", "127.0.0.4")


class Names:
    """A name server whose answer is set from outside; an answer may be that there is none."""

    def __init__(self, dice: Random) -> None:
        self.answer: list[str] | OSError = []
        self.asked = 0
        self._dice = dice

    async def resolve(self, name: str) -> list[str]:
        assert name == NAME
        self.asked += 1
        answer = self.answer
        await turns(self._dice.randrange(4))
        if isinstance(answer, OSError):
            raise answer
        return answer

    def change(self) -> None:
        """Points the name somewhere else, or nowhere."""
        if self._dice.random() < 0.2:
            self.answer = socket.gaierror(socket.EAI_NONAME, "no such name")
            return
        places = [*ALIVE, *DEAD]
        self.answer = self._dice.sample(places, self._dice.randint(0, len(places)))

    def first_alive(self) -> str | None:
        """Where a new connection must go: families take turns in the order of the answer, the dead are passed over."""
        if isinstance(self.answer, OSError):
            return None
        four = [place for place in self.answer if ":" not in place]
        six = [place for place in self.answer if ":" in place]
        one, other = (six, four) if self.answer and ":" in self.answer[0] else (four, six)
        turns_taken = [
            place for rank in range(len(self.answer)) for place in (*one[rank : rank + 1], *other[rank : rank + 1])
        ]
        return next((place for place in turns_taken if place in ALIVE), None)


def plans(count: int) -> dict[int, Plan]:
    """Plain calls, each answered with its own number."""
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d"
    return {key: Plan(key=key, raw=raw % (len(str(key)), key)) for key in range(count)}


def open_pool(server: Server, contexts: Contexts | None, connections: int) -> Pool:
    limits = Limits(connections=connections, connect_timeout_s=LONG_S)
    origin = Origin("https" if contexts else "http", NAME, server.port)
    return Pool(origin, limits, contexts.trusting if contexts else None)


async def attempt(pool: Pool, plan: Plan) -> Reply | TransportError:
    try:
        return await exchange(pool, plan, Random(plan.key))
    except TransportError as error:
        return error


async def wander(dice: Random, contexts: Contexts | None) -> None:
    """One by one: each call goes where the name points, unless an older connection is still there."""
    leftovers = Leftovers()
    names = Names(dice)
    set_resolver(names.resolve)
    server = Server(NAME, contexts.server if contexts else None, strict=True)
    server.plans = plans(STEPS)
    async with listening(server, ALIVE):
        pool = open_pool(server, contexts, 2)
        held: str | None = None
        for plan in server.plans.values():
            names.change()
            outcome = await attempt(pool, plan)
            place = held or names.first_alive()
            assert server.places.get(plan.key) == place
            if place is None:
                assert isinstance(outcome, TransportError)
                assert (outcome.kind, outcome.sent) == (Kind.CONNECT, False)
            else:
                assert isinstance(outcome, Reply)
                assert outcome.body == b"%d" % plan.key
            held = place
            if held is not None and dice.random() < 0.6:
                server.hang_up(plan.key)
                held = None
            assert_balanced(pool)
        await pool.aclose()
    assert server.faults == []
    await leftovers.assert_none()


@pytest.mark.parametrize(
    "seeds", [pytest.param(range(12), id="some"), pytest.param(range(12, 900), id="many", marks=pytest.mark.soak)]
)
def test_a_name_may_mean_something_else_at_any_time(loop_name: str, seeds: range, contexts: Contexts) -> None:
    async def play_all() -> None:
        for seed in seeds:
            dice = Random(seed)
            try:
                await wander(dice, contexts if dice.random() < 0.2 else None)
            except AssertionError as exc:
                exc.add_note(f"seed {seed}")
                raise

    run(loop_name, play_all())
