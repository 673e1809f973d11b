"""What a caller prefers about waiting: the `Prefer` header (RFC 7240)."""

from __future__ import annotations

import re

from msgspec import Struct

MAX_WAIT_S = 3600.0  # longer than any proxy keeps a silent connection

# One preference with its parameters: everything up to a comma that stands in no quoted text (RFC 7230, section 3.2.6).
# A quoted text that does not end is the rest: to look for its end again from every quote took 16 kB eight seconds.
ITEM = re.compile(rb'(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[^",])++', re.DOTALL)


class Preference(Struct, frozen=True, kw_only=True):
    """`wait_s` seconds of patience, None for the route's own; `respond_async`: rather 202 than a wait."""

    wait_s: float | None = None
    respond_async: bool = False

    def applied(self, *, accepted: bool, at_most_s: float) -> str | None:
        """The value of `Preference-Applied`: 202 was answered, and nobody is kept waiting longer than `at_most_s`.

        None when nothing was preferred, or when what was preferred made no difference.
        """
        parts = ["respond-async"] if self.respond_async and accepted else []
        if self.wait_s is not None and self.wait_s <= at_most_s:
            parts.append(f"wait={self.wait_s:g}")
        return ", ".join(parts) or None


NO_PREFERENCE = Preference()


def read_preference(header: bytes | None) -> Preference:
    """Reads `Prefer`; of a kind the first counts, and what makes no sense is ignored (RFC 7240, section 2)."""
    if header is None:
        return NO_PREFERENCE
    asked: dict[bytes, bytes] = {}
    for item in ITEM.findall(header):
        name, _, value = item.partition(b";")[0].partition(b"=")
        asked.setdefault(name.strip().lower(), value.strip().strip(b'"'))
    wait = asked.get(b"wait", b"")
    return Preference(
        wait_s=min(float(wait), MAX_WAIT_S) if wait.isdigit() else None,
        respond_async=b"respond-async" in asked,
    )
