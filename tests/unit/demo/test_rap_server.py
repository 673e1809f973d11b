from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.servers import connected
from tests.unit.demo.rap_caller import Caller, calling

MODULE = "gateway.demo.rap_server"


@pytest.fixture(scope="module")
def rap() -> Iterator[httpx.Client]:
    with connected(MODULE) as client:
        yield client


@pytest.fixture(scope="module")
def caller(rap: httpx.Client) -> Iterator[Caller]:
    with calling(rap) as caller:
        yield caller


def executions(server: httpx.Client, call_id: str) -> int:
    return int(server.get("/executions").json()["ids"].get(call_id, 0))


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


BEYOND_LOOPBACK = [
    *("http://10.0.0.1/callbacks/x", "http://169.254.169.254/latest", "http://toolgate.example/callbacks/x"),
    *(
        "http://localhost.example/",
        "http://user@127.0.0.1/",
        "file:///etc/passwd",
        "127.0.0.1/callbacks",
        "http://[::1",
    ),
]


@pytest.mark.parametrize("url", BEYOND_LOOPBACK)
def test_a_callback_url_beyond_loopback_is_refused(caller: Caller, url: str) -> None:
    assert caller.invoke(caller.invocation("explode", callback_url=url)).status_code == 403


def test_a_callback_origin_can_be_allowed() -> None:
    with (
        connected(MODULE, "--callback-origin", "http://toolgate.invalid:8080") as server,
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


@pytest.mark.parametrize("status", [400, 404, 302])
def test_a_callback_is_neither_repeated_nor_redirected_otherwise(caller: Caller, status: int) -> None:
    caller.answers = [status]
    invocation = caller.invocation("explode")
    caller.invoke(invocation)
    caller.callbacks(invocation, 1)
    caller.run(caller.invocation("build", {"seconds": 0.3}))  # longer than a repetition would have taken
    assert len(caller.so_far(invocation)) == 1


def test_a_subscription_is_confirmed_then_sends_events_until_the_final_one(caller: Caller) -> None:
    invocation = caller.invocation("watch", {"events": 3, "pause_s": 0})
    confirmation, *events = caller.run(invocation, 4)
    assert confirmation["subscription"] is True
    assert invocation["id"] in confirmation["text"]
    assert [event["final"] for event in events] == [False, False, True]
    assert all(event["tool_call_id"] == invocation["id"] and "id" not in event for event in events)
    assert json.loads(events[0]["text"]) == {"build": 1, "status": "built"}


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


def test_a_cancelled_call_is_stopped_and_says_nothing_more(caller: Caller) -> None:
    invocation = caller.invocation("watch", {"events": 2, "pause_s": 0.6})
    caller.run(invocation)
    notice = {"thread_id": invocation["group_id"], "tool_call_id": invocation["id"]}
    cancelled = caller.server.post("/cancel_tool_call", json=notice)
    assert (cancelled.status_code, cancelled.content) == (200, b"")
    caller.run(caller.invocation("build", {"seconds": 0.7}))  # longer than the next event would have taken
    assert len(caller.so_far(invocation)) == 1


def test_with_a_token_everything_but_consent_and_health_asks_for_it() -> None:
    with connected(MODULE, "--token", "t0k") as server, calling(server) as caller:
        assert server.get("/.well-known/rap-toolset").status_code == 401
        assert caller.invoke(caller.invocation("explode")).status_code == 401
        for path in ("/cancel_tool_call", "/close_thread"):
            assert server.post(path, json={}).status_code == 401
        assert server.get("/health").status_code == 200
        server.headers["Authorization"] = "Bearer t0k"
        assert server.get("/.well-known/rap-toolset").status_code == 200
        assert caller.text_of("explode").startswith("Error: ")
