from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.unit.demo.conftest import connected, words_of_help
from tests.unit.demo.rap_caller import Caller, calling
from tests.unit.demo.test_rap_server import eventually, executions

TOOLSET = "/.well-known/rap-toolset"


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


def quick(caller: Caller) -> dict[str, Any]:
    return caller.invocation("build", {"seconds": 0})


def spoilt(caller: Caller, fault: str, count: int = 1) -> tuple[dict[str, Any], list[Any]]:
    caller.order("build", fault)
    invocation = quick(caller)
    return invocation, caller.run(invocation, count)


def test_a_fault_happens_as_often_as_ordered(caller: Caller) -> None:
    caller.order("build", "ack_503", times=2)
    statuses = [caller.invoke(quick(caller)).status_code for _ in range(3)]
    assert statuses == [503, 503, 200]


def test_a_fault_waits_for_the_operation_it_was_ordered_for(caller: Caller) -> None:
    caller.order("build", "ack_400")
    assert caller.text_of("explode").startswith("Error: ")
    assert caller.invoke(quick(caller)).status_code == 400


def test_orders_can_be_forgotten(caller: Caller) -> None:
    caller.order("build", "ack_500", times=100)
    assert caller.server.delete("/faults").json()["due"] == []
    assert caller.invoke(quick(caller)).status_code == 200


@pytest.mark.parametrize(
    "order",
    [
        [],
        {},
        {"operation": "build", "fault": "unheard_of"},
        {"operation": "paint", "fault": "never"},
        {"operation": "manifest", "fault": "never"},
        {"operation": "build", "fault": "never", "times": 0},
        {"operation": "build", "fault": "never", "seconds": 3600},
        {"operation": "build", "fault": "never", "often": True},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(caller: Caller, order: Any) -> None:
    assert caller.server.post("/faults", json=order).status_code == 400


REFUSALS = [302, 400, 409, 413, 422, 429, 500, 503]


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refused_invocation_does_not_run(caller: Caller, status: int) -> None:
    caller.order("build", f"ack_{status}")
    invocation = quick(caller)
    assert caller.invoke(invocation).status_code == status
    assert executions(caller.server, invocation["id"]) == 0


@pytest.mark.parametrize(
    ("fault", "status", "body"), [("ack_ok_body", 200, "OK"), ("ack_202", 202, ""), ("ack_204", 204, "")]
)
def test_an_unusual_acknowledgement_is_one_all_the_same(caller: Caller, fault: str, status: int, body: str) -> None:
    caller.order("build", fault)
    invocation = quick(caller)
    acknowledged = caller.invoke(invocation)
    assert (acknowledged.status_code, acknowledged.text) == (status, body)
    assert "built" in caller.callbacks(invocation)[0].message["text"]


def test_a_slow_acknowledgement_takes_its_time_and_the_work_comes_after_it(caller: Caller) -> None:
    caller.order("build", "slow_ack", seconds=0.3)
    invocation = quick(caller)
    started = time.monotonic()
    caller.invoke(invocation)
    assert caller.callbacks(invocation)[0].at - started >= 0.3


def test_the_callback_can_come_before_the_acknowledgement(caller: Caller) -> None:
    caller.order("build", "callback_before_ack")
    invocation = quick(caller)
    caller.invoke(invocation)
    assert len(caller.so_far(invocation)) == 1


@pytest.mark.parametrize(("fault", "runs"), [("reset_before_ack", 1), ("reset_and_drop", 0)])
def test_the_connection_can_break_before_the_acknowledgement(caller: Caller, fault: str, runs: int) -> None:
    caller.order("build", fault)
    invocation = quick(caller)
    with pytest.raises(httpx.TransportError):
        caller.invoke(invocation)
    assert executions(caller.server, invocation["id"]) == runs
    assert len(caller.callbacks(invocation, runs)) == runs


def test_a_callback_can_be_late(caller: Caller) -> None:
    caller.order("build", "delayed", seconds=0.3)
    invocation = quick(caller)
    started = time.monotonic()
    assert caller.invoke(invocation).status_code == 200
    assert caller.callbacks(invocation)[0].at - started >= 0.3


def test_a_callback_can_stay_away_though_the_work_was_done(caller: Caller) -> None:
    caller.order("build", "never")
    invocation = quick(caller)
    caller.invoke(invocation)
    eventually(lambda: executions(caller.server, invocation["id"]) == 1)
    caller.run(quick(caller))
    assert caller.so_far(invocation) == []


def test_a_result_can_come_twice(caller: Caller) -> None:
    _, (first, second) = spoilt(caller, "duplicate", 2)
    assert first == second


def test_two_results_can_differ(caller: Caller) -> None:
    invocation, (first, second) = spoilt(caller, "two_different", 2)
    assert first["id"] == second["id"] == invocation["id"]
    assert first["text"] != second["text"]


SPOILT: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], bool]]] = [
    ("wrong_id", lambda message, call: message["id"] != call["id"]),
    ("wrong_group", lambda message, call: message["group_id"] != call["group_id"]),
    ("call_id_omitted", lambda message, _: "call_id" not in message),
    ("call_id_null", lambda message, _: message["call_id"] is None),
    ("call_id_wrong", lambda message, _: message["call_id"] == "call-other"),
    ("missing_type", lambda message, _: "type" not in message),
    ("missing_group", lambda message, _: "group_id" not in message),
    ("unknown_type", lambda message, _: message["type"] == "progress"),
    ("unknown_fields", lambda message, _: "x_vendor" in message),
    ("text_not_a_string", lambda message, _: isinstance(message["text"], dict)),
    ("neither_text_nor_content", lambda message, _: not {"text", "content"} & set(message)),
    ("both_text_and_content", lambda message, _: {"text", "content"} <= set(message)),
    ("empty_content", lambda message, _: message["content"] == [] and bool(message["text"])),
    ("only_empty_content", lambda message, _: message["content"] == [] and "text" not in message),
    ("unknown_content", lambda message, _: message["content"][0]["type"] == "audio"),
    ("empty_text", lambda message, _: message["text"] == ""),
    ("plain_text", lambda message, _: message["text"] == "Built in 3 steps."),
    ("text_array", lambda message, _: message["text"] == "[1, 2, 3]"),
    ("text_scalar", lambda message, _: message["text"] == "42"),
    ("text_broken_json", lambda message, _: message["text"].startswith("{") and not message["text"].endswith("}")),
    ("text_big_integer", lambda message, _: json.loads(message["text"]) == {"build": 2**63 + 1}),
    ("big_text", lambda message, _: len(message["text"]) > 1024**2),
    ("error", lambda message, _: message["text"].startswith("Error: ")),
    ("error_unprefixed", lambda message, _: message["text"] == "Command cancelled."),
    ("error_mentioned_later", lambda message, _: message["text"].find("Error: ") > 0),
    ("display_as_list", lambda message, _: message["display_as"][0]["type"] == "text"),
    ("display_as_string", lambda message, _: isinstance(message["display_as"], str)),
    ("subscription_on_error", lambda message, _: message["subscription"] and message["text"].startswith("Error: ")),
    ("not_an_object", lambda message, _: isinstance(message, list)),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), SPOILT, ids=[fault for fault, _ in SPOILT])
