"""Both event loops: queues are futures of a loop."""

from __future__ import annotations

import pytest

from tests.unit.loops import anyio_backend
from tests.unit.upstream.admission.clock import Clock

__all__ = ["anyio_backend", "clock"]


@pytest.fixture
def clock() -> Clock:
    return Clock()
