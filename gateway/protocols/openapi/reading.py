"""Reads the values of operations in another process, and selects from them there."""

from __future__ import annotations

from gateway.core import jsontext
from gateway.protocols.openapi.document.selection import SelectionError, compiled


def read_value(text: bytes, depth: bytes, select: bytes) -> tuple[bytes, ...]:
    """Checks a JSON value and encodes it again, or what an expression of `openapi.selection` selects from it.

    Returns `(b"", value)`, or `(reason,)` if the text is not JSON or the expression does not fit it.
    """
    try:
        value = jsontext.decode(jsontext.without_halves(text), int(depth))
        return b"", jsontext.encode(compiled(select.decode())(value) if select else value)
    except (jsontext.JsonError, SelectionError) as exc:
        return (str(exc).encode(),)