def test_a_result_can_be_spoilt(caller: Caller, fault: str, is_spoilt: Callable[[Any, Any], bool]) -> None:
    invocation, (message,) = spoilt(caller, fault)
    assert is_spoilt(message, invocation)


def test_a_callback_can_be_no_json(caller: Caller) -> None:
    caller.order("build", "invalid_json")
    invocation = quick(caller)
    caller.invoke(invocation)
    (callback,) = caller.callbacks(invocation)
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(callback.body)


def test_a_callback_can_go_to_another_token(caller: Caller) -> None:
    caller.order("build", "wrong_token")
    invocation = quick(caller)
    caller.invoke(invocation)
    (callback,) = caller.callbacks(invocation)
    assert callback.path != f"/callbacks/{invocation['id']}"
    assert callback.path.startswith("/callbacks/")
    assert callback.message["id"] == invocation["id"]


@pytest.mark.parametrize(
    ("fault", "header", "value"),
    [
        ("extra_authorization", "authorization", "AWS4-HMAC-SHA256 demo"),
        ("wrong_content_type", "content-type", "text/plain"),
    ],
)
def test_a_callback_can_have_unexpected_headers(caller: Caller, fault: str, header: str, value: str) -> None:
    caller.order("build", fault)
    invocation = quick(caller)
    caller.invoke(invocation)
    assert caller.callbacks(invocation)[0].headers[header] == value


def test_a_callback_can_be_lost_at_the_first_5xx(caller: Caller) -> None:
    caller.order("build", "no_retry")
    caller.answers = [500]
    invocation = quick(caller)
    caller.invoke(invocation)
    lost = {"type": "tool_result", "id": invocation["id"], "attempts": 1, "status": 500}
    eventually(lambda: lost in caller.server.get("/deliveries").json())


def test_view_updates_can_come_in_a_storm(caller: Caller) -> None:
    _, messages = spoilt(caller, "view_update_storm", 201)
    assert {message["type"] for message in messages[:200]} == {"view_update"}
    assert messages[200]["type"] == "tool_result"


def test_a_result_can_come_in_pieces(caller: Caller) -> None:
    _, (running, final) = spoilt(caller, "still_running", 2)
    assert running["subscription"] is True
    assert (final["type"], final["final"]) == ("subscription_event", True)
    assert "built" in final["text"]


def test_an_event_can_overtake_its_confirmation(caller: Caller) -> None:
    caller.order("watch", "event_before_confirmation")
    messages = caller.run(caller.invocation("watch", {"events": 2, "pause_s": 0}), 3)
    assert [message["type"] for message in messages] == ["subscription_event", "tool_result", "subscription_event"]


