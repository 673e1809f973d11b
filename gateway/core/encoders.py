"""What encodes an answer in the protocol of its caller: results, refusals, statuses, lists and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from gateway.core.errors import GatewayError
from gateway.core.model import Progress, ToolDefinition, ToolResult
from gateway.core.wire import Head, Headers, JoinedList, WireReply


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
    """How a kept call stands, for its caller. Times are by `time.time()`."""

    id: str  # ours
    begun_s: float
    changed_s: float  # when it ended or began to wait for its user, else when it began
    kept_until_s: float  # when it may be forgotten
    age_s: float
    consented: bool = False  # its user has agreed to open the URL of the challenge that it waits for


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


class BatchEncoder(Encoder, Protocol):
    """Encodes the answers to several requests that came as one."""

    def encode_batch(self, replies: Sequence[WireReply]) -> WireReply:
        """`replies` are in the order of the requests."""
        ...
