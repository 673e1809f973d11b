"""One running demonstration for all tests that only talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.demonstration import Demo, running_demo


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    with running_demo() as demo:
        yield demo
