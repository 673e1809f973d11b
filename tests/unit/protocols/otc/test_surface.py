"""Which dialect a request is in: one case for each thing that may tell."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.wire import Head
from gateway.protocols.otc import dialect as rest
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.surface import REST
from tests.wire import DIALECTS

ENVELOPED = {"request": {"tool_id": "A.B"}}
FLAT = {"tool_id": "A.B"}
VERSIONED = {"oxp-version": "1.0"}
LC_AGENTS = [{"user-agent": "universal-tool-sdk-py/0.0.2"}, {"user-agent": "langchain-tool-sdk-py/0.2.3"}]
OXP_AGENT = {"user-agent": "Oxp/Python 0.1.1"}


def schema(spelling: Any) -> dict[str, Any]:
    return {"$schema": spelling}


def head(method: str, path: str, headers: dict[str, str], prefix: str | None = None) -> Head:
    return Head(
        method=method,
        path=path,
        headers={name.encode(): value.encode() for name, value in headers.items()},
        dialect=prefix,
    )


CALLS: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
    ("rfc", "/call", {}, ENVELOPED),
    ("oxp", "/call", {}, FLAT),  # the flat pages print this path too
    ("otc", "/call", {}, ENVELOPED | schema("otc://1.0")),  # so do the pages of OTC
    ("oxp-env", "/call", {}, ENVELOPED | schema("urn:oxp:1.0")),
    ("rfc", "/call", {}, ENVELOPED | schema("https://example.com/unknown")),
    ("oxp-env", "/tools/call", {}, ENVELOPED | schema("urn:oxp:1.0")),
    ("oxp-env", "/tools/call", {}, ENVELOPED | schema("urn:oxp:2.0")),  # to be refused in its own shape
    ("rfc", "/tools/call", {}, ENVELOPED | schema(rest.RFC_SCHEMA)),
    ("otc", "/tools/call", {}, ENVELOPED | schema("otc://9.9")),
    ("otc", "/tools/call", {}, ENVELOPED | schema(rest.OTC_URL)),  # never renamed in OXP's pages: a guess
    ("otc", "/call", {}, ENVELOPED | schema(rest.OTC_URL_DRAFT)),
    ("otc", "/tools/call", {}, ENVELOPED | schema(7)),
    ("otc", "/tools/call", {}, ENVELOPED),
    ("oxp", "/tools/call", {}, FLAT),
    ("oxp", "/tools/call", {}, FLAT | schema("otc://1.0")),  # flat, with an unknown member
    ("oxp", "/tools/call", VERSIONED, FLAT),
    ("otc", "/tools/call", VERSIONED, ENVELOPED),  # the header makes no enveloped body flat
    ("lc", "/tools/call", LC_AGENTS[0], ENVELOPED | schema("otc://1.0")),
    ("lc", "/tools/call", LC_AGENTS[1], ENVELOPED | schema("urn:oxp:1.0")),
    ("otc", "/tools/call", {"user-agent": "my universal-tool-sdk-py/1"}, ENVELOPED),
    ("otc", "/tools/call", OXP_AGENT, ENVELOPED),  # calls of both are alike; only lists differ
]


@pytest.mark.parametrize(("name", "path", "headers", "body"), CALLS)
def test_a_call_on_a_bare_path_is_recognised(
    name: str, path: str, headers: dict[str, str], body: dict[str, Any]
) -> None:
    assert otc_surface.of_call(head("POST", path, headers), body).name == name


# The last is the ancestor of the RFC.
@pytest.mark.parametrize("body", [ENVELOPED | FLAT, {}, schema("otc://1.0"), {"tool": {"name": "B"}, "inputs": {}}])
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
def test_a_body_of_no_shape_or_of_two_is_refused(path: str, body: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as caught:
        otc_surface.of_call(head("POST", path, {}), body)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("prefix", DIALECTS)
def test_a_prefix_beats_every_hint(prefix: str) -> None:
    hints = VERSIONED | LC_AGENTS[0]
    assert otc_surface.of_call(head("POST", "/call", hints, prefix), FLAT | ENVELOPED).name == prefix
    assert otc_surface.of_list(head("GET", "/tools", hints, prefix), schema("urn:oxp:1.0")).name == prefix
    by_head = otc_surface.by_head(head("GET", "/tools", hints, prefix))
    assert by_head is otc_surface.DIALECTS[prefix]


LISTS: list[tuple[str, dict[str, str], Any]] = [
    ("oxp", VERSIONED, None),
    ("oxp", VERSIONED | LC_AGENTS[0], schema("otc://1.0")),  # the header comes first
    ("oxp", {"oxp-version": "7"}, None),  # to be refused in its own shape
    ("otc", {}, schema("otc://1.0")),
    ("otc", LC_AGENTS[0], schema("otc://1.0")),  # a body's word before the program's name
    ("otc", {}, schema("otc://9.9")),
    ("rfc", {}, schema(rest.RFC_SCHEMA)),
    ("oxp-env", {}, schema("urn:oxp:1.0")),
    ("otc", {}, schema(rest.OTC_URL)),
    ("oxp-env", OXP_AGENT, None),
    ("oxp-env", OXP_AGENT, {}),  # the Go client sends a body of two bytes
    ("lc", LC_AGENTS[0], None),
    ("lc", LC_AGENTS[1], None),
    ("otc", {"user-agent": "curl/8.5"}, None),
    ("otc", {}, []),
    ("otc", {}, schema(None)),
]


@pytest.mark.parametrize(("name", "headers", "body"), LISTS)
def test_a_list_on_the_bare_path_is_recognised(name: str, headers: dict[str, str], body: Any) -> None:
    assert otc_surface.of_list(head("GET", "/tools", headers), body).name == name


HEADS: list[tuple[str | None, str, dict[str, str]]] = [
    (None, "POST", {}),
    (None, "POST", OXP_AGENT),
    ("oxp", "POST", VERSIONED),
    ("lc", "POST", LC_AGENTS[1]),
    ("lc", "POST", VERSIONED | LC_AGENTS[0]),  # as the call itself would be taken
    ("oxp", "GET", VERSIONED | LC_AGENTS[0]),
    ("oxp-env", "GET", OXP_AGENT),
    (None, "GET", {"user-agent": "curl/8.5"}),
]


@pytest.mark.parametrize(("name", "method", "headers"), HEADS)
def test_a_head_alone_names_the_dialect_only_when_it_is_certain(
    name: str | None, method: str, headers: dict[str, str]
) -> None:
    dialect = otc_surface.by_head(head(method, "/tools/call", headers))
    assert (None if dialect is None else dialect.name) == name


@pytest.mark.parametrize(("sent", "said"), [("1.0", b"1.0"), ("1.0.0", b"1.0.0"), ("1", b"1"), ("7", b"1.0")])
def test_an_early_refusal_names_the_version_as_the_caller_does(sent: str, said: bytes) -> None:
    error = GatewayError(ErrorCode.UNAUTHENTICATED, "Who?")
    for prefix in (None, "oxp"):
        reply = REST.refuse(error, head("POST", "/call", {"oxp-version": sent}, prefix))
        assert (reply.header(b"oxp-version"), reply.body) == (said, b'{"message":"Who?","code":"unauthenticated"}')
    assert REST.refuse(error, head("POST", "/call", {}, "oxp")).header(b"oxp-version") == b"1.0"
    assert REST.refuse(error, head("POST", "/call", {"oxp-version": sent}, "otc")).header(b"oxp-version") is None


def test_before_the_dialect_is_known_a_refusal_is_a_message_valid_in_all() -> None:
    reply = REST.refuse(GatewayError(ErrorCode.UNAUTHENTICATED, "Who?"), Head(method="POST", path="/call", headers={}))
    assert (reply.status, reply.body) == (401, b'{"message":"Who?","code":"unauthenticated"}')
