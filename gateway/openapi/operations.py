"""The operations of a document, with all that paths, references and the document's root add to them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gateway.model import JsonObject


class OperationError(ValueError):
    """An operation that cannot be a tool; the text says why, for the operator."""


class Operation(Struct, frozen=True, kw_only=True):
    """One operation. `method` is in capitals, `template` the path as the document has it, `prefix` that of its server.

    `parameters` are those of its path and its own, without references; `body`, `responses` and their media types are
    resolved, but for schemas. `security` is a list of alternatives, each with its scopes by scheme; None: the document
    says nothing.
    """

    method: str
    template: str
    prefix: str
    id: str = ""
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    is_deprecated: bool = False
    parameters: Sequence[JsonObject] = ()
    body: JsonObject | None = None
    responses: JsonObject = {}
    security: Sequence[JsonObject] | None = None

    @property
    def place(self) -> str:
        """What tells it from all others: `GET /users/{id}`."""
        return f"{self.method} {self.template}"
