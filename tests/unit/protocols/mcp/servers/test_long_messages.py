"""Long texts of tool servers: however long one is, no more of it is looked at than a sentence or a few."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.errors import GatewayError
from gateway.core.model import Invocation
from gateway.net.client import Reply
from gateway.protocols.common import replies
from gateway.protocols.common.replies import BrokenReplyError
from gateway.protocols.mcp.servers import responses as mcp_responses
from gateway.protocols.mcp.servers import results as mcp_results
from gateway.protocols.mcp.servers.requests import NegotiatedSession
from gateway.protocols.mcp.servers.results import RpcFailure
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.upstream.consent_links import MAX_URL, is_https_or_loopback
from tests.protocols.mcp.server_double import INVOCATION

JSON = ((b"content-type", b"application/json"),)
SHORT, LONG = 8_000, 500_000  # characters; both are longer than what is looked at
WORDS = ["tool ", "no ", "Tool x not", "session initialize ", "argument17 ", "\n", "Route POST:/", "Cannot POST /x "]


def taking(count: int) -> Invocation:
    """A call of a tool with so many arguments."""
    properties: dict[str, Any] = {f"argument{number}x": {} for number in range(count)}
    return replace(INVOCATION, tool=replace(INVOCATION.tool, input_schema={"properties": properties}))


def answer_error(text: str, invocation: Invocation) -> None:
    for code in (-32602, -32000):
        failure = RpcFailure(code, text, None)
        mcp_results.shows_change(failure)
        with suppress(GatewayError):
            mcp_results.failed_call(failure, invocation)


def find_loss(text: str, _: Invocation) -> None:
    error = {"code": -32000, "message": text}
    for status in (200, 400):
        mcp_responses.denial_in(
            NegotiatedSession("2025-11-25", b"s"), Reply(status, JSON, json.dumps({"error": error}).encode())
        )


def find_path(text: str, _: Invocation) -> None:
    replies.is_unknown_path(Reply(404, JSON, json.dumps({"message": text}).encode()))


def read_run(text: str, invocation: Invocation) -> None:
    for error in (f"Tool {text}", f"Error: {text}", f"Tool Error: {text}"):
        rcrt._failure(error, invocation.idempotent)


def fail(text: str, invocation: Invocation) -> None:
    result = {"isError": True, "content": [{"type": "text", "text": text}]}
    with suppress(GatewayError, BrokenReplyError):
        ended = mcp_results.tool_result(result, invocation, json_text=False, trust_meta=False)
        assert ended.failure is not None
        mcp_results.UNKNOWN_TOOL.match(ended.failure.message)


def open_url(text: str, _: Invocation) -> None:
    is_https_or_loopback("https://a.example/" + text.strip().replace(" ", "/"))


READERS = [answer_error, find_loss, find_path, read_run, fail, open_url]


def seconds(read: Callable[[str, Invocation], None], text: str, invocation: Invocation) -> float:
    """The least processor time of a few runs."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        read(text, invocation)
        taken.append(time.thread_time() - began)
    return min(taken)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_long_text_costs_next_to_nothing_beside_its_own_decoding(read: Callable[[str, Invocation], None]) -> None:
    """Reading a text as JSON is what any answer costs: a few passes over it, at most."""
    for word in WORDS:
        text = word * (LONG // len(word))
        invocation = taking(900)
        passes = seconds(lambda text, _: json.loads(json.dumps(text)), text, invocation)
        short = seconds(read, text[:SHORT], invocation)
        assert seconds(read, text, invocation) < 10 * passes + 10 * short, word


def test_the_argument_that_an_error_names_is_found_without_a_search_for_each() -> None:
    text = "argument " * 400
    few, many = taking(1_000), taking(20_000)
    assert seconds(answer_error, text, many) < 60 * seconds(answer_error, text, few)
    assert seconds(answer_error, text, many) < 60 * seconds(answer_error, "argument", many)


NAMED = [
    ("n must be positive", "n"),
    ("Invalid arguments: 'from-date' is required", "from-date"),
    ("$filter: is not allowed", "$filter"),
    ("user.name: too short", "user.name"),
    ("input.n is missing", "n"),
    ("(größe) is no number.", "größe"),
    ("nothing of that kind", None),
    ("x" * 5000 + " n", None),  # too far behind
]


@pytest.mark.parametrize(("message", "named"), NAMED)
def test_an_error_names_an_argument_however_that_is_called(message: str, named: str | None) -> None:
    names = ("n", "from-date", "$filter", "user.name", "größe")
    tool = replace(INVOCATION.tool, input_schema={"properties": {name: {} for name in names}})
    with pytest.raises(GatewayError) as caught:
        mcp_results.failed_call(RpcFailure(-32602, message, None), replace(INVOCATION, tool=tool))
    assert list(caught.value.parameters or ()) == [] + ([named] if named else [])


def test_a_url_that_no_browser_takes_is_not_passed_on() -> None:
    url = "https://a.example/"
    assert is_https_or_loopback(url.ljust(MAX_URL, "x"))
    assert not is_https_or_loopback(url.ljust(MAX_URL + 1, "x"))
