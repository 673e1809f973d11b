"""RCRT breadcrumbs: the request we leave for a runner, and the response that may come back for it.

RCRT Universal Tool Invocation Standard 1.0 (12 November 2025), and the server and runner of that month, whose carrier
is `tool.request.v1` where the standard's letter says `agent.response.v1`.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FailureCode, GatewayError
from gateway.core.model import (
    SINGLE_CALL_GROUP,
    CallKey,
    Invocation,
    Json,
    JsonObject,
    ToolFailure,
    ToolResult,
    public_id,
)
from gateway.protocols.common.fields import NO_REASON, duration

RequestSchema = Literal["tool_request", "agent_response"]

TOOL_REQUEST = "tool.request.v1"
AGENT_RESPONSE = "agent.response.v1"
TOOL_RESPONSE = "tool.response.v1"
TOOL_CODE = "tool.code.v1"
TOOL_CATALOG = "tool.catalog.v1"
REQUEST_SCHEMAS: dict[RequestSchema, str] = {"tool_request": TOOL_REQUEST, "agent_response": AGENT_RESPONSE}

OWN_TAG = "gateway:"  # not `request:`, which belongs to responses and makes agents look for `return_to_llm`
ANSWER_TAG = "request:"
WORKFLOW = "workflow"  # what the stock tool is called whose steps are calls of other tools
REQUESTED_BY = "toolgate"  # must never be the id of an agent, or that agent takes our results for its own

MAX_DEPTH = jsontext.MAX_DEPTH + 8  # what a tool may return, in the wrappings of a breadcrumb
MAX_ERROR_TEXT = 500  # characters of a runner's error that are passed on
CRUMB_ID = re.compile(r"[0-9A-Za-z-]{1,64}")  # a UUID; it goes into paths, so nothing else is let through
BROKEN = ToolFailure(message="The tool server gave a broken answer.", code=FailureCode.BROKEN_ANSWER)
NOT_STORED = (
    "The connection to the tool server broke while the call was sent, and the server does not have the call; "
    "most likely it has not run."
)


class Breadcrumb(Struct, frozen=True, kw_only=True):
    """A breadcrumb as far as an event, a list or a record shows it. `context` is None unless it is an object."""

    id: str
    schema: str | None = None
    tags: tuple[str, ...] = ()
    context: JsonObject | None = None
    stamp: tuple[Json, Json] = (None, None)  # version and time of the last change


def request_id(key: CallKey, run: str) -> str:
    """The id of a run at the server: of its request, of the key that is stored under, and in the response.

    It is not the call id, under which the next run would find this one's key and response. A run without a name, from
    a record of an older version, has only its call id.
    """
    return public_id(CallKey(run) if run else key)


def encode_request(
    invocation: Invocation,
    *,
    schema: RequestSchema,
    workspace: str,
    ttl: str,
    return_to_llm: bool,
    config_id: str | None,
) -> JsonObject:
    """The breadcrumb that asks for a call; `ttl` is when it may go, an RFC 3339 instant.

    Its context names the id of the request, which the response repeats, and one tag more makes it findable.
    """
    own_id = request_id(invocation.key, invocation.run)
    item: JsonObject = {
        "tool": invocation.tool.remote_id,
        "input": invocation.arguments,  # `{}` too: a runner silently drops a request without it
        "requestId": own_id,
        "return_to_llm": return_to_llm,
    }
    if config_id is not None:
        item["config_id"] = config_id
    if schema == "tool_request":
        tags = ["tool:request", workspace]
        context = item | {"requestedBy": REQUESTED_BY}
    else:
        tags = ["agent:response"]
        context = {"message": f"calling {invocation.tool.remote_id}", "tool_requests": [item]}
    tags.append(OWN_TAG + own_id)
    if invocation.group and not invocation.group.startswith(SINGLE_CALL_GROUP):
        tags.append(f"session:{invocation.group}")
    return {
        "schema_name": REQUEST_SCHEMAS[schema],
        "title": f"{REQUESTED_BY}: {invocation.tool.remote_id}",
        "tags": tags,
        "ttl": ttl,
        "context": context,
    }


class _Picked(Struct):
    """As much of arguments that are still text as tells the configuration."""

    config_id: Json = None  # anything: it is compared, not trusted


def config_of(invocation: Invocation) -> str | None:
    """The tool configuration a caller picks with `config_id`, which decides whose API keys a tool uses.

    Raises INVALID_ARGUMENTS for one that is not allowed, because tools read it out of their input.
    """
    arguments = invocation.arguments
    if isinstance(arguments, Raw):
        if invocation.tool.remote_id == WORKFLOW:
            raise _invalid("steps", "There are too many values in the steps.")
        arguments = {"config_id": msgspec.json.decode(arguments, type=_Picked).config_id}
    steps = arguments.get("steps")
    if invocation.tool.remote_id == WORKFLOW and isinstance(steps, list):
        for step in steps:
            step_input = step.get("input") if isinstance(step, dict) else None
            if isinstance(step_input, dict):
                _check_config(step_input.get("config_id"), invocation, "steps")
    return _check_config(arguments.get("config_id"), invocation, "config_id")


def _check_config(picked: Json, invocation: Invocation, parameter: str) -> str | None:
    if picked is None:
        return None
    if not isinstance(picked, str) or picked not in invocation.config_ids:
        raise _invalid(parameter, "This configuration may not be used.")
    return picked


def _invalid(parameter: str, reason: str) -> GatewayError:
    return GatewayError(ErrorCode.INVALID_ARGUMENTS, "The arguments are not valid.", parameters={parameter: reason})


def decode_event(document: Json) -> Breadcrumb | None:
    """Reads an event of the stream; None for pings and whatever else is not about a breadcrumb.

    `breadcrumb.created` is documented and never sent, an older server left `type` out, and a newer one announces
    small changes without schema, tags and context.
    """
    if not isinstance(document, dict):
        return None
    if document.get("type", "breadcrumb.updated") not in ("breadcrumb.updated", "breadcrumb.created"):
        return None
    return _crumb(document, "breadcrumb_id")


def decode_crumb(document: Json) -> Breadcrumb | None:
    """Reads an entry of a list, or a record; None if it is not one."""
    return _crumb(document, "id") if isinstance(document, dict) else None


def _crumb(document: JsonObject, id_member: str) -> Breadcrumb | None:
    crumb_id, schema = document.get(id_member), document.get("schema_name")
    if not isinstance(crumb_id, str) or not CRUMB_ID.fullmatch(crumb_id):
        return None
    tags, context = document.get("tags"), document.get("context")
    return Breadcrumb(
        id=crumb_id,
        schema=schema if isinstance(schema, str) else None,
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        context=context if isinstance(context, dict) else None,
        stamp=(document.get("version"), document.get("updated_at")),
    )


def request_id_in(crumb: Breadcrumb) -> str | None:
    """The id of a request, if the breadcrumb is one of ours; None for all other breadcrumbs."""
    if crumb.schema not in (TOOL_REQUEST, AGENT_RESPONSE):
        return None
    return next((tag.removeprefix(OWN_TAG) for tag in crumb.tags if tag.startswith(OWN_TAG)), None)


def ids_answered(crumb: Breadcrumb) -> tuple[str, ...]:
    """What a response says it is for: ids of requests, or of their breadcrumbs; empty for all other breadcrumbs.

    The context counts first: a runner that does not know the tool leaves the `request:` tag off.
    """
    if crumb.schema != TOOL_RESPONSE:
        return ()
    answered_id = _member(crumb.context or {}, "request_id", "requestId")
    if isinstance(answered_id, str):
        return (answered_id,)
    return tuple(tag.removeprefix(ANSWER_TAG) for tag in crumb.tags if tag.startswith(ANSWER_TAG))


def _member(context: JsonObject, present: str, older: str) -> Json:
    """A member under its present name or its older one, whichever is not null."""
    value = context.get(present)
    return context.get(older) if value is None else value


def decode_response(context: JsonObject | None, *, idempotent: bool) -> ToolResult:
    """Reads how a call ended, in the present form and the older ones; None is a context that is no object.

    A member that is null counts as left out.
    """
    if context is None:
        return ToolResult(failure=BROKEN)
    output, error, status = _member(context, "output", "result"), context.get("error"), context.get("status")
    if status is None:
        status = "success" if error is None else "error"
    duration_ms = _duration(context)
    if status == "success":
        failure = _failure_inside(output)
        return ToolResult(value=None if failure else output, failure=failure, duration_ms=duration_ms)
    if status != "error":
        return ToolResult(failure=BROKEN)
    if not error and isinstance(output, dict):
        error = output.get("error")
    # A runner says 0 when it did not measure.
    return ToolResult(failure=_failure(error, idempotent), duration_ms=duration_ms or None)


def _duration(context: JsonObject) -> float | None:
    """The time of the process; failing that, the runner's own, which counts waiting for a place."""
    metadata = context.get("metadata")
    own = metadata.get("duration_ms") if isinstance(metadata, dict) else None
    durations = map(duration, (own, context.get("execution_time_ms"), context.get("executionTime")))
    return next((value for value in durations if value is not None), None)


