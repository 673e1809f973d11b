"""Calendar windows, days and months in UTC: which one a time is in, and when that ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

Window = Literal["day", "month"]

DAY_S = 86_400
LENGTHS_S: Mapping[Window, int] = {"day": DAY_S, "month": 31 * DAY_S}  # at most
LONGEST_S = max(LENGTHS_S.values())
# By how much a clock may go back across the end of a window: requests then count in the later one. A clock that goes
# back further was wrong, and nobody waits for the time that it showed.
AHEAD_S = 3600


def current(window: Window, now_s: int, known: tuple[int, int] | None) -> tuple[int, int]:
    """When the window that counts now begins and ends, in seconds since 1970; `known` is the one that counted last."""
    began, ends = bounds(window, now_s // DAY_S)
    if known is not None and began < known[0] <= now_s + AHEAD_S:
        return known
    return began, ends


@lru_cache(maxsize=16)
def bounds(window: Window, day: int) -> tuple[int, int]:
    """When the window with this day since 1970 begins and ends, in seconds since 1970."""
    if window == "day":
        return day * DAY_S, (day + 1) * DAY_S
    first = datetime.fromtimestamp(day * DAY_S, UTC).replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return int(first.timestamp()), int(following.timestamp())