def test_an_event_can_follow_the_final_one(caller: Caller) -> None:
    caller.order("watch", "event_after_final")
    messages = caller.run(caller.invocation("watch", {"events": 1, "pause_s": 0}), 3)
    assert messages[1]["final"] is True
    assert messages[2]["type"] == "subscription_event"


def test_a_result_can_come_after_the_cancellation(caller: Caller) -> None:
    caller.order("build", "ignore_cancel")
    invocation = caller.invocation("build", {"seconds": 0.2})
    caller.invoke(invocation)
    notice = {"thread_id": invocation["group_id"], "tool_call_id": invocation["id"]}
    assert caller.server.post("/cancel_tool_call", json=notice).status_code == 200
    assert "built" in caller.callbacks(invocation)[0].message["text"]


def test_consent_can_lead_nowhere(caller: Caller) -> None:
    caller.order("deploy", "oauth_never_resolved")
    invocation = caller.invocation("deploy", {"target": "staging"})
    (question,) = caller.run(invocation)
    caller.server.post(question["auth_url"]).raise_for_status()
    caller.run(quick(caller))
    assert len(caller.so_far(invocation)) == 1


def test_events_can_go_on_after_the_cancellation(caller: Caller) -> None:
    caller.order("watch", "ignore_cancel")
    invocation = caller.invocation("watch", {"events": 3, "pause_s": 0.1})
    caller.run(invocation)
    notice = {"thread_id": invocation["group_id"], "tool_call_id": invocation["id"]}
    assert caller.server.post("/cancel_tool_call", json=notice).status_code == 200
    assert caller.callbacks(invocation, 4)[-1].message["final"] is True


def test_a_result_can_come_before_what_the_user_is_asked(caller: Caller) -> None:
    caller.order("ask", "result_first")
    first, second = caller.run(caller.invocation("ask"), 2)
    assert (first["type"], second["type"]) == ("tool_result", "user_choice")


MANIFESTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("no_tools", lambda manifest: manifest["tools"] == []),
    ("no_name", lambda manifest: manifest["name"] == ""),
    ("duplicate_names", lambda manifest: manifest["tools"][0] == manifest["tools"][-1]),
    ("missing_description", lambda manifest: "description" not in manifest["tools"][0]),
    ("missing_schema", lambda manifest: "inputSchema" not in manifest["tools"][0]),
    ("invalid_schema", lambda manifest: manifest["tools"][0]["inputSchema"] == {"type": "text"}),
    ("bad_endpoint", lambda manifest: "://" not in manifest["endpoint"]),
    ("foreign_endpoint", lambda manifest: manifest["endpoint"].startswith("http://localhost:")),
    ("changed_schema", lambda manifest: manifest["tools"][0]["inputSchema"] == {"type": "object"}),
    ("not_an_object", lambda manifest: isinstance(manifest, list)),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), MANIFESTS, ids=[fault for fault, _ in MANIFESTS])
def test_a_manifest_can_be_spoilt(caller: Caller, fault: str, is_spoilt: Callable[[Any], bool]) -> None:
    caller.order("manifest", fault)
    assert is_spoilt(caller.server.get(TOOLSET).json())
    assert not is_spoilt(caller.server.get(TOOLSET).json())


@pytest.mark.parametrize(("fault", "status"), [("status_404", 404), ("status_500", 500)])
def test_a_manifest_can_be_refused(caller: Caller, fault: str, status: int) -> None:
    caller.order("manifest", fault)
    assert caller.server.get(TOOLSET).status_code == status


def test_a_manifest_can_be_no_json(caller: Caller) -> None:
    caller.order("manifest", "invalid_json")
    with pytest.raises(ValueError, match="Expecting"):
        caller.server.get(TOOLSET).json()


def test_a_manifest_can_be_slow(caller: Caller) -> None:
    caller.order("manifest", "slow", seconds=0.3)
    started = time.monotonic()
    assert caller.server.get(TOOLSET).json()["name"] == "Builds"
    assert time.monotonic() - started >= 0.3


def test_the_help_names_every_fault(rap: httpx.Client) -> None:
    known = rap.get("/faults").json()["known"]
    assert {fault for faults in known.values() for fault in faults} <= words_of_help("rap_server")


def test_every_fault_is_tested(rap: httpx.Client) -> None:
    known = rap.get("/faults").json()["known"]
    assert set(known["manifest"]) - {fault for fault, _ in MANIFESTS} == {
        "status_404",
        "status_500",
        "slow",
        "invalid_json",
    }
    alone = {
        "ack_ok_body", "ack_202", "ack_204", "slow_ack", "callback_before_ack", "reset_before_ack", "reset_and_drop",
        "delayed", "never", "duplicate", "two_different", "invalid_json", "wrong_token", "extra_authorization",
        "wrong_content_type", "no_retry", "view_update_storm", "still_running", "event_before_confirmation",
        "event_after_final", "ignore_cancel", "oauth_never_resolved", "result_first",
    }  # fmt: skip
    assert set(known["build"]) == alone | {f"ack_{status}" for status in REFUSALS} | {fault for fault, _ in SPOILT}
