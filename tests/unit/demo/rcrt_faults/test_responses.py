"""Faults of the runner and of the events about its responses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.demo.conftest import words_of_help
from tests.unit.demo.rcrt_caller import Caller
from tests.unit.demo.rcrt_faults.hearing import HI, heard

OUTPUTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("list_output", lambda output: output == [1, 2, 3]),
    ("scalar_output", lambda output: output == 42),
    ("null_output", lambda output: output is None),
    ("big_integer", lambda output: output == {"count": 2**63 + 1}),
    ("unicode_output", lambda output: "世界" in output["text"]),
    ("failure_inside", lambda output: output["success"] is False),
    ("big_output", lambda output: len(output["text"]) == 1_200_000),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), OUTPUTS, ids=[fault for fault, _ in OUTPUTS])
def test_an_output_can_be_anything(caller: Caller, fault: str, is_spoilt: Callable[[Any], bool]) -> None:
    caller.order("echo", fault)
    context = caller.call("echo", HI)
    assert context["status"] == "success"
    assert is_spoilt(context["output"])


def test_a_big_output_is_stored_but_not_signalled(caller: Caller) -> None:
    assert heard(caller, "big_output") == []


def test_an_output_that_cannot_be_stored_is_an_error(caller: Caller) -> None:
    caller.order("echo", "refused_output")
    assert caller.call("echo", HI)["error"].startswith("Error: Failed to create breadcrumb: ")


CONTEXTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("older_shape", lambda context: context["result"] == {"echo": "hi"} and "status" not in context),
    ("unparsable_output", lambda context: "Failed to parse tool output" in context["error"]),
    ("error_in_output", lambda context: context["status"] == "error" and "error" in context["output"]),
    ("no_status", lambda context: "status" not in context and "output" in context),
    ("unknown_status", lambda context: context["status"] == "running"),
    ("no_output", lambda context: context["status"] == "success" and "output" not in context),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), CONTEXTS, ids=[fault for fault, _ in CONTEXTS])
def test_a_response_can_say_it_differently(caller: Caller, fault: str, is_spoilt: Callable[[Any], bool]) -> None:
    caller.order("echo", fault)
    request_id = caller.request("echo", HI)
    assert is_spoilt(caller.response(request_id)["context"])
    assert caller.executions(request_id) == 1


@pytest.mark.parametrize("fault", ["no_request_id", "context_not_an_object"])
def test_a_response_can_lack_the_id_but_for_its_tag(caller: Caller, fault: str) -> None:
    caller.order("echo", fault)
    with caller.listening() as listener:
        request_id = caller.request("echo", HI)
        listener.wait(
            lambda listener: any(f"request:{request_id}" in event.get("tags", ()) for event in listener.events)
        )
    assert caller.find(request_id) == []


def test_a_response_can_be_for_somebody_else(caller: Caller) -> None:
    caller.order("echo", "other_request_id")
    request_id = caller.request("echo", HI)
    response = caller.response(f"{request_id}-other")
    assert response["tags"] == ["workspace:tools", "tool:response"]
    assert caller.find(request_id) == []


def test_a_response_can_lack_the_tag_of_its_request(caller: Caller) -> None:
    caller.order("echo", "untagged")
    assert caller.response(caller.request("echo", HI))["tags"] == ["workspace:tools", "tool:response"]


def test_an_event_can_be_lost(caller: Caller) -> None:
    assert heard(caller, "drop_event") == []


def test_an_event_can_come_twice(caller: Caller) -> None:
    first, second = heard(caller, "duplicate_event")
    assert first == second


def test_a_response_can_come_twice(caller: Caller) -> None:
    first, second = heard(caller, "duplicate_response", 2)
    assert first["breadcrumb_id"] != second["breadcrumb_id"]


EVENTS: list[tuple[str, Callable[[Any], bool]]] = [
    ("partial_event", lambda event: set(event) == {"type", "breadcrumb_id", "owner_id", "context_merged"}),
    ("event_without_context", lambda event: "context" not in event and "schema_name" in event),
    ("event_without_type", lambda event: "type" not in event and "context" in event),
    ("created_event", lambda event: event["type"] == "breadcrumb.created"),
]


@pytest.mark.parametrize(("fault", "is_spoilt"), EVENTS, ids=[fault for fault, _ in EVENTS])
def test_an_event_can_say_less(caller: Caller, fault: str, is_spoilt: Callable[[Any], bool]) -> None:
    (event,) = heard(caller, fault)
    assert is_spoilt(event)


def test_events_can_be_nonsense_before_the_good_one(caller: Caller) -> None:
    malformed, good = heard(caller, "malformed_events")  # the others do not name the breadcrumb
    assert malformed["tags"] is None
    assert good["context"]["output"] == {"echo": "hi"}


def test_the_runner_can_be_absent(caller: Caller) -> None:
    caller.order("echo", "absent")
    request_id = caller.request("echo", HI)
    caller.call("echo", HI)
    assert caller.find(request_id) == []
    assert caller.executions(request_id) == 0


def test_a_response_can_be_late(caller: Caller) -> None:
    caller.order("echo", "late", seconds=0.3)
    started = time.monotonic()
    caller.call("echo", HI)
    assert time.monotonic() - started >= 0.3


def test_the_help_names_every_fault(caller: Caller) -> None:
    known = caller.server.get("/faults").json()["known"]
    assert {fault for faults in known.values() for fault in faults} <= words_of_help("rcrt_server")


def test_every_fault_is_tested(caller: Caller) -> None:
    known = caller.server.get("/faults").json()["known"]
    listed = {fault for fault, _ in [*OUTPUTS, *CONTEXTS, *EVENTS]}
    alone = {"absent", "late", "duplicate_response", "drop_event", "duplicate_event", "malformed_events", "untagged"}
    refused = {"refused_output", "other_request_id", "no_request_id", "context_not_an_object"}
    assert set(known["echo"]) == listed | alone | refused
    assert set(known) == {
        *("echo", "random", "timer", "calculator", "json-transform", "workflow"),
        *("create", "list", "stream", "token", "auth"),
    }
