"""Tasks of MCP (extension io.modelcontextprotocol/tasks, 2026-07-28): kept calls whose callers ask how they stand.

The id of a task is that of its call. A caller gets a task only if the request says that it takes tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gateway.core.encoders import KeptCall
from gateway.core.errors import CODE, ErrorCode, FailureCode, GatewayError
from gateway.core.model import Json, JsonObject, ToolFailure, ToolResult
from gateway.core.surfaces import FollowUp, Handover, OpenedCancel, OpenedConsent, StatusRequest
from gateway.core.wire import Headers, WireReply
from gateway.protocols.mcp.callers.answers import READABLE, McpEncoder, RpcError
from gateway.protocols.mcp.callers.consent import opens_urls
from gateway.protocols.mcp.wire import CAPABILITIES_MEMBER, MISSING_CAPABILITY, MODERN, PARAMS, TASKS

MAX_ID = 256  # characters
POLL_MS, MAX_POLL_MS = 1000, 5000
SLOWER = 10  # a task is asked for again after a tenth of its age, within these limits
RESULT_ENCODER = McpEncoder(wire_version=MODERN)  # encodes what a call would have been answered without a task
AUTHORIZE = "The user has to authorize this call first."
AGREED = "The user has been asked to authorize this call."
REFUSALS = {str(code): code for code in ErrorCode if code not in READABLE}
DECISIONS = {"accept": True, "decline": False, "cancel": False}
NONE = Raw(b"null")


class _RpcParts(Struct):
    """A response of JSON-RPC in its parts."""

    result: Raw = NONE
    error: Raw = NONE


_decode_answer = msgspec.json.Decoder(_RpcParts).decode


class TaskEncoder(Struct, frozen=True, kw_only=True):
    """Encodes how a call stands that is a task; `encoders.StatusEncoder`."""

    encoder: McpEncoder  # of the request itself
    is_new: bool = False  # the task is the answer to its call
    opens_urls: bool = False  # the caller shows its user a URL to open
    call: KeptCall | None = None

    @property
    def name(self) -> str:
        return self.encoder.name

    @property
    def wire_version(self) -> str:
        return self.encoder.wire_version

    @property
    def revision(self) -> str:
        return self.encoder.revision

    def about(self, kept: KeptCall) -> TaskEncoder:
        return replace(self, call=kept)

    def encode_accepted(self, result: ToolResult, call_id: str) -> WireReply:
        return self._task("working")

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        failure = result.failure
        if failure is not None and failure.code == FailureCode.CANCELLED:
            return self._task("cancelled", statusMessage=failure.message)
        refusal = None if failure is None else _protocol_error(failure)
        reply = (
            RESULT_ENCODER.encode_result(result, call_id) if refusal is None else RESULT_ENCODER.encode_error(refusal)
        )
        answer, headers = _decode_answer(reply.body), tuple(header for header in reply.headers if header[0] == CODE)
        if refusal is None:
            return self._task("completed", headers, result=answer.result)
        return self._task("failed", headers, statusMessage=refusal.message, error=answer.error)

    def encode_error(self, error: GatewayError) -> WireReply:
        """The challenge that a task waits for; without one, why nothing is said of a task."""
        challenges = () if error.missing is None else error.missing.get("authorization", ())
        if self.call is None or not challenges:
            if error.code is ErrorCode.NOT_FOUND:
                error = RpcError(PARAMS, "There is no such task of yours.")
            return self.encoder.encode_error(error)
        (challenge,) = challenges
        if self.call.consented:
            return self._task("working", statusMessage=AGREED)
        if not self.opens_urls:
            return self._task("working", statusMessage=f"{AUTHORIZE} It can be done at {challenge['url']}")
        asking = {"mode": "url", "message": AUTHORIZE, "url": challenge["url"]}
        requests = {key_of(challenge): {"method": "elicitation/create", "params": asking}}
        return self._task("input_required", inputRequests=requests)

    def _task(self, status: str, headers: Headers = (), **members: Json) -> WireReply:
        call = self.call
        assert call is not None  # as `about` sets it
        task: JsonObject = {
            "resultType": "task" if self.is_new else "complete",
            "taskId": call.id,
            "status": status,
            "createdAt": _time(call.begun_s),
            "lastUpdatedAt": _time(call.changed_s),
            "ttlMs": round((call.kept_until_s - call.begun_s) * 1000),
            "pollIntervalMs": min(MAX_POLL_MS, max(POLL_MS, round(call.age_s * 1000 / SLOWER))),
        }
        return self.encoder.respond(task | members, headers)


def takes_tasks(meta: Json) -> bool:
    """Whether the caller of a request takes a task in place of a result."""
    capabilities = meta.get(CAPABILITIES_MEMBER) if isinstance(meta, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)


def handover(encoder: McpEncoder, after_s: float) -> Handover:
    """When a call becomes a task."""
    return Handover(TaskEncoder(encoder=encoder, is_new=True), after_s)


def _get(encoder: McpEncoder, params: JsonObject) -> FollowUp:
    return StatusRequest(
        TaskEncoder(encoder=encoder, opens_urls=opens_urls(params["_meta"].get(CAPABILITIES_MEMBER))), _task_id(params)
    )


def _cancel(encoder: McpEncoder, params: JsonObject) -> FollowUp:
    return OpenedCancel(TaskEncoder(encoder=encoder), _task_id(params), encoder.respond({}))


def _update(encoder: McpEncoder, params: JsonObject) -> FollowUp:
    task_id, responses = _task_id(params), params.get("inputResponses")
    if not isinstance(responses, dict):
        raise RpcError(PARAMS, "inputResponses must be an object.")
    decision = partial(_decision, responses)
    return OpenedConsent(TaskEncoder(encoder=encoder), task_id, decision, encoder.respond({}))


METHODS: Mapping[str, Callable[[McpEncoder, JsonObject], FollowUp]] = {
    "tasks/get": _get,
    "tasks/update": _update,
    "tasks/cancel": _cancel,
}


def _task_id(params: JsonObject) -> str:
    """The id in a request about a task, whose caller has to take tasks. Raises RpcError."""
    if not takes_tasks(params["_meta"]):
        data: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise RpcError(MISSING_CAPABILITY, "Missing required client capability", data=data)
    id_ = params.get("taskId")
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID:
        raise RpcError(PARAMS, f"taskId must be a string of 1 to {MAX_ID} characters.")
    return id_


def key_of(challenge: JsonObject) -> str:
    """Names a challenge among all that a task may ever wait for: a later one may have the same id, and another URL."""
    digest = blake2b(str(challenge.get("url")).encode(), digest_size=8).hexdigest()
    return f"{challenge.get('id')}.{digest}"


def _decision(responses: JsonObject, challenge: JsonObject) -> bool | None:
    """What the user decides of a challenge; None if nothing is said of it that can be understood."""
    response = responses.get(key_of(challenge))
    action = response.get("action") if isinstance(response, dict) else None
    return DECISIONS.get(action) if isinstance(action, str) else None


def _protocol_error(failure: ToolFailure) -> GatewayError | None:
    """The refusal that a failure was, if callers get it as an error of JSON-RPC and not as a result."""
    code = REFUSALS.get(failure.code) if failure.outcome == "refused" else None
    return None if code is None else GatewayError(code, failure.message)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
