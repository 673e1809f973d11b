"""The gateway in front of a real universal-tool-server, as callers of every dialect see it.

Discovery maps `add@1.0.0` to `Sums.add@1.0.0`; what the server says in its own way arrives in the caller's dialect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import oracle, plainhttp

DIALECTS = ("rfc", "otc", "oxp", "oxp-env", "lc")


@pytest.fixture
def http(gateway: str, token: str) -> Iterator[httpx.Client]:
    with plainhttp.client(base_url=gateway, headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


def call(http: httpx.Client, dialect: str, tool_id: str, arguments: dict[str, Any] | None = None) -> httpx.Response:
    """Calls a tool below the dialect's prefix; whatever is answered must be in that dialect."""
    request = {"tool_id": tool_id, "input": arguments or {}}
    reply = http.post(f"/{dialect}/tools/call", json=request if dialect == "oxp" else {"request": request})
    oracle.check(dialect, "call", reply.status_code, reply.headers, reply.content)
    return reply


@pytest.mark.parametrize("dialect", DIALECTS)
def test_its_tools_are_listed_under_full_ids(http: httpx.Client, dialect: str) -> None:
    reply = http.get(f"/{dialect}/tools")
    oracle.check(dialect, "list", reply.status_code, reply.headers, reply.content)
    assert reply.status_code == 200
    for tool_id in ("Sums.add@1.0.0", "Sums.add@2.0.0", "Sums.ship@1.0.0"):
        assert tool_id in reply.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_its_tools_run_and_its_failures_arrive_in_the_callers_dialect(http: httpx.Client, dialect: str) -> None:
    added = call(http, dialect, "Sums.add@1.0.0", {"x": 2**53, "y": 1})
    assert added.status_code == 200
    assert '"value":9007199254740993' in added.text
    failed = call(http, dialect, "Sums.fail")  # a 500 in plain text
    assert failed.status_code == 200
    assert '"success":false' in failed.text
    assert "canary" not in failed.text
    assert "Traceback" not in failed.text
    refused = call(http, dialect, "Sums.add@1.0.0", {"x": 1})  # it does not hear of that
    assert refused.status_code == 422
    assert refused.json()["parameter_errors"].keys() == {"y"}


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("withdrawn", {}),
    ("tightened", {"input_schema": {"type": "object", "required": ["z"]}}),
]


@pytest.mark.parametrize(("tool", "change"), CHANGES)
def test_what_it_refuses_since_it_was_listed_is_a_400(http: httpx.Client, tool: str, change: dict[str, Any]) -> None:
    changed = call(http, "otc", "Sums.redeploy", {"tool_id": f"{tool}@1.0.0"} | change)
    assert changed.json()["result"]["success"] is True
    reply = call(http, "otc", f"Sums.{tool}", {"x": 1, "y": 2})
    assert reply.status_code == 400
    assert reply.json()["message"]
