"""Why an operation of a document is no tool."""

from __future__ import annotations


class OperationError(ValueError):
    """An operation that cannot be a tool; the text says why, for the operator."""


class UnresolvedError(OperationError):
    """A reference that leads nowhere. Where what it names may be left out, only that is."""
