"""Builds answers: refusals and the status of kept calls, each in the dialect of its call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gateway.calls.outcomes import Run
from gateway.calls.status import CANCELLED, MISSING, UNREMEMBERED, CallView, ConsentPending, still_running
from gateway.catalogue.published import OutputCheck, PublishedTool
from gateway.core.encoders import Encoder, KeptCall, StatusEncoder
from gateway.core.errors import ErrorCode, FixedError, GatewayError
from gateway.core.model import Json, ToolResult
from gateway.core.wire import WireReply
from gateway.pipeline.challenges import ChallengeLinks
from gateway.pipeline.checks import BROKEN_VALUE, Checks, check_result
from gateway.pipeline.request import Request
from gateway.state.port import StateLimits

log = logging.getLogger("gateway.pipeline")

CALL_ID = b"toolgate-call-id"
LOCATION = b"location"
FAILS = OutputCheck.FAIL  # a global: reading a member off its class costs half a microsecond in Python 3.11
FAILED = "The gateway failed."
TOMBSTONE_TTL_S = StateLimits().tombstone_ttl_s


class ResponseBuilder:
    """Builds answers; also counts the runs of kept calls, by the outcomes that their callers get."""

    def __init__(
        self,
        challenges: ChallengeLinks,
        checks: Checks,
        *,
        encoders: Mapping[tuple[str, str], Encoder],  # by dialect and wire version
        path: str,  # of kept calls, before their ids
        published: Callable[[str], PublishedTool | None],  # finds a tool by its full id
        count: Callable[[str, str, str, float, str], None],  # backend, tool, outcome, seconds, account
        pending_ttl_s: float,  # as in `StateLimits`, and the next
        result_ttl_s: float,
    ) -> None:
        self._challenges = challenges
        self._checks = checks
        self._encoders = encoders
        self._path = path
        self._published = published
        self._count = count
        self._pending_ttl_s = pending_ttl_s
        self._result_ttl_s = result_ttl_s
        self._counting: set[asyncio.Future[None]] = set()  # runs whose values are checked in another process

    async def call_reply(self, view: CallView, request: Request, *, accepted: bool) -> WireReply:
        """Encodes the status of a kept call; `accepted`: the caller did not wait for its end.

        `request.extra` gets the headers that say where to find the call later.
        """
        if (origin := view.metadata.trace) and origin != request.trace.stored:
            request.trace.link(origin)
        encoder = request.encoder
        if encoder is None:  # a look is answered in the dialect of the call itself
            encoder = request.encoder = self._encoders[view.metadata.dialect, view.metadata.wire_version]
        encode = encoder.encode_accepted if accepted else encoder.encode_result
        status = view.status
        if type(status) is ToolResult:  # a `match` costs more than most of what is done here
            result, tool = status, request.tool
            if view.joined and (tool is None or tool.id != view.metadata.tool):  # the version that ran counts
                tool = self._published(view.metadata.tool)
            if tool is not None and tool.checks_output:
                result = check_result(result, tool) or await self._checks.result(result, tool, request.caller.principal)
            if result.failure is not None and MISSING in result.failure.extras:
                result = self._with_public_challenges(result, view.backend)
            if result.failure is None:
                request.outcome = "ok"
            else:
                request.outcome, request.failed_result = result.failure.outcome, result
            reply = encode(result, view.metadata.call_id)
        elif status is None:
            request.outcome = "accepted" if accepted else "timeout"
            running = still_running(keyed=view.is_keyed)
            request.failed_result = None if accepted else running
            reply = encode(running, view.metadata.call_id)
        elif isinstance(status, ConsentPending):
            reply = refusal(self._consent_refusal(view, status), request)
        else:
            assert isinstance(status, GatewayError)
            request.counts = view.joined  # else the run that was refused is counted, when it ended
            reply = self.run_refusal(status, view.backend, request)
        self._name_call(view, request)
        return reply

    def _name_call(self, view: CallView, request: Request) -> None:
        """Adds the headers that say which call it is, and where to find it later."""
        request.toolgate_call_id = view.id
        call_id = view.id.encode()
        if view.remembered:
            location = f"{self._challenges.public_url()}{self._path}".encode() + call_id
            request.extra = (*request.extra, (CALL_ID, call_id), (LOCATION, location))
        else:
            request.extra = (*request.extra, (CALL_ID, call_id))

    async def status_reply(self, view: CallView, request: Request, encoder: StatusEncoder) -> WireReply:
        """Encodes how a kept call stands, for a caller who does not wait for its end."""
        request.encoder = encoder.about(self._kept_call(view))
        return await self.call_reply(view, request, accepted=view.status is None)

    def _kept_call(self, view: CallView) -> KeptCall:
        begun_s, consent_state, status = view.metadata.begun_s, view.metadata.consent_state, view.status
        changed_s, kept_until_s = begun_s, begun_s + self._pending_ttl_s
        if isinstance(status, ConsentPending) and consent_state is not None:
            changed_s = max(begun_s, consent_state[0])
        elif isinstance(status, ToolResult) and status is not UNREMEMBERED:
            changed_s = max(begun_s, view.ended_s)
            is_tombstone = view.is_keyed and status.failure is not None and status.failure.can_retry
            kept_until_s = changed_s + (TOMBSTONE_TTL_S if is_tombstone else self._result_ttl_s)
        return KeptCall(
            id=view.id,
            begun_s=begun_s,
            changed_s=changed_s,
            kept_until_s=kept_until_s,
            age_s=max(0.0, time.time() - begun_s),
            consented=consent_state is not None and consent_state[1],
        )

    def _with_public_challenges(self, result: ToolResult, backend: str) -> ToolResult:
        """A refusal that was turned into a failure, with our challenges in place of the tool server's."""
        failure = result.failure
        assert failure is not None
        missing = failure.extras[MISSING]
        public = self._challenges.public(missing, backend) if isinstance(missing, dict) else None
        return replace(result, failure=replace(failure, extras={**failure.extras, MISSING: public}))

    def _consent_refusal(self, view: CallView, consent: ConsentPending) -> GatewayError:
        """The refusal of a call that waits for its user."""
        challenge = self._challenges.public_for_call(consent.challenge, view.backend, view.key)
        message = "The user has to authorize this call first."
        return GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing={"authorization": [challenge]})

    def count_end(self, run: Run, ending: ToolResult | GatewayError) -> None:
        """Counts the run of a kept call that has ended, by the outcome that its caller gets."""
        tool = run.published
        if not isinstance(ending, ToolResult):
            outcome = outcome_of_refusal(ending)
        elif ending.failure is not None:
            outcome = ending.failure.outcome
        else:
            tool = tool or self._published(run.tool)
            outcome = "ok"
            if tool is not None and tool.route.validate_output is FAILS:
                findings = tool.output_findings(ending.value, ending.value_bytes)
                if findings is None:
                    counting = asyncio.ensure_future(self._count_checked(run, tool, ending.value))
                    self._counting.add(counting)
                    counting.add_done_callback(self._counting.discard)
                    return
                if findings:
                    outcome = BROKEN_VALUE.outcome  # the warning is logged when it is answered
        self._count_run(run, tool, outcome)

    async def _count_checked(self, run: Run, tool: PublishedTool, value: Json) -> None:
        violation = await self._checks.violation(tool, value, "")
        self._count_run(run, tool, "ok" if violation is None else BROKEN_VALUE.outcome)

    def _count_run(self, run: Run, tool: PublishedTool | None, outcome: str) -> None:
        name = run.tool.partition("@")[0] if tool is None else tool.target.tool
        self._count(run.backend, name, outcome, time.time() - run.begun_s if run.begun_s else 0.0, run.account)

    def run_refusal(self, error: GatewayError, backend: str, request: Request) -> WireReply:
        """Encodes the refusal of a call that was under way, with our challenges in place of the tool server's."""
        if error.missing is None:
            return refusal(error, request)
        error.drop_trace()
        public = GatewayError(
            error.code,
            error.message,
            developer_message=error.developer_message,
            detail=error.detail,
            missing=self._challenges.public(dict(error.missing), backend),
            headers=error.headers,
        )
        public.status, public.tool_code = error.status, error.tool_code
        return refusal(public, request)


