"""Waiting for what happens elsewhere, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.1


def until(look: Callable[[], T | None], what: str, within_s: float = 30.0) -> T:
    """What `look` finds, as soon as it finds something that is true."""
    deadline = time.monotonic() + within_s
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"after {within_s:g} s still not: {what}"
        time.sleep(POLL_S)
