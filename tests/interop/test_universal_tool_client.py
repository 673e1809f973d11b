"""universal-tool-client (the LangChain family's form) through the gateway: by its User-Agent or sent to its prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.programs import Outcome, Step, drive

CLIENT = "universal-tool-client"
PARCEL = {"parcel": {"to": {"street": "Storgata 1", "city": "Oslo"}, "weight_kg": 2.5}}
STEPS: dict[str, Step] = {
    "health": ("health", {}),
    "list": ("list", {}),
    "by id": ("call", {"tool_id": "Sums.add@1.0.0", "args": {"x": 1, "y": 2}, "call_id": "utc-1"}),
    "by name": ("call", {"tool_id": "Sums_add", "args": {"x": 1, "y": 2}}),
    "failure": ("call", {"tool_id": "Sums.fail"}),
    "as a LangChain tool": ("langchain", {"name": "Sums_ship", "args": PARCEL}),
    "two versions in LangChain": ("langchain", {"name": "Sums_add", "args": {"x": 1, "y": 2}}),
    "failure in LangChain": ("langchain", {"name": "Sums_fail", "args": {}}),
    "wrong type": ("call", {"tool_id": "Sums.add@1.0.0", "args": {"x": "one", "y": 2}}),
    "unknown tool": ("call", {"tool_id": "Sums.absent"}),
    "unknown name": ("call", {"tool_id": "Sums_absent"}),
}


@pytest.fixture(scope="module", params=["", "/lc"], ids=["bare path", "prefix"])
def outcomes(request: pytest.FixtureRequest, gateway: str, token: str) -> dict[str, Outcome]:
    """What one run of the client through all steps brought."""
    return dict(zip(STEPS, drive(CLIENT, gateway + request.param, token, *STEPS.values()), strict=True))


def refusal(outcome: Outcome) -> tuple[int, Any]:
    """Status and body; the client keeps the body as text."""
    return outcome["refused"]["status"], json.loads(outcome["refused"]["body"])


def test_it_finds_the_gateway_healthy_and_lists_a_bare_array_in_which_versions_ascend(
    outcomes: dict[str, Outcome],
) -> None:
    assert outcomes["health"]["answered"]["status"]
    ids = [tool["id"] for tool in outcomes["list"]["answered"]]
    assert ids.index("Sums.add@1.0.0") < ids.index("Sums.add@2.0.0")
    assert {"Sums.fail@1.0.0", "Sums.ship@1.0.0"} <= set(ids)


def test_it_calls_by_id_and_by_name_and_a_name_is_the_latest_version(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["by id"]["answered"] == {"call_id": "utc-1", "success": True, "value": 3}
    assert outcomes["by name"]["answered"]["value"] == {"sum": 3}


def test_a_tool_that_breaks_is_an_answer_with_value_null(outcomes: dict[str, Outcome]) -> None:
    answered = outcomes["failure"]["answered"]
    assert answered["success"] is False
    assert answered["value"] is None
    assert answered["error"]["message"]


def test_its_langchain_tools_run_the_latest_version_and_raise_when_the_tool_breaks(
    outcomes: dict[str, Outcome],
) -> None:
    assert outcomes["as a LangChain tool"]["answered"] == "2.5 kg to Storgata 1, Oslo"
    assert outcomes["two versions in LangChain"]["answered"] == {"sum": 3}
    assert outcomes["failure in LangChain"]["refused"]["kind"] == "NotImplementedError"


def test_wrong_input_names_the_parameter_and_has_a_detail(outcomes: dict[str, Outcome]) -> None:
    status, body = refusal(outcomes["wrong type"])
    assert status == 422
    assert body["detail"] == body["message"]
    assert body["parameter_errors"].keys() == {"x"}


@pytest.mark.parametrize("step", ["unknown tool", "unknown name"])
def test_what_is_not_there_is_a_bad_request_with_a_detail(outcomes: dict[str, Outcome], step: str) -> None:
    status, body = refusal(outcomes[step])
    assert status == 400
    assert body["detail"]


def test_a_wrong_credential_is_a_401(gateway: str) -> None:
    refused = [
        outcome["refused"]["status"] for outcome in drive(CLIENT, gateway, "wrong", STEPS["list"], STEPS["by id"])
    ]
    assert refused == [401, 401]
