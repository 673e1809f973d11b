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
DeepArrays = Literal["repeat", "brackets", "indexes"]
BodyKind = Literal["json", "lines", "form", "multipart", "text", "bytes"]


class Parameter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parameter: `argument` is its name among the tool's arguments, `name` the one on the wire.

    `media_type` is that of a parameter with `content`, which has no style. `fixed` is the operator's value, sent in
    every call; UNSET: the caller's. `encoded_slashes`: a value in a path may hold `/`, which is sent as `%2F`.
    """

    argument: str
    name: str
    where: Where
    style: Style
    explode: bool
    required: bool = False
    allow_reserved: bool = False
    media_type: str = ""
    encoded_slashes: bool = False
    deep_arrays: DeepArrays = "repeat"
    fixed: Json | UnsetType = UNSET


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one member of a form or of a multipart body is sent (OpenAPI 3.2, Encoding Object).

    `is_binary`: the caller gives `{"base64", "filename"?, "content_type"?}`, or base64 text.
    """

    content_type: str = ""
    style: Style | None = None
    explode: bool = True
    allow_reserved: bool = False
    is_binary: bool = False
    headers: Mapping[str, str] = {}


class BodyPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a request, and the name of the argument that is it. `media_type` is sent exactly as it stands.

    `fields` are those with rules of their own, `deep_arrays` is for those in the style deepObject. `fixed` are the
    operator's values by JSON Pointer below the body; at those of `hidden` there is no member.
    """

    kind: BodyKind
    media_type: str
    required: bool = False
    fields: Mapping[str, Field] = {}
    deep_arrays: DeepArrays = "repeat"
    fixed: Mapping[str, Json] = {}
    hidden: tuple[str, ...] = ()
    argument: str = "body"


class Lent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A credential that the caller lends for the call, and where it goes: a token by provider id, or a secret by id."""

    id: str
    is_secret: bool = False
    where: Literal["bearer", "header", "query", "cookie"] = "bearer"
    name: str = ""


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the document wants an API key of the backend's own: that of a scheme, or the only one it has."""

    where: Literal["header", "query", "cookie"]
    name: str
    scheme: str = ""


class Access(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The credentials of an operation's calls.

    `schemes` are the schemes of the backend's `auth` that go along; None: its `auth` as it is, whatever it is; empty:
    none of it. `keys` are the places of keys whose settings leave that to the document. `key_names` are those of all
    its keys in the query and among cookies: where callers choose names, they may not choose these.
    """

    schemes: tuple[str, ...] | None = None
    keys: tuple[Key, ...] = ()
    lent: tuple[Lent, ...] = ()
    key_names: tuple[str, ...] = ()


class AnswerPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How answers are read. `media_types` are those that the document declares for success, in lower case.

    `success` is a condition for JSON, in JMESPath. `select` is such an expression, or a JSON Pointer if it begins with
    a slash. `headers` are those, in lower case, that callers are shown beside the body.
    """

    media_types: tuple[str, ...] = ()
    success: str = ""
    select: str = ""
    headers: tuple[str, ...] = ()
    max_binary_bytes: int = 1024 * 1024


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation as it is called. `path` is its template below the backend's URL, with the prefix of its server.

    `prefix` is that alone: no redirect leads out of it. `query` is the same in all calls, as it is sent.

    `can_repeat`: what its method promises, or an idempotency key: sending it twice does as much as once.
    `key_header` is the header of that key, which is sent as a quoted string (`key_quoted`) or bare.
    """

    method: str
    path: str
    prefix: str = ""
    query: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: BodyPlan | None = None
    accept: str = "application/json, */*;q=0.1"
    access: Access = Access()
    answers: AnswerPlan = AnswerPlan()
    is_safe: bool = False
    can_repeat: bool = False
    key_header: str = ""
    key_quoted: bool = True


class OperationTool(ToolDefinition, frozen=True, kw_only=True):
    """A tool that is an operation. Its plan goes where the definition goes: a refresh changes both at once."""

    plan: Plan
