"""What the programs do unaided: the ground on which the other tests here stand."""

from __future__ import annotations

import httpx
import pytest

from tests.interop.programs import Outcome, drive_oxp, drive_utc, interpreter


@pytest.fixture(scope="module")
def outcomes(tool_server: str) -> list[Outcome]:
    """The family's own client and server, face to face."""
    return drive_utc(
        tool_server,
        "unused",
        ("health", {}),
        ("list", {}),
        ("call", {"tool_id": "add@1.0.0", "args": {"x": 1, "y": 2}, "call_id": "k-1"}),
        ("langchain", {"name": "add", "args": {"x": 1, "y": 2}}),
        ("call", {"tool_id": "ship", "args": {"parcel": {"to": {"street": "a", "city": "b"}, "weight_kg": 2}}}),
    )


def test_the_server_is_healthy(outcomes: list[Outcome]) -> None:
    assert outcomes[0] == {"answered": {"status": "OK"}}


def test_the_server_lists_ids_without_a_toolkit_and_two_versions_of_one_tool(outcomes: list[Outcome]) -> None:
    ids = [tool["id"] for tool in outcomes[1]["answered"]]
    assert {"add@1.0.0", "add@2.0.0", "fail@1.0.0", "ship@1.0.0"} <= set(ids)


def test_the_client_reads_a_flat_answer(outcomes: list[Outcome]) -> None:
    assert outcomes[2] == {"answered": {"call_id": "k-1", "success": True, "value": 3}}


def test_the_client_calls_by_name_and_gets_the_latest_version(outcomes: list[Outcome]) -> None:
    assert outcomes[3] == {"answered": {"sum": 3}}


def test_nested_input_reaches_the_tool(outcomes: list[Outcome]) -> None:
    assert outcomes[4]["answered"]["value"] == "2.0 kg to a, b"


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
    assert "result" not in drive_oxp(tool_server, "unused", step)[0]["answered"]


def test_a_missing_environment_fails_with_the_command_that_builds_it() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^The environment \.venvs/absent is missing; `make interop`"):
        interpreter("absent")
