from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests import plainhttp
from tests.unit.demo.conftest import DEADLINE_S, connected, running
from tests.unit.demo.rap_caller import Caller, calling


@pytest.fixture(scope="module")
def rap() -> Iterator[httpx.Client]:
    with connected("rap_server") as client:
        yield client


@pytest.fixture(scope="module")
def caller(rap: httpx.Client) -> Iterator[Caller]:
    with calling(rap) as caller:
        yield caller


def executions(server: httpx.Client, call_id: str) -> int:
    return int(server.get("/executions").json()["ids"].get(call_id, 0))


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def test_the_toolset_is_where_it_must_be_and_complete(rap: httpx.Client) -> None:
    manifest = rap.get("/.well-known/rap-toolset").json()
    assert manifest["name"] == "Builds"
    assert manifest["endpoint"] == f"{str(rap.base_url).rstrip('/')}/invoke"
    tools = {tool["name"]: tool for tool in manifest["tools"]}
    assert set(tools) == {"lint", "build", "deploy", "watch", "explode", "ask", "photo"}
    assert all(set(tool) == {"name", "description", "inputSchema", "annotations"} for tool in tools.values())
    assert tools["explode"]["inputSchema"] == {"type": "object", "additionalProperties": False}
    assert tools["build"]["annotations"]["longRunning"] is True
    assert tools["deploy"]["annotations"]["requiresAuth"] == "demo-deploy"


def test_an_invocation_is_acknowledged_empty_and_its_result_repeats_the_ids(caller: Caller) -> None:
    invocation = caller.invocation("lint", {"source": "a \nb"}, call_id="call-7")
    acknowledged = caller.invoke(invocation)
    assert (acknowledged.status_code, acknowledged.content) == (200, b"")
    (callback,) = caller.callbacks(invocation)
    assert callback.headers["content-type"] == "application/json"
    message = callback.message
    assert json.loads(message.pop("text")) == {
        "clean": False,
        "problems": [{"line": 1, "problem": "trailing whitespace"}],
    }
    assert message == {
        "type": "tool_result",
        "group_id": invocation["group_id"],
        "id": invocation["id"],
        "call_id": "call-7",
    }


def test_neither_the_acknowledgement_nor_another_call_waits_for_the_work(caller: Caller) -> None:
    slow = caller.invocation("build", {"seconds": 2 * DEADLINE_S})
    assert caller.invoke(slow).status_code == 200
    assert json.loads(caller.text_of("build", {"seconds": 0.1})) == {"status": "built", "seconds": 0.1}
    assert caller.so_far(slow) == []


def test_optional_fields_may_be_null_or_absent_and_unknown_ones_are_ignored(caller: Caller) -> None:
    nulls = {"call_id": None, "user_id": None, "thread_ancestors": None, "shard": 7}
    (message,) = caller.run(caller.invocation("lint", {"source": ""}, **nulls))
    assert message["call_id"] is None
    bare = caller.invocation("lint", {"source": ""})
    del bare["call_id"]
    assert "clean" in caller.run(bare)[0]["text"]


REFUSED_IN_A_RESULT: list[tuple[dict[str, Any], str]] = [
    ({"operation": "paint"}, "Error: There is no such operation"),
    ({"operation": ""}, "Error: The invocation is invalid"),
    ({"operation": 7}, "Error: The invocation is invalid: /operation"),
    ({"arguments": []}, "Error: The invocation is invalid: /arguments"),
    ({"arguments": {}}, "Error: The arguments are invalid"),
    ({"arguments": {"source": 1}}, "Error: The arguments are invalid: /source"),
    ({"arguments": {"source": "", "depth": 1}}, "Error: The arguments are invalid"),
    ({"arguments": {"source": "x" * 20_001}}, "Error: The arguments are invalid: /source"),
    ({"thread_ancestors": "root"}, "Error: The invocation is invalid: /thread_ancestors"),
    ({"user_id": 1}, "Error: The invocation is invalid: /user_id"),
]


@pytest.mark.parametrize(("wrong", "text"), REFUSED_IN_A_RESULT)
def test_what_is_wrong_with_a_call_is_told_in_its_result(caller: Caller, wrong: dict[str, Any], text: str) -> None:
    invocation = {**caller.invocation("lint", {"source": ""}), **wrong}
    (message,) = caller.run(invocation)
    assert message["type"] == "tool_result"
    assert message["text"].startswith(text)
    assert executions(caller.server, invocation["id"]) == 0


@pytest.mark.parametrize("name", ["id", "group_id", "callback_url"])
@pytest.mark.parametrize("value", [None, "", 7, "x" * 3000])
def test_an_invocation_without_anybody_to_tell_is_not_accepted(caller: Caller, name: str, value: Any) -> None:
    assert caller.invoke({**caller.invocation("explode"), name: value}).status_code == 422


