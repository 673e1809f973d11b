"""What an operator says about a document: which operations become tools, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gateway.dialects.listings import Bounds
from gateway.model import Json


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Operations that have all that is said here. `operation` and `path` are globs; empty says nothing."""

    operation: str = ""
    tag: str = ""
    path: str = ""
    method: str = ""
    deprecated: bool | None = None


class ToolTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about one operation. `arguments` are fixed values, by argument or by JSON Pointer (`/body/...`).

    `rename` are the names that callers use for arguments, by those that these would have.
    """

    name: str = ""
    description: str = ""
    arguments: Mapping[str, Json] = {}
    hide: tuple[str, ...] = ()
    rename: Mapping[str, str] = {}
    success: str = ""
    select: str = ""
    response_headers: tuple[str, ...] = ()
    media_type: str = ""
    encoded_slashes: tuple[str, ...] = ()  # arguments in the path that may hold `/`
    unsafe: bool = False  # a GET that acts


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about a document, and what reading it takes from the other settings of its backend.

    `url` is the backend's own, the only place calls go. `folder` is that of a document from a file whose references may
    name other files in it; empty: they may not. `methods` are those that become tools, in capitals; ALL stands for all
    but HEAD and OPTIONS. `tools` are by operationId or by `METHOD /path`. `auth` is what kind of credential the backend
    has of its own; `schemes` are the names of security schemes for which it has one each. `auth_in` and `auth_name` say
    where an API key goes; empty: the document does. `lent_tokens` are provider ids, `lent_secrets` ids of secrets, by
    the name of the scheme.
    """

    bounds: Bounds
    url: str
    base_path: str | None = None
    folder: str = ""
    version: str = ""
    methods: tuple[str, ...] = ("GET", "QUERY")
    include: tuple[Match, ...] = ()
    exclude: tuple[Match, ...] = ()
    include_deprecated: bool = False
    max_operations: int = 200
    arguments: Mapping[str, Json] = {}
    tools: Mapping[str, ToolTerms] = {}
    server_variables: Mapping[str, str] = {}
    output_schemas: Literal["full", "capped", "none"] = "capped"
    deep_arrays: Literal["auto", "repeat", "brackets", "indexes"] = "auto"
    max_binary_bytes: int = 1024 * 1024
    success: str = ""  # of all operations that do not say it themselves
    key_header: str = ""
    key_quoted: bool = True
    auth: Literal["", "bearer", "basic", "api_key", "header", "schemes"] = ""
    auth_header: str = ""  # the header that `auth` sets, in lower case; no argument may set it
    auth_in: Literal["", "header", "query", "cookie"] = ""
    auth_name: str = ""
    schemes: tuple[str, ...] = ()
    lent_tokens: Mapping[str, str] = {}
    lent_secrets: Mapping[str, str] = {}
