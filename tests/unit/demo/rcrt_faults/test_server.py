"""Faults of creating, of lists, of the stream and of tokens."""

from __future__ import annotations

import time
import uuid

import httpx
import pytest

from tests.unit.demo.rcrt_caller import REQUEST_TAGS, Caller
from tests.unit.demo.rcrt_faults.hearing import HI


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
