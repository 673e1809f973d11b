"""Asks the operator's own service over HTTP, and stores its decisions for a while.

Identical questions at the same time are asked once. Without a decision the call is refused, or runs: as configured. But
it runs only if the service does not answer a question of our own either. So a caller has no call run without a decision
by sending what the service fails on, is slow with, or hangs up on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from time import monotonic
from typing import Literal, TypeGuard

from msgspec import Struct

from gateway import __version__
from gateway.auth.decisions import UNDECIDED, Decision, UnusableAnswerError, encode_question, read_decision
from gateway.core.errors import RETRY_AFTER_S, DeniedError, ErrorCode, GatewayError
from gateway.core.model import JsonObject, ToolCall, ToolRef
from gateway.core.ports import Caller, Target
from gateway.core.wire import Headers
from gateway.net.client import Kind, Pool, Reply, TransportError

log = logging.getLogger("gateway.authorization")

MAX_BYTES = 64 * 1024  # of an answer; a decision has some hundred
CACHED = 10_000  # decisions, of some 200 bytes
LOGGED_EVERY_S = 10.0  # that there is no decision
HEADERS: Headers = (
    (b"user-agent", b"toolgate/" + __version__.encode()),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json"),
)
UNAVAILABLE = "It cannot be decided at the moment whether this call may run."
# What our own question and `toolgate check --live` ask about: a call that is not made.
NOBODY = Caller(principal="toolgate-check")
NOTHING = Target("Toolgate.Check", "1.0.0", "check", "check/*")
NO_CALL = ToolCall(ref=ToolRef(tool=NOTHING.tool), arguments={})
MAX_WAITING = 1024  # questions of all callers; behind more, a caller meets its own timeout first


class NoPlaceError(Exception):
    """No place became free in time. The text is for our log."""


class Places:
    """So many questions are asked at once. The next free place goes to the caller whose turn it is, of those that wait.

    If too many wait, those of the caller with the most of them are refused, so that the others are not.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, dict[asyncio.Future[None], None]] = OrderedDict()  # by caller, in turn
        self._waiters = 0

    async def take(self, caller: str, timeout_s: float) -> None:
        """Waits for a place; it has to be given back. Raises NoPlaceError."""
        if self._free:
            self._free -= 1
            return
        if self._waiters >= MAX_WAITING:
            self._make_room(caller)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(caller, {})[waiter] = None
        self._waiters += 1
        timer = loop.call_later(timeout_s, _refuse, waiter, "no place for the question became free in time")
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back()  # it was cancelled after it got its place
            raise
        finally:
            timer.cancel()
            self._leave(caller, waiter)

    def give_back(self) -> None:
        """Frees a place, for the first caller in turn."""
        while self._waiting:
            caller, waiters = self._waiting.popitem(last=False)
            waiter = next(iter(waiters))
            del waiters[waiter]
            self._waiters -= 1
            if waiters:
                self._waiting[caller] = waiters
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _make_room(self, caller: str) -> None:
        """Refuses the latest question of the caller that has the most. Raises NoPlaceError if that is this one."""
        greediest = max(self._waiting, key=lambda name: len(self._waiting[name]))
        if len(self._waiting[greediest]) <= len(self._waiting.get(caller, ())) + 1:
            raise NoPlaceError("too many questions wait for a place")
        waiter = next(reversed(self._waiting[greediest]))
        _refuse(waiter, "too many questions of its caller wait for a place")
        self._leave(greediest, waiter)

    def _leave(self, caller: str, waiter: asyncio.Future[None]) -> None:
        """Takes a question out of the queue, if it is still there."""
        waiters = self._waiting.get(caller)
        if waiters is None or waiter not in waiters:
            return
        del waiters[waiter]
        self._waiters -= 1
        if not waiters:
            del self._waiting[caller]


def _refuse(waiter: asyncio.Future[None], why: str) -> None:
    if not waiter.done():
        waiter.set_exception(NoPlaceError(why))


class Unknown(Struct, frozen=True):
    """There is no decision."""

    why: str  # for our log
    # What becomes of the call. It is denied if the service refused the question, and refused if the time went by in our
    # own queue, or if the service answers other questions: a caller that brought it about gains nothing.
    then: Literal["as configured", "denied", "refused"] = "as configured"