def test_an_invocation_must_be_json(caller: Caller) -> None:
    json_type = {"Content-Type": "application/json"}
    assert caller.server.post("/invoke", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert caller.server.post("/invoke", content="{", headers=json_type).status_code == 400
    assert caller.server.post("/invoke", content="[]", headers=json_type).status_code == 422
    assert caller.server.post("/invoke", content=b" " * 1_048_577, headers=json_type).status_code == 413
    assert caller.server.get("/invoke").status_code == 405


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/callbacks/x",
        "http://169.254.169.254/latest",
        "http://toolgate.example/callbacks/x",
        "http://localhost.example/",
        "http://user@127.0.0.1/",
        "file:///etc/passwd",
        "127.0.0.1/callbacks",
        "http://[::1",
    ],
)
def test_a_callback_url_beyond_loopback_is_refused(caller: Caller, url: str) -> None:
    assert caller.invoke(caller.invocation("explode", callback_url=url)).status_code == 403


def test_a_callback_origin_can_be_allowed() -> None:
    with (
        connected("rap_server", "--callback-origin", "http://toolgate.invalid:8080") as server,
        calling(server) as caller,
    ):
        allowed = caller.invocation("explode", callback_url="http://toolgate.invalid:8080/callbacks/x")
        assert caller.invoke(allowed).status_code == 200
        other_port = caller.invocation("explode", callback_url="http://toolgate.invalid:8081/callbacks/x")
        assert caller.invoke(other_port).status_code == 403


def test_a_callback_is_repeated_after_a_5xx(caller: Caller) -> None:
    caller.answers = [503, 500]
    invocation = caller.invocation("explode")
    caller.invoke(invocation)
    bodies = {callback.body for callback in caller.callbacks(invocation, 3)}
    assert len(bodies) == 1
    eventually(lambda: (invocation["id"], 3, 200) in outcomes(caller))


@pytest.mark.parametrize("status", [400, 404, 302])
def test_a_callback_is_neither_repeated_nor_redirected_otherwise(caller: Caller, status: int) -> None:
    caller.answers = [status]
    invocation = caller.invocation("explode")
    caller.invoke(invocation)
    eventually(lambda: (invocation["id"], 1, status) in outcomes(caller))
    assert len(caller.so_far(invocation)) == 1


def outcomes(caller: Caller) -> list[tuple[str, int, int]]:
    return [(sent["id"], sent["attempts"], sent["status"]) for sent in caller.server.get("/deliveries").json()]


def test_callback_urls_are_not_in_the_records(caller: Caller) -> None:
    invocation = caller.invocation("explode", callback_url=f"{caller.base_url}/callbacks/s3cret")
    caller.invoke(invocation)
    eventually(lambda: (invocation["id"], 1, 200) in outcomes(caller))
    assert "s3cret" not in caller.server.get("/deliveries").text


def test_a_failure_is_a_text_with_the_prefix(caller: Caller) -> None:
    assert caller.text_of("explode") == "Error: The boiler has no water; fill it and build again"


def test_a_photo_has_its_text_first(caller: Caller) -> None:
    (message,) = caller.run(caller.invocation("photo"))
    assert [item["type"] for item in message["content"]] == ["text", "image"]
    assert message["content"][1]["mediaType"] == "image/png"
    assert "text" not in message


def test_a_subscription_is_confirmed_then_sends_events_until_the_final_one(caller: Caller) -> None:
    invocation = caller.invocation("watch", {"events": 3, "pause_s": 0})
    confirmation, *events = caller.run(invocation, 4)
    assert confirmation["subscription"] is True
    assert invocation["id"] in confirmation["text"]
    assert [event["final"] for event in events] == [False, False, True]
    assert all(event["tool_call_id"] == invocation["id"] and "id" not in event for event in events)
    assert json.loads(events[0]["text"]) == {"build": 1, "status": "built"}


def test_a_deployment_waits_for_the_user_and_goes_on_by_itself(caller: Caller) -> None:
    invocation = caller.invocation("deploy", {"target": "staging"}, user_id="ana")
    (question,) = caller.run(invocation)
    assert (question["type"], question["id"]) == ("oauth", invocation["id"])
    caller.server.post(question["auth_url"]).raise_for_status()
    result = caller.callbacks(invocation, 2)[1].message
    assert json.loads(result["text"]) == {"status": "deployed", "target": "staging"}
    assert "deployed" in caller.run(caller.invocation("deploy", {"target": "staging"}, user_id="ana"))[0]["text"]
    assert executions(caller.server, invocation["id"]) == 1


