"""RCRT servers for all tests of a file, one of each edition and setting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.demo.rcrt_caller import Caller, calling


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with calling() as caller:
        yield caller


@pytest.fixture(scope="module")
def older() -> Iterator[Caller]:
    with calling("--edition", "M", "--as-shipped") as caller:
        yield caller


@pytest.fixture(scope="module")
def standard() -> Iterator[Caller]:
    with calling("--standard") as caller:
        yield caller


@pytest.fixture(scope="module")
def as_shipped() -> Iterator[Caller]:
    with calling("--as-shipped") as caller:
        yield caller
