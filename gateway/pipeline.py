"""What happens to a request, in order: read this first. It names no protocol and no HTTP library.

A call: head, who calls, body, dialect and version, tool, arguments, requirements, run. Every refusal before the tool
server was asked is a `GatewayError`, answered in the caller's own dialect; afterwards every failure is a result.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from gateway import jsontext
from gateway.attempt import Asked
from gateway.dialects import recognise
from gateway.errors import ErrorCode, GatewayError
from gateway.kept import BROKEN, PREFIX, Consent, Kept, still_running
from gateway.listing import Listing
from gateway.model import CallContext, Invocation, Json, JsonObject, ToolCall, ToolFailure, ToolResult
from gateway.ports import Authenticator, Caller, Dialect
from gateway.preference import Preference, read_preference
from gateway.requirements import check_requirements, granted
from gateway.routing import OutputCheck, PublishedTool, Router
from gateway.wire import Head, Headers, WireReply

log = logging.getLogger("gateway.pipeline")

ReadBody = Callable[[], Awaitable[bytes]]
JSON_TYPE = b"application/json"
CALL_ID = b"toolgate-call-id"
LOCATION = b"location"
PREFERENCE_APPLIED = b"preference-applied"
UNCHECKED = OutputCheck.OFF  # a global: reading a member off its class costs half a microsecond in Python 3.11


class Catalogue(Protocol):
    """Where the current snapshot of everything published is."""

    @property
    def router(self) -> Router: ...


class ChallengeSealer(Protocol):
    """Rewrites a tool server's challenges for callers."""

    def public(self, missing: JsonObject, backend: str) -> JsonObject: ...


class KeptCalls(Protocol):
    """Runs the calls that are remembered."""

    async def run(self, asked: Asked) -> Kept: ...

    async def look(self, call_id: str, caller: Caller) -> Kept | None: ...

    async def cancel(self, call_id: str, caller: Caller) -> Kept | None: ...

    def group_of(self, principal: str, name: str | None) -> str: ...


