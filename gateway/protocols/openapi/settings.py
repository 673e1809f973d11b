"""Settings of HTTP APIs whose operations become tools, by their OpenAPI documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from gateway.configfile.sections import ByName, ByOnlyKey, Items, ListOf, Section, setting
from gateway.configfile.values import ID, AnyText, Choice, Flag, Integer, Size
from gateway.configfile.web import is_loopback
from gateway.protocols.openapi.settings_auth import (
    AUTHORIZATION,
    SCHEME,
    DocumentAuthSettings,
    OpenApiAuthSettings,
    SchemesAuthSettings,
    header_of,
)
from gateway.protocols.openapi.settings_values import (
    ALL,
    ARGUMENT_NAME,
    TOOL_KEY,
    ArgumentName,
    Arguments,
    BasePath,
    Condition,
    Document,
    Glob,
    KeyHeader,
    MediaType,
    Method,
    MethodOrAll,
    NewArgumentName,
    Pin,
    Select,
    ShownHeader,
    ToolName,
    Version,
)
from gateway.upstream.settings import ReplicatedBackendSettings

References = Literal["local", "files"]
OutputSchemas = Literal["full", "capped", "none"]
DeepArrays = Literal["auto", "repeat", "brackets", "indexes"]
KeyForm = Literal["quoted", "bare"]


class MatchSettings(Section):
    """One entry matches the operations to which all of its keys apply."""

    operation: Glob | None = setting(None, "A pattern of operationIds; * and ? match anything.")
    tag: AnyText | None = setting(None, "A tag of the operation.")
    path: Glob | None = setting(None, "A pattern of paths as the document writes them; * and ? match anything.")
    method: Method | None = setting(None, "The method of the operation.")
    deprecated: Flag | None = setting(None, "Whether the operation is deprecated.")

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.model_fields_set:
            yield "", "must have at least one of operation, tag, path, method and deprecated"
        if self.method == ALL:
            yield "method", "must be a method such as GET; left out, any"


class OperationsSettings(Section):
    """Which operations become tools."""

    methods: Annotated[tuple[MethodOrAll, ...], Items(at_least=1)] = setting(
        ["GET", "QUERY"],
        "The methods whose operations may become tools. `all` means every method except HEAD and OPTIONS.",
    )
    include: ListOf[MatchSettings] = setting(
        [], "Which of these operations become tools: those that match any entry. By default, all."
    )
    exclude: ListOf[MatchSettings] = setting([], "Which of the included operations do not become tools.")
    include_deprecated: Flag = setting(False, "Whether deprecated operations become tools.")
    max_tools: Annotated[int, Integer(1, 20_000)] = setting(
        200,
        "The largest number of tools. If there are more, none is published, since no model could choose among them.",
        alias="max",
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        for number, match in enumerate(self.include):
            if match.method and not allows(self.methods, match.method):
                yield "include", f"[{number}] names {match.method}, which methods leaves out; list it there too"
            if match.deprecated and not self.include_deprecated:
                yield "include", f"[{number}] names what is left out without 'include_deprecated: true'"


def allows(methods: Sequence[str], method: str) -> bool:
    """Whether operations of a method may become tools."""
    return method in methods or (ALL in methods and method not in ("HEAD", "OPTIONS"))


class ToolSettings(Section):
    """Changes to one operation."""

    name: ToolName | None = setting(
        None, "The name of the tool. By default, the operationId, or else the method and path."
    )
    description: AnyText | None = setting(
        None, "What models are told about the tool. By default, what the document says."
    )
    arguments: Arguments = setting(
        {},
        "Fixed values, which callers neither see nor set. The key is the name of an argument, or a JSON Pointer "
        "into the body.",
    )
    hide: ListOf[ArgumentName] = setting([], "Arguments that callers do not see and that are not sent.")
    rename: Annotated[Mapping[str, NewArgumentName], ByName(ARGUMENT_NAME)] = setting(
        {}, "Names of arguments for callers, by the names that they would have otherwise."
    )
    success: Condition | None = setting(None, "As `success` of the backend, for this operation.")
    select: Select | None = setting(
        None, "Which part of the answer is the result: a JMESPath expression, or a JSON Pointer such as `/items`."
    )
    response_headers: ListOf[ShownHeader] = setting(
        [], "Headers of the answer that callers get. The result then is an object with `body` and `headers`."
    )
    media_type: MediaType | None = setting(
        None, "The media type in which the body is sent, if the document offers several."
    )
    encoded_slashes: ListOf[Annotated[str, ID]] = setting(
        [], "Arguments in the path whose values may have slashes, which are sent as `%2F`."
    )
    unsafe: Flag = setting(
        False, "Whether the operation changes something, although its method promises that it does not."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        for name in self.hide:
            if name in self.arguments:
                yield "hide", f"must not name {name}, which has a fixed value in arguments and is hidden anyway"
        for name, new in self.rename.items():
            if name in self.arguments or name in self.hide:
                yield "rename", f"must not name {name}, which callers do not see"
            if list(self.rename.values()).count(new) > 1:
                yield "rename", f"must not give several arguments the name {new}"
                break


def _same_names(tools: Mapping[str, ToolSettings]) -> Iterator[tuple[str, str]]:
    """Finds tools that have the name of an earlier one; callers of some protocols do not tell capitals apart."""
    first: dict[str, str] = {}
    for key, tool in tools.items():
        if tool.name and (other := first.setdefault(tool.name.lower(), key)) != key:
            yield key, f"must not have the name {tool.name}, which is that of {other!r}"


class IdempotencyKeySettings(Section):
    """A header by which the API recognises a repeated request (Idempotency-Key of the IETF's draft)."""

    header: KeyHeader = setting("Idempotency-Key", "The name of the header.")
    form: Choice[KeyForm] = setting(
        "quoted", "How its value is written: in quotes, as the draft says (`quoted`), or without (`bare`)."
    )


class OpenApiBackendSettings(ReplicatedBackendSettings):
    """An HTTP API with an OpenAPI document (3.0 to 3.2, or Swagger 2.0). Its operations are the tools."""

    protocol: Choice[Literal["openapi"]] = setting(..., "HTTP, as described by an OpenAPI document.")
    document: Document = setting(..., "The document in JSON or YAML: the path of a file, or a URL.")
    document_auth: Annotated[DocumentAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves who it is when it fetches the document. `auth` is used for calls only."
    )
    allow_http: Flag = setting(False, "Whether the document may be fetched over http from another machine.")
    pin: Pin | None = setting(None, "The digest of the only document that is accepted. By default, any document is.")
    references: Choice[References] = setting(
        "local",
        "What the document may refer to: only parts of itself (`local`), or also files in its own folder (`files`).",
    )
    server_variables: Annotated[Mapping[str, AnyText], ByName(ID)] = setting(
        {}, "Values of the variables in the URLs of the document's servers. By default, those that the document gives."
    )
    base_path: BasePath | None = setting(
        None,
        "The path between `url` and the paths of the document. By default, it is the path of the document's first "
        "server, or nothing if `url` has a path.",
    )
    version: Version | None = setting(None, "The version of the tools. By default, that of the document.")
    auth: Annotated[OpenApiAuthSettings, ByOnlyKey()] | None = setting(  # type: ignore[assignment] # has more kinds
        None, "How the gateway proves to the API who it is."
    )
    caller_tokens: Annotated[Mapping[str, Annotated[str, ID]], ByName(SCHEME)] = setting(
        {},
        "Security schemes of the document for which callers supply a token. The value is the id of the provider "
        "of that token.",
    )
    caller_secrets: Annotated[Mapping[str, Annotated[str, ID]], ByName(SCHEME)] = setting(
        {}, "Security schemes of the document for which callers supply a secret. The value is the id of that secret."
    )
    operations: OperationsSettings = setting({}, "Which operations become tools, and how many.")
    arguments: Arguments = setting({}, "Fixed values of arguments, in every operation that has these arguments.")
    tools: Annotated[Mapping[str, ToolSettings], ByName(TOOL_KEY, _same_names)] = setting(
        {}, "Changes to single operations. The key is an operationId, or `METHOD /path`."
    )
    success: Condition | None = setting(
        None,
        "A condition for the JSON in answers with 2xx, in JMESPath, such as `ok == true`. Others are failures. By "
        "default, the status alone decides.",
    )
    output_schemas: Choice[OutputSchemas] = setting(
        "capped",
        "Whether tools list the schemas of their results: always (`full`), up to 32 KiB of each (`capped`), or "
        "never (`none`).",
    )
    deep_arrays: Choice[DeepArrays] = setting(
        "auto",
        "How arrays within `deepObject` parameters are sent: `a[b]=1`, `a[b][]=1` or `a[b][0]=1`. `auto`: as "
        "`brackets` in operations of which such a parameter is itself an array, else as `repeat`.",
    )
    idempotency_key: IdempotencyKeySettings | None = setting(
        None,
        "The header by which the API recognises repeated requests. With it, calls that change something are sent "
        "again, too.",
    )
    max_binary_bytes: Annotated[int, Size("1KiB", "10MiB")] = setting(
        "1MiB", "The largest answer that is neither JSON nor text, measured before it is written as base64."
    )

    @property
    def document_url(self) -> str:
        """Where the document is fetched; empty if it is a file."""
        return self.document if re.match("https?:", self.document) else ""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        yield from self._of_the_document()
        yield from self._of_credentials()
        if self.max_binary_bytes > self.max_response_bytes and "max_binary_bytes" in self.model_fields_set:
            yield "max_binary_bytes", "must not be more than max_response"

    def _of_the_document(self) -> Iterator[tuple[str, str]]:
        url = urlsplit(self.document_url)
        if url.scheme == "http" and not is_loopback(url.hostname or "") and not self.allow_http:
            yield (
                "document",
                "must be an https URL; http, which anybody on the way can change, needs 'allow_http: true'",
            )
        if not self.document_url and self.document_auth is not None:
            yield "document_auth", "has no effect on a file"
        if self.document_url and self.references == "files":
            yield "references", "must be local where the document is fetched; only files may refer to files"
        if self.base_path is not None and self.server_variables:
            yield "server_variables", "has no effect beside base_path"

    def _of_credentials(self) -> Iterator[tuple[str, str]]:
        header = header_of(self.auth)
        if self.caller_tokens and header == AUTHORIZATION:
            yield (
                "caller_tokens",
                "must not stand beside an auth that also sets Authorization; put the gateway's own credentials "
                "under auth.schemes, by their security schemes",
            )
        if header and header in self.forward_headers:
            yield "forward_headers", f"must not list {header}, which auth sets"
        if self.idempotency_key is not None and self.idempotency_key.header in (header, *self.forward_headers):
            yield (
                "idempotency_key",
                f"must have a header of its own; {self.idempotency_key.header} is set by another key",
            )
        own = self.auth.schemes if isinstance(self.auth, SchemesAuthSettings) else {}
        for name in self.caller_tokens:
            if name in own:
                yield "caller_tokens", f"must not name {name}, for which auth.schemes has a credential"
        for name in self.caller_secrets:
            if name in own or name in self.caller_tokens:
                where = "auth.schemes" if name in own else "caller_tokens"
                yield "caller_secrets", f"must not name {name}, for which {where} has a credential"
