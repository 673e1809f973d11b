"""The interfaces of authentication, rate limits, the server and backends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from gateway.core.errors import ErrorCode
from gateway.core.model import CallKey, Decode, Invocation, Json, JsonObject, Listing, ToolCall, ToolResult
from gateway.core.wire import Answer, Head, Headers, WireRequest

Operation = Literal["call", "list", "poll", "listen"]  # rate limits count `listen` as `list`


class Caller(Struct, frozen=True, kw_only=True):
    """The authenticated caller."""

    principal: str  # `jwt:<issuer>:<sub>`, `key:<id>` or `anonymous`
    account: str = ""  # the key or the issuer in the configuration, under whose name its use is counted
    scopes: frozenset[str] = frozenset()
    user_id: str | None = None  # the user that the credential names; its calls may then name no other


ANONYMOUS = Caller(principal="anonymous", account="anonymous")


class ServerRequest(Protocol):
    """A request as our own server has it: what it offers beyond ASGI."""

    fields: Mapping[bytes, bytes]  # the headers by lower-case name, the last of each
    # The status that the server has answered with in the application's place; 0: it was cut off as the server ended.
    answered: int | None
    reason: str  # a word for why it has
    task: asyncio.Task[None] | None  # of the application, while it runs

    @property
    def disconnected(self) -> bool:
        """Whether its caller has left."""
        ...

    def keep(self) -> asyncio.Task[None]:
        """Makes the application's task go on if the caller leaves; returns that task."""
        ...

    def take_body(self, holder: str) -> bytes | None:
        """The body, once, if all of it is there; None leaves it to be received.

        From here on it counts in memory for `holder`; for the caller's address if that is empty.
        """
        ...

    def lend_body(self, task: asyncio.Task[Any]) -> None:
        """Has the body count as memory until that task is over, which goes on with what it holds."""
        ...

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Answers at once, without messages; false if that cannot be now. Only for those who hold the server's `send`.

        `status` is one that has a body. Content-Length is added, and no other header that frames a message or speaks of
        the connection may be given.
        """
        ...


class Authenticator(Protocol):
    """Turns the head of a request into a caller."""

    def identify(self, head: Head) -> Caller:
        """Raises UnauthenticatedError, or UndecidedError if `identify_later` may still find the caller."""
        ...

    async def identify_later(self, head: Head) -> Caller:
        """Waits some seconds at most for what `identify` lacked. Raises UnauthenticatedError."""
        ...

    async def start(self) -> None:
        """Begins to fetch remote keys; returns at once."""
        ...


class Target(NamedTuple):
    """What a call counts for in rate limits."""

    tool: str  # without its version
    version: str
    backend: str
    route: str  # unique in the file


class Authorizer(Protocol):
    """Asks the operator's own service whether a call may run."""

    async def authorize(self, call: ToolCall, target: Target, caller: Caller, dialect: str) -> None:
        """Returns if it may. Raises FORBIDDEN, or AUTHORIZATION_UNAVAILABLE if there is no decision."""
        ...


