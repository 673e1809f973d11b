"""The `Prefer` header: how long a caller will wait (RFC 7240)."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from gateway.core.surfaces import CallOptions

MAX_WAIT_S = 3600.0  # longer than any proxy keeps a silent connection

# One preference with its parameters: everything up to a comma outside quoted text (RFC 7230, section 3.2.6). A quoted
# text without an end takes the rest: searching for its end again from every quote took eight seconds for 16 kB.
ITEM = re.compile(rb'(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[^",])++', re.DOTALL)


class Preference(Struct, frozen=True, kw_only=True):
    """`wait_s`: how long to wait, None for the route's timeout. `respond_async`: 202 instead of waiting."""

    wait_s: float | None = None
    respond_async: bool = False

    def applied(self, *, accepted: bool, at_most_s: float) -> str | None:
        """The value of `Preference-Applied`; None if no preference made a difference.

        `accepted`: 202 was answered. `at_most_s`: how long a call waits without a preference.
        """
        parts = ["respond-async"] if self.respond_async and accepted else []
        if self.wait_s is not None and self.wait_s <= at_most_s:
            parts.append(f"wait={self.wait_s:g}")
        return ", ".join(parts) or None


NO_PREFERENCE = Preference()


def preference_of(header: bytes | None, options: CallOptions) -> Preference:
    """What a caller prefers by `Prefer`, and by the request itself, which counts for how long it waits."""
    preference = NO_PREFERENCE if header is None else read_preference(header)
    return preference if options.wait_s is None else replace(preference, wait_s=min(options.wait_s, MAX_WAIT_S))


def read_preference(header: bytes) -> Preference:
    """Reads `Prefer`: the first of each name counts, invalid values are ignored (RFC 7240, section 2)."""
    preferences: dict[bytes, bytes] = {}
    for item in ITEM.findall(header):
        name, _, value = item.partition(b";")[0].partition(b"=")
        preferences.setdefault(name.strip().lower(), value.strip().strip(b'"'))
    wait = preferences.get(b"wait", b"")
    return Preference(
        wait_s=min(float(wait), MAX_WAIT_S) if wait.isdigit() else None,
        respond_async=b"respond-async" in preferences,
    )
