"""A document as it is read: JSON or YAML, OpenAPI 3.0 to 3.2, or Swagger 2.0, which becomes 3.0.

It is not checked as a whole: most published documents break their specification somewhere, and a full validation of a
large one takes half a minute. What is used is checked where it is used, operation by operation.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway import jsontext
from gateway.model import Json, JsonObject
from gateway.openapi import files, references, servers, swagger
from gateway.openapi.errors import OperationError
from gateway.openapi.yamltext import YamlTextError, decode_yaml

Dialect = Literal["3.0", "3.1", "3.2"]

MAX_BYTES = 64 * 1024 * 1024
VERSION = re.compile(r"3\.([0-9]+)(\.[0-9]+)?([-+].*)?", re.ASCII | re.DOTALL)
# Members of a document that others look into by name.
OUTER = ("info", "paths", "components", "definitions", "parameters", "responses", "securityDefinitions")
MAX_WARNINGS = 50
SHOWN = 40  # characters of a version in a message

_decode = msgspec.json.Decoder().decode


class DocumentError(ValueError):
    """A text that is no document of OpenAPI as we take it; the text says why, for the operator."""


class Document:
    """A document. `root` is that of OpenAPI 3; `dialect` tells how its schemas are meant.

    `title` and `version` are those of its `info`. `prefix` is the path that comes before those of its operations.
    `warnings` are for the operator.
    """

    def __init__(self, root: JsonObject, dialect: Dialect, url: str, variables: Mapping[str, str]) -> None:
        self.root = root
        self.dialect = dialect
        info = root.get("info")
        self.title = _text(info, "title")
        self.version = _text(info, "version")
        self.warnings: list[str] = []
        self._url = url
        self._variables = variables
        self._servers = servers.Servers(root.get("servers"), url, variables)
        self.warnings += self._servers.warnings

    @property
    def components(self) -> JsonObject:
        """The parts that references name; empty if there are none."""
        found = self.root.get("components")
        return found if isinstance(found, dict) else {}

    def resolve(self, node: Json) -> JsonObject:
        """The object that a node is, or that its `$ref` leads to. Raises OperationError."""
        return references.resolve(self.root, node)

    def follow(self, node: Json) -> Json:
        """What a node is, or what its `$ref` leads to. Raises UnresolvedError."""
        return references.follow(self.root, node)

    def warn(self, text: str) -> None:
        """Notes what was adapted, once."""
        if len(self.warnings) < MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)

    def prefix(self, *nodes: JsonObject) -> str:
        """The path before that of an operation, by the innermost of its nodes with servers. Raises OperationError."""
        return self._servers.prefix(*(node.get("servers") for node in nodes))


def read_document(text: bytes, url: str = "", variables: Mapping[str, str] | None = None, folder: str = "") -> Document:
    """Reads a document. Raises DocumentError.

    `url` is the backend's, `variables` are the operator's values for those of servers. `folder` is where files stand
    that the document may refer to; empty: it may not.
    """
    if len(text) > MAX_BYTES:
        raise DocumentError(f"The document has {len(text)} bytes; {MAX_BYTES} are allowed.")
    root = _decoded(text)
    if not isinstance(root, dict):
        raise DocumentError("The document is no object.")
    dialect, warnings = _dialect(root)
    if isinstance(own := root.get("$self"), str):
        references.make_local(root, own)
    if folder:
        files.bundle(root, folder, _decoded)
    _follow(root, *OUTER)
    if isinstance(components := root.get("components"), dict):
        _follow(components, "securitySchemes", root=root)
    if "swagger" in root:
        root = swagger.to_openapi3(root)
    if not isinstance(root.get("paths"), dict) and (dialect == "3.0" or "paths" in root):
        raise DocumentError("The document has no 'paths'.")
    document = Document(root, dialect, url, variables or {})
    document.warnings += warnings
    return document


def _follow(holder: JsonObject, *names: str, root: JsonObject | None = None) -> None:
    """Puts what members refer to in their place, as where each part of a document is a file. Raises DocumentError."""
    for name in names:
        if isinstance(holder.get(name), dict) and "$ref" in holder[name]:
            try:
                holder[name] = references.resolve(root or holder, holder[name])
            except OperationError as exc:
                raise DocumentError(f"The document's {name!r} cannot be read: {exc}") from exc


def _decoded(text: bytes) -> Json:
    """JSON if it begins like an object, else YAML. Raises DocumentError."""
    text = text.removeprefix(BOM_UTF8)
    if text.lstrip()[:1] == b"{":
        try:
            return _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return jsontext.decode(text)  # which says what is wrong
        except jsontext.JsonError as exc:
            raise DocumentError(f"The document is no JSON: {exc}.") from exc
    try:
        return decode_yaml(text.decode())
    except UnicodeDecodeError as exc:
        raise DocumentError("The document is not valid UTF-8.") from exc
    except YamlTextError as exc:
        raise DocumentError(f"The document is neither JSON nor YAML: {exc}.") from exc


def _dialect(root: JsonObject) -> tuple[Dialect, list[str]]:
    """Which OpenAPI a document says it is. Raises DocumentError."""
    if "swagger" in root:
        if str(root["swagger"]) not in ("2.0", "2"):
            raise DocumentError(f"The document is Swagger {_shown(root['swagger'])}; 2.0 is supported.")
        return "3.0", []
    if "openapi" not in root:
        raise DocumentError("The document says neither 'openapi' nor 'swagger'.")
    found = VERSION.fullmatch(str(root["openapi"]))
    if found is None:
        raise DocumentError(f"The document is OpenAPI {_shown(root['openapi'])}; 3.0, 3.1 and 3.2 are supported.")
    match found[1]:
        case "0":
            return "3.0", []
        case "1":
            return "3.1", []
        case "2":
            return "3.2", []
    return "3.2", [f"The document is OpenAPI {_shown(root['openapi'])}; it is read as 3.2."]


def _shown(version: Any) -> str:
    return repr(str(version)[:SHOWN])


def _text(holder: Json, name: str) -> str:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else ""
