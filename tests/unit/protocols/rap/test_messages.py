"""The callback protocol on the wire: invocations, messages and manifests, good ones and every kind of bad one."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from gateway.core import jsontext
from gateway.core.model import Decode, Invocation, ToolDefinition
from gateway.protocols.common.listing import Summary
from gateway.protocols.rap import messages as callback
from gateway.protocols.rap import toolset as callback_toolset
from gateway.protocols.rap.messages import FOREIGN, UNKNOWN, Callback, Refused, decode_callback
from tests.unit.protocols.common.answers import offered
from tests.wire import ROOT, canonical

ID, GROUP = "tg-01JD8Q2M", "grp-5f1e"
CALLBACK_URL = "http://127.0.0.1:7400/callbacks/Zk3v9QmT1xY0aWc8LhRb2g"
EXAMPLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "callback").glob("*.json"))
}


def having(member: str) -> pytest.MarkDecorator:
    """The examples of one kind, by what they have."""
    found = {name: example for name, example in EXAMPLES.items() if member in example}
    return pytest.mark.parametrize("example", found.values(), ids=found.keys())


def read(body: bytes, decode: Decode = "auto", patterns: tuple[str, ...] = ()) -> Callback:
    compiled = [re.compile(pattern) for pattern in patterns]
    return decode_callback(body, ID, GROUP, decode=decode, failure_patterns=compiled)


def message(kind: str, **members: Any) -> dict[str, Any]:
    """A message with members replaced, or with None left out."""
    body = {"type": kind, "group_id": GROUP, "id": ID, **members}
    return {key: value for key, value in body.items() if value is not None}


def posted(kind: str, **members: Any) -> Callback:
    return read(json.dumps(message(kind, **members)).encode())


def test_a_message_may_begin_with_one_byte_order_mark() -> None:
    mark, body = b"\xef\xbb\xbf", json.dumps(message("tool_result", text="x")).encode()
    assert isinstance(read(body), callback.ResultMessage)
    assert read(mark + body) == read(body)
    for none in (mark, mark + mark + body, mark[1:] + body, b" " + mark + body):
        assert isinstance(read(none), Refused)


@having("posted")
def test_a_message_means_what_the_example_says(example: dict[str, Any]) -> None:
    ((kind, fields),) = example["means"].items()
    found = read(
        json.dumps(example["posted"]).encode(),
        example.get("decode", "auto"),
        tuple(example.get("failure_patterns", ())),
    )
    assert isinstance(found, getattr(callback, kind))
    if isinstance(found, callback.ResultMessage):
        assert found == msgspec.convert(fields, callback.ResultMessage)
        assert canonical(found.result.value) == canonical(fields["result"].get("value"))
    else:
        assert {name: getattr(found, name) for name in fields} == fields


@having("sent")
def test_an_invocation_has_every_field_and_no_token(example: dict[str, Any]) -> None:
    named = {"key": example["invocation"]["call_id"].removeprefix("tg-")}
    invocation = msgspec.convert(example["invocation"] | named, Invocation)
    sent = jsontext.decode(callback.encode_invocation(invocation, CALLBACK_URL))
    assert canonical(sent) == canonical(example["sent"])


@having("listed")
def test_a_toolset_is_read_whole(example: dict[str, Any]) -> None:
    summary, tools = toolset(example["listed"])
    assert summary == Summary(note=example["endpoint"])
    assert tools == msgspec.convert(example["tools"], list[ToolDefinition])


def test_notices_and_choices_name_the_thread_and_the_call() -> None:
    cancel, close = callback.cancel_notice(ID, GROUP), callback.close_notice(GROUP)
    assert (cancel.method, cancel.path) == (b"POST", "/cancel_tool_call")
    assert json.loads(cancel.body) == {"thread_id": GROUP, "tool_call_id": ID}
    assert (close.method, close.path, json.loads(close.body)) == (b"POST", "/close_thread", {"thread_id": GROUP})
    assert json.loads(callback.encode_choice(ID, 1)) == {"id": ID, "selected": 1}


NOT_MESSAGES = [b"", b"tool_result", b"[]", b'"text"', b'{"type":"tool_result"', b'{"type":"\xff"}', b"NaN", b"[" * 100]


@pytest.mark.parametrize("body", NOT_MESSAGES)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    assert isinstance(read(body), Refused)


CHOICE: dict[str, Any] = {"prompt": "?", "choices": ["a", "b"], "default": 1, "response_url": "http://h/"}
VIOLATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("tool_result", {}, "Object has neither `text` nor `content`"),
    ("tool_result", {"content": []}, "Object has neither `text` nor `content`"),
    ("tool_result", {"text": {"units": 12}}, "Expected `str | null`, got `object` - at `$.text`"),
    ("tool_result", {"text": "x", "subscription": "yes"}, "Expected `bool | null`, got `str` - at `$.subscription`"),
    ("tool_result", {"content": [{"type": "canary"}]}, "Unknown type - at `$.content[0].type`"),
    ("tool_result", {"content": [{"type": "image"}]}, "Object missing required field `data` - at `$.content[0]`"),
    ("tool_result", {"text": "x", "group_id": None}, "Object missing required field `group_id`"),
    ("tool_result", {"text": "x", "id": None}, "Object missing required field `id`"),
    ("oauth", {}, "Object missing required field `auth_url`"),
    ("user_choice", CHOICE | {"choices": []}, "Expected `array` of length >= 1 - at `$.choices`"),
    ("user_choice", CHOICE | {"default": 2}, "`default` is not an index of `choices`"),
    ("user_choice", CHOICE | {"default": -1}, "Expected `int` >= 0 - at `$.default`"),
    ("user_choice", CHOICE | {"default": True}, "Expected `int`, got `bool` - at `$.default`"),
    ("user_choice", CHOICE | {"response_url": None}, "Object missing required field `response_url`"),
]


@pytest.mark.parametrize(("kind", "members", "reason"), VIOLATIONS, ids=lambda item: repr(item)[:50])
def test_a_message_that_breaks_its_schema_is_refused_and_not_quoted(
    kind: str, members: dict[str, Any], reason: str
) -> None:
    assert posted(kind, **members) == Refused(reason)


@pytest.mark.parametrize(("kind", "members"), [("subscription_event", {"tool_call_id": ID}), ("view_update", {})])
def test_a_flaw_in_a_message_that_ends_no_call_is_refused_too(kind: str, members: dict[str, Any]) -> None:
    assert isinstance(posted(kind, **members), Refused)


@pytest.mark.parametrize("null", ["id", "group_id"])
def test_null_is_no_id_of_another_call(null: str) -> None:
    body = message("tool_result", text="x") | {null: None}
    assert read(json.dumps(body).encode()) == Refused(f"Expected `str`, got `null` - at `$.{null}`")
    event = {"type": "subscription_event", "group_id": GROUP, "tool_call_id": None, "text": "x"}
    assert read(json.dumps(event).encode()) == Refused("Expected `str`, got `null` - at `$.tool_call_id`")


def test_a_message_without_a_type_is_refused() -> None:
    body = {"group_id": GROUP, "id": ID, "text": "x"}
    assert read(json.dumps(body).encode()) == Refused("it has no type")
    assert read(json.dumps(body | {"type": 7}).encode()) == Refused("it has no type")


@pytest.mark.parametrize("kind", ["progress", "error", "TOOL_RESULT", ""])
def test_an_unknown_type_leaves_the_call_as_it_is(kind: str) -> None:
    assert posted(kind, text="x") == UNKNOWN


ELSEWHERE: list[tuple[str, dict[str, Any]]] = [
    ("tool_result", {"text": "x", "id": "tg-other"}),
    ("tool_result", {"text": "x", "group_id": "grp-other"}),
    ("tool_result", {"id": "tg-other"}),  # its other flaws are none of our business
    ("oauth", {"auth_url": "https://x.example", "id": 7}),
    ("user_choice", CHOICE | {"group_id": "grp-other"}),
    ("subscription_event", {"text": "x", "tool_call_id": "tg-other"}),
    ("view_update", {"view_type": "x", "content": {}, "group_id": "grp-other"}),
]


@pytest.mark.parametrize(("kind", "members"), ELSEWHERE)
def test_a_message_about_another_call_or_thread_is_foreign(kind: str, members: dict[str, Any]) -> None:
    assert posted(kind, **members) == FOREIGN


def test_a_pattern_looks_at_the_beginning_of_a_long_text() -> None:
    text = "x" * callback.MAX_SEARCHED + "Command cancelled."
    body = json.dumps(message("tool_result", text=text)).encode()
    found = read(body, patterns=("x+Command cancelled",))
    assert isinstance(found, callback.ResultMessage)
    assert found.result.value == text


def toolset(manifest: Any) -> tuple[Summary, list[ToolDefinition]]:
    return offered(callback_toolset.read_toolset, manifest, max_schema_bytes=10_000)


TOOL: dict[str, Any] = {"name": "count", "description": "Counts.", "inputSchema": {"type": "object"}}
MANIFEST: dict[str, Any] = {"name": "stockroom", "endpoint": "http://127.0.0.1:7402/invoke", "tools": [TOOL]}
BAD_MANIFESTS: list[tuple[Any, str]] = [
    ([MANIFEST], "Expected `object`"),
    (MANIFEST | {"name": ""}, "Expected `str` of length >= 1 - at `$.name`"),
    (MANIFEST | {"name": "n" * 129}, "Expected `str` of length <= 128 - at `$.name`"),
    (MANIFEST | {"endpoint": None}, "Object missing required field `endpoint`"),
    (MANIFEST | {"tools": []}, "Expected `array` of length >= 1 - at `$.tools`"),
    (MANIFEST | {"tools": [TOOL, TOOL]}, "the toolset has two tools named 'count'"),
    (MANIFEST | {"tools": [TOOL | {"name": "n" * 129}]}, "Expected `str` of length <= 128 - at `$.tools[0].name`"),
    (MANIFEST | {"tools": [TOOL | {"description": ""}]}, "Expected `str` of length >= 1"),
    (MANIFEST | {"tools": [{"name": "b", "description": "B."}]}, "Object missing required field `inputSchema`"),
    (MANIFEST | {"tools": [TOOL | {"inputSchema": True}]}, "Expected `object`, got `bool`"),
    (MANIFEST | {"tools": [TOOL | {"annotations": []}]}, "Expected `object | null`, got `array`"),
    (MANIFEST | {"tools": [TOOL | {"inputSchema": {"type": "text"}}]}, "the inputSchema of 'count' is not a JSON Sch"),
    (MANIFEST | {"tools": [TOOL | {"inputSchema": {"$schema": 7}}]}, "the inputSchema of 'count' is not a JSON Schem"),
]


@pytest.mark.parametrize(("manifest", "reason"), BAD_MANIFESTS, ids=lambda item: repr(item)[-50:])
def test_one_flaw_in_a_manifest_is_one_too_many(manifest: Any, reason: str) -> None:
    summary, tools = toolset(manifest)
    assert (summary.note, tools) == ("", [])
    assert reason in summary.rejected[0].reason


def test_a_schema_is_judged_by_its_own_draft_and_one_of_an_unknown_draft_later() -> None:
    of_draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    unknown = {"$schema": "http://127.0.0.1:9/schema", "type": "text"}  # which must not be fetched
    for schema in (of_draft_4, unknown):
        assert toolset(MANIFEST | {"tools": [TOOL | {"inputSchema": schema}]})[1]
    of_today = {"minimum": 1, "exclusiveMinimum": True}
    assert not toolset(MANIFEST | {"tools": [TOOL | {"inputSchema": of_today}]})[1]


def test_a_name_too_long_for_a_tool_id_costs_only_that_tool() -> None:
    manifest = MANIFEST | {"name": "n" * 128, "tools": [TOOL, TOOL | {"name": "m" * 128}]}
    summary, tools = toolset(manifest)
    assert [tool.remote_id for tool in tools] == ["count"]
    assert [rejected.id for rejected in summary.rejected] == ["m" * 128]


def test_the_toolset_is_asked_for_where_it_must_be() -> None:
    request = callback_toolset.request_toolset()
    assert (request.method, request.path) == (b"GET", "/.well-known/rap-toolset")
    assert dict(request.headers)[b"accept"] == b"application/json"
