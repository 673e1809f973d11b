"""Programs of others that several modules use, each started once by a worker that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.openapi.programs import api

KEY = "a-key-of-the-operator"


@pytest.fixture(scope="module")
def notes() -> Iterator[str]:
    """Where the API on FastAPI is."""
    with api("app.py", KEY) as url:
        yield url


@pytest.fixture(scope="module")
def bin_() -> Iterator[str]:
    """Where httpbin is."""
    with api("bin.py") as url:
        yield url
