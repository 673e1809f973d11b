"""Faults of what is called back, and of consent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.demo.rap_caller import Caller
from tests.unit.demo.rap_faults.ordering import SPOILT, quick
from tests.unit.demo.test_rap_server import eventually, executions


def spoilt(caller: Caller, fault: str, count: int = 1) -> tuple[dict[str, Any], list[Any]]:
    caller.order("build", fault)
    invocation = quick(caller)
    return invocation, caller.run(invocation, count)


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
