"""What happens to a request, in order: read this first. It names no protocol and no HTTP library.

A call: head, who calls, body, dialect and version, tool, arguments, requirements, run. Every refusal before the tool
server was asked is a `GatewayError`, answered in the caller's own dialect; afterwards every failure is a result.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway import jsontext
from gateway.dialects import recognise
from gateway.errors import ErrorCode, GatewayError
from gateway.listing import Listing
from gateway.model import CallContext, Invocation, Json, JsonObject, ToolCall, ToolFailure, ToolResult
from gateway.ports import Authenticator, Caller, Dialect
from gateway.requirements import check_requirements, granted
from gateway.routing import OutputCheck, PublishedTool, Router
from gateway.wire import Head, Headers, WireReply

log = logging.getLogger("gateway.pipeline")

ReadBody = Callable[[], Awaitable[bytes]]
JSON_TYPE = b"application/json"


class Catalogue(Protocol):
    """Where the current snapshot of everything published is."""

    @property
    def router(self) -> Router: ...


class ChallengeSealer(Protocol):
    """Rewrites a tool server's challenges for callers."""

    def public(self, missing: JsonObject, backend: str) -> JsonObject: ...


class Pipeline:
    """Answers calls and lists. `new_call_id` makes ids for callers that sent none and for tool servers."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        catalogue: Catalogue,
        challenges: ChallengeSealer,
        new_call_id: Callable[[], str],
    ) -> None:
        self._authenticator = authenticator
        self._catalogue = catalogue
        self._challenges = challenges
        self._new_call_id = new_call_id
        self._listing = Listing()

    async def call(self, head: Head, read_body: ReadBody) -> WireReply:
        """Answers `POST /tools/call` and `POST /call`."""
        dialect: Dialect | None = None
        spelling = ""
        try:
            _check_media(head)
            caller = self._authenticator.identify(head)
            document = _document(await read_body())
            dialect = recognise.of_call(head, document)
            spelling = dialect.canonical
            spelling = dialect.negotiate(head, document)
            call = dialect.decode_call(document)
            call_id = call.call_id or self._new_call_id()
            result = await self._execute(call, caller, head)
            return dialect.encode_result(result, call_id, spelling)
        except Exception as exc:
            return _refuse(exc, head, dialect, spelling)

    async def list(self, head: Head, read_body: ReadBody) -> WireReply:
        """Answers `GET /tools`. A body, which OTC allows for its `$schema`, is read but never required."""
        dialect: Dialect | None = None
        spelling = ""
        try:
            caller = self._authenticator.identify(head)
            document = _optional_document(await read_body())
            dialect = recognise.of_list(head, document)
            spelling = dialect.canonical
            spelling = dialect.negotiate(head, document)
            return await self._listing.answer(self._catalogue.router, caller, dialect, spelling, head)
        except Exception as exc:
            return _refuse(exc, head, dialect, spelling)

    async def _execute(self, call: ToolCall, caller: Caller, head: Head) -> ToolResult:
        tool = self._catalogue.router.resolve(call.ref, caller)
        wrong = tool.schema.errors(call.arguments)
        if wrong:
            raise GatewayError(ErrorCode.INVALID_ARGUMENTS, "Some input parameters are invalid.", parameters=wrong)
        check_requirements(tool, call.context)
        invocation = self._invocation(tool, call, granted(tool, call.context), caller, head)
        try:
            return _checked(await tool.backend.call(invocation), tool)
        except GatewayError as error:
            if error.missing is not None:
                error.missing = self._challenges.public(dict(error.missing), tool.backend.name)
            raise
        except Exception:
            # Bytes may have reached the tool server: from here on nothing is a refusal.
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            return ToolResult(failure=ToolFailure(message="The gateway failed; the tool may have run."))

    def _invocation(
        self, tool: PublishedTool, call: ToolCall, context: CallContext, caller: Caller, head: Head
    ) -> Invocation:
        route = tool.route
        return Invocation(
            call_id=self._new_call_id(),
            tool=tool.definition,
            arguments=call.arguments,
            timeout_s=route.timeout_s,
            context=context,
            trace_id=call.trace_id,
            principal=caller.principal,
            headers=_forwarded(head, route.forward_headers) if route.forward_headers else (),
            idempotent=route.idempotent,
        )


def _refuse(exc: Exception, head: Head, dialect: Dialect | None, spelling: str) -> WireReply:
    """Answers with a refusal. The last guard: what is no GatewayError is a bug of ours, before anything was sent."""
    error = exc if isinstance(exc, GatewayError) else GatewayError(ErrorCode.INTERNAL, "The gateway failed.")
    if error is not exc:
        log.error("a request failed inside the gateway", exc_info=exc)
    elif error.detail is not None:
        log.info("a request was refused", extra={"code": error.code, "detail": error.detail})
    return recognise.refusal(error, head) if dialect is None else dialect.encode_error(error, spelling)


def _check_media(head: Head) -> None:
    media = head.headers.get(b"content-type", b"")
    if media != JSON_TYPE and not _is_json(media):
        raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's content type must be application/json.")
    if b"content-encoding" in head.headers and head.headers[b"content-encoding"].lower() != b"identity":
        raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "A call's body must not be compressed.")


def _is_json(media: bytes) -> bool:
    kind, *parameters = media.lower().split(b";")
    charsets = [item.strip().removeprefix(b"charset=").strip(b'"') for item in parameters if b"charset=" in item]
    return kind.strip() == JSON_TYPE and all(charset in (b"utf-8", b"utf8", b"us-ascii") for charset in charsets)


def _document(body: bytes) -> JsonObject:
    try:
        document = jsontext.decode(body)
    except jsontext.JsonError as exc:
        raise GatewayError(ErrorCode.INVALID_REQUEST, f"The body is not valid JSON: {exc}.") from exc
    if not isinstance(document, dict):
        raise GatewayError(ErrorCode.INVALID_REQUEST, "The body must be a JSON object.")
    return document


def _optional_document(body: bytes) -> Json:
    """A GET body: what cannot be read counts as none."""
    try:
        return jsontext.decode(body) if body else None
    except jsontext.JsonError:
        return None


def _forwarded(head: Head, allowed: tuple[bytes, ...]) -> Headers:
    return tuple((name, head.headers[name]) for name in allowed if name in head.headers)


def _checked(result: ToolResult, tool: PublishedTool) -> ToolResult:
    """The result, unless its value breaks the tool's output schema and the route minds."""
    check = tool.route.validate_output
    if check is OutputCheck.OFF or result.failure is not None:
        return result
    violation = tool.output_violation(result.value)
    if violation is None:
        return result
    log.warning("a value breaks its tool's output schema", extra={"tool": tool.definition.id, "reason": violation})
    if check is OutputCheck.WARN:
        return result
    return ToolResult(
        failure=ToolFailure(message="The tool returned a value that breaks its own output schema."),
        duration_ms=result.duration_ms,
    )