def not_stored(*, idempotent: bool) -> ToolResult:
    """The end of a call whose request was sent and cannot be found. It may have been stored since, or taken away."""
    return ToolResult(failure=ToolFailure(message=NOT_STORED, can_retry=idempotent, outcome="unknown"))


def _failure_inside(output: Json) -> ToolFailure | None:
    """`success` says no more than that a process ended well: stock tools put their failures inside."""
    if not isinstance(output, dict) or output.get("success") is not False or not isinstance(output.get("error"), str):
        return None
    return ToolFailure(message=_first_line(output["error"]))


NOT_FOUND = re.compile(r"(Error: )?Tool (\S+ not found|not found: )")
# What a runner's error begins with after a run of uncertain end -> what it means for the caller.
UNCERTAIN = {
    "Error: Tool execution timed out": "The tool took too long and was stopped; it may have done part of its work.",
    "Error: Failed to parse tool output": "The tool ran, but its output could not be read.",
    "Error: Failed to create breadcrumb": "The tool ran, but its server did not take its result, which may be too "
    "large.",
}
MAX_SEARCHED = 4096  # characters of an error; all that may come, 8 MiB, would hold everybody up for a second
THROWN = re.compile(r"Tool Error: (.*?)(?:\nStack:|\Z)", re.DOTALL)


def _failure(error: Json, idempotent: bool) -> ToolFailure:
    """A runner's error. Only a run of uncertain end may be tried again, and only where that is allowed.

    What a tool threw is passed on without the stack, which holds paths of its server.
    """
    if not isinstance(error, str) or not error.strip():
        return ToolFailure(message=NO_REASON)
    if NOT_FOUND.match(error, 0, MAX_SEARCHED):
        return ToolFailure(message="The tool server no longer knows the tool; it has not run.")
    for beginning, message in UNCERTAIN.items():
        if error.startswith(beginning):
            return ToolFailure(message=message, can_retry=idempotent)
    thrown = THROWN.search(error, 0, MAX_SEARCHED)
    return ToolFailure(message=_first_line(thrown[1] if thrown else error.removeprefix("Error: ")))


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0].strip()
    return line[:MAX_ERROR_TEXT] or NO_REASON
