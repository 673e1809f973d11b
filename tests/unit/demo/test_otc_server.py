from __future__ import annotations

import re
import socket
from typing import Any

import httpx
import pytest

from tests.support.terminal import connected


def call(client: httpx.Client, tool_id: str, **arguments: Any) -> httpx.Response:
    return client.post(
        "/tools/call", json={"$schema": "otc://1.0", "request": {"tool_id": tool_id, "input": arguments}}
    )


def executions(client: httpx.Client) -> Any:
    return client.get("/executions").json()


def test_the_list_has_every_version_with_wrapped_parameters(otc: httpx.Client) -> None:
    listing = otc.get("/tools").json()
    assert listing["$schema"] == "otc://1.0"
    tools = {tool["id"]: tool for tool in listing["tools"]}
    assert list(tools)[:2] == ["Calculator.Add@1.0.0", "Calculator.Add@1.1.0"]
    assert tools["Calculator.Add@1.0.0"]["input_schema"]["parameters"]["required"] == ["a", "b"]
    assert tools["Doorbell.Ring@0.1.0"]["output_schema"] is None
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool["name"]) for tool in tools.values())


@pytest.mark.parametrize("path", ["/tools/call", "/call"])
def test_a_call_answers_as_the_example_of_the_specification(otc: httpx.Client, path: str) -> None:
    request = {"call_id": "123e4567", "tool_id": "Calculator.Add@1.0.0", "input": {"a": 10, "b": 5}}
    answered = otc.post(path, json={"$schema": "otc://1.0", "request": request}).json()
    assert answered["result"].pop("duration") >= 0
    assert answered == {"$schema": "otc://1.0", "result": {"call_id": "123e4567", "success": True, "value": 15}}


def test_an_unknown_doorbell_is_the_tool_error_of_the_specification(otc: httpx.Client) -> None:
    answered = call(otc, "Doorbell.Ring@0.1.0", doorbell_id="doorbell1")
    assert answered.status_code == 200
    result = answered.json()["result"]
    assert result["success"] is False
    assert result["error"] == {
        "message": "Doorbell ID not found",
        "developer_message": "The doorbell with ID 'doorbell1' does not exist.",
        "can_retry": True,
        "additional_prompt_content": "ids: doorbell42,doorbell84",
        "retry_after_ms": 500,
    }


INVALID: list[tuple[str, dict[str, Any], set[str]]] = [
    ("Calculator.Add", {"a": 10, "b": "canary"}, {"b"}),
    ("Calculator.Add", {"a": True, "b": 1, "c": 1}, {"a", "input"}),
    ("Calculator.Add", {"a": 1, "b": 1, "terms": [1, "canary"]}, {"terms"}),
    ("Clock.Sleep", {"seconds": 61}, {"seconds"}),
    ("Clock.Sleep", {"seconds": 10**4000}, {"seconds"}),
]


@pytest.mark.parametrize(("tool_id", "arguments", "names"), INVALID)
def test_invalid_input_names_its_parameters_and_runs_nothing(
    otc: httpx.Client, tool_id: str, arguments: dict[str, Any], names: set[str]
) -> None:
    before = executions(otc)
    answered = call(otc, tool_id, **arguments)
    assert answered.status_code == 422
    assert set(answered.json()["parameter_errors"]) == names
    assert "canary" not in answered.text
    assert executions(otc) == before


MALFORMED = [
    b"",
    b"{",
    b"[]",
    b'{"request": []}',
    b'{"request": {"tool_id": 7}}',
    b'{"request": {"tool_id": "Text.Echo", "input": []}}',
    b'{"request": {"tool_id": "Text.Echo", "inputs": {"value": 1}}}',
    b'{"request": {"tool_id": "Text.Echo", "context": {"secrets": [{"id": "x"}]}}}',
    b'{"$schema": "otc://1.1", "request": {"tool_id": "Text.Echo", "input": {"value": 1}}}',
    b'{"$schema": null, "request": {"tool_id": "Text.Echo", "input": {"value": 1}}}',
    b'{"request": {"tool_id": "Text.Echo", "input": {"value": 1e999}}}',
    b'{"request": {"tool_id": "Text.Echo", "input": {"value": ' + b"9" * 5000 + b"}}}",
    b'{"request": {"tool_id": "Text.Echo", "input": {"value": "\\ud800"}}}',
    b'{"request": {"tool_id": "Text.Echo", "input": {"value": "\xff"}}}',
    b'{"request": {"tool_id": "Text.Echo", "input": {"value": ' + b"[" * 70 + b"]" * 70 + b"}}}",
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_malformed_request_is_refused_and_runs_nothing(otc: httpx.Client, body: bytes) -> None:
    before = executions(otc)
    answered = otc.post("/tools/call", content=body, headers={"Content-Type": "application/json"})
    assert answered.status_code == 400
    assert answered.json()["message"]
    assert answered.json()["$schema"] == "otc://1.0"
    assert executions(otc) == before


def test_a_body_that_never_ends_is_given_up(otc: httpx.Client) -> None:
    with socket.create_connection((otc.base_url.host, otc.base_url.port or 0), timeout=30) as connection:
        connection.sendall(b"POST /tools/call HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


REJECTED = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "t0k"}, {"Authorization": "Basic t0k"}]


def test_a_server_with_a_token_asks_for_it() -> None:
    with connected("gateway.demo.otc_server", "--token", "t0k") as client:
        for headers in REJECTED:
            for method, path in (("GET", "/tools"), ("POST", "/tools/call"), ("POST", "/call")):
                answered = client.request(method, path, headers=headers)
                assert (answered.status_code, answered.headers["www-authenticate"]) == (401, "Bearer")
                assert answered.json()["message"]
        assert client.get("/tools", headers={"Authorization": "Bearer t0k"}).status_code == 200
