"""The interfaces of surfaces, backends, authentication and rate limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from gateway.admission import DispatchGate
from gateway.errors import ErrorCode, GatewayError
from gateway.model import (
    Decode,
    Invocation,
    Json,
    JsonObject,
    Listing,
    Progress,
    Selection,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from gateway.wire import Answer, Head, Headers, JoinedList, WireReply, WireRequest

Operation = Literal["call", "list", "poll", "listen"]  # rate limits count `listen` as `list`


class Caller(Struct, frozen=True, kw_only=True):
    """The authenticated caller. `principal` is `jwt:<issuer>:<sub>`, `key:<id>` or `anonymous`.

    `user_id` is the user that the credential names, if any; its calls may then name no other user.
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
        """Raises UnauthenticatedError, or UndecidedError if `identify_later` may still find the caller."""
        ...

    async def identify_later(self, head: Head) -> Caller:
        """Waits some seconds at most for what `identify` lacked. Raises UnauthenticatedError."""
        ...

    async def start(self) -> None:
        """Begins to fetch remote keys; returns at once."""
        ...


class Target(NamedTuple):
    """What a call counts for in rate limits. `route` is unique in the file; `tool` has no version."""

    tool: str
    version: str
    backend: str
    route: str


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


class Endpoint(Struct, frozen=True, kw_only=True):
    """One path of a surface.

    `route` is the path as logs show it. `dialect` is the one that the path names, if any. A request counts as
    `operation` until it is opened; lists are counted before their body is read. `max_body_bytes` None: as configured.
    Without `needs_document`, a body that is missing or not JSON is read as None instead of being refused.
    Answers that take longer than `stream_after_s` are sent as a stream where their encoder has one; None: never, and
    nobody can listen there either.
    `more_methods` are taken if the surface takes the head: a request of theirs has no body, and a 405 names none.
    `follows_oauth`: its callers go by 401 and 403, so a missing credential is reported before anything else that is
    wrong with a head, and `errors.strict` changes no status.
    """

    route: str
    methods: tuple[str, ...]
    operation: Operation
    dialect: str | None = None
    max_body_bytes: int | None = None
    needs_document: bool = True
    stream_after_s: float | None = None
    more_methods: tuple[str, ...] = ()
    follows_oauth: bool = False


class EventStream(Protocol):
    """How an answer that is late is sent as a stream of events (WHATWG HTML, server-sent events). All is pure."""

    @property
    def headers(self) -> Headers: ...

    def first(self) -> bytes:
        """What comes before everything else; may be empty."""
        ...

    def beat(self, progress: Progress) -> bytes:
        """A sign of life, with how far the call has come if its caller wants to know."""
        ...

    def last(self, reply: WireReply) -> bytes:
        """The answer itself."""
        ...


class Encoder(Protocol):
    """Encodes the answer to one request, in its dialect and wire version. All methods are pure."""

    @property
    def name(self) -> str:
        """The dialect, one of the surface's `dialects`."""
        ...

    @property
    def wire_version(self) -> str:
        """The version of the dialect as the caller wrote it."""
        ...

    @property
    def revision(self) -> str:
        """The version as logs have it, one of a few; empty where the name of the dialect says enough."""
        ...

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        """The outcome of a call. `call_id` is the caller's own, if it sent one."""
        ...

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        """The same for a request that did not wait for the outcome."""
        ...

    def encode_error(self, error: GatewayError) -> WireReply:
        """A refusal."""
        ...


class KeptCall(Struct, frozen=True, kw_only=True, gc=False):
    """A kept call as its caller is told how it stands. Times are by `time.time()`.

    `id` is ours. `changed_s` is when it ended or began to wait for its user, else when it began; it may be forgotten at
    `kept_until_s`. `consented`: its user has agreed to open the URL of the challenge that it waits for.
    """

    id: str
    begun_s: float
    changed_s: float
    kept_until_s: float
    age_s: float
    consented: bool = False


class StatusEncoder(Encoder, Protocol):
    """Encodes how a kept call stands; without `about` it encodes only why that is not told."""

    def about(self, kept: KeptCall) -> Encoder:
        """Encodes the status of this call: by `encode_accepted` while it runs, else by how it ended."""
        ...


@runtime_checkable
class StreamingEncoder(Encoder, Protocol):
    """Encodes answers of an endpoint with `stream_after_s`."""

    @property
    def stream(self) -> EventStream | None:
        """How the answer is sent if it is late; None if it has to be sent whole."""
        ...


