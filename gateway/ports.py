"""The seams of the gateway: what the pipeline needs of surfaces, backends, authentication and limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from msgspec import Struct

from gateway.admission import DispatchGate
from gateway.errors import GatewayError
from gateway.model import (
    Decode,
    Invocation,
    Json,
    JsonObject,
    Listing,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from gateway.wire import Answer, Head, Headers, JoinedList, WireReply, WireRequest

Operation = Literal["call", "list", "poll"]  # what rate limits count


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks. `principal` is `jwt:<issuer>:<sub>`, `key:<id>` or `anonymous`.

    `user_id` is the user whom the credential names, if it names one; a call may then name no other.
    """

    principal: str
    scopes: frozenset[str] = frozenset()
    user_id: str | None = None


ANONYMOUS = Caller(principal="anonymous")


class ServerRequest(Protocol):
    """A request as our own server has it: what it offers beyond ASGI.

    `fields` are the headers by lower-case name, the last of each. `answered` is the status that the server has answered
    with in the application's place, once it has; 0 is none: it was cut off when the server ended.
    """

    fields: Mapping[bytes, bytes]
    answered: int | None
    holder: str  # the caller for whom its body is held in memory, once the application knows it

    @property
    def disconnected(self) -> bool:
        """Whether its caller has left."""
        ...

    def keep(self) -> asyncio.Task[None]:
        """Makes the application's task go on if the caller leaves; returns that task."""
        ...

    def take_body(self) -> bytes | None:
        """The body, once, if all of it is there; None leaves it to be received."""
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
        """Raises UnauthenticatedError; an UndecidedError where `identify_later` may yet find the caller."""
        ...

    async def identify_later(self, head: Head) -> Caller:
        """Waits for what `identify` lacked, some seconds at most, and decides. Raises UnauthenticatedError."""
        ...

    async def start(self) -> None:
        """Begins to fetch the keys that are elsewhere; returns at once."""
        ...


class Target(NamedTuple):
    """What a call is for, as limits see it. `route` names the route among all of the file; `tool` has no version."""

    tool: str
    version: str
    backend: str
    route: str


class Limiter(Protocol):
    """How often callers may ask. What it returns are the headers that tell a caller how its limits stand."""

    def admit(self, operation: Operation, ip: str) -> Headers:
        """The first phase, before the caller is identified, and in this process only. Raises RATE_LIMITED."""
        ...

    def verification_failed(self, ip: str) -> None:
        """Counts a credential that was checked and not accepted."""
        ...

    async def spend(self, operation: Operation, caller: str, ip: str, target: Target | None) -> Headers:
        """The second phase: all other rules or none. Raises RATE_LIMITED, BACKEND_UNAVAILABLE.

        `target` None: not a call, or one whose tool is not known.
        """
        ...


class Endpoint(Struct, frozen=True, kw_only=True):
    """One path of a surface.

    `route` is the path as logs show it, and `dialect` the one it names, if it names one. `operation` is what a request
    counts as until it is opened; lists are counted before their body is read. `max_body_bytes` None: as configured.
    Without `needs_document`, a body that is absent or not JSON is no document instead of a refusal.
    """

    route: str
    methods: tuple[str, ...]
    operation: Operation
    dialect: str | None = None
    max_body_bytes: int | None = None
    needs_document: bool = True


class Encoder(Protocol):
    """Encodes the answer to one request, in its dialect and wire version. All methods are pure.

    One that is the same for all requests of a version is made once.
    """

    @property
    def name(self) -> str:
        """The dialect, also as a label of metrics: one of the surface's `dialects`."""
        ...

    @property
    def wire_version(self) -> str:
        """The version of the dialect as the caller wrote it."""
        ...

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        """How a call ended; `call_id` is the caller's own, if it sent one."""
        ...

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        """The same for a request that did not wait for the end of its call."""
        ...

    def encode_error(self, error: GatewayError) -> WireReply:
        """A refusal."""
        ...


class ListEncoder(Encoder, Protocol):
    """Encodes a list of tools, step by step: what the steps make is cached by dialect and wire version."""

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        """One tool; the same for all versions of the dialect."""
        ...

    def join(self, tools: Sequence[bytes]) -> JoinedList:
        """The list of encoded tools. Takes milliseconds for megabytes."""
        ...

    def encode_list(self, joined: JoinedList, head: Head) -> WireReply:
        """The answer to one request for the list."""
        ...


class OpenedCall(Struct, frozen=True, gc=False):
    """A request that calls a tool."""

    operation: ClassVar[Operation] = "call"

    encoder: Encoder
    call: ToolCall


class OpenedList(Struct, frozen=True, gc=False):
    """A request for the tools that its caller may use."""

    operation: ClassVar[Operation] = "list"

    encoder: ListEncoder


