"""What happens to a request, in order: read this first. It names no protocol and no HTTP library.

A call: head, limits on addresses, who calls, body, dialect and version, tool, all other limits, arguments,
requirements, run. Every refusal before the tool server was asked is a `GatewayError`, answered in the caller's own
dialect; afterwards every failure is a result.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Protocol

from msgspec.structs import replace

from gateway.calls.execution import CallRequest
from gateway.calls.preference import NO_PREFERENCE, Preference, read_preference
from gateway.calls.status import BROKEN, CallView
from gateway.catalogue.listing import Lists
from gateway.checks import Checks, checked
from gateway.dialects import recognise
from gateway.errors import RETRY_AFTER_S, ErrorCode, GatewayError, UnauthenticatedError, UndecidedError
from gateway.jsontext import ALWAYS_HERE_BYTES, is_wide
from gateway.model import CallContext, Invocation, JsonObject, ToolCall
from gateway.ports import Authenticator, Caller, Limiter, Operation, SyncBackend
from gateway.request import Request
from gateway.request_parsing import check_media, forwarded, read_object, read_optional
from gateway.requirements import fitting, for_user
from gateway.responses import CALL_ID, ResponseBuilder, outcome_of, refusal, with_headers
from gateway.routing import PublishedTool, Router
from gateway.wire import Body, WireReply

log = logging.getLogger("gateway.pipeline")

PREFERENCE_APPLIED = b"preference-applied"
STARTING = "The gateway is starting and does not know all tools yet."


class Catalogue(Protocol):
    """Where the current snapshot of everything published is."""

    @property
    def router(self) -> Router: ...

    @property
    def ready(self) -> bool:
        """Whether every backend had its chance to be asked for its tools."""
        ...


class KeptCalls(Protocol):
    """Runs the calls that are remembered."""

    async def run(self, asked: CallRequest) -> CallView: ...

    async def look(self, call_id: str, caller: Caller, *, told: bool = True) -> CallView | None: ...

    async def cancel(self, call_id: str, caller: Caller) -> CallView | None: ...

    def group_of(self, principal: str, name: str | None) -> str: ...


class Pipeline:
    """Answers calls and lists.

    `new_call_id` makes ids for callers that sent none and for tool servers. `strict`: a tool that a caller may not use
    is as if there were none.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        limiter: Limiter,
        catalogue: Catalogue,
        calls: KeptCalls,
        telling: ResponseBuilder,
        checks: Checks,
        new_call_id: Callable[[], str],
        strict: bool,
    ) -> None:
        self._authenticator = authenticator
        self._limiter = limiter
        self._catalogue = catalogue
        self._calls = calls
        self._telling = telling
        self._checks = checks
        self._new_call_id = new_call_id
        self._strict = strict
        self._lists = Lists()

    async def call(self, request: Request, arriving: Body) -> WireReply:
        """Answers `POST /tools/call` and `POST /call`."""
        try:
            check_media(request.head)
        except GatewayError as error:
            return await self.refuse("call", request, error)
        try:
            caller = self._identify("call", request) or await self._identify_later(request)
            try:
                body = arriving.now()
                if body is None:
                    body = await arriving.read()
                request.bytes_in = size = len(body)
                if size > ALWAYS_HERE_BYTES and is_wide(body):
                    document = await self._checks.document(body, caller.principal)
                else:
                    document = read_object(body)
                call, tool = self._read(document, request, caller)
            except GatewayError:  # counts, but for no tool: whoever may not call it must not use up what others may
                request.extra += await self._limiter.spend("call", caller.principal, request.ip, None)
                raise
            told = self._limiter.spend_now("call", caller.principal, request.ip, tool.target)
            if told is None:
                told = await self._limiter.spend("call", caller.principal, request.ip, tool.target)
            request.extra += told
            if caller.user_id is not None:
                call = for_user(call, caller.user_id)
            if not tool.schema.accepts(call.arguments, size):
                await self._checks.validate(tool, call.arguments, size, caller.principal)
            invocation = self._admit(tool, call, caller, request)
            prefer = request.head.headers.get(b"prefer")
            preference = NO_PREFERENCE if prefer is None else read_preference(prefer)
            if call.call_id is None and not tool.backend.deferred and not preference.respond_async:
                del body, document, call
                return await self._answer(tool, tool.backend, invocation, preference, request)
            kept = self._keep(call, caller, invocation, preference, request)
            del body, document, call, invocation  # a call may wait for minutes, and thousands at a time
            return await kept
        except Exception as exc:
            return refusal(exc, request)

    async def list(self, request: Request, arriving: Body) -> WireReply:
        """Answers `GET /tools`. A body, which OTC allows for its `$schema`, is read but never required."""
        try:
            caller = self._identify("list", request) or await self._identify_later(request)
            request.extra += await self._limiter.spend("list", caller.principal, request.ip, None)
            document = read_optional(await arriving.read())
            dialect = recognise.of_list(request.head, document)
            request.speak(dialect)
            request.spelling = dialect.negotiate(request.head, document)
            if not self._catalogue.ready:  # a short list would be taken for all there is
                raise GatewayError(ErrorCode.NOT_READY, STARTING, retry_after_s=RETRY_AFTER_S)
            router = self._catalogue.router
            reply = await self._lists.answer(router, caller, dialect, request.spelling, request.head)
            request.outcome = "ok"
            return reply
        except Exception as exc:
            return refusal(exc, request)

    async def refuse(self, operation: Operation, request: Request, error: GatewayError) -> WireReply:
        """Answers what is refused for its head alone; like any other refusal it counts for its address and its caller.

        That it is wrong is told before that its sender is not known, but not before that it is one too many.
        """
        try:
            try:
                caller = self._identify(operation, request) or await self._identify_later(request)
            except UnauthenticatedError:
                raise error from None
            request.extra += await self._limiter.spend(operation, caller.principal, request.ip, None)
            raise error
        except Exception as exc:
            return refusal(exc, request)

    async def look(self, request: Request, call_id: str) -> WireReply:
        """Answers `GET /calls/{call_id}`: 200 with the result, 202 while there is none, in that call's dialect."""
        told = request.head.method != "HEAD"  # which shows nothing
        return await self._find(request, call_id, partial(self._calls.look, told=told))

    async def cancel(self, request: Request, call_id: str) -> WireReply:
        """Answers `DELETE /calls/{call_id}`: 202, whether it was over already or not."""
        return await self._find(request, call_id, self._calls.cancel)

    async def _find(
        self, request: Request, call_id: str, find: Callable[[str, Caller], Awaitable[CallView | None]]
    ) -> WireReply:
        try:
            caller = self._identify("poll", request) or await self._identify_later(request)
            request.extra += await self._limiter.spend("poll", caller.principal, request.ip, None)
            kept = await find(call_id, caller)
            if kept is None:
                raise GatewayError(ErrorCode.NOT_FOUND, "There is no such call of yours.")
            accepted = request.head.method == "DELETE" or kept.standing is None
            return await self._telling.kept(kept, request, accepted=accepted)
        except Exception as exc:
            return refusal(exc, request)

    # Who asks.

    def _identify(self, operation: Operation, request: Request) -> Caller | None:
        """The caller, None if more has to be known first. Raises RATE_LIMITED, UNAUTHENTICATED."""
        request.extra = self._limiter.admit(operation, request.ip)
        try:
            caller = self._authenticator.identify(request.head)
        except UndecidedError:
            return None
        except UnauthenticatedError as refused:
            self._note_failure(refused, request)
            raise
        request.principal = caller.principal
        return caller

    async def _identify_later(self, request: Request) -> Caller:
        try:
            caller = await self._authenticator.identify_later(request.head)
        except UnauthenticatedError as refused:
            self._note_failure(refused, request)
            raise
        request.principal = caller.principal
        return caller

    def _note_failure(self, refused: UnauthenticatedError, request: Request) -> None:
        if refused.attempted:
            self._limiter.verification_failed(request.ip)

    # What is asked.

    def _read(self, document: JsonObject, request: Request, caller: Caller) -> tuple[ToolCall, PublishedTool]:
        """The call and its tool. Raises INVALID_REQUEST, TOOL_NOT_FOUND, FORBIDDEN."""
        head = request.head
        dialect = recognise.of_call(head, document)
        request.speak(dialect)
        request.spelling = dialect.negotiate(head, document)
        call = dialect.decode_call(document)
        router = self._catalogue.router
        try:
            tool = request.tool = router.resolve(call.ref, caller, self._strict)
        except GatewayError:
            request.tool = router.meant(call.ref)
            raise
        return call, tool

    def _admit(self, tool: PublishedTool, call: ToolCall, caller: Caller, request: Request) -> Invocation:
        """The call as its backend gets it. Raises MISSING_REQUIREMENTS."""
        context = fitting(tool, call.context)
        route = tool.route
        return Invocation(
            call_id=self._new_call_id() if call.call_id is None else "",  # a call that is kept gets its id there
            tool=tool.definition,
            arguments=call.arguments,
            timeout_s=route.timeout_s,
            context=context,
            trace_id=call.trace_id,
            principal=caller.principal,
            headers=(*forwarded(request.head, route.forward_headers), *request.trace.sent)
            if route.forward_headers
            else request.trace.sent,
            idempotent=route.idempotent,
            group=self._calls.group_of(caller.principal, call.context.group) if tool.backend.deferred else "",
            ancestors=self._ancestors(call.context, caller) if call.context.ancestors else (),
        )

    def _ancestors(self, context: CallContext, caller: Caller) -> tuple[str, ...]:
        return tuple(self._calls.group_of(caller.principal, name) for name in context.ancestors)

    # Running it.

    async def _answer(
        self,
        tool: PublishedTool,
        backend: SyncBackend,
        invocation: Invocation,
        preference: Preference,
        request: Request,
    ) -> WireReply:
        """Answers a call that nobody will ask for again: it lives no longer than its caller waits."""
        dialect, spelling, call_id = request.dialect, request.spelling, invocation.call_id
        assert dialect is not None  # it was read
        applied = None
        if preference.wait_s is not None:
            applied = preference.applied(accepted=False, at_most_s=invocation.timeout_s)
            if applied is not None:
                invocation = replace(invocation, timeout_s=preference.wait_s)
        request.outcome = "unknown"  # to whoever leaves now
        asked_at = monotonic()
        try:
            try:
                result = await backend.call(invocation)
            finally:
                request.tool_s = monotonic() - asked_at
            result = checked(result, tool) or await self._checks.result(result, tool, request.principal)
            request.outcome = outcome_of(result)
            reply = dialect.encode_result(result, call_id, spelling)
        except GatewayError as error:
            reply = self._telling.run_refusal(error, backend.name, request)
        except Exception:
            # Bytes may have reached the tool server: from here on nothing is a refusal.
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            request.outcome = "unknown"
            reply = dialect.encode_result(BROKEN, call_id, spelling)
        request.extra = (*request.extra, (CALL_ID, call_id.encode()))
        return reply if applied is None else with_headers(reply, (PREFERENCE_APPLIED, applied.encode()))

    async def _keep(
        self, call: ToolCall, caller: Caller, invocation: Invocation, preference: Preference, request: Request
    ) -> WireReply:
        """Answers a call that is remembered."""
        assert request.tool is not None
        assert request.dialect is not None
        asked = CallRequest(
            call=call,
            tool=request.tool,
            caller=caller,
            invocation=invocation,
            preference=preference,
            dialect=request.dialect.name,
            spelling=request.spelling,
            keep=None if request.served is None else request.served.keep,
        )
        request.outcome = "unknown"  # to whoever leaves now
        request.joined, request.counts = True, False
        asked_at, timeout_s, running = monotonic(), invocation.timeout_s, self._calls.run(asked)
        del call, invocation, asked  # as above
        try:
            kept = await running
        finally:
            request.tool_s = monotonic() - asked_at  # with what it takes to remember it
        request.joined = kept.joined
        accepted = preference.respond_async and kept.standing is None
        reply = await self._telling.kept(kept, request, accepted=accepted)
        if preference is NO_PREFERENCE:
            return reply
        applied = preference.applied(accepted=accepted, at_most_s=timeout_s)
        return reply if applied is None else with_headers(reply, (PREFERENCE_APPLIED, applied.encode()))
