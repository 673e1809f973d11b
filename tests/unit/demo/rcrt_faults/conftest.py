"""An RCRT server for all tests of a file: each fault that is ordered has to happen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.demo.rcrt_caller import Caller, calling


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with calling("--ping-s", "0.2") as caller:
        yield caller


@pytest.fixture(autouse=True)
def _all_faults_happen(caller: Caller) -> Iterator[None]:
    yield
    assert caller.server.get("/faults").json()["due"] == []
