"""The RCRT server as a real process, and the faults tests order from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.terminal import connected

PING_S = "0.2"  # so that a silent stream is noticed within a test's time


class Crumbs:
    """A running server, seen from the side a test orders things on."""

    def __init__(self, url: str, http: httpx.Client) -> None:
        self.url = url
        self.http = http

    def order(self, operation: str, fault: str, **more: Any) -> None:
        self.http.post("/faults", json={"operation": operation, "fault": fault, **more}).raise_for_status()

    def executions(self, key: str) -> int:
        """How often the runner ran a call."""
        return int(self.http.get("/executions").json()["requests"].get(f"tg-{key}", 0))

    def listed(self, **query: Any) -> list[Any]:
        """Breadcrumbs, the last changed first."""
        return list(self.http.get("/breadcrumbs", params=query).json())


def serving(*arguments: str) -> Iterator[Crumbs]:
    with connected("tests.support.faulty_rcrt_server", "--ping-s", PING_S, *arguments) as http:
        yield Crumbs(str(http.base_url), http)


@pytest.fixture(scope="module")
def shared_crumbs() -> Iterator[Crumbs]:
    yield from serving()


@pytest.fixture
def crumbs(shared_crumbs: Crumbs) -> Iterator[Crumbs]:
    yield shared_crumbs
    shared_crumbs.http.delete("/faults").raise_for_status()
