"""Documents for decoders that must survive any: random JSON, and good examples with one thing in them spoiled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[Any]) -> Any:
    """A good document with one thing in it, anywhere, replaced by any value or taken away."""
    document = json.loads(json.dumps(draw(st.sampled_from(originals))))
    parent: Any = None
    at: Any = None
    child = document
    while isinstance(child, dict | list) and child and (parent is None or draw(st.booleans())):
        parent = child
        at = draw(st.sampled_from(sorted(child))) if isinstance(child, dict) else draw(st.integers(0, len(child) - 1))
        child = parent[at]
    if parent is None or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    if draw(st.booleans()):
        parent[at] = draw(VALUES)
    else:
        del parent[at]
    return document


@st.composite
def damaged_bytes(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """Good bytes with some of them, anywhere, replaced by any others."""
    original = draw(st.sampled_from(originals))
    start = draw(st.integers(0, len(original)))
    return original[:start] + draw(st.binary(max_size=20)) + original[start + draw(st.integers(0, 20)) :]
