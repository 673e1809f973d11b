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
    """One version of one tool.

    `tool` is `Toolkit.Tool`, `version` is `x.y.z`, `name` has 1 to 64 of `[A-Za-z0-9_-]`. `input_schema` is the
    JSON Schema of the arguments, unwrapped. `output_schema` None: the tool returns nothing; `{}`: anything.
    `remote_id` is what the tool server itself calls this version. `title` and `hints` are MCP's: a name to show, and
    what running it does (`read_only`, `destructive`, `idempotent`, `open_world`). `enforces_output`: no value that
    breaks the output schema reaches a caller. `is_checked`: its schemas were checked where they were made, and hold no
    references. `mcp` are further members of a listed MCP tool, for callers of MCP alone: `_meta`, `icons`, and the
    `title` of its annotations. The rest exists in the RFC only.
    """

    tool: str
    version: str
    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    remote_id: str
    requires: Requirements = Requirements()
    toolkit_description: str | None = None
    non_inferrable_parameters: tuple[str, ...] = ()
    output_modes: tuple[str, ...] | None = None
    output_description: str | None = None
    examples: Json = None
    title: str | None = None
    hints: Mapping[str, bool] = {}
    enforces_output: bool = False
    is_checked: bool = False
    mcp: Mapping[str, Json] = {}

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
    """One answer of a tool server to discovery: what can be used, and what cannot.

    `fresh_s`: how long the list is good for by its own words; None if it does not say.
    """

    tools: tuple[ToolDefinition, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    fresh_s: float | None = None


class ToolRef(Struct, frozen=True, kw_only=True):
    """Which tool a caller asked for: `tool` is `Toolkit.Tool`, or with `by_name` a tool's name.

    `version` None means the latest the caller may use. With a `toolkit` only tools of that one are meant.
    """

    tool: str
    version: str | None = None
    by_name: bool = False
    toolkit: str | None = None


class Selection(Struct, frozen=True, kw_only=True):
    """Which tools a list has: those of one `toolkit`, or all.

    Of each tool it has `all` versions; the `newest` that its caller may use; or all, older ones under `names` of their
    own.
    """

    toolkit: str | None = None
    versions: Literal["all", "newest", "names"] = "all"


class CallContext(Struct, frozen=True, kw_only=True):
    """What a caller lends a tool for one call: tokens by provider id, secrets by id, who the user is.

    `group` and `ancestors` name the conversation it belongs to, in the caller's words.
    """

    tokens: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    user_id: str | None = None
    user_info: Json = None
    group: str | None = None
    ancestors: tuple[str, ...] = ()


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
    """A call as the caller asked for it. `call_id` is None when the caller sent none."""

    ref: ToolRef
    arguments: Arguments
    call_id: str | None = None
    context: CallContext = CallContext()
    trace_id: str | None = None


SINGLE_CALL_GROUP = "once-"  # begins the name of a group that has this one call and is over with it


class Progress(Struct, frozen=True):
    """How far a run has come: `done` only grows, up to `total` where that is known."""

    done: float
    total: float | None = None
    message: str | None = None


class Invocation(Struct, frozen=True, kw_only=True):
    """A call as a backend must run it: admitted, validated, under a call id of our own.

    `context` holds only what the tool declares; `user` is whom the call is for (`user_of`), also if the tool is not
    to know. `headers` are the allow-listed ones of the caller.
    `timeout_s` bounds the whole exchange; `idempotent` allows a second sending. `group` is the conversation the call
    belongs to and `ancestors` those it grew from, root first: opaque, never the caller's own words. `config_ids` are
    the configurations of the tool that the caller may pick. `authorization_urls` are where its user grants access, by
    provider id, for tools that need that. `key` names the call to `ports.Outcomes`, and `run` tells this run of it from
    all others: a caller's own id comes back as the same `key` once it may run anew. Only deferred backends get them.
    `report` takes how far the run has come, at once; None: nobody wants to know.
    """

    call_id: str
    tool: ToolDefinition
    arguments: Arguments
    timeout_s: float
    context: CallContext = CallContext()
    trace_id: str | None = None
    principal: str = "anonymous"
    user: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    idempotent: bool = False
    group: str = ""
    ancestors: tuple[str, ...] = ()
    config_ids: frozenset[str] = frozenset()
    authorization_urls: Mapping[str, str] = {}
    key: CallKey = CallKey("")
    run: str = ""
    report: Callable[[Progress], None] | None = None


class ToolFailure(Struct, frozen=True, kw_only=True):
    """A tool that ran, or may have run, and failed (ToolError of OTC and OXP 1.0).

    `prompt_hint` is `additional_prompt_content`; `extras` are members of the error that no specification names.
    `outcome` is how it is counted: `tool_error`, `timeout`, `unknown` if the tool may or may not have run, or as a
    refusal that is answered as a failure. `code` is the code for programs, of `FailureCode` or `ErrorCode`; empty: the
    one that goes with the outcome.
    """

    message: str
    developer_message: str | None = None
    can_retry: bool = False
    retry_after_ms: int | None = None
    prompt_hint: str | None = None
    extras: Mapping[str, Json] = {}
    outcome: str = "tool_error"
    code: str = ""

    @property
    def public_code(self) -> str:
        """The code for programs."""
        return self.code or CODES.get(self.outcome, self.outcome)


# Of outcomes that are not the code themselves: what was refused has not run.
CODES = {"refused": "not_run", "invalid": "invalid_arguments"}


UNKNOWN_BYTES = 1 << 62  # more than there can be


class ToolResult(Struct, frozen=True, kw_only=True):
    """How a call ended: a value (None when the tool returns nothing) or a failure. `duration_ms` of the tool.

    A value of very many parts is its JSON text (`msgspec.Raw`). `value_bytes` bounds its length as text.
    `blocks` are the content blocks of an MCP server's answer, which only callers of MCP get beside the value.
    `meta` is the `_meta` of that answer, as far as it is passed on. A failure may have a value for these callers, too.
    `status` and `tool_code` of a failure are for our log: that of the tool server's answer, and the code in it.
    `structured` says how they get the value itself: not at all, as it is, or as `{"result": value}`; None: if it is an
    object.
    """

    value: Json = None
    failure: ToolFailure | None = None
    duration_ms: float | None = None
    value_bytes: int = UNKNOWN_BYTES
    blocks: Sequence[Json] | Raw | None = None
    structured: Literal["none", "value", "wrapped"] | None = None
    status: int = 0
    tool_code: str = ""
    meta: JsonObject | None = None

    def __eq__(self, other: object) -> bool:
        """Compares outcomes, whatever the length of their texts."""
        if not isinstance(other, ToolResult):
            return NotImplemented
        ours, theirs = (self.value, self.failure, self.duration_ms), (other.value, other.failure, other.duration_ms)
        return ours == theirs

    __hash__ = None  # type: ignore[assignment] # a value may hold anything
