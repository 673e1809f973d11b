"""Every example call of tests/wire through both roles of its dialect."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import GatewayError
from gateway.core.model import Invocation, ToolCall, ToolRef, ToolResult
from gateway.core.ports import ANONYMOUS
from gateway.core.surfaces import OpenedCall
from gateway.core.wire import WireReply
from gateway.protocols.common import fields, replies
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.surface import REST
from tests.unit.protocols.common.answers import DEFINITION
from tests.wire import DIALECTS, CallExample, call_examples, canonical

EXAMPLES = call_examples()
CALL_ID = "tg-made"  # what the server makes in the examples without a call_id
CALL_PATHS = dict.fromkeys(DIALECTS, "/tools/call") | {"rfc": "/call"}

each_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())


def parsed(reply: WireReply) -> tuple[int, dict[bytes, bytes], str]:
    return reply.status, dict(reply.headers), canonical(jsontext.decode(reply.body))


@each_example
def test_a_caller_is_recognised_and_understood(example: CallExample) -> None:
    opened = REST.open(example.head, example.body, ANONYMOUS)
    assert isinstance(opened, OpenedCall)
    assert opened.encoder.name == example.dialect
    assert canonical(opened.call.arguments) == canonical(example.call.arguments)
    assert opened.call == example.call


@each_example
def test_a_caller_gets_the_answer_in_its_own_dialect_and_version(example: CallExample) -> None:
    opened = REST.open(example.head, example.body, ANONYMOUS)
    assert isinstance(opened, OpenedCall)
    if isinstance(example.outcome, ToolResult):
        reply = opened.encoder.encode_result(example.outcome, example.call.call_id or CALL_ID)
    else:
        reply = opened.encoder.encode_error(example.outcome)
    assert parsed(reply) == parsed(example.answered)
    assert REST.encoders[opened.encoder.name, opened.encoder.wire_version] is opened.encoder  # when it is looked at


def as_run(call: ToolCall) -> tuple[Invocation, ToolCall]:
    """The call as a backend runs it, with an id and a version; and as the tool server should understand it."""
    tool = call.ref.tool.replace("_", ".", 1) if call.ref.by_name else call.ref.tool
    ref = ToolRef(tool=tool, version=call.ref.version or "1.0.0")
    understood = replace(call, ref=ref, call_id=call.call_id or CALL_ID)
    invocation = Invocation(
        call_id=understood.call_id or "",
        tool=replace(DEFINITION, remote_id=f"{ref.tool}@{ref.version}"),
        arguments=call.arguments,
        timeout_s=1.0,
        context=call.context,
        trace_id=call.trace_id,
    )
    return invocation, understood


@each_example
def test_a_tool_server_of_the_same_dialect_understands_our_call(example: CallExample) -> None:
    invocation, understood = as_run(example.call)
    request = otc_surface.DIALECTS[example.dialect].request_call(invocation)
    body = jsontext.decode(request.body)
    assert (request.method, request.path) == (b"POST", CALL_PATHS[example.dialect])
    assert otc_surface.DIALECTS[example.dialect].decode_call(body) == understood
    head = replace(example.head, path=request.path, headers=dict(request.headers), dialect=None)
    # Our calls carry no User-Agent of that family, and need none: a server of it speaks nothing else.
    assert otc_surface.of_call(head, body).name == {"lc": "otc"}.get(example.dialect, example.dialect)


@each_example
def test_the_answer_of_a_tool_server_means_the_result(example: CallExample) -> None:
    invocation, _ = as_run(example.call)
    if isinstance(example.outcome, ToolResult):
        result = replies.decode_reply(example.answered, invocation)
        assert result == example.outcome
        assert canonical(result.value) == canonical(example.outcome.value)
        return
    with pytest.raises(GatewayError) as caught:
        replies.decode_reply(example.answered, invocation)
    assert refusal(caught.value) == refusal(example.outcome)
    assert (example.outcome.developer_message or "") in (caught.value.detail or "")
    assert caught.value.developer_message is None


def refusal(error: GatewayError) -> tuple[Any, ...]:
    """What of a refusal crosses the wire: its status, not its code."""
    return fields.STATUSES[error.code], error.message, error.parameters, error.missing


def test_every_dialect_has_its_examples() -> None:
    names = {dialect: {name for name in EXAMPLES if name.startswith(f"{dialect}/")} for dialect in DIALECTS}
    assert all(len(found) >= 8 for found in names.values())