def refusal(exc: Exception, request: Request) -> WireReply:
    """Encodes a refusal. Any exception but GatewayError is a bug of ours, from before anything was sent."""
    error = exc if isinstance(exc, GatewayError) else GatewayError(ErrorCode.INTERNAL, FAILED)
    if error is not exc:
        log.error("a request failed inside the gateway", exc_info=exc)
    elif error.detail is not None and not isinstance(error, FixedError):
        about = {"request_id": request.trace.request_id.decode(), "code": error.code, "detail": error.detail}
        log.info("a request was refused", extra=about)
    error.drop_trace()  # before the request knows it
    request.refusal = error
    request.outcome = outcome_of_refusal(error)
    if request.encoder is None:
        return request.surface.refuse(error, request.head)
    return request.encoder.encode_error(error)


def cancelled_reply(request: Request) -> WireReply:
    """Answers a call that an operator has ended, in the task that was cancelled for it."""
    task, encoder = asyncio.current_task(), request.encoder
    assert task is not None
    assert encoder is not None  # only a call whose tool is known is ended
    task.uncancel()
    request.outcome = "unknown"
    return with_headers(
        encoder.encode_result(CANCELLED, request.toolgate_call_id), (CALL_ID, request.toolgate_call_id.encode())
    )


def with_headers(reply: WireReply, *headers: tuple[bytes, bytes]) -> WireReply:
    """A reply with more headers."""
    return WireReply(status=reply.status, headers=(*reply.headers, *headers), body=reply.body)


def outcome_of_refusal(error: GatewayError) -> str:
    """The word that a refused call is counted by."""
    return "refused" if error.parameters is None else "invalid"
