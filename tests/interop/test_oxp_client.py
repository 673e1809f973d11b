"""The official OXP client (`oxp`, enveloped) through the gateway: recognised by its head or sent to its prefix."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.programs import Outcome, Step, drive

PARCEL = {"parcel": {"to": {"street": "Storgata 1", "city": "Oslo"}, "weight_kg": 2.5}}


def call(tool_id: str, arguments: Any = None, **more: Any) -> Step:
    request = {"tool_id": tool_id} | ({} if arguments is None else {"input": arguments})
    return "call", {"request": request | more}


STEPS: dict[str, Step] = {
    "health": ("health", {}),
    "list": ("list", {}),
    "exact": call("Sums.add@1.0.0", {"x": 1, "y": 2}, call_id="oxp-1"),
    "major": call("Sums.add@1", {"x": 1, "y": 2}),
    "latest": call("Sums.add", {"x": 1, "y": 2}),
    "nested": call("Sums.ship", PARCEL),
    "spelled": ("call", {"schema": "urn:oxp:1.0", "request": {"tool_id": "Sums.add@1.0.0", "input": {"x": 4, "y": 5}}}),
    "failures before": call("Sums.count_failures"),
    "failure": call("Sums.fail"),
    "failures after": call("Sums.count_failures"),
    "wrong type": call("Sums.add@1.0.0", {"x": "one", "y": 2}),
    "unknown tool": call("Sums.absent"),
    "unknown version": call("Sums.add@9", {"x": 1, "y": 2}),
}


@pytest.fixture(scope="module", params=["", "/oxp-env"], ids=["bare path", "prefix"])
def outcomes(request: pytest.FixtureRequest, gateway: str, token: str) -> dict[str, Outcome]:
    """What one run of the client through all steps brought."""
    return dict(zip(STEPS, drive("oxp", gateway + request.param, token, *STEPS.values()), strict=True))


def result(outcome: Outcome) -> Any:
    return outcome["answered"]["result"]


def test_it_finds_the_gateway_healthy_and_lists_every_version_under_a_full_id(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["health"] == {"answered": None}
    listed = outcomes["list"]["answered"]
    assert listed["$schema"] == "urn:oxp:1.0"
    tools = {tool["id"]: tool for tool in listed["items"]}
    assert {"Sums.add@1.0.0", "Sums.add@2.0.0", "Sums.fail@1.0.0", "Sums.ship@1.0.0"} <= tools.keys()
    assert tools["Sums.add@1.0.0"]["name"] == "Sums_add"
    assert tools["Sums.add@1.0.0"]["input_schema"]["required"] == ["x", "y"]


VALUES = [
    *(("exact", 3), ("major", 3), ("latest", {"sum": 3}), ("spelled", 9)),
    ("nested", "2.5 kg to Storgata 1, Oslo"),
]


@pytest.mark.parametrize(("step", "value"), VALUES)
def test_it_calls_the_version_it_asks_for(outcomes: dict[str, Outcome], step: str, value: Any) -> None:
    assert result(outcomes[step])["success"] is True
    assert result(outcomes[step])["value"] == value


def test_it_gets_its_call_id_back_or_another_for_each_call(outcomes: dict[str, Outcome]) -> None:
    ids = [result(outcomes[step])["call_id"] for step in ("exact", "major", "latest")]
    assert ids[0] == "oxp-1"
    assert all(ids)
    assert len(set(ids)) == 3


def test_a_tool_that_breaks_is_an_error_and_has_run_once_although_the_client_repeats_a_5xx(
    outcomes: dict[str, Outcome],
) -> None:
    failed = result(outcomes["failure"])
    assert (failed["success"], failed["error"]["can_retry"]) == (False, False)
    assert failed["error"]["message"]
    before, after = (result(outcomes[step])["value"] for step in ("failures before", "failures after"))
    assert after - before == 1


def test_wrong_input_names_the_parameter(outcomes: dict[str, Outcome]) -> None:
    refused = outcomes["wrong type"]["refused"]
    assert (refused["kind"], refused["status"]) == ("UnprocessableEntityError", 422)
    assert refused["body"]["parameter_errors"].keys() == {"x"}


@pytest.mark.parametrize("step", ["unknown tool", "unknown version"])
def test_what_is_not_there_is_a_bad_request(outcomes: dict[str, Outcome], step: str) -> None:
    refused = outcomes[step]["refused"]
    assert (refused["kind"], refused["status"]) == ("BadRequestError", 400)
    assert refused["body"]["message"]


def test_a_wrong_credential_is_an_authentication_error(gateway: str) -> None:
    refused = [outcome["refused"] for outcome in drive("oxp", gateway, "wrong", STEPS["list"], STEPS["exact"])]
    assert {(one["kind"], one["status"]) for one in refused} == {("AuthenticationError", 401)}