class HttpAuthorizer:
    """Decides about calls as the service behind `pool` does (`ports.Authorizer`)."""

    def __init__(
        self,
        pool: Pool,  # has a connection more than `places`, for our own question
        target: bytes,  # path and query there
        credentials: Headers = (),
        *,
        places: int,  # how many calls are asked about at once
        timeout_s: float,
        cache_s: float,  # how long a decision is used again
        runs_on_failure: bool,  # what becomes of calls without a decision
        with_arguments: bool,
        count: Callable[[str], None],  # each call by how it was decided: `allowed`, `denied` or `unavailable`
        observe: Callable[[float], None],  # the seconds that each question took
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._pool = pool
        self._places = Places(places)
        self._target = target
        self._headers = (*HEADERS, *credentials)
        self._timeout_s = timeout_s
        self._cache_s = 0.0 if with_arguments else cache_s
        self._runs_on_failure = runs_on_failure
        self._with_arguments = with_arguments
        self._count = count
        self._observe = observe
        self._clock = clock
        self._decided: dict[bytes, tuple[Decision, float]] = {}  # the oldest comes first
        self._asking: dict[bytes, asyncio.Task[Decision | Unknown]] = {}
        self._own = encode_question(NO_CALL, NOTHING, NOBODY, "check", with_arguments=with_arguments)
        self._asking_own: asyncio.Task[Decision | Unknown] | None = None
        self._is_away = False  # whether it did not answer our own question
        self._trouble: str | None = None
        self._log_at = 0.0
        self._is_logged = False

    async def authorize(self, call: ToolCall, target: Target, caller: Caller, dialect: str) -> None:
        """Returns if the call may run. Raises FORBIDDEN, AUTHORIZATION_UNAVAILABLE."""
        question = encode_question(call, target, caller, dialect, with_arguments=self._with_arguments)
        asker = caller.principal
        decision = await (self._stored(question, asker) if self._cache_s else self._ask(question, asker))
        if isinstance(decision, Unknown) and decision.then == "denied":
            decision = Decision(False, UNDECIDED)
        if isinstance(decision, Unknown):
            self._count("unavailable")
            if self._runs_on_failure and decision.then != "refused":
                return
            code = ErrorCode.AUTHORIZATION_UNAVAILABLE
            raise GatewayError(code, UNAVAILABLE, detail=decision.why, retry_after_s=RETRY_AFTER_S)
        self._count("allowed" if decision.allowed else "denied")
        if not decision.allowed:
            raise DeniedError(decision.reason)

    async def probe(self) -> Decision | Unknown:
        """Asks our own question; once for all who want to know at the same time."""
        asking = self._asking_own
        if asking is None or asking.done():
            asking = self._asking_own = asyncio.create_task(self._answer(self._own, self._timeout_s))
        await asyncio.wait([asking])  # a caller that leaves does not end it for the others
        decision = asking.result()
        self._is_away = _leaves_open(decision)
        return decision

    @property
    def service(self) -> str:
        """Where the service is, for operators."""
        return str(self._pool.origin)

    def details(self) -> JsonObject:
        """For the detailed health: whether the last question was answered, and if not, why."""
        return {"up": self._trouble is None} | ({} if self._trouble is None else {"reason": self._trouble})

    async def _stored(self, question: bytes, asker: str) -> Decision | Unknown:
        """The decision on the same question of a moment ago, or a new one."""
        key = blake2b(question, digest_size=32).digest()
        entry = self._decided.get(key)
        if entry is not None and self._clock() < entry[1]:
            return entry[0]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask_and_store(key, question, asker))
        await asyncio.wait([asking])  # a caller that leaves does not end it for the others
        return asking.result()

    async def _ask_and_store(self, key: bytes, question: bytes, asker: str) -> Decision | Unknown:
        try:
            decision = await self._ask(question, asker)
        finally:
            del self._asking[key]
        if isinstance(decision, Decision):
            self._decided.pop(key, None)
            if len(self._decided) >= CACHED:
                del self._decided[next(iter(self._decided))]
            self._decided[key] = decision, self._clock() + self._cache_s
        return decision

    async def _ask(self, question: bytes, asker: str) -> Decision | Unknown:
        if self._runs_on_failure:
            decision = await self._ask_or_open(question, asker)
        else:
            decision = await self._ask_in_turn(question, asker, self._timeout_s)
        self._note(decision)
        return decision

    async def _ask_or_open(self, question: bytes, asker: str) -> Decision | Unknown:
        """As `_ask`; a call runs without a decision only if the service does not answer our own question either.

        While it does not, it is asked nothing else, so that nobody waits for two failures.
        """
        if self._is_away and _leaves_open(own := await self.probe()):
            return own
        began = self._clock()
        decision = await self._ask_in_turn(question, asker, self._timeout_s)
        if not _leaves_open(decision) or _leaves_open(await self.probe()):
            return decision
        left_s = self._timeout_s - (self._clock() - began)
        if left_s > 0:  # it may have failed for a moment
            decision = await self._ask_in_turn(question, asker, left_s)
        return Unknown(decision.why, "refused") if _leaves_open(decision) else decision

    async def _ask_in_turn(self, question: bytes, asker: str, timeout_s: float) -> Decision | Unknown:
        """Asks in the turn of whoever asks; the service has all of its time once it is asked."""
        try:
            await self._places.take(asker, timeout_s)
        except NoPlaceError as exc:
            return Unknown(str(exc), "refused")
        try:
            return await self._answer(question, timeout_s)
        finally:
            self._places.give_back()

    async def _answer(self, question: bytes, timeout_s: float) -> Decision | Unknown:
        began = self._clock()
        try:
            reply = await self._exchange(question, timeout_s)
            return read_decision(reply.status, reply.body)
        except UnusableAnswerError as exc:
            return Unknown(str(exc), "denied" if exc.is_refusal else "as configured")
        except TransportError as exc:
            return Unknown(str(exc).rstrip("."), "refused" if exc.kind is Kind.BUSY else "as configured")
        finally:
            self._observe(self._clock() - began)

    async def _exchange(self, question: bytes, timeout_s: float) -> Reply:
        """Sends the question; once more if the connection was closed, as idle ones may be. Raises TransportError."""
        until = self._clock() + timeout_s
        try:
            return await self._send(question, timeout_s)
        except TransportError as exc:
            if exc.kind is not Kind.CLOSED:
                raise
        return await self._send(question, max(until - self._clock(), 0.0))

    async def _send(self, question: bytes, timeout_s: float) -> Reply:
        return await self._pool.request(
            b"POST", self._target, self._headers, question, timeout_s=timeout_s, max_body=MAX_BYTES
        )

    def _note(self, decision: Decision | Unknown) -> None:
        """Notes how the service is, and logs when it does not decide, and when it does again."""
        if isinstance(decision, Unknown):
            if decision.then != "refused":  # else it is no trouble of the service's, which answers others
                self._trouble = decision.why
            self._log_trouble(decision)
            return
        self._trouble = None
        if self._is_logged:
            self._is_logged = False
            log.info("the authorization service decides again", extra={"service": self.service})

    def _log_trouble(self, unknown: Unknown) -> None:
        """Logs that there is no decision, not for each call."""
        now = self._clock()
        if now < self._log_at:
            return
        self._is_logged, self._log_at = True, now + LOGGED_EVERY_S
        as_configured = "allowed" if self._runs_on_failure else "refused"
        calls = as_configured if unknown.then == "as configured" else unknown.then
        about = {"service": self.service, "reason": unknown.why, "calls": calls}
        log.warning("the authorization service gives no decision", extra=about)

    async def aclose(self) -> None:
        """Stops asking."""
        asking = [*self._asking.values(), *([] if self._asking_own is None else [self._asking_own])]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._pool.aclose()


def _leaves_open(decision: Decision | Unknown) -> TypeGuard[Unknown]:
    """Whether the configuration says what becomes of the call."""
    return isinstance(decision, Unknown) and decision.then == "as configured"
