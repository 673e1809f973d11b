"""A RAP server for all tests of a file, and who orders faults from it: each has to happen."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.unit.demo.conftest import connected
from tests.unit.demo.rap_caller import Caller, calling


@pytest.fixture(scope="module")
def rap() -> Iterator[httpx.Client]:
    with connected("rap_server") as client:
        yield client


@pytest.fixture(scope="module")
def caller(rap: httpx.Client) -> Iterator[Caller]:
    with calling(rap) as caller:
        yield caller


@pytest.fixture(autouse=True)
def _all_faults_happen(rap: httpx.Client) -> Iterator[None]:
    yield
    assert rap.get("/faults").json()["due"] == []
