from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.unit.demo.conftest import words_of_help
from tests.unit.demo.rcrt_caller import REQUEST_TAGS, Caller, Listener, calling

HI = {"message": "hi"}


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with calling("--ping-s", "0.2") as caller:
        yield caller


@pytest.fixture(autouse=True)
def _all_faults_happen(caller: Caller) -> Iterator[None]:
    yield
    assert caller.server.get("/faults").json()["due"] == []


def responses(listener: Listener, caller: Caller, request_id: str) -> list[Any]:
    """The events about the responses to a request, once a later event has come."""
    ids = {item["id"] for item in caller.find(request_id)}
    listener.about(caller.create("note.v1", {}).json()["id"])
    return [event for event in listener.events if event.get("breadcrumb_id") in ids]


def heard(caller: Caller, fault: str, count: int = 1) -> list[Any]:
    caller.order("echo", fault)
    with caller.listening() as listener:
        request_id = caller.request("echo", HI)
        caller.response(request_id, count)
        return responses(listener, caller, request_id)


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


@pytest.mark.parametrize("status", [401, 500, 503])
def test_creating_can_fail_with_nothing_stored(caller: Caller, status: int) -> None:
    caller.order("create", f"status_{status}")
    tag = uuid.uuid4().hex
    assert caller.create("note.v1", {}, [tag]).status_code == status
    assert caller.server.get("/breadcrumbs", params={"tag": tag}).json() == []


def test_creating_can_fail_with_the_breadcrumb_stored(caller: Caller) -> None:
    tag = uuid.uuid4().hex
    caller.order("create", "status_500_stored")
    assert caller.create("note.v1", {}, [tag]).status_code == 500
    caller.order("create", "reset_stored")
    with pytest.raises(httpx.TransportError):
        caller.create("note.v1", {}, [tag])
    assert len(caller.server.get("/breadcrumbs", params={"tag": tag}).json()) == 2


def test_creating_can_break_the_connection_with_nothing_stored(caller: Caller) -> None:
    tag = uuid.uuid4().hex
    caller.order("create", "reset")
    with pytest.raises(httpx.TransportError):
        caller.create("note.v1", {}, [tag])
    assert caller.server.get("/breadcrumbs", params={"tag": tag}).json() == []


def test_creating_can_be_slow_or_return_no_id(caller: Caller) -> None:
    caller.order("create", "slow", seconds=0.3)
    started = time.monotonic()
    assert "id" in caller.create("note.v1", {}).json()
    assert time.monotonic() - started >= 0.3
    caller.order("create", "no_id")
    assert caller.create("note.v1", {}).json() == {}


def test_the_response_can_come_before_the_answer_to_the_post(caller: Caller) -> None:
    caller.order("create", "response_first")
    caller.order("echo", "late", seconds=0.1)
    asked = {"tool": "echo", "input": HI}
    breadcrumb_id = caller.create("tool.request.v1", asked, REQUEST_TAGS).json()["id"]
    assert len(caller.find(breadcrumb_id)) == 1


@pytest.mark.parametrize("status", [500, 503])
def test_listing_can_fail(caller: Caller, status: int) -> None:
    caller.order("list", f"status_{status}")
    assert caller.server.get("/breadcrumbs").status_code == status


def test_listing_can_be_slow_empty_or_no_json(caller: Caller) -> None:
    caller.order("list", "slow", seconds=0.3)
    started = time.monotonic()
    assert caller.server.get("/breadcrumbs?limit=1").json() != []
    assert time.monotonic() - started >= 0.3
    caller.order("list", "empty")
    assert caller.server.get("/breadcrumbs?limit=1").json() == []
    caller.order("list", "invalid_json")
    with pytest.raises(ValueError, match="Expecting"):
        caller.server.get("/breadcrumbs?limit=1").json()


@pytest.mark.parametrize("status", [401, 503])
def test_the_stream_can_be_refused(caller: Caller, status: int) -> None:
    caller.order("stream", f"status_{status}")
    assert caller.server.get("/events/stream").status_code == status


@pytest.mark.parametrize(("fault", "ended"), [("clean_end", "clean"), ("abrupt_end", "broken")])
def test_the_stream_can_end_instead_of_the_next_event(caller: Caller, fault: str, ended: str) -> None:
    with caller.listening() as listener:
        caller.order("stream", fault)
        lost = caller.create("note.v1", {}).json()["id"]
        listener.wait(lambda listener: listener.ended is not None)
    assert listener.ended == ended
    assert all(event.get("breadcrumb_id") != lost for event in listener.events)


def test_a_stream_can_be_deaf(caller: Caller) -> None:
    caller.order("stream", "deaf")
    with caller.listening() as listener:
        caller.create("note.v1", {})
        listener.wait(lambda listener: len(listener.events) >= 3)
    assert {event["type"] for event in listener.events} == {"ping"}


def test_a_stream_can_be_silent(caller: Caller) -> None:
    caller.order("stream", "silent")
    with caller.server.stream("GET", "/events/stream", timeout=0.5) as stream:  # as long as several pings
        assert stream.status_code == 200
        caller.create("note.v1", {})
        with pytest.raises(httpx.ReadTimeout):
            next(stream.iter_raw())


def test_lines_can_lack_the_space(caller: Caller) -> None:
    caller.order("stream", "no_space")
    with caller.listening() as listener:
        listener.about(caller.create("note.v1", {}).json()["id"])
    assert all(line.startswith("data:{") for line in listener.lines)


def test_events_can_be_cut_inside_a_character(caller: Caller) -> None:
    caller.order("stream", "split_text")
    with caller.listening() as listener:
        (event,) = listener.about(caller.create("note.v1", {"text": "世界"}).json()["id"])
    assert event["context"] == {"text": "世界"}
    assert any(is_cut(chunk) for chunk in listener.chunks)


def is_cut(chunk: bytes) -> bool:
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_tokens_can_be_unavailable_expired_or_short_lived(caller: Caller) -> None:
    caller.order("token", "status_503")
    assert caller.mint().status_code == 503
    caller.order("token", "expired")
    expired = caller.mint().json()["token"]
    assert caller.server.get("/secrets", headers={"Authorization": f"Bearer {expired}"}).status_code == 401
    caller.order("token", "short_lived", seconds=5)
    assert caller.mint().json()["exp"] - time.time() <= 5


def test_a_good_token_can_be_refused(caller: Caller) -> None:
    caller.order("auth", "status_401")
    assert [caller.server.get("/secrets").status_code for _ in range(2)] == [401, 200]


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
