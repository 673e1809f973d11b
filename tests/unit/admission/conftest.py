"""Both event loops: queues are futures of a loop."""

from __future__ import annotations

import pytest

from tests.unit.admission.clock import Clock
from tests.unit.loops import anyio_backend

__all__ = ["anyio_backend", "clock"]


@pytest.fixture
def clock() -> Clock:
    return Clock()
