"""Commands set up logging for their own process; here it is the process of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.terminal import own_logging


@pytest.fixture(autouse=True)
def logging_is_taken_back() -> Iterator[None]:
    with own_logging():
        yield
