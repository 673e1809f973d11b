"""Why a call failed or was refused, and whether anything was run for it, for operators: in logs and spans."""

from __future__ import annotations

from gateway.core.errors import ErrorCode, FailureCode
from gateway.logs.output import printable
from gateway.pipeline.request import Request

UNAVAILABLE = (ErrorCode.BACKEND_UNAVAILABLE, ErrorCode.AUTHORIZATION_UNAVAILABLE)
MAX_DETAIL = 256  # characters
Trouble = dict[str, str | int | bool]


def trouble_of(request: Request) -> Trouble:
    """What is known of it, by names of the log; nothing for most. No member quotes an argument, a result or a secret.

    `tool_status` and `tool_code` are the status of the tool server's answer and the code in it. `code` is that of the
    failure, where it says more than the outcome. `replayed`: the outcome of an earlier or running call was the answer.
    """
    trouble: Trouble = {}
    result, refusal = request.failed_result, request.refusal
    if result is not None and result.failure is not None:
        trouble = {"tool_status": result.status, "tool_code": result.tool_code}
        if result.failure.public_code not in (FailureCode.TOOL_ERROR, result.failure.outcome):
            trouble["code"] = result.failure.public_code
    elif refusal is not None:
        trouble = {"tool_status": refusal.status, "tool_code": refusal.tool_code}
        if refusal.code in UNAVAILABLE and refusal.detail:
            trouble["detail"] = printable(refusal.detail[:MAX_DETAIL])
        if request.tool is not None and (missing := request.tool.route.scopes - request.caller.scopes):
            trouble["missing_scopes"] = " ".join(sorted(missing))
    is_answered = result is not None or request.outcome in ("ok", "accepted")
    if request.joined and is_answered and request.operation == "call":
        trouble["replayed"] = True
    return {name: value for name, value in trouble.items() if value}
