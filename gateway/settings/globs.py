"""Patterns of `*` and `?` against each other: whether some tool may match both."""

from __future__ import annotations

import re

WILD = re.compile(r"[*?]")


def overlap(one: str, other: str) -> bool:
    """Whether any tool matches both; a pattern without `@` speaks of every version.

    An id has one `@`, so that the one of a pattern stands for it, and wildcards never do.
    """
    (tool, _, version), (other_tool, _, other_version) = (_with_version(glob).partition("@") for glob in (one, other))
    return "@" not in version + other_version and _meet(tool, other_tool) and _meet(version, other_version)


def _with_version(pattern: str) -> str:
    return pattern if "@" in pattern else f"{pattern}@*"


def _fixed(pattern: str) -> str:
    """What comes before the first wildcard."""
    return WILD.split(pattern, maxsplit=1)[0]


def _meet(one: str, other: str) -> bool:
    """Whether some text matches both: walks them together, at most 66,000 pairs of the 257 places in either."""
    shorter, longer = sorted((_fixed(one), _fixed(other)), key=len)
    if not longer.startswith(shorter):
        return False  # most of a large file, without any walking
    seen = {(0, 0)}
    places = [(0, 0)]
    while places:
        here, there = places.pop()
        if here == len(one) and there == len(other):
            return True
        for place in _next(one, here, other, there):
            if place not in seen:
                seen.add(place)
                places.append(place)
    return False


def _next(one: str, here: int, other: str, there: int) -> list[tuple[int, int]]:
    mine, theirs = one[here : here + 1], other[there : there + 1]
    if mine == "*":
        return [(here + 1, there), (here, there + 1)] if theirs else [(here + 1, there)]
    if theirs == "*":
        return [(here, there + 1), (here + 1, there)] if mine else [(here, there + 1)]
    if mine and theirs and (mine == theirs or "?" in (mine, theirs)):
        return [(here + 1, there + 1)]
    return []