class ListEncoder(Encoder, Protocol):
    """Encodes a list of tools in steps, whose results are cached.

    `definition_form` and `list_form` name the forms that tools and lists have here; encoders with the same name for a
    form encode it alike.
    """

    @property
    def definition_form(self) -> str: ...

    @property
    def list_form(self) -> str: ...

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        """One tool. Raises DefinitionError for one that callers of this dialect could not take."""
        ...

    def join(self, tools: Sequence[bytes]) -> JoinedList:
        """The list of these encoded tools. Takes milliseconds per megabyte."""
        ...

    def encode_list(self, joined: JoinedList, head: Head) -> WireReply:
        """The answer to one request for the list."""
        ...


class Handover(Struct, frozen=True, gc=False):
    """When a caller gets the status of its call in place of the outcome, to ask for that later.

    At once if the backend of the call is deferred, else if the call lasts longer than `after_s`.
    """

    encoder: StatusEncoder
    after_s: float


class Awaited(Struct, frozen=True):
    """Challenges of an earlier try of the same call that its user has taken up, and what that try was refused with."""

    message: str
    challenges: tuple[JsonObject, ...]

    def refusal(self) -> GatewayError:
        """The same refusal again."""
        missing = {"authorization": self.challenges}
        return GatewayError(ErrorCode.MISSING_REQUIREMENTS, self.message, missing=missing)


class CallTerms(Struct, frozen=True, kw_only=True):
    """What a protocol says about a request for a call, besides the call.

    `request_key` tells the request from all others of its caller's: if it comes again, it is the same call. It has no
    meaning to the caller, who cannot ask for the call by it. `outlives_caller`: the call goes on if its caller leaves.
    `wait_s` is how long the caller will wait; None: as `Prefer` says. Without `handover` it waits for the outcome.
    `trace` are the `traceparent` and the `tracestate` that a call brings along; headers go before them. `reports`: the
    caller wants to know how far the call has come.
    """

    request_key: str | None = None
    outlives_caller: bool = False
    wait_s: float | None = None
    handover: Handover | None = None
    trace: tuple[bytes, bytes | None] | None = None
    reports: bool = False

    def keeps(self, timeout_s: float) -> bool:
        """Whether a call that ends within `timeout_s` leaves a record."""
        return self.request_key is not None or (self.handover is not None and self.handover.after_s < timeout_s)


NO_TERMS = CallTerms()


class ListenEncoder(Encoder, Protocol):
    """Encodes what a caller who listens is sent, as pieces of one body."""

    @property
    def headers(self) -> Headers: ...

    def begun(self) -> bytes:
        """The first piece: what will be heard."""
        ...

    def changed(self) -> bytes:
        """The tools that the caller may use have changed; empty if it did not ask for that."""
        ...

    def beat(self) -> bytes:
        """A sign of life."""
        ...

    def ended(self) -> bytes:
        """The last piece: the gateway stops here."""
        ...


class OpenedCall(Struct, frozen=True, gc=False):
    """A request that calls a tool.

    `hides_tools`: a tool whose scopes the caller lacks is refused like one that does not exist. It runs once nothing
    that is `awaited` is open any more.
    """

    operation: ClassVar[Operation] = "call"

    encoder: Encoder
    call: ToolCall
    hides_tools: bool = False
    awaited: Awaited | None = None
    terms: CallTerms = NO_TERMS


class OpenedLook(Struct, frozen=True, gc=False):
    """A request for the status of a kept call."""

    operation: ClassVar[Operation] = "poll"

    encoder: StatusEncoder
    call_id: str


class OpenedCancel(Struct, frozen=True, gc=False):
    """A request to cancel a kept call unless it is over. `reply` answers it if there is such a call."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    call_id: str
    reply: WireReply


class OpenedConsent(Struct, frozen=True, gc=False):
    """Says what the user of a kept call makes of the challenge that it waits for; `reply` as in `OpenedCancel`.

    `decision` is whether the user agrees to open the URL of a challenge; None: nothing is said of this one.
    """

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    call_id: str
    decision: Callable[[JsonObject], bool | None]
    reply: WireReply


EVERYTHING = Selection()


class OpenedList(Struct, frozen=True, gc=False):
    """A request for the tools that its caller may use."""

    operation: ClassVar[Operation] = "list"

    encoder: ListEncoder
    selection: Selection = EVERYTHING


class OpenedListen(Struct, frozen=True, gc=False):
    """A request to be told whenever the tools that its caller may use have changed."""

    operation: ClassVar[Operation] = "listen"

    encoder: ListenEncoder
    toolkit: str | None = None  # the only one that counts


class Immediate(Struct, frozen=True, kw_only=True):
    """A request that the surface answers by itself, such as a handshake. It counts as `operation`."""

    encoder: Encoder
    reply: WireReply
    operation: Operation = "poll"


class OpenedWithdrawal(Struct, frozen=True, kw_only=True):
    """A request to cancel the call of an earlier one (`CallTerms.request_key`). `reply` is given in any case."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    request_key: str
    reply: WireReply


