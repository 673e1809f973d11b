"""Calls of operations as HTTP requests, and their answers as results (OpenAPI 3.2, Operation and Responses Objects)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from gateway.core import jsontext
from gateway.core.jsontext import ALWAYS_HERE_BYTES
from gateway.core.model import Invocation, Json, ToolResult
from gateway.core.ports import LargeReply
from gateway.core.wire import Answer, WireRequest
from gateway.protocols.common.replies import MAX_DEPTH, BrokenReplyError
from gateway.protocols.openapi.document import answers, failures, requests
from gateway.protocols.openapi.document.plan import CallPlan, OperationTool
from gateway.protocols.openapi.document.selection import judged
from gateway.protocols.openapi.reading import read_value

JSON_TYPES = (b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8")


class OpenApiCodec:
    """Calls of the operations of one document. `origins` are those of the tool server (`https://api.example`).

    The tool of every invocation is an OperationTool.
    """

    call_paths: ClassVar[tuple[str, ...]] = ()
    here_bytes: ClassVar[int] = ALWAYS_HERE_BYTES // 4  # a selection takes 2 microseconds for each value
    tool_error_statuses: ClassVar[tuple[int, ...]] = (failures.NOT_SUPPORTED,)

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = tuple(origins)

    def request_call(self, invocation: Invocation) -> WireRequest:
        """Makes the request of a call. Raises INVALID_ARGUMENTS."""
        return requests.request_of(plan_of(invocation), invocation.arguments, invocation.call_id)

    def reading(self, reply: Answer, invocation: Invocation) -> LargeReply | None:
        """How a large answer is read before `decode_reply`; None for one that is not JSON, or not large enough."""
        plan = plan_of(invocation).answers
        if not (plan.select or plan.success) and len(reply.body) <= ALWAYS_HERE_BYTES:
            return None
        reply = answers.in_utf8(reply)
        if not 200 <= reply.status < 300 or (text := answers.json_of(reply, plan)) is None:
            return None
        select = judged(plan.success, plan.select) if plan.success else plan.select
        return LargeReply(text, select=select, read=read_value)

    def decode_reply(self, reply: Answer, invocation: Invocation, document: Json) -> ToolResult:
        """As `CallCodec.decode_reply`, for any status."""
        plan, status = plan_of(invocation), reply.status
        answer_plan = plan.answers
        if status == 200 and document is None and reply.header(b"content-type") in JSON_TYPES:
            # What nearly all are, without looking at anything that they might be otherwise.
            body, plain = (
                reply.body,
                not (answer_plan.select or answer_plan.headers or answer_plan.success) and plan.method != "HEAD",
            )
            if plain and 0 < len(body) <= ALWAYS_HERE_BYTES:
                try:
                    return ToolResult(value=jsontext.decode(body, MAX_DEPTH), value_bytes=len(body))
                except jsontext.JsonError:
                    pass  # perhaps it has a mark, or is empty
        _check_coding(reply)
        reply = answers.in_utf8(reply)
        if 200 <= status < 300:
            return answers.result_of(reply, plan.method, answer_plan, self._origins, document)
        return failures.result_of(reply, plan, invocation, answers.location_of(reply, answer_plan, self._origins))


def plan_of(invocation: Invocation) -> CallPlan:
    tool = invocation.tool
    assert isinstance(tool, OperationTool)  # as all that a document makes
    return tool.plan


def _check_coding(reply: Answer) -> None:
    """The transport has decoded what it can."""
    coding = reply.header(b"content-encoding")
    if coding is not None and coding.strip().lower() not in (b"", b"identity") and reply.status < 300 and reply.body:
        raise BrokenReplyError("it is in a content coding that was not asked for and is not known")
