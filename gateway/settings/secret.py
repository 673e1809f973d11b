"""Text that must not be seen: keys, tokens, passwords."""

from __future__ import annotations

import hmac


class Secret:
    """Holds text that neither `repr`, `str`, a format string nor a log line shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; call it only where the secret is used."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)