class Immediate(Struct, frozen=True, kw_only=True):
    """A request that the protocol answers by itself, such as a handshake. `operation` is what it counts as."""

    encoder: Encoder
    reply: WireReply
    operation: Operation = "poll"


class RefusedOpening(Struct, frozen=True):
    """A request that is wrong in itself, of which enough was read to answer it in its own dialect and version."""

    encoder: Encoder
    error: GatewayError


Opened = OpenedCall | OpenedList | Immediate | RefusedOpening


class Surface(Protocol):
    """A protocol that callers speak at some paths: a pure codec.

    `encoders` are those of calls that are looked at by `/calls/{call_id}`, by the dialect and wire version they were
    made in. `argument_members` are the JSON members that hold the arguments of a call, at any depth: a long text there
    may stay unread (`model.Arguments`).
    """

    @property
    def dialects(self) -> frozenset[str]:
        """All names that its endpoints and encoders have."""
        ...

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """By path."""
        ...

    @property
    def encoders(self) -> Mapping[tuple[str, str], Encoder]: ...

    @property
    def argument_members(self) -> tuple[bytes, ...]: ...

    def check_head(self, head: Head) -> None:
        """Raises GatewayError for a head that is wrong, apart from its method, its size and repeated headers."""
        ...

    def open(self, head: Head, document: Json) -> Opened:
        """Reads a request. Raises INVALID_REQUEST where not even its dialect can be read."""
        ...

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        """Encodes the refusal of a request that was not opened, as far as its head tells how."""
        ...


class CallCodec(Protocol):
    """How calls of one protocol are put into HTTP requests, and their answers read. All methods are pure."""

    @property
    def call_paths(self) -> tuple[str, ...]:
        """Where calls go; the second only after a 404 that says nothing is at the first."""
        ...

    @property
    def value_members(self) -> tuple[bytes, ...]:
        """Members of an answer that hold the tool's value; one of very many values stays text (`msgspec.Raw`)."""
        ...

    @property
    def fails_with_500(self) -> bool:
        """Whether a 500 is how a tool says that it failed, which is nothing bad about its server."""
        ...

    def request_call(self, invocation: Invocation) -> WireRequest: ...

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads an answer; `document` is the body of a 200 if it was decoded already, else None.

        Raises GatewayError when the tool server refused the call before running anything, BrokenReplyError when the
        answer cannot be read.
        """
        ...


class ServerDialect(CallCodec, Protocol):
    """One wire form of OTC or OXP as we speak it to tool servers."""

    @property
    def name(self) -> str: ...

    def request_list(self) -> WireRequest: ...


class _AnyBackend(Protocol):
    """What every adapter to a tool server has. `dialect` is the wire form in use, for operators."""

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


class SyncBackend(_AnyBackend, Protocol):
    """Our adapter to a tool server that answers a call in the same exchange."""

    deferred: Literal[False]

    def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Runs a tool. Raises GatewayError, or what its `gate` raises, only if it provably did not run."""
        ...


class Receiver(Protocol):
    """Reads what a tool server posts to the callback URLs of its calls."""

    async def receive(
        self,
        call_id: str,
        group: str,
        body: bytes,
        content_type: str | None,
        *,
        run: str,
        ended: bool,
        decode: Decode,
        failure_patterns: Sequence[re.Pattern[str]],
    ) -> int:
        """Takes one message for a run of a call, which may have `ended`. Returns the HTTP status to answer with."""
        ...


class DeferredBackend(_AnyBackend, Protocol):
    """Our adapter to a tool server that takes a call now and answers it later.

    `receiver` takes its callbacks; None if it makes none. `open_calls` is how many calls this process polls for.
    `stream_up` is whether its event stream is open; None if it has none.
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
        """Hands a call over: None if its outcome may come later, a result if it failed at once.

        Raises GatewayError, or what its `gate` raises, only if the tool provably did not run.
        """
        ...

    async def resume(self, call_id: str, run: str) -> None:
        """Looks for the outcome of a call that another replica handed over; `run` as in `Invocation`."""
        ...

    async def cancel(self, call_id: str, run: str, group: str) -> None:
        """Tells the tool server once, without waiting for it, that the result of a run is not wanted any more."""
        ...


Backend = SyncBackend | DeferredBackend  # `deferred` tells which


class Outcomes(Protocol):
    """Where deferred backends report what they learn of a call, on whatever replica they learn it."""

    async def settle(self, call_id: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or is not known."""
        ...

    async def is_open(self, call_id: str, run: str) -> bool:
        """Whether an outcome of that run still counts, as far as this replica can tell."""
        ...

    async def challenge(self, call_id: str, challenge: JsonObject) -> bool:
        """The user must consent at `challenge["url"]` first, which replaces an earlier one; the call stays open.

        False as for `settle`.
        """
        ...
