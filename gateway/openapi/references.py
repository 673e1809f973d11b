"""References in a document: JSON Pointers to other places of it. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urldefrag, urljoin

from gateway.jsontext import escaped_name, split_pointer
from gateway.model import Json, JsonObject
from gateway.openapi.errors import OperationError

MAX_CHAIN = 32  # references that lead to references
SHOWN = 120  # characters of a reference in a message


def target(root: JsonObject, reference: str) -> Json:
    """What a reference in a document points to. Raises OperationError if it leads out of it, or nowhere."""
    if reference != "#" and not reference.startswith("#/"):
        raise OperationError(f"It refers to {reference[:SHOWN]!r}, which is outside its document.")
    found: Json = root
    for token in tokens(reference):
        if isinstance(found, dict) and token in found:
            found = found[token]
        elif isinstance(found, list) and token.isascii() and token.isdigit() and int(token[:9]) < len(found):
            found = found[int(token[:9])]
        else:
            raise OperationError(f"It refers to {reference[:SHOWN]!r}, which the document does not have.")
    return found


def tokens(reference: str) -> list[str]:
    """The names in a JSON Pointer that is a URI fragment: `#/paths/~1a` has `paths` and `/a` (RFC 6901)."""
    return split_pointer(unquote(reference[1:]) if "%" in reference else reference[1:])


def fragment_name(name: str) -> str:
    """A name as a JSON Pointer that is a URI fragment has it."""
    return escaped_name(name).replace("%", "%25")


def resolve(root: JsonObject, node: Json) -> JsonObject:
    """The object that a node is, or that it refers to. Raises OperationError."""
    for _ in range(MAX_CHAIN + 1):
        if not isinstance(node, dict):
            raise OperationError("It has something else where its document must have an object.")
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = target(root, reference)
    raise OperationError(f"It has a chain of more than {MAX_CHAIN} references.")


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
