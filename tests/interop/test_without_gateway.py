"""What the programs do unaided: the ground on which the other tests here stand."""

from __future__ import annotations

import httpx
import pytest

from tests.interop.programs import drive, interpreter


def test_the_familys_own_client_and_server_understand_each_other(tool_server: str) -> None:
    health, listed, called, by_name, nested = drive(
        "universal-tool-client",
        tool_server,
        "unused",
        ("health", {}),
        ("list", {}),
        ("call", {"tool_id": "add@1.0.0", "args": {"x": 1, "y": 2}, "call_id": "k-1"}),
        ("langchain", {"name": "add", "args": {"x": 1, "y": 2}}),
        ("call", {"tool_id": "ship", "args": {"parcel": {"to": {"street": "a", "city": "b"}, "weight_kg": 2}}}),
    )
    assert health == {"answered": {"status": "OK"}}
    ids = {tool["id"] for tool in listed["answered"]}
    assert {"add@1.0.0", "add@2.0.0", "fail@1.0.0", "ship@1.0.0"} <= ids  # without a toolkit
    assert called == {"answered": {"call_id": "k-1", "success": True, "value": 3}}  # flat
    assert by_name == {"answered": {"sum": 3}}  # the latest version
    assert nested["answered"]["value"] == "2.0 kg to a, b"


def test_a_tool_that_raises_is_a_500_in_text(tool_server: str) -> None:
    reply = httpx.post(f"{tool_server}/tools/call", json={"request": {"tool_id": "fail"}}, trust_env=False)
    assert (reply.status_code, reply.headers["content-type"]) == (500, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("tool_id", "status"),
    [("absent", 404), ("add@9", 404), ("add", 400)],
    ids=["an unknown tool", "an unknown version", "missing input"],
)
def test_a_refusal_has_a_detail(tool_server: str, tool_id: str, status: int) -> None:
    reply = httpx.post(f"{tool_server}/tools/call", json={"request": {"tool_id": tool_id}}, trust_env=False)
    assert reply.status_code == status
    assert reply.json().keys() == {"detail"}


def test_the_official_oxp_client_cannot_use_the_server_unaided(tool_server: str) -> None:
    """It takes the flat answer for an envelope and finds nothing in it, without an error."""
    step = ("call", {"request": {"tool_id": "add@1.0.0", "input": {"x": 1, "y": 2}}})
    assert "result" not in drive("oxp", tool_server, "unused", step)[0]["answered"]


def test_a_missing_environment_fails_with_the_command_that_builds_it() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^The environment \.venvs/absent is missing; `make interop`"):
        interpreter("absent")
