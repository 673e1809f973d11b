"""A document as it is read: JSON or YAML, OpenAPI 3.0 to 3.2, or Swagger 2.0, which becomes 3.0.

It is not checked as a whole: most published documents break their specification somewhere, and a full validation of a
large one takes half a minute. What is used is checked where it is used, operation by operation.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import references, swagger
from gateway.protocols.openapi.document.plan import OperationError
from gateway.protocols.openapi.document.serialise import PLACEHOLDER
from gateway.protocols.openapi.document.yamltext import YamlTextError, decode_yaml

Dialect = Literal["3.0", "3.1", "3.2"]

MAX_BYTES = 64 * 1024 * 1024
VERSION = re.compile(r"3\.([0-9]+)(\.[0-9]+)?([-+].*)?", re.ASCII | re.DOTALL)
# Members of a document that others look into by name.
OUTER = ("info", "paths", "components", "definitions", "parameters", "responses", "securityDefinitions")
MAX_WARNINGS = 50
MAX_VERSION = 40  # characters, in a message
MAX_URL = 120

_decode = msgspec.json.Decoder().decode


class DocumentError(ValueError):
    """A text that is no document of OpenAPI as we take it; the text says why, for the operator."""


class Document:
    """A document, with references resolved where they are asked for."""

    def __init__(self, root: JsonObject, dialect: Dialect, url: str, variables: Mapping[str, str]) -> None:
        self.root = root  # in the form of OpenAPI 3
        self.dialect = dialect  # how its schemas are meant
        info = root.get("info")
        self.title = _text(info, "title")
        self.version = _text(info, "version")
        self.warnings: list[str] = []  # for the operator
        self._servers = Servers(root.get("servers"), url, variables)
        self.warnings += self._servers.warnings

    @property
    def components(self) -> JsonObject:
        """The parts that references name; empty if there are none."""
        components = self.root.get("components")
        return components if isinstance(components, dict) else {}

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
        references.bundle(root, folder, _decoded)
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
    match = VERSION.fullmatch(str(root["openapi"]))
    if match is None:
        raise DocumentError(f"The document is OpenAPI {_shown(root['openapi'])}; 3.0, 3.1 and 3.2 are supported.")
    if match[1] in ("0", "1", "2"):
        return cast(Dialect, f"3.{match[1]}"), []
    return "3.2", [f"The document is OpenAPI {_shown(root['openapi'])}; it is read as 3.2."]


def _shown(version: Any) -> str:
    return repr(str(version)[:MAX_VERSION])


def _text(holder: Json, name: str) -> str:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else ""


ILLEGAL = re.compile(r"[\x00-\x20\x7f\\?#{}]")


class _ServerUrl(NamedTuple):
    """`origin` is `https://host:port` in lower case, empty if relative; `path` has no slash at its end."""

    origin: str
    path: str


class Servers:
    """The servers of a whole document, and what those of single operations mean beside them.

    A path in the backend's own URL stands in place of that of the document's server.
    """

    def __init__(self, listed: Json, url: str, variables: Mapping[str, str]) -> None:
        self.warnings: list[str] = []
        self._variables = variables
        own = urlsplit(url)
        self._scheme = own.scheme
        self._origin = _origin(own)
        self._has_path = own.path.strip("/") != ""
        self._reason = ""  # why the document's server cannot be used, where it matters
        self._server = _ServerUrl("", "")
        try:
            self._server, origins = self._choose(listed)
        except OperationError as exc:
            self._reason, origins = str(exc), set()
            self.warnings.append(str(exc).replace("It has", "The document has", 1))
        self._origins = {*origins, self._origin, ""}
        if url and self._server.origin not in ("", self._origin):
            self.warnings.append(f"The document's server is {self._server.origin!r}; calls go to the backend's url.")

    def prefix(self, *listed: Json) -> str:
        """The path before that of an operation; `listed` are servers of its own, the innermost first.

        Raises OperationError for another host, and for a path that cannot be told.
        """
        for several in listed:
            if isinstance(several, list) and several:
                return self._own_prefix(several)
        if self._has_path:
            return ""
        if self._reason:
            raise OperationError(self._reason)
        return self._server.path

    def _own_prefix(self, several: Json) -> str:
        server, _ = self._choose(several)
        if server.origin not in self._origins:
            raise OperationError(f"It has a server of its own, {server.origin!r}; calls go to the backend's url alone.")
        if not self._has_path:
            return server.path
        if server.path != self._server.path:
            reason = f"It has a server of its own with the path {server.path!r}, and the backend's url has a path too."
            raise OperationError(reason)
        return ""

    def _choose(self, listed: Json) -> tuple[_ServerUrl, set[str]]:
        """The server at the backend's own origin, else the first; and the origins of all. Raises OperationError."""
        servers: list[_ServerUrl] = []
        wrong: OperationError | None = None
        for entry in listed if isinstance(listed, list) else []:
            try:
                servers.append(self._read(entry))
            except OperationError as exc:
                wrong = wrong or exc
        if not servers and wrong is not None:
            raise wrong
        own = (server for server in servers if server.origin == self._origin)
        return next(own, servers[0] if servers else _ServerUrl("", "")), {server.origin for server in servers}

    def _read(self, entry: Json) -> _ServerUrl:
        url = entry.get("url") if isinstance(entry, dict) else None
        if not isinstance(url, str):
            raise OperationError("It has a server without a url.")
        declared = entry.get("variables")
        url = PLACEHOLDER.sub(lambda match: self._value(match[1], declared), url)
        try:
            parts = urlsplit(url, self._scheme)
            origin = _origin(parts)
        except ValueError as exc:
            raise OperationError(f"It has a server with the url {url[:MAX_URL]!r}, which is none.") from exc
        path = parts.path.rstrip("/").removeprefix(".")
        path = f"/{path}" if path and not path.startswith("/") else path
        if unknown := PLACEHOLDER.search(path):
            raise OperationError(f"It has a server with the variable {unknown[1][:MAX_URL]!r}, which has no value.")
        if ILLEGAL.search(path) or any(segment in (".", "..", "") for segment in path.split("/")[1:]):
            raise OperationError(f"It has a server with the path {path[:MAX_URL]!r}, which cannot be used.")
        return _ServerUrl(origin, path)

    def _value(self, name: str, declared: Json) -> str:
        """The value of a variable in the URL of a server: the operator's, or the document's own; else it is left."""
        if name in self._variables:
            return self._variables[name]
        variable = declared.get(name) if isinstance(declared, dict) else None
        value = variable.get("default") if isinstance(variable, dict) else None
        return value if isinstance(value, str) else f"{{{name}}}"


def _origin(url: SplitResult) -> str:
    """The origin of a URL without the port that goes without saying; empty if it has none."""
    authority = url.netloc.lower().removesuffix({"https": ":443", "http": ":80"}.get(url.scheme, ":"))
    return f"{url.scheme}://{authority}" if authority else ""