class Pipeline:
    """Answers calls and lists.

    `new_call_id` makes ids for callers that sent none and for tool servers; `location` says where a kept call is.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        catalogue: Catalogue,
        challenges: ChallengeSealer,
        calls: KeptCalls,
        new_call_id: Callable[[], str],
        location: Callable[[str], str],
    ) -> None:
        self._authenticator = authenticator
        self._catalogue = catalogue
        self._challenges = challenges
        self._calls = calls
        self._new_call_id = new_call_id
        self._location = location
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
            tool, invocation = self._admit(call, caller, head)
            preference = read_preference(head.headers.get(b"prefer"))
            if call.call_id is None and not tool.backend.asynchronous and not preference.respond_async:
                return await self._answer(tool, invocation, preference, dialect, spelling)
            asked = Asked(
                call=call,
                tool=tool,
                caller=caller,
                invocation=invocation,
                preference=preference,
                dialect=dialect.name,
                spelling=spelling,
            )
            kept = await self._calls.run(asked)
            accepted = preference.respond_async and kept.standing is None
            reply = self._tell(kept, dialect, spelling, accepted=accepted)
            applied = preference.applied(accepted=accepted, at_most_s=invocation.timeout_s)
            return reply if applied is None else _with(reply, (PREFERENCE_APPLIED, applied.encode()))
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

    def _admit(self, call: ToolCall, caller: Caller, head: Head) -> tuple[PublishedTool, Invocation]:
        """Every check that needs no tool server."""
        tool = self._catalogue.router.resolve(call.ref, caller)
        wrong = tool.schema.errors(call.arguments)
        if wrong:
            raise GatewayError(ErrorCode.INVALID_ARGUMENTS, "Some input parameters are invalid.", parameters=wrong)
        check_requirements(tool, call.context)
        return tool, self._invocation(tool, call, granted(tool, call.context), caller, head)

    async def _answer(
        self, tool: PublishedTool, invocation: Invocation, preference: Preference, dialect: Dialect, spelling: str
    ) -> WireReply:
        """Answers a call that nobody will ask for again: it lives no longer than its caller waits."""
        applied = None
        if preference.wait_s is not None:
            applied = preference.applied(accepted=False, at_most_s=invocation.timeout_s)
            if applied is not None:
                invocation = replace(invocation, timeout_s=preference.wait_s)
        call_id = invocation.call_id
        try:
            result = _checked(await tool.backend.call(invocation), tool)
            reply = dialect.encode_result(result, call_id, spelling)
        except GatewayError as error:
            reply = self._refuse_run(error, tool.backend.name, dialect, spelling)
        except Exception:
            # Bytes may have reached the tool server: from here on nothing is a refusal.
            log.exception("a call failed inside the gateway after it may have reached a tool server")
            reply = dialect.encode_result(BROKEN, call_id, spelling)
        named = (CALL_ID, call_id.encode())
        return _with(reply, named) if applied is None else _with(reply, named, (PREFERENCE_APPLIED, applied.encode()))

    async def look(self, head: Head, call_id: str) -> WireReply:
        """Answers `GET /calls/{call_id}`: 200 with the result, 202 while there is none, in that call's dialect."""
        return await self._find(head, call_id, self._calls.look)

    async def cancel(self, head: Head, call_id: str) -> WireReply:
        """Answers `DELETE /calls/{call_id}`: 202, whether it was over already or not."""
        return await self._find(head, call_id, self._calls.cancel)

    async def _find(self, head: Head, call_id: str, find: Callable[[str, Caller], Awaitable[Kept | None]]) -> WireReply:
        dialect: Dialect | None = None
        spelling = ""
        try:
            kept = await find(call_id, self._authenticator.identify(head))
            if kept is None:
                raise GatewayError(ErrorCode.NOT_FOUND, "There is no such call of yours.")
            dialect, spelling = recognise.DIALECTS[kept.note.dialect], kept.note.spelling
            return self._tell(kept, dialect, spelling, accepted=head.method == "DELETE" or kept.standing is None)
        except Exception as exc:
            return _refuse(exc, head, dialect, spelling)

    def _tell(self, kept: Kept, dialect: Dialect, spelling: str, *, accepted: bool) -> WireReply:
        """How a kept call stands: 202 if it was `accepted` rather than awaited; where to find it later."""
        match kept.standing:
            case ToolResult() as result:
                tool = self._catalogue.router.published(kept.note.tool)
                result = result if tool is None else _checked(result, tool)
                reply = dialect.encode_result(result, kept.note.call_id, spelling)
            case None:
                reply = dialect.encode_result(still_running(keyed=kept.is_keyed), kept.note.call_id, spelling)
            case Consent(challenge):
                reply = self._refuse_run(_consent(kept, challenge), kept.backend, dialect, spelling)
            case error:
                reply = self._refuse_run(error, kept.backend, dialect, spelling)
        if accepted and reply.status == 200:
            reply = replace(reply, status=202)
        named = (CALL_ID, kept.id.encode())
        return (
            _with(reply, named, (LOCATION, self._location(kept.id).encode()))
            if kept.remembered
            else _with(reply, named)
        )

    def _refuse_run(self, error: GatewayError, backend: str, dialect: Dialect, spelling: str) -> WireReply:
        """A refusal of a call that was under way; whatever challenges are in it are ours from here on."""
        if error.detail is not None:
            log.info("a request was refused", extra={"code": error.code, "detail": error.detail})
        if error.missing is None:
            return dialect.encode_error(error, spelling)
        missing = self._challenges.public(dict(error.missing), backend)
        public = GatewayError(
            error.code, error.message, developer_message=error.developer_message, missing=missing, headers=error.headers
        )
        return dialect.encode_error(public, spelling)

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
            group=self._calls.group_of(caller.principal, call.context.group) if tool.backend.asynchronous else "",
            ancestors=self._ancestors(call, caller) if call.context.ancestors else (),
        )

    def _ancestors(self, call: ToolCall, caller: Caller) -> tuple[str, ...]:
        return tuple(self._calls.group_of(caller.principal, name) for name in call.context.ancestors)


def _consent(kept: Kept, challenge: JsonObject) -> GatewayError:
    """The refusal of a call that waits for its user; its key is what our own challenge is checked by."""
    missing = {"authorization": [challenge | {"check_url": kept.id.removeprefix(PREFIX)}]}
    return GatewayError(ErrorCode.MISSING_REQUIREMENTS, "The user has to authorize this call first.", missing=missing)


def _with(reply: WireReply, *headers: tuple[bytes, bytes]) -> WireReply:
    return WireReply(status=reply.status, headers=(*reply.headers, *headers), body=reply.body)


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
    if check is UNCHECKED or result.failure is not None:
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
