"""Makes the tools of a document, as text, so that another process can do it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject, Rejected, ToolDefinition
from gateway.core.tool_names import DefinitionError, published_name, tool_and_version
from gateway.protocols.common.listing import MAX_SHOWN, ListBuilder, Summary, joined
from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.curation import (
    Terms,
    description_of,
    reason_left_out,
    tool_names,
    tool_terms,
    unknown_tools,
    version_of,
)
from gateway.protocols.openapi.document.document import Document, DocumentError, read_document
from gateway.protocols.openapi.document.inputs import input_of
from gateway.protocols.openapi.document.operations import (
    Operation,
    PartialOperation,
    completed,
    partial_operations,
    rejected,
)
from gateway.protocols.openapi.document.outputs import output_of
from gateway.protocols.openapi.document.plan import CallPlan, OperationError, OperationTool
from gateway.protocols.openapi.document.report import NO_LIST, OperationOutcome, report_of
from gateway.protocols.openapi.document.security import access_of, credential_names
from gateway.protocols.openapi.document.serialise import split_path
from gateway.schemas import SchemaError, SharedInliner, check_input, is_json_schema

MAX_OPERATIONS = 20_000  # of a document, chosen or not
SHOWN = 10  # operations in a message
SAFE = frozenset(("GET", "HEAD", "OPTIONS", "QUERY"))  # RFC 9110, 9.2.1

decode_terms = msgspec.json.Decoder(Terms).decode


def decoder() -> Callable[[bytes], Sequence[OperationTool]]:
    """A function that makes tools of one text after another of a list."""
    return Restorer().tools


def read_operations(encoded_terms: bytes, text: bytes) -> tuple[bytes, ...]:
    """Reads a document. Returns a Summary, then what `decoder` reads, all of them JSON text."""
    terms = decode_terms(encoded_terms)
    builder = ListBuilder(terms.bounds)
    try:
        document = read_document(text, terms.url, terms.server_variables, terms.folder)
        operations = _partial_operations(document, builder)
        names = tool_names([partial.operation for partial in operations], terms)
    except DocumentError as exc:
        return (encode(Summary(failure=str(exc))),)
    reasons = [reason_left_out(partial.operation, terms) for partial in operations]
    if failure := _misfit(operations, reasons, terms):
        outcomes = [
            OperationOutcome(partial.operation, None, reason or NO_LIST)
            for partial, reason in zip(operations, reasons, strict=True)
        ]
        return (encode(Summary(failure=failure, report=_report(document, outcomes, terms, builder, text))),)
    maker = _Maker(document, terms, names)
    outcomes = []
    for partial, reason in zip(operations, reasons, strict=True):
        if reason is None:
            outcomes.append(OperationOutcome(partial.operation, maker.tool(partial, builder), "", maker.notes))
        else:
            outcomes.append(OperationOutcome(partial.operation, None, reason))
    first, *rest = builder.encoded(
        f"OpenAPI {document.dialect}", report=_report(document, outcomes, terms, builder, text)
    )
    return first, *maker.parts.encoded(), *rest


def _partial_operations(document: Document, builder: ListBuilder) -> list[PartialOperation]:
    """All operations of a document; those that cannot be read are rejected. Raises DocumentError for too many."""
    partials: list[PartialOperation] = []
    for entry in partial_operations(document):
        if isinstance(entry, Rejected):
            builder.rejected.append(entry)
        else:
            partials.append(entry)
        if len(partials) + len(builder.rejected) > MAX_OPERATIONS:
            raise DocumentError(f"The document has more than {MAX_OPERATIONS} operations.")
    return partials


def _misfit(operations: Sequence[PartialOperation], reasons: Sequence[str | None], terms: Terms) -> str:
    """Why a document cannot be used as its operator wants; empty if it can.

    What is said about an operation that is not there may have forbidden what another one now allows.
    """
    if unknown := list(islice(unknown_tools([partial.operation for partial in operations], terms), SHOWN)):
        return f"The configuration does not fit the document, so no operation is published: {'; '.join(unknown)}"
    selected = [partial.operation for partial, reason in zip(operations, reasons, strict=True) if reason is None]
    if len(selected) <= terms.max_operations:
        return ""
    first = ", ".join((operation.id or operation.place)[:MAX_SHOWN] for operation in selected[:SHOWN])
    return (
        f"{len(selected)} operations are chosen, and operations.max allows {terms.max_operations}. The first: {first}."
    )


def _report(
    document: Document, outcomes: Sequence[OperationOutcome], terms: Terms, builder: ListBuilder, text: bytes
) -> Raw:
    pin = f"sha256:{hashlib.sha256(text).hexdigest()}"
    return Raw(encode(report_of(document, outcomes, terms, rejected=len(builder.rejected), pin=pin)))


class _Maker:
    """Makes tools of the operations of one document, whose schemas have `parts` in common.

    `notes` are what an operator should know of the last one.
    """

    def __init__(self, document: Document, terms: Terms, names: Mapping[str, str]) -> None:
        self.notes: tuple[str, ...] = ()
        self.parts = SchemaParts()
        self._document = document
        self._terms = terms
        self._names = names
        self._converter = Converter(document)
        self._inputs: set[bytes] = set()  # schemas that can be used: half of all stand there before
        self._outputs: dict[bytes, bool] = {}
        self._inliner = SharedInliner(terms.bounds.max_schema_bytes)
        self._version = terms.version or version_of(document.version)[0]

    def tool(self, partial: PartialOperation, builder: ListBuilder) -> OperationTool | None:
        """Makes a tool and gathers it; None for an operation that cannot be one, which is rejected."""
        self.notes = ()
        try:
            tool = self._check_schemas(self._make(partial))
        except (OperationError, DefinitionError) as exc:
            builder.rejected.append(rejected(partial.operation, str(exc)))
        except (
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as exc:  # nothing in a document need be as it should
            reason = f"Something in it is not as OpenAPI says, or not understood ({type(exc).__name__})."
            builder.rejected.append(rejected(partial.operation, reason))
        else:
            return tool if builder.add(tool, self._encoded) else None
        return None

    def _encoded(self, tool: ToolDefinition) -> bytes:
        assert isinstance(tool, OperationTool)
        return encode(self.parts.shortened(tool))

    def _check_schemas(self, tool: OperationTool) -> OperationTool:
        """The tool with schemas that are checked and hold no references, if it can be; others are checked later.

        Raises OperationError for an input schema that cannot be used.
        """
        input_schema = self._inliner.inlined(tool.input_schema)
        output_schema = tool.output_schema and self._inliner.inlined(tool.output_schema)
        if input_schema is None or (output_schema is None and tool.output_schema is not None):
            return tool
        if (text := encode(input_schema)) not in self._inputs:
            try:
                check_input(input_schema)
            except SchemaError as exc:
                raise OperationError(f"Its input schema cannot be used. {exc.reason}") from exc
            self._inputs.add(text)
        if output_schema and not self._is_output(output_schema):
            self.notes += ("Its output schema cannot be used.",)
            output_schema = {}
        return replace(tool, input_schema=input_schema, output_schema=output_schema, is_checked=True)

    def _is_output(self, schema: JsonObject) -> bool:
        text = encode(schema)
        if text not in self._outputs:
            self._outputs[text] = is_json_schema(schema)
        return self._outputs[text]

    def _make(self, partial: PartialOperation) -> OperationTool:
        """Raises OperationError or DefinitionError for an operation that cannot be a tool."""
        document, terms = self._document, self._terms
        own_terms = tool_terms(partial.operation, terms)
        operation = completed(partial, document, terms.base_path)
        access, requires, notes = access_of(operation, document, terms)
        reserved = credential_names(operation, document, terms)
        taking = input_of(operation, self._converter, terms, own_terms, reserved)
        giving = output_of(operation, self._converter, terms, own_terms)
        self.notes = (*notes, *taking.warnings, *giving.warnings)
        named = tool_and_version(self._names[operation.place], self._version, terms.bounds.toolkit)
        path, query = split_path(operation.template)
        is_safe = operation.method in SAFE and not own_terms.unsafe
        can_repeat = is_safe or _is_idempotent(operation)
        key_header = "" if can_repeat else terms.key_header
        plan = CallPlan(
            method=operation.method,
            path=operation.prefix + path,
            prefix=operation.prefix,
            query=query,
            parameters=taking.parameters,
            body=taking.body,
            accept=giving.accept,
            access=access,
            answers=giving.answers,
            is_safe=is_safe,
            can_repeat=can_repeat or bool(key_header),
            key_header=key_header,
            key_quoted=terms.key_quoted,
        )
        return OperationTool(
            tool=named.tool,
            version=named.version,
            name=published_name(named.tool),
            description=description_of(operation, own_terms),
            input_schema=taking.schema,
            output_schema=giving.schema,
            remote_id=operation.place,
            requires=requires,
            non_inferrable_parameters=taking.not_inferrable,
            hints={"read_only": plan.is_safe, "idempotent": plan.can_repeat},
            plan=plan,
        )


def _is_idempotent(operation: Operation) -> bool:
    """Whether sending it twice does as much as once: PUT, unless the second would fail the condition of the first.

    DELETE is not: the second one fails after the first has succeeded.
    """
    conditions = ("if-match", "if-unmodified-since")
    return operation.method == "PUT" and not any(
        parameter["in"] == "header" and parameter["name"].lower() in conditions for parameter in operation.parameters
    )


NUMBER = "part"  # the only member of what stands for a schema


_decode_tools = msgspec.json.Decoder(list[OperationTool]).decode
_decode_parts = msgspec.json.Decoder(list[Json]).decode


class SchemaParts:
    """The parts of all schemas that were shortened."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}  # with their numbers
        self._numbers: dict[int, int] = {}  # of objects that were seen, by identity
        self._values: list[Json] = []  # which keeps them alive

    def shortened(self, tool: OperationTool) -> OperationTool:
        """The tool with numbers of parts in place of its schemas."""
        output = tool.output_schema
        return replace(
            tool,
            input_schema={NUMBER: self._number(tool.input_schema)},
            output_schema=None if output is None else {NUMBER: self._number(output)},
        )

    def encoded(self) -> Iterator[bytes]:
        """All parts, in their order, as arrays of which each is short, or has one part."""
        return joined(self._texts)

    def _number(self, value: Json) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._texts.setdefault(encode(self._part(value)), len(self._texts))
            self._numbers[id(value)] = number
            self._values.append(value)
        return number

    def _part(self, value: Json) -> Json:
        if isinstance(value, list):
            return ([[self._number(entry)] if isinstance(entry, dict | list) else entry for entry in value],)
        plain: JsonObject = {}
        parts: dict[str, int] = {}
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                parts[key] = self._number(inner)
            else:
                plain[key] = inner
        return plain, parts


class Restorer:
    """Makes tools of arrays of parts and of tools, in which equal parts are one object."""

    def __init__(self) -> None:
        self._parts: list[Json] = []

    def tools(self, text: bytes) -> list[OperationTool]:
        """The tools of an array, all of whose parts came before; none if it has parts."""
        if text.startswith(b"[{"):
            return [self._whole(tool) for tool in _decode_tools(text)]
        for part in _decode_parts(text):
            self._parts.append(self._restored(part))
        return []

    def _restored(self, part: Json) -> Json:
        parts = self._parts
        if len(part) == 1:
            return [parts[entry[0]] if type(entry) is list else entry for entry in part[0]]
        plain: JsonObject
        plain, inner = part
        for key, number in inner.items():
            plain[key] = parts[number]
        return plain

    def _whole(self, tool: OperationTool) -> OperationTool:
        output = tool.output_schema
        return replace(
            tool,
            input_schema=self._parts[tool.input_schema[NUMBER]],
            output_schema=None if output is None else self._parts[output[NUMBER]],
        )
