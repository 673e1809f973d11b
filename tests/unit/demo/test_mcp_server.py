from __future__ import annotations

import json
import struct
from base64 import b64decode
from typing import Any

import httpx
import pytest

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
BLUE = {"colour": "3366cc"}


def legacy(client: httpx.Client, method: str, id_: Any = 1, **params: Any) -> httpx.Response:
    return client.post("/mcp", json={"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


def modern(client: httpx.Client, method: str, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
    told = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": params.get("name", "")}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    return client.post("/mcp", json=message, headers=told | (headers or {}))


def code(answered: httpx.Response) -> tuple[int, int]:
    return answered.status_code, answered.json()["error"]["code"]


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_a_legacy_caller_begins_with_the_version_it_asks_for(mcp: httpx.Client, version: str) -> None:
    begun = legacy(mcp, "initialize", protocolVersion=version).json()["result"]
    assert (begun["protocolVersion"], begun["capabilities"]) == (version, {"tools": {}})


def test_a_version_it_does_not_know_gets_its_newest(mcp: httpx.Client) -> None:
    assert legacy(mcp, "initialize", protocolVersion="2099-01-01").json()["result"]["protocolVersion"] == "2025-11-25"


def test_both_eras_list_the_same_tools(mcp: httpx.Client) -> None:
    found, listed = modern(mcp, "server/discover").json()["result"], modern(mcp, "tools/list").json()["result"]
    assert found["supportedVersions"] == [MODERN]
    assert listed["tools"] == legacy(mcp, "tools/list").json()["result"]["tools"]
    assert [tool["name"] for tool in listed["tools"]] == ["palette", "swatch", "render"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed["tools"])


def test_an_object_is_structured_content_and_its_text(mcp: httpx.Client) -> None:
    result = modern(mcp, "tools/call", name="palette", arguments=BLUE).json()["result"]
    assert result["structuredContent"]["shades"]["dark"] == "2952a3"
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_a_swatch_is_a_picture_of_one_colour(mcp: httpx.Client) -> None:
    text, image = legacy(mcp, "tools/call", name="swatch", arguments=BLUE).json()["result"]["content"]
    assert text["text"] == "A square of 3366cc."
    data = b64decode(image["data"])
    assert (data[:8], data[12:16]) == (b"\x89PNG\r\n\x1a\n", b"IHDR")
    assert struct.unpack(">II", data[16:24]) == (16, 16)


def test_wrong_input_is_a_text_for_the_model(mcp: httpx.Client) -> None:
    result = legacy(mcp, "tools/call", name="palette", arguments={"colour": "blue"}).json()["result"]
    assert result["isError"] is True
    assert "colour" in result["content"][0]["text"]


def test_who_gives_a_token_hears_how_far_a_film_is(mcp: httpx.Client) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    meta = {**META, "progressToken": "p"}
    answered = modern(mcp, "tools/call", headers, name="render", arguments={"seconds": 1}, _meta=meta)
    assert answered.headers["content-type"].startswith("text/event-stream")
    progress, response = (json.loads(line[6:]) for line in answered.text.splitlines() if line.startswith("data: "))
    assert progress["params"] == {"progressToken": "p", "progress": 0, "total": 1}
    assert response["result"]["structuredContent"] == {"frames": 25}


REFUSED = [
    ({"mcp-method": "tools/call"}, META, (400, -32020)),
    ({"mcp-protocol-version": "2025-06-18"}, META, (400, -32020)),
    ({"mcp-protocol-version": "2099-01-01"}, {**META, f"{PREFIX}protocolVersion": "2099-01-01"}, (400, -32022)),
    ({}, {f"{PREFIX}protocolVersion": MODERN}, (400, -32602)),
]


@pytest.mark.parametrize(("headers", "meta", "expected"), REFUSED)
def test_a_modern_request_that_contradicts_itself_is_refused(
    mcp: httpx.Client, headers: dict[str, str], meta: Any, expected: tuple[int, int]
) -> None:
    assert code(modern(mcp, "tools/list", headers, _meta=meta)) == expected


def test_unknown_methods_and_tools_are_errors_in_the_way_of_the_era(mcp: httpx.Client) -> None:
    assert code(modern(mcp, "ping")) == (404, -32601)
    assert code(legacy(mcp, "prompts/list")) == (200, -32601)
    assert code(legacy(mcp, "tools/call", name="nothing")) == (200, -32602)
    assert legacy(mcp, "ping").json()["result"] == {}


@pytest.mark.parametrize(
    "message",
    [[], 3, {"id": 1}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}],
)
def test_what_is_no_request_is_an_error(mcp: httpx.Client, message: Any) -> None:
    assert mcp.post("/mcp", json=message).json()["error"]["code"] == -32600


def test_a_notification_is_taken(mcp: httpx.Client) -> None:
    answered = mcp.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (answered.status_code, answered.content) == (202, b"")