def test_a_deployment_that_the_user_declines_fails(caller: Caller) -> None:
    invocation = caller.invocation("deploy", {"target": "staging"})
    (question,) = caller.run(invocation)
    caller.server.post(f"{question['auth_url']}/decline")
    assert caller.callbacks(invocation, 2)[1].message["text"] == "Error: The user did not allow the deployment"


@pytest.mark.parametrize(("selected", "choice"), [(0, "Roll back"), (1, "Keep")])
def test_a_choice_decides_the_result(caller: Caller, selected: int, choice: str) -> None:
    invocation = caller.invocation("ask")
    (question,) = caller.run(invocation)
    assert (question["type"], question["choices"], question["default"]) == ("user_choice", ["Roll back", "Keep"], 1)
    answer = {"id": invocation["id"], "selected": selected}
    assert caller.server.post(question["response_url"], json=answer).status_code == 200
    assert json.loads(caller.callbacks(invocation, 2)[1].message["text"]) == {"choice": choice}
    assert caller.server.post(question["response_url"], json=answer).status_code == 404


@pytest.mark.parametrize("selected", [2, -1, True, "1", None])
def test_a_selection_that_is_no_choice_fails_the_call(caller: Caller, selected: Any) -> None:
    invocation = caller.invocation("ask")
    (question,) = caller.run(invocation)
    caller.server.post(question["response_url"], json={"id": invocation["id"], "selected": selected})
    assert caller.callbacks(invocation, 2)[1].message["text"].startswith("Error: The selection")


def test_a_choice_of_another_call_is_not_taken(caller: Caller) -> None:
    (question,) = caller.run(caller.invocation("ask"))
    answers: list[Any] = [{"id": "another", "selected": 0}, [], {}]
    for answer in answers:
        assert caller.server.post(question["response_url"], json=answer).status_code == 404


def test_a_cancelled_call_is_stopped_and_says_nothing_more(caller: Caller) -> None:
    invocation = caller.invocation("watch", {"events": 2, "pause_s": 0.6})
    caller.run(invocation)
    notice = {"thread_id": invocation["group_id"], "tool_call_id": invocation["id"]}
    cancelled = caller.server.post("/cancel_tool_call", json=notice)
    assert (cancelled.status_code, cancelled.content) == (200, b"")
    assert {"kind": "cancel", **notice} in caller.server.get("/notices").json()
    caller.run(caller.invocation("build", {"seconds": 0.7}))  # longer than the next event would have taken
    assert len(caller.so_far(invocation)) == 1


def test_a_call_of_another_thread_is_not_cancelled(caller: Caller) -> None:
    invocation = caller.invocation("build", {"seconds": 0.1})
    caller.invoke(invocation)
    caller.server.post("/cancel_tool_call", json={"thread_id": "another", "tool_call_id": invocation["id"]})
    assert "built" in caller.callbacks(invocation)[0].message["text"]


def test_notices_about_nothing_known_are_200_too(rap: httpx.Client) -> None:
    assert rap.post("/close_thread", json={"thread_id": "nobody's"}).status_code == 200
    assert {"kind": "close", "thread_id": "nobody's"} in rap.get("/notices").json()
    for path in ("/cancel_tool_call", "/close_thread"):
        for body in (b"", b"{", b"[]", b"{}", b'{"thread_id": 7}'):
            assert rap.post(path, content=body).status_code == 200


def test_a_repeated_id_runs_again(caller: Caller) -> None:
    invocation = caller.invocation("explode")
    caller.run(invocation)
    caller.run(invocation, 2)
    assert executions(caller.server, invocation["id"]) == 2


def test_with_a_token_everything_but_consent_and_health_asks_for_it() -> None:
    with connected("rap_server", "--token", "t0k") as server, calling(server) as caller:
        assert server.get("/.well-known/rap-toolset").status_code == 401
        assert caller.invoke(caller.invocation("explode")).status_code == 401
        for path in ("/cancel_tool_call", "/close_thread", "/faults"):
            assert server.post(path, json={}).status_code == 401
        assert server.get("/health").status_code == 200
        server.headers["Authorization"] = "Bearer t0k"
        assert server.get("/.well-known/rap-toolset").status_code == 200
        assert caller.text_of("explode").startswith("Error: ")


def test_the_server_stops_at_once_with_calls_in_progress() -> None:
    started = time.monotonic()
    with running("rap_server") as (url, _), plainhttp.client(base_url=url) as server, calling(server) as caller:
        caller.invoke(caller.invocation("build", {"seconds": 60}))
        caller.run(caller.invocation("ask"))
    assert time.monotonic() - started < DEADLINE_S / 2
