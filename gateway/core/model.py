"""The neutral model: what a tool, a call and a result are, whatever protocol carries them.

Every dialect decodes into these types and encodes from them, so N dialects need N codecs, not N squared.
`Json` is plain Python: dict, list, str, int, float, bool, None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NewType, TypeAlias

from msgspec import Raw, Struct
from msgspec.json import Encoder

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
Decode: TypeAlias = Literal["auto", "always", "never"]  # whether a text result of a callback tool is read as JSON
# Of a call: an object, or its JSON text where there are so many values that reading them would hold up other calls.
Arguments: TypeAlias = JsonObject | Raw
# A call inside the gateway, and in what it stores. Callers, tool servers and logs know it by `public_id`.
CallKey = NewType("CallKey", str)
CALL_ID_PREFIX = "tg-"


def public_id(key: CallKey) -> str:
    """The id of a call as callers and tool servers know it, and as logs name it (`toolgate_call_id`)."""
    return CALL_ID_PREFIX + key


def key_of(call_id: str) -> CallKey | None:
    """The key of a call from its public id; None for an id of another form."""
    key = call_id.removeprefix(CALL_ID_PREFIX)
    return None if key is call_id else CallKey(key)


class AuthorizationRequirement(Struct, frozen=True, kw_only=True):
    """One authorization a tool needs: the provider's id and, for OAuth 2.0, its scopes (RFC 4.1, Requirements)."""

    id: str
    scopes: tuple[str, ...] | None = None