class Limiter(Protocol):
    """Limits how often callers may ask. It returns the headers with the state of the caller's limits."""

    def admit(self, operation: Operation, ip: str) -> Headers:
        """The first phase, before the caller is known: counts in this process only. Raises RATE_LIMITED."""
        ...

    def admit_as(self, operation: Operation, ip: str, counted: Operation) -> Headers:
        """Admits a request that turns out to be this operation, after it was `counted` as another. Raises RATE_LIMITED.

        What has counted it does so once.
        """
        ...

    def verification_failed(self, ip: str) -> None:
        """Counts a credential that was verified and refused."""
        ...

    async def spend(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Headers:
        """The second phase: spends from all other limits, or from none. Raises RATE_LIMITED, BACKEND_UNAVAILABLE.

        `target` is None if the request is no call, or its tool is not known.
        """
        ...


class LargeReply(NamedTuple):
    """How the JSON in a large reply is read, which may be done in another process.

    `members` hold the tool's value, which stays text (`msgspec.Raw`) if it is very large. None: the value is all of it,
    and `read` reads it.
    """

    text: bytes
    members: tuple[bytes, ...] | None = None
    select: str = ""  # an expression for `read`; empty: all of the value
    # Of the text, its greatest depth and `select`, as text: `(b"", value)` or `(reason,)`.
    read: Callable[..., tuple[bytes, ...]] | None = None


class CallCodec(Protocol):
    """Encodes calls of one protocol as HTTP requests, and decodes the replies. All methods are pure."""

    @property
    def call_paths(self) -> tuple[str, ...]:
        """Where calls are sent; to the second only after a 404 says that the first does not exist."""
        ...

    @property
    def tool_error_statuses(self) -> tuple[int, ...]:
        """Statuses from 500 on with which the tool answers, or refuses: they do not speak against its server."""
        ...

    def request_call(self, invocation: Invocation) -> WireRequest: ...

    def reading(self, reply: Answer, invocation: Invocation) -> LargeReply | None:
        """How a large reply is read, apart, before `decode_reply`; None for one that `decode_reply` reads itself."""
        ...

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads a reply; `document` is what its `reading` gave, None if it had none or that failed.

        Raises GatewayError if the tool server refused the call before it ran anything, BrokenReplyError if the reply
        cannot be read.
        """
        ...


class ServerDialect(CallCodec, Protocol):
    """One wire form of OTC or OXP as we speak it to tool servers."""

    @property
    def name(self) -> str: ...

    def request_list(self) -> WireRequest: ...


class _AnyBackend(Protocol):
    """What all adapters to tool servers have. `dialect` is the wire form in use, for operators."""

    name: str

    @property
    def dialect(self) -> str: ...

    async def list_tools(self) -> Listing:
        """Asks the tool server for its tools. Raises BACKEND_UNAVAILABLE."""
        ...

    async def challenge_status(self, check_url: str) -> str:
        """Asks the tool server how an authorization challenge stands: pending, completed or failed."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Reporting(Protocol):
    """A backend that has more to say about its last list than its tools: to operators, on demand."""

    @property
    def report(self) -> bytes:
        """JSON text of a `gateway.protocols.common.listing.Report`."""
        ...


class NotDispatchedError(Exception):
    """The call ended while it waited, or another process has taken it over: it must not be sent."""


class DispatchGate(Protocol):
    """The record of a call that may have to wait. `answered`: its outcome, or a consent it needs, is known here."""

    @property
    def answered(self) -> bool: ...

    async def on_queued(self) -> None:
        """Records that the call waits. Nothing of it is sent until `before_send` has returned."""
        ...

    async def before_send(self) -> None:
        """Raises NotDispatchedError if the call must not be sent, BACKEND_UNAVAILABLE if that is not known."""
        ...

    async def is_answered(self) -> bool:
        """Whether its outcome, or a consent that it needs, is recorded; the reply to its request is moot then."""
        ...


class SyncBackend(_AnyBackend, Protocol):
    """An adapter to a tool server that answers a call in the same exchange."""

    deferred: Literal[False]

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool. Raises GatewayError, or what its `gate` raises, only if it provably did not run."""
        ...


class Receiver(Protocol):
    """Reads what a tool server posts to the callback URLs of its calls."""

    async def receive(
        self,
        key: CallKey,
        group: str,
        body: bytes | None,
        content_type: str | None,
        *,
        run: str,
        ended: bool,
        decode: Decode,
        failure_patterns: Sequence[re.Pattern[str]],
    ) -> ErrorCode | None:
        """Takes one message for a run of a call, which may have `ended`; `body` is None for one that is too large.

        Returns why it is refused, if it is; RESULT_EXPIRED: the call is over.
        """
        ...

    def may_be_message(self, body: bytes) -> bool:
        """Whether a body can be a message of some call, as far as is told at once and without knowing that call."""
        ...


class DeferredBackend(_AnyBackend, Protocol):
    """An adapter to a tool server that accepts a call now and answers it later.

    `receiver` reads its callbacks; None if it makes none. `open_calls` counts the calls that this process polls for.
    `stream_up`: its event stream is open; None if it has none.
    """

    deferred: Literal[True]

    @property
    def receiver(self) -> Receiver | None: ...

    @property
    def open_calls(self) -> int: ...

    @property
    def stream_up(self) -> bool | None: ...

    async def dispatch(
        self, invocation: Invocation, callback_url: str, gate: DispatchGate | None = None
    ) -> ToolResult | None:
        """Sends a call. Returns None if its outcome may come later, a result if it failed at once.

        Raises GatewayError, or what its `gate` raises, only if the tool provably did not run.
        """
        ...

    async def resume(self, key: CallKey, run: str) -> None:
        """Looks for the outcome of a call that another replica sent; `run` as in `Invocation`."""
        ...

    async def cancel(self, key: CallKey, run: str, group: str) -> None:
        """Asks the tool server once, without waiting for it, to cancel a run."""
        ...


Backend = SyncBackend | DeferredBackend  # `deferred` tells which


class Outcomes(Protocol):
    """Where deferred backends report the outcomes of calls, on any replica."""

    async def settle(self, key: CallKey, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or is not known."""
        ...

    async def has_ended_with(self, key: CallKey, result: ToolResult) -> bool:
        """Whether a call ended with a result that is equal to this one, as far as that is still known."""
        ...

    async def is_open(self, key: CallKey, run: str) -> bool:
        """Whether an outcome of that run still counts, as far as this replica knows."""
        ...

    async def challenge(self, key: CallKey, challenge: JsonObject) -> bool:
        """Reports that the user must first consent at `challenge["url"]`, which replaces an earlier one.

        The call stays open. False as for `settle`.
        """
        ...
