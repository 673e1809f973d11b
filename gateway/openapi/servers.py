"""The servers of a document, of which only the path is ever used: calls go to the URL of the backend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from gateway.model import Json
from gateway.openapi.errors import OperationError
from gateway.openapi.paths import PLACEHOLDER

ILLEGAL = re.compile(r"[\x00-\x20\x7f\\?#{}]")
SHOWN = 120  # characters of a URL in a message


class _Server(NamedTuple):
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
        self._server = _Server("", "")
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

    def _choose(self, listed: Json) -> tuple[_Server, set[str]]:
        """The server at the backend's own origin, else the first; and the origins of all. Raises OperationError."""
        found: list[_Server] = []
        wrong: OperationError | None = None
        for entry in listed if isinstance(listed, list) else []:
            try:
                found.append(self._read(entry))
            except OperationError as exc:
                wrong = wrong or exc
        if not found and wrong is not None:
            raise wrong
        own = (server for server in found if server.origin == self._origin)
        return next(own, found[0] if found else _Server("", "")), {server.origin for server in found}

    def _read(self, entry: Json) -> _Server:
        url = entry.get("url") if isinstance(entry, dict) else None
        if not isinstance(url, str):
            raise OperationError("It has a server without a url.")
        declared = entry.get("variables")
        url = PLACEHOLDER.sub(lambda found: self._value(found[1], declared), url)
        try:
            parts = urlsplit(url, self._scheme)
            origin = _origin(parts)
        except ValueError as exc:
            raise OperationError(f"It has a server with the url {url[:SHOWN]!r}, which is none.") from exc
        path = parts.path.rstrip("/").removeprefix(".")
        path = f"/{path}" if path and not path.startswith("/") else path
        if unknown := PLACEHOLDER.search(path):
            raise OperationError(f"It has a server with the variable {unknown[1][:SHOWN]!r}, which has no value.")
        if ILLEGAL.search(path) or any(segment in (".", "..", "") for segment in path.split("/")[1:]):
            raise OperationError(f"It has a server with the path {path[:SHOWN]!r}, which cannot be used.")
        return _Server(origin, path)

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