class Requirements(Struct, frozen=True, kw_only=True):
    """What a tool needs besides its arguments (RFC 4.1; OXP 1.0, ToolDefinition.requirements)."""

    authorization: tuple[AuthorizationRequirement, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """One version of one tool."""

    tool: str  # `Toolkit.Tool`
    version: str  # `x.y.z`
    name: str  # 1 to 64 of `[A-Za-z0-9_-]`
    description: str
    input_schema: JsonObject  # JSON Schema of the arguments, unwrapped
    output_schema: JsonObject | None  # None: the tool returns nothing; `{}`: anything
    remote_id: str  # what the tool server itself calls this version
    requires: Requirements = Requirements()
    toolkit_description: str | None = None
    non_inferrable_parameters: tuple[str, ...] = ()  # this and the next three exist in the RFC only
    output_modes: tuple[str, ...] | None = None
    output_description: str | None = None
    examples: Json = None
    title: str | None = None  # MCP's: a name to show
    hints: Mapping[str, bool] = {}  # MCP's, of what running it does: read_only, destructive, idempotent, open_world
    enforces_output: bool = False  # no value that breaks the output schema reaches a caller
    is_checked: bool = False  # its schemas were checked where they were made, and hold no references
    mcp: Mapping[str, Json] = {}  # for callers of MCP alone: `_meta`, `icons`, the `title` of its annotations

    @property
    def id(self) -> str:
        """The full id, `Toolkit.Tool@x.y.z`."""
        return f"{self.tool}@{self.version}"

    @property
    def toolkit(self) -> str:
        """The part of `tool` before the dot."""
        return self.tool.partition(".")[0]


class Rejected(Struct, frozen=True, kw_only=True):
    """A listed tool that cannot be published, and why, in a sentence for the operator."""

    id: str
    reason: str


class Listing(Struct, frozen=True, kw_only=True):
    """One answer of a tool server to discovery: what can be used, and what cannot."""

    tools: tuple[ToolDefinition, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    fresh_s: float | None = None  # how long the list is good for by its own words; None: it does not say


class ToolRef(Struct, frozen=True, kw_only=True):
    """Which tool a caller asked for."""

    tool: str  # `Toolkit.Tool`, or with `by_name` a tool's name
    version: str | None = None  # None: the latest that the caller may use
    by_name: bool = False
    toolkit: str | None = None  # the only one whose tools are meant


class Selection(Struct, frozen=True, kw_only=True):
    """Which tools a list has."""

    toolkit: str | None = None  # the only one whose tools it has; None: all
    # Of each tool all; the newest that its caller may use; or all, the older ones under names of their own.
    versions: Literal["all", "newest", "names"] = "all"


class CallContext(Struct, frozen=True, kw_only=True):
    """What a caller lends a tool for one call."""

    tokens: Mapping[str, str] = {}  # by provider id
    secrets: Mapping[str, str] = {}  # by id
    user_id: str | None = None
    user_info: Json = None
    group: str | None = None  # the conversation that it belongs to, in the caller's words
    ancestors: tuple[str, ...] = ()  # those that this one grew from


_encode_sorted = Encoder(order="sorted").encode


def user_of(context: CallContext) -> str:
    """Whom a call is for, as keys hold it: the user that it names, else whose tokens and secrets it has, or "".

    Whatever is kept for a call is kept under its principal and this: one caller may serve many users.
    """
    if context.user_id is not None:
        return f"user {context.user_id}"
    if context.secrets:
        return f"secrets {sha256(_encode_sorted([context.tokens, context.secrets])).hexdigest()}"
    return f"tokens {sha256(_encode_sorted(context.tokens)).hexdigest()}" if context.tokens else ""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call as the caller asked for it."""

    ref: ToolRef
    arguments: Arguments
    call_id: str | None = None  # None: the caller sent none
    context: CallContext = CallContext()
    trace_id: str | None = None


SINGLE_CALL_GROUP = "once-"  # begins the name of a group that has this one call and is over with it


class Progress(Struct, frozen=True):
    """How far a run has come."""

    done: float  # only grows, up to `total`
    total: float | None = None  # where it is known
    message: str | None = None


class Invocation(Struct, frozen=True, kw_only=True):
    """A call as a backend must run it: admitted and validated."""

    call_id: str  # of our own
    tool: ToolDefinition
    arguments: Arguments
    timeout_s: float  # bounds the whole exchange
    context: CallContext = CallContext()  # only what the tool declares
    trace_id: str | None = None
    principal: str = "anonymous"
    user: str = ""  # whom the call is for (`user_of`), also if the tool is not to know
    headers: tuple[tuple[bytes, bytes], ...] = ()  # the allow-listed ones of the caller, and those of the trace
    idempotent: bool = False  # it may be sent a second time
    group: str = ""  # the conversation that it belongs to: opaque, never the caller's own words
    ancestors: tuple[str, ...] = ()  # those that this one grew from, root first; opaque, too
    config_ids: frozenset[str] = frozenset()  # configurations of the tool that the caller may pick
    authorization_urls: Mapping[str, str] = {}  # where its user grants access, by provider id
    key: CallKey = CallKey("")  # names the call to `ports.Outcomes`; of deferred backends alone, as the next
    # Tells this run from all others: a caller's own id comes back as the same `key` once it may run anew.
    run: str = ""
    report: Callable[[Progress], None] | None = None  # takes how far the run has come; None: nobody wants to know


class ToolFailure(Struct, frozen=True, kw_only=True):
    """A tool that ran, or may have run, and failed (ToolError of OTC and OXP 1.0)."""

    message: str
    developer_message: str | None = None
    can_retry: bool = False
    retry_after_ms: int | None = None
    prompt_hint: str | None = None  # `additional_prompt_content`
    extras: Mapping[str, Json] = {}  # members of the error that no specification names
    # How it is counted: tool_error, timeout, unknown if the tool may or may not have run, or as a refusal that is
    # answered as a failure.
    outcome: str = "tool_error"
    code: str = ""  # for programs, of `FailureCode` or `ErrorCode`; empty: the one that goes with the outcome

    @property
    def public_code(self) -> str:
        """The code for programs."""
        return self.code or CODES.get(self.outcome, self.outcome)


# Of outcomes that are not the code themselves: what was refused has not run.
CODES = {"refused": "not_run", "invalid": "invalid_arguments"}


UNKNOWN_BYTES = 1 << 62  # more than there can be


class ToolResult(Struct, frozen=True, kw_only=True):
    """How a call ended: a value or a failure. Callers of MCP may get a value beside a failure."""

    value: Json = None  # None: the tool returns nothing; of very many parts it is its JSON text (`msgspec.Raw`)
    failure: ToolFailure | None = None
    duration_ms: float | None = None  # of the tool
    value_bytes: int = UNKNOWN_BYTES  # bounds the length of the value as text
    blocks: Sequence[Json] | Raw | None = None  # content of an MCP server's answer, for callers of MCP alone
    # How callers of MCP get the value: not at all, as it is, or as `{"result": value}`; None: if it is an object.
    structured: Literal["none", "value", "wrapped"] | None = None
    status: int = 0  # of the tool server's answer, for our log
    tool_code: str = ""  # the code in that answer, for our log
    meta: JsonObject | None = None  # the `_meta` of an MCP server's answer, as far as it is passed on

    def __eq__(self, other: object) -> bool:
        """Compares outcomes, whatever the length of their texts."""
        if not isinstance(other, ToolResult):
            return NotImplemented
        ours, theirs = (self.value, self.failure, self.duration_ms), (other.value, other.failure, other.duration_ms)
        return ours == theirs

    __hash__ = None  # type: ignore[assignment] # a value may hold anything
