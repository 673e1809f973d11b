"""References in a document: JSON Pointers to other places of it. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urldefrag, urljoin

from gateway.jsontext import escaped_name, split_pointer
from gateway.model import Json, JsonObject
from gateway.openapi.errors import OperationError, UnresolvedError

MAX_CHAIN = 32  # references that lead to references
SHOWN = 120  # characters of a reference in a message


def target(root: JsonObject, reference: str) -> Json:
    """What a reference in a document points to, also through the references of what it passes.

    Raises UnresolvedError if it leads out of the document, or nowhere.
    """
    found: Json = root
    waiting = _local_tokens(reference)[::-1]
    hops = 0
    while waiting:
        try:
            found = _member(found, waiting[-1])
            waiting.pop()
        except LookupError:
            further = found.get("$ref") if isinstance(found, dict) else None
            hops += 1
            if not isinstance(further, str) or hops > MAX_CHAIN:
                message = f"It refers to {reference[:SHOWN]!r}, which the document does not have."
                raise UnresolvedError(message) from None
            found = root
            waiting += _local_tokens(further)[::-1]
    return found


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
    found = follow(root, node)
    if not isinstance(found, dict):
        raise OperationError("It has something else where its document must have an object.")
    return found


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
            found, fragment = urldefrag(urljoin(url, reference))
            if found == urldefrag(url)[0]:
                node["$ref"] = f"#{fragment}"
