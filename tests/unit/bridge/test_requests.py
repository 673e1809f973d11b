"""What callers of the bridge send, and why some of it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.bridge.requests import BridgeRefusal, check_caller, check_modern, read_message
from gateway.bridge.run import LOCAL_NAMES, is_loopback
from gateway.protocols.mcp.wire import CAPABILITIES_MEMBER, MODERN, VERSION_MEMBER

LOCAL = LOCAL_NAMES
JSON = {b"content-type": b"application/json"}

CALLERS = [
    ({b"host": b"127.0.0.1:9110"}, LOCAL, True),
    ({b"host": b"localhost"}, LOCAL, True),
    ({b"host": b"[::1]:9110"}, LOCAL, True),
    ({b"host": b"LOCALHOST:9110"}, LOCAL, True),
    ({b"host": b"evil.example"}, LOCAL, False),  # a name that was made to lead here
    ({b"host": b"localhost.evil.example"}, LOCAL, False),
    ({b"host": b"127.0.0.1.evil.example:9110"}, LOCAL, False),
    ({}, LOCAL, False),
    ({b"host": b"localhost", b"origin": b"http://localhost:3000"}, LOCAL, True),
    ({b"host": b"localhost", b"origin": b"https://evil.example"}, LOCAL, False),
    ({b"host": b"localhost", b"origin": b"null"}, LOCAL, False),
    ({b"host": b"tools.example:9110"}, None, True),
    ({b"host": b"tools.example:9110", b"origin": b"http://tools.example:9110"}, None, True),
    ({b"host": b"tools.example:9110", b"origin": b"http://evil.example"}, None, False),
    ({b"host": b"tools.example:9110", b"origin": b"null"}, None, False),
]


@pytest.mark.parametrize(("headers", "hosts", "is_let_in"), CALLERS)
def test_pages_of_other_sites_are_refused_and_names_that_were_made_to_lead_here(
    headers: dict[bytes, bytes], hosts: frozenset[str] | None, is_let_in: bool
) -> None:
    if is_let_in:
        return check_caller(headers, hosts)
    with pytest.raises(BridgeRefusal) as refused:
        check_caller(headers, hosts)
    assert refused.value.status == 403
    return None


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("tools", False)],
)
def test_only_loopback_is_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


BODIES: list[tuple[bytes, int]] = [
    (b"", -32700),
    (b"{", -32700),
    (b"\xff", -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b"3", -32600),
    (b"{}", -32600),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 2}', -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
]


@pytest.mark.parametrize(("body", "code"), BODIES)
def test_a_body_that_is_not_one_message_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(BridgeRefusal) as refused:
        read_message(JSON, body)
    assert (refused.value.status, refused.value.code) == (400, code)


@pytest.mark.parametrize("media", [b"", b"text/plain", b"application/jsonx"])
def test_a_body_of_another_type_is_refused(media: bytes) -> None:
    with pytest.raises(BridgeRefusal) as refused:
        read_message({b"content-type": media}, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    assert refused.value.status == 415


@pytest.mark.parametrize("id_", [0, -1, 2**70, "", "x"])
def test_ids_are_integers_and_texts(id_: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": id_, "method": "ping"}).encode()
    assert read_message({b"content-type": b"application/json; charset=utf-8"}, body).id == id_


def modern(method: str = "tools/call", **headers: str) -> tuple[dict[bytes, bytes], Any]:
    """The headers of a good request, some of them others, and the request."""
    named = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": "echo"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    meta = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: {}}
    params = {"name": "echo", "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    encoded = {name.encode(): value.encode() for name, value in named.items() if value}
    return encoded, read_message(JSON, body)


@pytest.mark.parametrize("headers", [{}, {"mcp_name": "=?base64?ZWNobw==?="}, {"mcp_name": "  echo "}])
def test_a_modern_request_whose_headers_say_what_it_says_is_good(headers: dict[str, str]) -> None:
    given, message = modern(**headers)
    check_modern(given, tuple(given.items()), message)


MISMATCHES = [
    {"mcp_method": ""},
    {"mcp_method": "TOOLS/CALL"},
    {"mcp_name": ""},
    {"mcp_name": "other"},
    {"mcp_protocol_version": ""},
    {"mcp_protocol_version": "2027-01-01"},
]


@pytest.mark.parametrize("headers", MISMATCHES)
def test_a_header_that_says_something_else_is_refused(headers: dict[str, str]) -> None:
    given, message = modern(**headers)
    with pytest.raises(BridgeRefusal) as refused:
        check_modern(given, tuple(given.items()), message)
    assert (refused.value.status, refused.value.code) == (400, -32020)


def test_a_routing_header_that_comes_twice_is_refused() -> None:
    given, message = modern()
    with pytest.raises(BridgeRefusal) as refused:
        check_modern(given, (*given.items(), (b"mcp-name", b"echo")), message)
    assert refused.value.code == -32020
