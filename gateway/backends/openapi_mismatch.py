"""Warnings that a document is not, or no longer, that of its API."""

from __future__ import annotations

import logging

log = logging.getLogger("gateway.backends")

MISMATCHES = frozenset((405, 406, 415, 501))  # the API does not know the operation as the document describes it
MANY = 20  # answers of 404 without any other in between, to different tools
MAX_WARNED = 1000  # tools that have a warning each; the set of them must not fill the memory


class MismatchWarnings:
    """Those of one backend. `note` is given the status of every answer and the tool."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._told: set[str] = set()
        self._missing: list[str] | None = []  # None: told

    def note(self, status: int, tool: str) -> None:
        if status == 404:
            self._miss(tool)
        elif self._missing:
            self._missing.clear()
        elif self._missing is None and status < 300:
            self._missing = []
        if status in MISMATCHES and tool not in self._told and len(self._told) < MAX_WARNED:
            self._told.add(tool)
            extra = {"backend": self._backend, "tool": tool, "status": status}
            log.warning("an API does not know an operation as its document describes it", extra=extra)

    def _miss(self, tool: str) -> None:
        if self._missing is None:
            return
        self._missing.append(tool)
        if len(self._missing) > MANY and len(set(self._missing)) > 1:
            self._missing = None
            log.warning("an API answers every call with 404: its url may be wrong", extra={"backend": self._backend})
        elif len(self._missing) > MANY:
            self._missing.pop(0)
