"""Schemas and operations of documents, converted as for a tool."""

from __future__ import annotations

from typing import Any

from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.curation import ToolTerms
from gateway.protocols.openapi.document.inputs import Input, input_of
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.outputs import Output, output_of
from gateway.protocols.openapi.document.schemas import Direction, Needed
from tests.unit.protocols.openapi.document.documents import document, found, terms


def converted(
    schema: Any, direction: Direction = "input", version: str = "3.0.3", schemas: Any = None, **more: Any
) -> Any:
    """A schema as a tool would have it, with its definitions."""
    converter = Converter(document({}, version, components={"schemas": schemas or {}}, **more))
    needed: Needed = {}
    result = converter.convert(schema, direction, needed)
    definitions = converter.definitions(needed)
    return {**result, "$defs": definitions} if definitions else result


def the_operation(path: str, item: Any, version: str = "3.0.3", **more: Any) -> tuple[Operation, Converter]:
    """The only operation of a document."""
    read = document({path: item}, version, **more)
    (operation,) = found(read).values()
    assert isinstance(operation, Operation), operation
    return operation, Converter(read)


def input_(node: Any, path: str = "/things", method: str = "get", version: str = "3.0.3", **more: Any) -> Input:
    """What the only operation of a document takes; terms of its tool and of the backend are among `more`."""
    own, about = ToolTerms(**more.pop("tool", {})), terms(**more.pop("terms", {}))
    excluded = more.pop("excluded", ())
    operation, converter = the_operation(path, {method: {"responses": {}, **node}}, version, **more)
    return input_of(operation, converter, about, own, excluded)


def body_(content: Any, **more: Any) -> Input:
    """What an operation takes whose body is all it has."""
    node = {"requestBody": {"content": content, **more.pop("body", {})}}
    return input_(node, method="post", **more)


def output(responses: Any, method: str = "get", version: str = "3.0.3", **more: Any) -> Output:
    """What the only operation of a document returns."""
    own, about = ToolTerms(**more.pop("tool", {})), terms(**more.pop("terms", {}))
    operation, converter = the_operation("/things", {method: {"responses": responses}}, version, **more)
    return output_of(operation, converter, about, own)
