"""Which tools are told apart, by all worker processes together: the first so many that any of them was asked about."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path


class SharedTools:
    """The first lines of a file to which each worker adds what it is asked about and does not find there.

    Their order, one JSON array `[tool, backend]` each, is the same for everybody who reads them, so that nobody has to
    wait for anybody. There are hardly more lines than tools to tell apart: a worker that finds enough adds none.
    """

    def __init__(self, path: Path) -> None:
        self._end = path.open("ab", buffering=0)
        self._lines = path.open("rb")
        self._unfinished = b""
        self._tools: set[tuple[str, str]] = set()

    def tell_apart(self, tool: str, backend: str, most: int) -> bool:
        """Whether a tool is among the first `most`, or was when there could be more of them. Raises OSError."""
        asked = (tool, backend)
        if asked not in self._tools and self._is_room(most) and asked not in self._tools:
            # The line before it is ended first: it may be half a line of one that died while it wrote.
            self._end.write(b"\n" + json.dumps(asked).encode() + b"\n")
            self._is_room(most)
        return asked in self._tools

    def close(self) -> None:
        self._end.close()
        self._lines.close()

    def _is_room(self, most: int) -> bool:
        """Reads what others have added, as far as there is room for it; whether there is more."""
        while len(self._tools) < most:
            read = self._lines.readline()
            if not read:
                return True
            self._unfinished += read
            if read.endswith(b"\n"):
                with suppress(ValueError):  # nothing between two lines, or half of one
                    tool, backend = json.loads(self._unfinished)
                    self._tools.add((tool, backend))
                self._unfinished = b""
        return False