class OpenedReturn(Struct, frozen=True, kw_only=True):
    """A request for the answer to an earlier one (`CallTerms.request_key`), which its caller never got.

    `lost` is raised if nothing is known of it.
    """

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    request_key: str
    lost: GatewayError


class BatchEncoder(Encoder, Protocol):
    """Encodes the answers to several requests that came as one."""

    def encode_batch(self, replies: Sequence[WireReply]) -> WireReply:
        """`replies` are in the order of the requests."""
        ...


class OpenedBatch(Struct, frozen=True, kw_only=True):
    """Several requests that came as one: the documents of each, to be answered under the same head."""

    operation: ClassVar[Operation] = "poll"

    encoder: BatchEncoder
    documents: Sequence[Json]


class RefusedOpening(Struct, frozen=True):
    """An invalid request, read far enough to refuse it in its own dialect and version."""

    encoder: Encoder
    error: GatewayError


class OpenedOverview(Struct, frozen=True):
    """A request to which `answer` takes the toolkits of which its caller may use some tool, with their descriptions."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    answer: Callable[[Mapping[str, str | None]], WireReply]


# About a call that was made before.
FollowUp = OpenedLook | OpenedCancel | OpenedConsent | OpenedWithdrawal | OpenedReturn
Opened = OpenedCall | OpenedList | OpenedListen | OpenedOverview | OpenedBatch | FollowUp | Immediate | RefusedOpening


class Surface(Protocol):
    """A protocol that callers speak at some paths: a pure codec.

    `encoders`, by dialect and wire version, encode the calls read at `/calls/{call_id}`. `argument_members` are the
    JSON members that hold arguments, at any depth: a long text there may stay undecoded (`model.Arguments`).
    """

    @property
    def dialects(self) -> frozenset[str]:
        """All names that its endpoints and encoders have."""
        ...

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """By path. A last segment in braces, as in `/rpc/{name}`, is any word of ASCII letters, digits and `_`."""
        ...

    @property
    def encoders(self) -> Mapping[tuple[str, str], Encoder]: ...

    @property
    def argument_members(self) -> tuple[bytes, ...]: ...

    def check_head(self, head: Head) -> None:
        """Raises GatewayError for an invalid head. Its method, size and repeated headers are checked elsewhere."""
        ...

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        """Reads a request. Raises INVALID_REQUEST if not even its dialect can be read."""
        ...

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        """Encodes the refusal of a request that was not opened, in the dialect that its head shows."""
        ...


class CallCodec(Protocol):
    """Encodes calls of one protocol as HTTP requests, and decodes the replies. All methods are pure."""

    @property
    def call_paths(self) -> tuple[str, ...]:
        """Where calls are sent; to the second only after a 404 says that the first does not exist."""
        ...

    @property
    def value_members(self) -> tuple[bytes, ...]:
        """Members of a reply that hold the tool's value; a very large one stays text (`msgspec.Raw`)."""
        ...

    @property
    def fails_with_500(self) -> bool:
        """Whether a 500 means that the tool failed, and not its server."""
        ...

    def request_call(self, invocation: Invocation) -> WireRequest: ...

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """Reads a reply; `document` is the body of a 200 if it was decoded already, else None.

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

    async def resume(self, call_id: str, run: str) -> None:
        """Looks for the outcome of a call that another replica sent; `run` as in `Invocation`."""
        ...

    async def cancel(self, call_id: str, run: str, group: str) -> None:
        """Asks the tool server once, without waiting for it, to cancel a run."""
        ...


Backend = SyncBackend | DeferredBackend  # `deferred` tells which


class Outcomes(Protocol):
    """Where deferred backends report the outcomes of calls, on any replica."""

    async def settle(self, call_id: str, result: ToolResult) -> bool:
        """Ends a call; False if it has ended already or is not known."""
        ...

    async def is_open(self, call_id: str, run: str) -> bool:
        """Whether an outcome of that run still counts, as far as this replica knows."""
        ...

    async def challenge(self, call_id: str, challenge: JsonObject) -> bool:
        """Reports that the user must first consent at `challenge["url"]`, which replaces an earlier one.

        The call stays open. False as for `settle`.
        """
        ...
