"""What calls need of a document: how the request of an operation is made, and how its answers are read.

An operation of which that cannot be told is no tool: `OperationError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from gateway.core.model import Json, ToolDefinition


class OperationError(ValueError):
    """An operation that cannot be a tool; the text says why, for the operator."""


class UnresolvedError(OperationError):
    """A reference that leads nowhere. Where what it names may be left out, only that is."""


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "query")  # `trace` is never a tool
METHOD_FIELD = "_method"  # in a query or a form: frameworks take a POST with it for another method
Where = Literal["path", "query", "querystring", "header", "cookie"]
Style = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject", "cookie"
]  # OpenAPI 3.2, Style Values
# Which styles a parameter may have, by where it is; the first is the one of those that say nothing (3.2, Parameter).
STYLES: Mapping[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "querystring": (),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
DeepArrays = Literal["repeat", "brackets", "indexes"]
BodyKind = Literal["json", "lines", "form", "multipart", "text", "bytes"]


class Parameter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one argument is sent outside the body."""

    argument: str  # its name among the arguments of the tool
    name: str  # its name on the wire
    where: Where
    style: Style
    explode: bool
    required: bool = False
    allow_reserved: bool = False
    media_type: str = ""  # of a parameter with `content`, which has no style
    encoded_slashes: bool = False  # whether a value in a path may hold `/`, which is sent as `%2F`
    deep_arrays: DeepArrays = "repeat"
    fixed: Json | UnsetType = UNSET  # the operator's value, sent in every call; UNSET: the caller's


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one member of a form or of a multipart body is sent (OpenAPI 3.2, Encoding Object)."""

    content_type: str = ""
    style: Style | None = None
    explode: bool = True
    allow_reserved: bool = False
    is_binary: bool = False  # callers give `{"base64", "filename"?, "content_type"?}`, or base64 text
    headers: Mapping[str, str] = {}  # of its part


class BodyPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the body of a request is made."""

    kind: BodyKind
    media_type: str  # sent exactly as it stands
    required: bool = False
    fields: Mapping[str, Field] = {}  # those with rules of their own
    deep_arrays: DeepArrays = "repeat"  # of fields in the style deepObject
    fixed: Mapping[str, Json] = {}  # the operator's values, by JSON Pointer below the body
    hidden: tuple[str, ...] = ()  # JSON Pointers at which there is no member
    argument: str = "body"  # the name of the argument that is the body


class LentCredential(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A credential that the caller lends for the call, and where it goes."""

    id: str  # of a token the provider's, of a secret its own
    is_secret: bool = False
    where: Literal["bearer", "header", "query", "cookie"] = "bearer"
    name: str = ""


class KeyPlace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the document wants an API key of the backend's own."""

    where: Literal["header", "query", "cookie"]
    name: str
    scheme: str = ""  # empty: the backend has one key only


class Access(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The credentials of an operation's calls."""

    # The schemes of the backend's `auth` that go along; None: its `auth` as it is, whatever it is; empty: none of it.
    schemes: tuple[str, ...] | None = None
    keys: tuple[KeyPlace, ...] = ()  # of keys whose settings leave their place to the document
    lent: tuple[LentCredential, ...] = ()
    # Of all its keys in the query and among cookies: where callers choose names, they may not choose these.
    key_names: tuple[str, ...] = ()


class AnswerPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How answers are read."""

    media_types: tuple[str, ...] = ()  # that the document declares for success, in lower case
    success: str = ""  # a condition for JSON, in JMESPath
    select: str = ""  # a JMESPath expression, or a JSON Pointer if it begins with a slash
    headers: tuple[str, ...] = ()  # that callers are shown beside the body, in lower case
    max_binary_bytes: int = 1024 * 1024


class CallPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation as it is called."""

    method: str
    path: str  # its template below the backend's URL, with the prefix of its server
    prefix: str = ""  # that alone: no redirect leads out of it
    query: str = ""  # the same in all calls, as it is sent
    parameters: tuple[Parameter, ...] = ()
    body: BodyPlan | None = None
    accept: str = "application/json, */*;q=0.1"
    access: Access = Access()
    answers: AnswerPlan = AnswerPlan()
    is_safe: bool = False
    can_repeat: bool = False  # by its method or an idempotency key: sending it twice does as much as once
    key_header: str = ""  # of the idempotency key
    key_quoted: bool = True  # whether that is sent as a quoted string, or bare


class OperationTool(ToolDefinition, frozen=True, kw_only=True):
    """A tool that is an operation. Its plan goes where the definition goes: a refresh changes both at once."""

    plan: CallPlan
