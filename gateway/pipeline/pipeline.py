"""What happens to a request, in order: read this first. It names no protocol and no HTTP library.

Limits by address, caller, body, dialect and operation, tool, all other limits; then for a call its arguments, the
operator's own policy, its requirements and its run. Before the tool server is asked, every refusal is a `GatewayError`,
encoded in the caller's dialect. Afterwards every failure is a result.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from time import monotonic

from msgspec.structs import replace

from gateway.calls.execution import CallRequest, with_preferred_timeout
from gateway.calls.preference import NO_PREFERENCE, Preference, preference_of
from gateway.calls.registry import Calls
from gateway.calls.status import BROKEN, WITHDRAWN, CallView
from gateway.catalogue.published import PublishedTool
from gateway.catalogue.requirements import check_requirements, for_user, grant
from gateway.core.errors import ErrorCode, GatewayError, UnauthenticatedError, UndecidedError
from gateway.core.jsontext import ALWAYS_HERE_BYTES, is_wide
from gateway.core.model import Arguments, CallContext, CallKey, Invocation, Json, ToolCall, public_id, user_of
from gateway.core.ports import Authenticator, Authorizer, Caller, Limiter, Operation, SyncBackend
from gateway.core.surfaces import (
    NO_OPTIONS,
    CallOptions,
    Handover,
    Opened,
    OpenedCall,
    RefusedOpening,
)
from gateway.core.tracing import TRACEPARENT, Step, Trace, continue_trace, unrecorded
from gateway.core.wire import Body, WireReply
from gateway.pipeline.challenges import Consents
from gateway.pipeline.checks import Checks, check_result
from gateway.pipeline.listeners import Listeners
from gateway.pipeline.other_requests import CatalogueSnapshot, OtherRequests, require_call
from gateway.pipeline.request import Request, forwarded_headers, read_document
from gateway.pipeline.responses import CALL_ID, ResponseBuilder, refusal, with_headers

log = logging.getLogger("gateway.pipeline")

NO_URLS: Mapping[str, str] = {}
PREFERENCE_APPLIED = b"preference-applied"


class Pipeline:
    """Answers requests."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer | None,  # decides about each call, also one that only asks for a kept result
        limiter: Limiter,
        catalogue: CatalogueSnapshot,
        calls: Calls,
        responses: ResponseBuilder,
        checks: Checks,
        consents: Consents,
        listeners: Listeners,
        digits: Iterator[bytes],  # random, for the ids of calls that leave no record
        strict: bool,  # a tool that the caller may not use is refused like a tool that does not exist
        continues: Callable[[Trace, bytes, bytes | None], Trace] = continue_trace,  # for a call that names its parent
        step: Step = unrecorded,  # what each step is wrapped in
    ) -> None:
        self._identify_now = step("authenticate", authenticator.identify)
        self._identify_later = step("authenticate", authenticator.identify_later)
        self._limiter = limiter
        self._spend = step("limit", limiter.spend)
        self._accepts, self._validate = step("validate", checks.accepts), step("validate", checks.validate)
        self._authorize = None if authorizer is None else step("authorize", authorizer.authorize, "client")
        self._catalogue = catalogue
        self._calls = calls
        self._responses = responses
        self._checks = checks
        self._consents = consents
        self._digits = digits
        self._strict = strict
        self._continues = continues
        self._others = OtherRequests(catalogue, listeners, calls.stored_calls, responses)

    async def answer(  # noqa: C901 - flat, because every call takes this way
        self, request: Request, arriving: Body
    ) -> WireReply:
        """Answers a request to an endpoint of any surface."""
        try:
            came_as = request.operation
            caller = await self._identify(came_as, request)
            spend, principal, ip = self._spend, caller.principal, request.ip
            is_spent = came_as == "list"  # at an endpoint for lists the limits do not depend on the body
            if is_spent:
                request.extra += await spend("list", principal, ip, None)
            try:
                body = arriving.now(principal)  # without it every call would cost 1.4 % more instructions
                if body is None:
                    body = await arriving.read()
                request.bytes_in = size = len(body)
                if size > ALWAYS_HERE_BYTES and is_wide(body):
                    members = request.surface.argument_members
                    document = await self._checks.document(body, members, principal)
                else:
                    document = read_document(body, is_needed=request.needs_document)
                opened = self._open(document, caller, request)
            except GatewayError:  # it counts, but not for its tool: refused callers must not use up a tool's limits
                request.extra += () if is_spent else await spend(request.operation, principal, ip, None)
                raise
            tool = request.tool
            target = None if tool is None else tool.target
            request.extra += () if is_spent else await spend(request.operation, principal, ip, target)
            if tool is None or not isinstance(opened, OpenedCall):
                request.extra += self._limiter.admit_as(request.operation, ip, came_as)
                return await self._others.answer(opened, caller, request, self.answer)
            call = opened.call if caller.user_id is None else for_user(opened.call, caller.user_id)
            arguments = call.arguments
            if not self._accepts(tool, arguments, size):
                arguments = await self._validate(tool, arguments, size, principal)
            if self._authorize is not None:
                sent = call if arguments is call.arguments else replace(call, arguments=arguments)
                await self._authorize(sent, tool.target, caller, opened.encoder.name)
                del sent
            if opened.awaited is not None:
                await self._consents.wait(opened.awaited)
            invocation = self._invocation(tool, call, arguments, caller, request)
            prefer, options = request.head.headers.get(b"prefer"), opened.options
            is_plain = prefer is None and options is NO_OPTIONS
            preference = NO_PREFERENCE if is_plain else preference_of(prefer, options)
            invocation = replace(invocation, report=request.report) if options.reports else invocation
            is_kept = call.call_id is not None or preference.respond_async or options.keeps(tool.route.timeout_s)
            if not (is_kept or tool.backend.deferred):
                del (
                    body,
                    document,
                    opened,
                    call,
                    arguments,
                )  # thousands of calls may wait for minutes: this frees their memory
                return await self._run(tool, tool.backend, invocation, preference, request, options)
            running = self._run_recorded(call, caller, invocation, preference, request, options)
            del body, document, opened, call, arguments, invocation
            return await running
        except Exception as exc:
            return refusal(exc, request)

    async def refuse(self, request: Request, error: GatewayError, *, follows_oauth: bool) -> WireReply:
        """Answers a request whose head is refused. It counts for its address and its caller.

        An exceeded limit is reported instead of `error`. So is a missing or refused credential at endpoints that follow
        OAuth, unless the request is forbidden whoever sends it; at others it is not.
        """
        try:
            try:
                await self._identify_and_spend(request.operation, request)
            except UnauthenticatedError:
                if follows_oauth and error.code is not ErrorCode.FORBIDDEN:
                    raise
                raise error from None
            raise error
        except Exception as exc:
            return refusal(exc, request)

    async def call_status(self, request: Request, call_id: str, *, delivers: bool) -> WireReply:
        """Answers with the status of a kept call, in that call's dialect. `delivers`: the reply holds the result."""
        try:
            caller = await self._identify_and_spend("poll", request)
            request.call_id = call_id
            view = await self._calls.stored_calls.view(call_id, caller, delivers=delivers)
            return await self._answer_with_view(view, request, accepted=view is not None and view.status is None)
        except Exception as exc:
            return refusal(exc, request)

    async def cancel(self, request: Request, call_id: str) -> WireReply:
        """Cancels a kept call unless it is over, and answers with its status."""
        try:
            caller = await self._identify_and_spend("poll", request)
            request.call_id = call_id
            return await self._answer_with_view(
                await self._calls.stored_calls.cancel(call_id, caller), request, accepted=True
            )
        except Exception as exc:
            return refusal(exc, request)

    async def _answer_with_view(self, view: CallView | None, request: Request, *, accepted: bool) -> WireReply:
        return await self._responses.call_reply(require_call(view), request, accepted=accepted)

    async def _identify_and_spend(self, operation: Operation, request: Request) -> Caller:
        """The caller of a request for no tool. Raises RATE_LIMITED, UNAUTHENTICATED, BACKEND_UNAVAILABLE."""
        caller = await self._identify(operation, request)
        request.extra += await self._spend(operation, caller.principal, request.ip, None)
        return caller

    async def _identify(self, operation: Operation, request: Request) -> Caller:
        """The caller. Raises RATE_LIMITED, UNAUTHENTICATED."""
        request.extra = self._limiter.admit(operation, request.ip)
        try:
            try:
                caller = self._identify_now(request.head)
            except UndecidedError:
                caller = await self._identify_later(request.head)
        except UnauthenticatedError as refused:
            if refused.attempted:
                self._limiter.verification_failed(request.ip)
            raise
        request.caller = caller
        return caller

    def _open(self, document: Json, caller: Caller, request: Request) -> Opened:
        """Reads the request, and finds the tool of a call. Raises INVALID_REQUEST, TOOL_NOT_FOUND, FORBIDDEN."""
        opened = request.surface.open(request.head, document, caller)
        request.encoder = opened.encoder
        if type(opened) is OpenedCall:
            if opened.options is not NO_OPTIONS:
                self._join_trace(opened.options, request)
            router, ref, request.call_id = self._catalogue.router, opened.call.ref, opened.call.call_id
            try:
                request.tool = router.resolve(ref, caller, self._strict or opened.hides_tools)
            except GatewayError:
                request.tool = router.find_hidden(ref)
                raise
        elif isinstance(opened, RefusedOpening):
            raise opened.error
        request.operation = opened.operation
        return opened

    def _join_trace(self, options: CallOptions, request: Request) -> None:
        """Continues the trace that a call brings along. The headers of its request go before that."""
        if options.trace is not None and TRACEPARENT not in request.head.headers:
            request.trace = self._continues(request.trace, *options.trace)

    def _invocation(
        self, tool: PublishedTool, call: ToolCall, arguments: Arguments, caller: Caller, request: Request
    ) -> Invocation:
        """The call as its backend gets it, with the arguments that are sent. Raises MISSING_REQUIREMENTS."""
        context, route, headers, call_id = call.context, tool.route, request.trace.sent, ""
        urls, user = NO_URLS, ""
        if route.forward_headers:
            headers = (*forwarded_headers(request.head, route.forward_headers), *headers)
        if call.call_id is None:  # else the call is kept, and the registry of calls makes its id
            call_id = public_id(CallKey(next(self._digits)[:32].decode()))
        if context.user_id is not None or context.tokens or context.secrets:
            user = user_of(context)
        if tool.asks or context.tokens or context.secrets:
            check_requirements(tool, context)
            context = grant(tool, context)
            urls = route.authorization_urls
        return Invocation(
            call_id=call_id,
            tool=tool.definition,
            arguments=arguments,
            timeout_s=route.timeout_s,
            context=context,
            trace_id=call.trace_id,
            principal=caller.principal,
            user=user,
            headers=headers,
            idempotent=route.idempotent,
            group=self._group(call.context.group, call.context, caller) if tool.backend.deferred else "",
            ancestors=self._ancestors(call.context, caller) if call.context.ancestors else (),
            authorization_urls=urls,
        )

    def _group(self, name: str | None, context: CallContext, caller: Caller) -> str:
        """A conversation of one user of a caller; not of one token, which does not last as long."""
        return self._calls.group_of(caller.principal, name, context.user_id)

    def _ancestors(self, context: CallContext, caller: Caller) -> tuple[str, ...]:
        return tuple(self._group(name, context, caller) for name in context.ancestors)

    async def _run(
        self,
        tool: PublishedTool,
        backend: SyncBackend,
        invocation: Invocation,
        preference: Preference,
        request: Request,
        options: CallOptions,
    ) -> WireReply:
        """Runs a call that leaves no record. It is cancelled if its caller leaves, unless `options` say otherwise."""
        if options.outlives_caller and request.server_request is not None:
            request.server_request.keep()
        encoder, call_id, applied = request.encoder, invocation.call_id, None
        assert encoder is not None  # set by `_open`
        if preference.wait_s is not None:
            applied = preference.applied(accepted=False, at_most_s=invocation.timeout_s)
            if applied is not None:
                invocation = replace(invocation, timeout_s=preference.wait_s)
        request.outcome, request.toolgate_call_id = "unknown", call_id  # for the log, should the caller disconnect now
        started_at = monotonic()
        try:
            try:
                result = await backend.call(invocation)
            finally:
                request.tool_s = monotonic() - started_at
            if tool.checks_output:
                result = check_result(result, tool) or await self._checks.result(result, tool, request.caller.principal)
            if result.failure is None:
                request.outcome = "ok"
            else:
                request.outcome, request.failed_result = result.failure.outcome, result
            reply = encoder.encode_result(result, call_id)
        except GatewayError as error:
            reply = self._responses.run_refusal(error, backend.name, request)
        except Exception:
            # Bytes may have reached the tool server, so this is a result and not a refusal.
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            request.outcome = "unknown"
            reply = encoder.encode_result(BROKEN, call_id)
        request.extra = (*request.extra, (CALL_ID, call_id.encode()))
        return reply if applied is None else with_headers(reply, (PREFERENCE_APPLIED, applied.encode()))

    async def _run_recorded(
        self,
        call: ToolCall,
        caller: Caller,
        invocation: Invocation,
        preference: Preference,
        request: Request,
        options: CallOptions,
    ) -> WireReply:
        """Runs a call that leaves a record, or joins the run of the same call."""
        handover = options.handover
        assert request.tool is not None
        assert request.encoder is not None
        if call.ref.by_name:  # else a call under one id would conflict with itself where its tool is named otherwise
            call = replace(call, ref=request.tool.rename_ref(call.ref))
        if call.call_id is None and options.request_key is not None and not request.tool.backend.deferred:
            invocation = with_preferred_timeout(invocation, preference)
        call_request = CallRequest(
            call=call,
            tool=request.tool,
            caller=caller,
            invocation=invocation,
            preference=preference if handover is None else _until(handover, preference, request.tool),
            dialect=request.encoder.name,
            wire_version=request.encoder.wire_version,
            server_request=request.server_request,
            options=options,
            trace=request.trace.stored,
        )
        request.outcome = "unknown"  # as in `_run`
        request.joined, request.counts = True, False
        started_at, timeout_s, running = monotonic(), invocation.timeout_s, self._calls.run(call_request)
        del call, invocation, call_request  # as in `answer`
        try:
            view = await running
        finally:
            request.tool_s = monotonic() - started_at  # includes storing its record
        if request.server_request is not None and request.server_request.disconnected:
            raise CancelledError  # the server does not cancel the request while a kept call runs
        request.joined = view.joined
        if options.request_key is not None and view.status == WITHDRAWN:
            return WireReply(status=202)  # without an answer, which it is not to have
        accepted = preference.respond_async and view.status is None
        if handover is not None and view.status is None:
            reply = await self._responses.status_reply(view, request, handover.encoder)
        else:
            reply = await self._responses.call_reply(view, request, accepted=accepted)
        if preference is NO_PREFERENCE:
            return reply
        applied = preference.applied(accepted=accepted, at_most_s=timeout_s)
        return reply if applied is None else with_headers(reply, (PREFERENCE_APPLIED, applied.encode()))


def _until(handover: Handover, preference: Preference, tool: PublishedTool) -> Preference:
    """Waits until a call is handed over, or as long as its caller prefers if that is shorter."""
    at_once = preference.respond_async or tool.backend.deferred
    wait_s = (0.0 if at_once else handover.after_s) if preference.wait_s is None else preference.wait_s
    return replace(preference, wait_s=min(wait_s, handover.after_s))
