"""References in a document: JSON Pointers to other places of it. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag, urljoin

from gateway.core.jsontext import escaped_name, split_pointer
from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document.plan import OperationError, UnresolvedError

MAX_CHAIN = 32  # references that lead to references
SHOWN = 120  # characters of a reference in a message


def target(root: JsonObject, reference: str) -> Json:
    """What a reference in a document points to, also through the references of what it passes.

    Raises UnresolvedError if it leads out of the document, or nowhere.
    """
    node: Json = root
    waiting = _local_tokens(reference)[::-1]
    hops = 0
    while waiting:
        try:
            node = _member(node, waiting[-1])
            waiting.pop()
        except LookupError:
            further = node.get("$ref") if isinstance(node, dict) else None
            hops += 1
            if not isinstance(further, str) or hops > MAX_CHAIN:
                message = f"It refers to {reference[:SHOWN]!r}, which the document does not have."
                raise UnresolvedError(message) from None
            node = root
            waiting += _local_tokens(further)[::-1]
    return node


def _local_tokens(reference: str) -> list[str]:
    if reference != "#" and not reference.startswith("#/"):
        raise UnresolvedError(f"It refers to {reference[:SHOWN]!r}, which is outside its document.")
    return tokens(reference)


def _member(value: Json, token: str) -> Json:
    """What stands under a token. Raises LookupError, and UnresolvedError for a file that cannot be read."""
    if isinstance(value, dict):
        return value[token]
    if isinstance(value, list) and token.isascii() and token.isdigit():
        return value[int(token[:9])]
    raise LookupError


def tokens(reference: str) -> list[str]:
    """The names in a JSON Pointer that is a URI fragment: `#/paths/~1a` has `paths` and `/a` (RFC 6901)."""
    return split_pointer(unquote(reference[1:]) if "%" in reference else reference[1:])


def fragment_name(name: str) -> str:
    """A name as a JSON Pointer that is a URI fragment has it."""
    return escaped_name(name).replace("%", "%25")


def follow(root: JsonObject, node: Json) -> Json:
    """What a node is, or what it refers to. Raises UnresolvedError."""
    for _ in range(MAX_CHAIN + 1):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str):
            return node
        node = target(root, reference)
    raise UnresolvedError(f"It has a chain of more than {MAX_CHAIN} references.")


def resolve(root: JsonObject, node: Json) -> JsonObject:
    """The object that a node is, or that it refers to. Raises OperationError."""
    target = follow(root, node)
    if not isinstance(target, dict):
        raise OperationError("It has something else where its document must have an object.")
    return target


def referring(root: Json, seen: set[int]) -> Iterator[JsonObject]:
    """All objects with a `$ref` in a value, each once; `seen` are the ids of what needs no look, and grows."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict | list) or id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.values() if isinstance(node, dict) else node
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            yield node


def make_local(root: JsonObject, url: str) -> None:
    """Makes references by URL to a document that says what its own URL is (3.2, `$self`) lead into it."""
    for node in referring(root, set()):
        reference = node["$ref"]
        if not reference.startswith("#"):
            base, fragment = urldefrag(urljoin(url, reference))
            if base == urldefrag(url)[0]:
                node["$ref"] = f"#{fragment}"


MEMBER = "x-files"  # of the document: what the files hold, by their paths
SUFFIXES = (".json", ".yaml", ".yml")
MAX_FILES = 10_000  # that are read; others in the folder, such as samples of code, do not count
MAX_BYTES = 64 * 1024 * 1024  # of all files together


def bundle(root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> None:
    """Makes references of a document to files lead to a member of it, where each file is read when it is looked up.

    `decode` reads the text of a file; it raises ValueError.
    """
    root[MEMBER] = _Files(root, folder, decode)


class _Files(dict[str, Json]):
    """What files below a folder hold, by their paths below it, read when it is looked up. Raises UnresolvedError."""

    def __init__(self, root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> None:
        super().__init__()
        self._folder = Path(folder).resolve()
        self._decode = decode
        self._refused: dict[str, str] = {}
        self._size = 0
        self._seen: set[int] = set()  # objects that YAML aliases share are rewritten once
        self._rewrite(root, "")

    def __missing__(self, name: str) -> Json:
        if name not in self._refused:
            try:
                self[name] = value = self._read(name)
            except (OSError, ValueError) as exc:
                self._refused[name] = f"{exc.strerror}." if isinstance(exc, OSError) else str(exc)
            else:
                self._rewrite(value, name)
                return value
        raise UnresolvedError(f"It refers to the file {name[:120]!r}, which cannot be read: {self._refused[name]}")

    def _rewrite(self, value: Json, name: str) -> None:
        """Makes all references in a file, whose path below the folder is its name, lead into the document."""
        for node in referring(value, self._seen):
            file, _, fragment = node["$ref"].partition("#")
            other = _path(file, name) if file else name
            if other:
                node["$ref"] = f"#/{MEMBER}/{fragment_name(other)}{fragment}"

    def _read(self, name: str) -> Json:
        if len(self) >= MAX_FILES:
            raise ValueError(f"there are more than {MAX_FILES} files.")
        if not name.lower().endswith(SUFFIXES):
            raise ValueError("its name does not end like that of a document.")
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder) or not path.is_file():
            raise ValueError("it is no file below the document's folder.")
        with path.open("rb") as file:
            text = file.read(MAX_BYTES - self._size + 1)
        self._size += len(text)
        if self._size > MAX_BYTES:
            raise ValueError(f"all files together are larger than {MAX_BYTES} bytes.")
        return self._decode(text)


def _path(file: str, beside: str) -> str | None:
    """The path below the folder of a file that another one names; None for what is no such path."""
    if ":" in file or "?" in file or file.startswith(("/", "\\")):
        return None
    path = PurePosixPath(beside).parent / unquote(file)
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return "/".join(parts)
