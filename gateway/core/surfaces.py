"""Surfaces: what a request of a protocol is opened into, and which endpoints it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from gateway.core.encoders import BatchEncoder, Encoder, ListEncoder, ListenEncoder, StatusEncoder
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import Json, JsonObject, Selection, ToolCall
from gateway.core.ports import Caller, Operation
from gateway.core.wire import Head, WireReply


class Endpoint(Struct, frozen=True, kw_only=True):
    """One path of a surface."""

    route: str  # the path as logs show it
    methods: tuple[str, ...]
    operation: Operation  # what a request counts as until it is opened; lists are counted before their body is read
    dialect: str | None = None  # the one that the path names
    max_body_bytes: int | None = None  # None: as configured
    needs_document: bool = True  # else a body that is missing or not JSON is read as None instead of being refused
    # Answers that take longer are sent as a stream where their encoder has one. None: never, and no caller can listen.
    stream_after_s: float | None = None
    more_methods: tuple[str, ...] = ()  # taken if the surface takes the head: without a body, and named in no 405
    # Its callers go by 401 and 403: a missing credential is reported before anything else that is wrong with a head,
    # and `errors.strict` changes no status.
    follows_oauth: bool = False


class Handover(Struct, frozen=True, gc=False):
    """When a caller gets the status of its call in place of the outcome, to ask for that later."""

    encoder: StatusEncoder
    after_s: float  # how long a call may last before that; of a deferred backend, no time at all


class Awaited(Struct, frozen=True):
    """Challenges of an earlier try of the same call that its user has taken up."""

    message: str  # what that try was refused with
    challenges: tuple[JsonObject, ...]

    def refusal(self) -> GatewayError:
        """The same refusal again."""
        missing = {"authorization": self.challenges}
        return GatewayError(ErrorCode.MISSING_REQUIREMENTS, self.message, missing=missing)


class CallOptions(Struct, frozen=True, kw_only=True):
    """What a protocol says about a request for a call, besides the call."""

    # Tells the request from all others of its caller's: if it comes again, it is the same call. It has no meaning to
    # the caller, who cannot ask for the call by it.
    request_key: str | None = None
    outlives_caller: bool = False  # the call goes on if its caller leaves
    wait_s: float | None = None  # how long the caller will wait; None: as `Prefer` says
    handover: Handover | None = None  # None: the caller waits for the outcome
    trace: tuple[bytes, bytes | None] | None = None  # `traceparent`, `tracestate` of the call; headers go before them
    reports: bool = False  # the caller wants to know how far the call has come

    def keeps(self, timeout_s: float) -> bool:
        """Whether a call that ends within `timeout_s` leaves a record."""
        return self.request_key is not None or (self.handover is not None and self.handover.after_s < timeout_s)


NO_OPTIONS = CallOptions()


class OpenedCall(Struct, frozen=True, gc=False):
    """A request that calls a tool."""

    operation: ClassVar[Operation] = "call"

    encoder: Encoder
    call: ToolCall
    hides_tools: bool = False  # a tool whose scopes the caller lacks is refused like one that does not exist
    awaited: Awaited | None = None  # it runs once nothing of this is open any more
    options: CallOptions = NO_OPTIONS


class StatusRequest(Struct, frozen=True, gc=False):
    """A request for the status of a kept call."""

    operation: ClassVar[Operation] = "poll"

    encoder: StatusEncoder
    call_id: str


class OpenedCancel(Struct, frozen=True, gc=False):
    """A request to cancel a kept call unless it is over."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    call_id: str
    reply: WireReply  # the answer if there is such a call


class OpenedConsent(Struct, frozen=True, gc=False):
    """Says what the user of a kept call makes of the challenge that it waits for."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    call_id: str
    decision: Callable[[JsonObject], bool | None]  # whether the user opens the URL of a challenge; None: not said
    reply: WireReply  # as in `OpenedCancel`


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


class CancelByRequest(Struct, frozen=True, kw_only=True):
    """A request to cancel the call of an earlier request."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    request_key: str  # as in `CallOptions`
    reply: WireReply  # the answer in any case


class ResumeRequest(Struct, frozen=True, kw_only=True):
    """A request for the answer to an earlier one, which its caller never got."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    request_key: str  # as in `CallOptions`
    lost: GatewayError  # raised if nothing is known of the earlier one


class OpenedBatch(Struct, frozen=True, kw_only=True):
    """Several requests that came as one, to be answered under the same head."""

    operation: ClassVar[Operation] = "poll"

    encoder: BatchEncoder
    documents: Sequence[Json]


class RefusedOpening(Struct, frozen=True):
    """An invalid request, read far enough to refuse it in its own dialect and version."""

    encoder: Encoder
    error: GatewayError


class OpenedOverview(Struct, frozen=True):
    """A request for an overview of the toolkits of which its caller may use some tool."""

    operation: ClassVar[Operation] = "poll"

    encoder: Encoder
    answer: Callable[[Mapping[str, str | None]], WireReply]  # from their names and descriptions


# About a call that was made before.
FollowUp = StatusRequest | OpenedCancel | OpenedConsent | CancelByRequest | ResumeRequest


Opened = OpenedCall | OpenedList | OpenedListen | OpenedOverview | OpenedBatch | FollowUp | Immediate | RefusedOpening


class Surface(Protocol):
    """A protocol that callers speak at some paths: a pure codec."""

    @property
    def dialects(self) -> frozenset[str]:
        """All names that its endpoints and encoders have."""
        ...

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """By path. A last segment in braces, as in `/rpc/{name}`, is any word of ASCII letters, digits and `_`."""
        ...

    @property
    def encoders(self) -> Mapping[tuple[str, str], Encoder]:
        """By dialect and wire version: they encode the calls read at `/calls/{call_id}`."""
        ...

    @property
    def argument_members(self) -> tuple[bytes, ...]:
        """The JSON members that hold arguments, at any depth: a long text there may stay undecoded (`Arguments`)."""
        ...

    def check_head(self, head: Head) -> None:
        """Raises GatewayError for an invalid head. Its method, size and repeated headers are checked elsewhere."""
        ...

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        """Reads a request. Raises INVALID_REQUEST if not even its dialect can be read."""
        ...

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        """Encodes the refusal of a request that was not opened, in the dialect that its head shows."""
        ...
