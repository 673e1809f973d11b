"""RCRT: requests as breadcrumbs, responses as events, by the examples in `tests/wire/rcrt` and one by one.

An example there is `{spec, call, settings?, sent, answered, result}`: a call, the breadcrumb it becomes, the event
that answers it, and the members of the `ToolResult` this means.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallKey, Invocation, ToolFailure, ToolResult
from gateway.protocols.rcrt import breadcrumbs as rcrt
from gateway.protocols.rcrt.breadcrumbs import Breadcrumb
from tests.unit.protocols.common.answers import DEFINITION
from tests.wire import ROOT, canonical

TTL = "2025-11-10T10:00:00Z"
EXAMPLES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "rcrt").glob("*.json"))}

each_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())


def invocation(call: dict[str, Any]) -> Invocation:
    more = {"tool": replace(DEFINITION, remote_id=call["tool"]), "config_ids": frozenset(call.get("config_ids", ()))}
    key = CallKey(call["call_id"].removeprefix("tg-"))
    return Invocation(key=key, **{**call, **more}, timeout_s=30.0)


def encoded(call: Invocation, settings: dict[str, Any]) -> Any:
    return rcrt.encode_request(
        call,
        schema=settings.get("schema", "tool_request"),
        workspace="workspace:tools",
        ttl=TTL,
        return_to_llm=settings.get("return_to_llm", True),
        config_id=rcrt.config_of(call),
    )


@each_example
def test_a_call_becomes_the_breadcrumb_of_the_example(example: dict[str, Any]) -> None:
    sent = encoded(invocation(example["call"]), example.get("settings", {}))
    assert canonical(sent) == canonical(example["sent"])


@each_example
def test_an_event_becomes_the_result_of_the_example(example: dict[str, Any]) -> None:
    crumb = rcrt.decode_event(example["answered"])
    assert crumb is not None
    assert rcrt.ids_answered(crumb) == (example["call"]["call_id"],)
    result = rcrt.decode_response(crumb.context, idempotent=example["call"].get("idempotent", False))
    assert result == msgspec.convert(example["result"], ToolResult)


@each_example
def test_our_own_request_is_known_again(example: dict[str, Any]) -> None:
    event = {"breadcrumb_id": "1d0b", "type": "breadcrumb.updated", **example["sent"]}
    crumb = rcrt.decode_event(event)
    assert crumb is not None
    assert rcrt.request_id_in(crumb) == example["call"]["call_id"]
    assert rcrt.ids_answered(crumb) == ()


@pytest.mark.parametrize("schema", ["tool_request", "agent_response"])
def test_a_request_is_named_after_its_run_and_not_after_its_call(schema: str) -> None:
    """Ours: the same call may run again, and at the server whatever has a name keeps it for ever."""
    run = "0123456789abcdef" * 2
    call = invocation({"call_id": "tg-4f2a", "tool": "t", "arguments": {}, "run": run})
    sent = encoded(call, {"schema": schema})
    assert "4f2a" not in json.dumps(sent)
    assert (
        rcrt.request_id_in(Breadcrumb(id="b7e0", schema=sent["schema_name"], tags=tuple(sent["tags"]))) == f"tg-{run}"
    )
    (item,) = sent["context"].get("tool_requests", [sent["context"]])
    assert item["requestId"] == rcrt.request_id(CallKey("4f2a"), run) == f"tg-{run}"


@pytest.mark.parametrize("config_id", ["another", 7, ["6f1c"], {"a": 1}, ""], ids=repr)
def test_a_configuration_that_is_not_allowed_is_refused(config_id: Any) -> None:
    """Ours: it decides whose keys a tool uses, and tools read it from their input."""
    call = invocation({"call_id": "tg-1", "tool": "t", "arguments": {"config_id": config_id}, "config_ids": ["6f1c"]})
    with pytest.raises(GatewayError) as caught:
        rcrt.config_of(call)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert caught.value.parameters == {"config_id": "This configuration may not be used."}


@pytest.mark.parametrize(("tool", "refused"), [("workflow", True), ("else", False)])
def test_a_configuration_in_a_step_of_a_workflow_counts_too(tool: str, refused: bool) -> None:
    """Ours: the step becomes a request of its own, with that input."""
    steps = [{"id": "a", "input": {}}, 7, {"input": 7}, {"id": "b", "input": {"config_id": "another"}}]
    call = invocation({"call_id": "tg-1", "tool": tool, "arguments": {"steps": steps}, "config_ids": ["6f1c"]})
    if not refused:
        assert rcrt.config_of(call) is None
        return
    with pytest.raises(GatewayError) as caught:
        rcrt.config_of(call)
    assert caught.value.parameters == {"steps": "This configuration may not be used."}
    assert rcrt.config_of(replace(call, config_ids=frozenset({"another"}))) is None


NOT_ABOUT_A_BREADCRUMB: list[Any] = [
    *({"type": kind, "breadcrumb_id": "b7e0"} for kind in ("ping", "breadcrumb.deleted", None)),
    *({"breadcrumb_id": crumb_id} for crumb_id in (7, "../../auth", "", "b7e0\n", None)),
    *([], "ping", None),
]


@pytest.mark.parametrize("document", NOT_ABOUT_A_BREADCRUMB, ids=repr)
def test_an_event_that_is_not_about_a_breadcrumb_is_passed_over(document: Any) -> None:
    assert rcrt.decode_event(document) is None


def test_a_partial_event_has_an_id_and_no_more() -> None:
    event = {"type": "breadcrumb.updated", "breadcrumb_id": "b7e0", "owner_id": "0000", "tags_added": 1}
    assert rcrt.decode_event(event) == Breadcrumb(id="b7e0")


def test_members_of_the_wrong_type_count_as_absent() -> None:
    event = {"breadcrumb_id": "b7e0", "schema_name": 7, "tags": [1, "a", None], "context": []}
    assert rcrt.decode_event(event) == Breadcrumb(id="b7e0", tags=("a",))
    assert rcrt.decode_event({"breadcrumb_id": "b7e0", "tags": "tool:response"}) == Breadcrumb(id="b7e0")


def test_an_entry_of_a_list_is_read_like_an_event() -> None:
    item = {"id": "b7e0", "schema_name": "tool.response.v1", "tags": [], "context": {"request_id": "tg-1"}}
    crumb = rcrt.decode_crumb(item | {"version": 3, "updated_at": "2025-11-10T09:00:07Z"})
    assert crumb is not None
    assert (crumb.stamp, rcrt.ids_answered(crumb)) == ((3, "2025-11-10T09:00:07Z"), ("tg-1",))
    assert rcrt.decode_crumb([]) is None


ANSWERED = [
    ({"request_id": "tg-1"}, ("request:tg-2",), ("tg-1",)),  # the context counts first
    ({"requestId": "tg-1"}, (), ("tg-1",)),
    ({"request_id": None, "requestId": "tg-1"}, ("error",), ("tg-1",)),
    ({}, ("request:tg-1", "request:tg-1"), ("tg-1", "tg-1")),
    ({"request_id": 7}, ("request:tg-1",), ("tg-1",)),
    (None, ("request:llm", "request:llm-7"), ("llm", "llm-7")),
    ({}, ("error",), ()),
]


@pytest.mark.parametrize(("context", "tags", "ids"), ANSWERED)
def test_a_response_says_what_it_answers(context: Any, tags: tuple[str, ...], ids: tuple[str, ...]) -> None:
    assert rcrt.ids_answered(Breadcrumb(id="b7e0", schema="tool.response.v1", tags=tags, context=context)) == ids


NO_DISK = ToolResult(failure=ToolFailure(message="No disk"))
NULLS: list[tuple[Any, ToolResult]] = [
    ({"status": "success", "output": None, "result": 7}, ToolResult(value=7)),
    ({"status": None, "error": None, "output": 7}, ToolResult(value=7)),
    ({"status": None, "error": "No disk"}, NO_DISK),
    ({"status": "error", "error": None, "output": {"error": "No disk"}}, NO_DISK),
    ({"status": "error", "error": "", "result": {"error": "No disk"}}, NO_DISK),
]


@pytest.mark.parametrize(("context", "result"), NULLS)
def test_a_member_of_a_response_that_is_null_counts_as_left_out(context: Any, result: ToolResult) -> None:
    assert rcrt.decode_response(context, idempotent=False) == result


@pytest.mark.parametrize("schema", [None, "tool.error.v1", "tool.request.v1"])
def test_other_breadcrumbs_answer_nothing(schema: str | None) -> None:
    crumb = Breadcrumb(id="b7e0", schema=schema, tags=("request:tg-1",), context={"request_id": "tg-1"})
    assert rcrt.ids_answered(crumb) == ()


def test_somebody_elses_request_is_none_of_ours() -> None:
    assert rcrt.request_id_in(Breadcrumb(id="b7e0", schema="tool.request.v1", tags=("tool:request",))) is None
    assert rcrt.request_id_in(Breadcrumb(id="b7e0", schema="note.v1", tags=("gateway:tg-1",))) is None


@pytest.mark.parametrize("time", [-1, True, "12", float("inf"), None], ids=repr)
def test_a_time_that_is_none_is_left_out(time: Any) -> None:
    assert rcrt.decode_response({"status": "success", "execution_time_ms": time}, idempotent=False) == ToolResult()


def test_a_long_error_is_cut_and_only_its_first_line_is_passed_on() -> None:
    result = rcrt.decode_response({"error": "x" * 5000 + "\n/srv/tools/secret.ts:1"}, idempotent=True)
    assert result.failure is not None
    assert result.failure.message == "x" * 500
    assert not result.failure.can_retry


@pytest.mark.parametrize("error", ["", " \n ", 7, {"code": 1}, "Error: ", "Tool Error: \nStack: at x"], ids=repr)
def test_an_error_without_words_says_so(error: Any) -> None:
    result = rcrt.decode_response({"status": "error", "error": error}, idempotent=False)
    assert result.failure is not None
    assert result.failure.message == "The tool failed and did not say why."


def test_a_false_success_without_an_error_is_a_value() -> None:
    """Ours: only what stock tools write is taken for a failure."""
    output = {"success": False, "error": {"code": 7}}
    assert rcrt.decode_response({"status": "success", "output": output}, idempotent=False).value == output
