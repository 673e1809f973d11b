"""References in a document: JSON Pointers to other places of it, and files beside it, which become part of it.

Nothing is ever fetched. A reference to a file is read only where the operator lets a document have files, and only from
below its folder.
"""

from __future__ import annotations

from urllib.parse import unquote

from gateway.model import Json, JsonObject
from gateway.openapi.operations import OperationError

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
    pointer = unquote(reference[1:]) if "%" in reference else reference[1:]
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts] if "~" in pointer else parts


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
