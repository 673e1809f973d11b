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
def test_its_tools_run(http: httpx.Client, dialect: str) -> None:
    reply = call(http, dialect, "Sums.add@1.0.0", {"x": 2**53, "y": 1})
    assert reply.status_code == 200
    assert '"value":9007199254740993' in reply.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_its_500_in_text_is_a_failed_result_without_its_insides(http: httpx.Client, dialect: str) -> None:
    reply = call(http, dialect, "Sums.fail")
    assert reply.status_code == 200
    assert '"success":false' in reply.text
    assert "canary" not in reply.text
    assert "Traceback" not in reply.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_wrong_input_never_reaches_it(http: httpx.Client, dialect: str) -> None:
    reply = call(http, dialect, "Sums.add@1.0.0", {"x": 1})
    assert reply.status_code == 422
    assert reply.json()["parameter_errors"].keys() == {"y"}


def test_a_tool_that_it_withdrew_since_it_was_listed_is_a_400(http: httpx.Client) -> None:
    assert call(http, "otc", "Sums.redeploy", {"tool_id": "withdrawn@1.0.0"}).json()["result"]["success"] is True
    reply = call(http, "otc", "Sums.withdrawn", {"x": 1, "y": 2})
    assert reply.status_code == 400
    assert reply.json()["message"]


def test_input_that_it_refuses_since_it_was_listed_is_a_400(http: httpx.Client) -> None:
    changed = {"tool_id": "tightened@1.0.0", "input_schema": {"type": "object", "required": ["z"]}}
    assert call(http, "otc", "Sums.redeploy", changed).json()["result"]["success"] is True
    reply = call(http, "otc", "Sums.tightened", {"x": 1, "y": 2})
    assert reply.status_code == 400
    assert reply.json()["message"]
