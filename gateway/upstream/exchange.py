"""The exchanges of a backend with its tool server over HTTP: admission, retries, blame and `can_retry`, for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from msgspec.structs import replace

from gateway.core import jsontext
from gateway.core.errors import RETRY_AFTER_S, FailureCode, GatewayError, unavailable
from gateway.core.model import Invocation, Json, Listing, ToolFailure, ToolResult
from gateway.core.ports import CallCodec, DispatchGate, LargeReply
from gateway.core.wire import WireRequest
from gateway.net.client import Kind, Reply, TransportError
from gateway.offload import OffloadError
from gateway.protocols.common import replies
from gateway.upstream.admission import Lease, Replica
from gateway.upstream.consent_links import UpstreamChallenges
from gateway.upstream.credentials import credentials_of
from gateway.upstream.oauth import ClientCredentials, NoTokenError
from gateway.upstream.replica_url import NAMES_ORIGIN, USER_AGENT, BackendContext, Server
from gateway.upstream.settings import BackendSettings

log = logging.getLogger("gateway.backends")

MAX_LIST_BYTES = 64 * 1024 * 1024  # 20,000 tools of 3 KiB each
SMALL_BYTES = 4 * 1024  # of an answer that no codec reads apart
UNCOUNTED_BYTES = 64 * 1024  # of an answer that is read and written for its caller
LONG_BYTES = 256 * 1024  # of an answer that is read between two turns of the event loop: 8 MiB take 10 ms
LIST_TIMEOUT_S = 30.0  # a catalogue is asked for in the background
NEXT_LIST_S = 5.0  # while another replica is left to be asked; the start waits for the first catalogue
CHECK_TIMEOUT_S = 5.0  # a check only has to show whether a replica answers
MAX_LOCATION = 200  # bytes of where a redirect leads, in such a message
SHOWN_BYTES = 60  # of an answer, in a message to an operator
NOWHERE_ELSE = frozenset((Kind.INVALID, Kind.NO_TOKEN))  # kinds of errors that no other replica spares
BROKEN_KINDS = frozenset((Kind.PROTOCOL, Kind.TOO_LARGE))  # there was an answer, and it cannot be read
NOT_ANSWERED = (502, 503, 504)  # a proxy finds no server, or the server takes no calls: no tool has run
BROKEN = ToolResult(
    failure=ToolFailure(message="The tool server gave a broken answer.", code=FailureCode.BROKEN_ANSWER)
)
TOO_LARGE = "The tool has run, and its answer is lost, because it passes a limit of the gateway."

Send = Callable[[Lease[Server], WireRequest, Invocation, float], Awaitable[Reply]]  # the last is a deadline
Ask = Callable[[Server, float], Awaitable[Reply]]  # how long it may take, in seconds


def note_status(lease: Lease[Server], status: int) -> None:
    """Reports a status to the breakers: below 500 is an answer, 502 to 504 blame the server, others the tool."""
    if status < 500:
        lease.answered = True
    elif status in NOT_ANSWERED:
        lease.failed(f"status {status}")
    else:
        lease.tool_failed(f"status {status}")


def note_broken_off(lease: Lease[Server], exc: TransportError, given_s: float, *, runs_tool: bool = True) -> None:
    """Reports a broken exchange that had `given_s` to the breakers.

    Against the tool count timeouts and broken answers of a call that was sent; against the server everything else, and
    everything in an exchange in which no tool runs.
    """
    if lease.replica.target.is_to_blame(exc, given_s):
        if runs_tool and exc.sent and (exc.kind is Kind.TIMEOUT or exc.kind in BROKEN_KINDS):
            lease.tool_failed(str(exc.kind))
        else:
            lease.failed(str(exc.kind))


def _broken(message: str) -> ToolResult:
    """The result of a call with a broken answer, in words for the caller if there are any."""
    return ToolResult(failure=ToolFailure(message=message, code=FailureCode.BROKEN_ANSWER)) if message else BROKEN


def check_sent(exc: TransportError) -> None:
    """Raises BACKEND_UNAVAILABLE for a request of which nothing was sent."""
    if not exc.sent:
        raise _unavailable(exc) from exc


def _unavailable(exc: TransportError, where: str = "") -> GatewayError:
    retry_after_s = exc.retry_after_s if isinstance(exc, NoTokenError) else RETRY_AFTER_S
    return unavailable(f"{exc.kind}: {exc}{where}", retry_after_s)


class HttpExchange:
    """One backend's way to its tool server and the replicas of that. Durations in seconds, sizes in bytes.

    `list_request` asks for the tools, which runs none: it also shows whether a replica answers. `call_path` is the
    codec's other path, once the tool server was found not to have the first. A protocol that needs more than one
    exchange gives `send`, which sends a call to a replica before a deadline and returns the answer, and `ask`, which
    asks a replica for the tools. Both raise TransportError, which says whether a call was sent.
    """

    def __init__(
        self,
        name: str,
        settings: BackendSettings,
        context: BackendContext,
        list_request: WireRequest,
        *,
        send: Send | None = None,
        ask: Ask | None = None,
    ) -> None:
        self.call_path: str | None = None
        self.credentials = credentials_of(settings, name)
        self.tokens = self.credentials if isinstance(self.credentials, ClientCredentials) else None
        self._name = name
        self._admission = context.admission
        self._servers = [replica.target for replica in context.admission.replicas]
        self._challenges = UpstreamChallenges(name, self._servers, self.credentials)
        self._checker = context.checker
        self._memory = context.memory
        self._max_response_bytes = settings.max_response_bytes
        self._list_request = list_request
        self._send: Send = send or (self._send_with_token if self.tokens else self._send_whole)
        self._ask: Ask = ask or (self._ask_with_token if self.tokens else self._ask_whole)
        self._admission.check = self._trouble_with

    # Calls.

    async def call(  # noqa: C901 - flat, because every call takes this way
        self, codec: CallCodec, invocation: Invocation, gate: DispatchGate | None = None
    ) -> ToolResult:
        """Runs a tool; every failure after the first byte went out is a result (RFC 9110: a POST is not repeated).

        Raises GatewayError: BACKEND_UNAVAILABLE while nothing was sent, or what the tool server refused with.
        """
        started = monotonic()
        request = codec.request_call(invocation)
        if self.call_path is not None:
            request = replace(request, path=self.call_path)
        deadline, begun, status = started + invocation.timeout_s, started, 0
        tool = invocation.tool.remote_id
        lease = self._admission.enter(tool)
        if lease is None:
            lease = await self._admission.wait(tool, invocation.timeout_s, gate)
            begun = monotonic()
        try:
            try:
                reply = await self._send(lease, request, invocation, deadline)
            except TransportError as exc:
                reply = await self._resend(exc, lease, request, invocation, deadline)
            if reply.status == 404:
                reply = await self._try_other_path(codec, reply, lease, request, invocation, deadline)
            status, document = reply.status, None
            if len(reply.body) > SMALL_BYTES:
                if self._memory is not None and len(reply.body) > UNCOUNTED_BYTES:
                    self._memory.keep(len(reply.body))
                if (reading := codec.reading(reply, invocation)) is not None:
                    document = await self._read_large(reading, invocation)
            result = codec.decode_reply(reply, invocation, document)
            if status < 500 or status in codec.tool_error_statuses:
                lease.answered = True
            else:
                note_status(lease, status)
        except TransportError as exc:
            return self._broke_off(exc, lease, invocation, deadline - begun)
        except replies.BrokenReplyError as exc:
            if 400 <= status < 500:
                lease.answered = True
            else:
                lease.tool_failed("a broken answer")
            reason = _shown(reply) if 300 <= status < 400 else str(exc)
            about = {"backend": self._name, "toolgate_call_id": invocation.call_id, "reason": reason}
            log.warning("a tool server gave a broken answer", extra=about)
            return replace(_broken(exc.message), status=status)
        except GatewayError as refusal:
            lease.answered = True
            error = self._challenges.completed(refusal, lease.replica.target)
            error.status, error.tool_code = status, refusal.tool_code
            raise error from None
        finally:
            self._admission.leave(lease)
        if result.failure is not None:
            result = replace(result, status=status)
        if result.duration_ms is None:
            result = replace(result, duration_ms=int((monotonic() - started) * 1e6) / 1e3)
        return result

    def _send_whole(
        self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Awaitable[Reply]:
        server = lease.replica.target
        return server.pool.request(
            request.method,
            server.target(request.path),
            (USER_AGENT, *request.headers, *self.credentials(invocation.principal)),
            request.body,
            more=invocation.headers,
            timeout_s=max(deadline - monotonic(), 0.001),
            max_body=self._max_response_bytes,
        )

    def _send_with_token(
        self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Awaitable[Reply]:
        assert self.tokens is not None
        send = partial(self._send_whole, lease, request, invocation, deadline)
        return self.tokens.authorized(send, deadline - monotonic())

    async def _resend(
        self, exc: TransportError, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Reply:
        """Sends to the next replica what provably was not sent, in time.

        What was sent is sent once more if the route is idempotent and the connection broke before an answer: to
        another replica if one is worth asking. Raises TransportError.
        """
        was_sent = False
        while monotonic() < deadline:
            if exc.sent:
                if was_sent or exc.kind is not Kind.CLOSED or not invocation.idempotent:
                    break
                was_sent = True
                self._admission.move(lease, reason=str(exc.kind), counts=True, may_return=True)
            # With time left, a timeout was the fault of this replica.
            elif exc.kind in NOWHERE_ELSE or not self._admission.move(
                lease, reason=str(exc.kind), counts=exc.kind is not Kind.BUSY
            ):
                break
            try:
                return await self._send(lease, request, invocation, deadline)
            except TransportError as again:
                exc = again
        try:
            if was_sent and not exc.sent:  # the second was not sent, but the first was
                raise TransportError(exc.kind, str(exc), sent=True) from exc
            raise exc
        finally:
            del exc  # its traceback leads to this frame

    async def _try_other_path(
        self,
        codec: CallCodec,
        reply: Reply,
        lease: Lease[Server],
        request: WireRequest,
        invocation: Invocation,
        deadline: float,
    ) -> Reply:
        """Tries the codec's other path if the 404 was about the first: nothing ran there. Raises TransportError."""
        other = next((path for path in codec.call_paths if path != request.path), None)
        if other is None or not replies.is_unknown_path(reply):
            return reply
        request = replace(request, path=other)
        try:
            reply = await self._send(lease, request, invocation, deadline)
        except TransportError as exc:
            reply = await self._resend(exc, lease, request, invocation, deadline)
        self.call_path = other if reply.status == 200 else None
        return reply

    async def _read_large(self, reading: LargeReply, invocation: Invocation) -> Json:
        """Reads an answer of very many values, or one that is not JSON as it is, in another process; None if it cannot.

        A long one is read in a turn of its own.
        """
        text, owner, is_long = reading.text, invocation.principal, len(reading.text) > LONG_BYTES
        try:
            if not reading.select and not jsontext.is_wide(text):
                if is_long:
                    await asyncio.sleep(0)
                try:
                    document = jsontext.decode(text, replies.MAX_DEPTH)
                except jsontext.JsonError:  # halves of characters are put right where there is more time
                    pass
                else:
                    if is_long:
                        await asyncio.sleep(0)
                    return document
            if reading.read is not None:
                return await self._checker.value(reading.read, text, reading.select, replies.MAX_DEPTH, owner)
            return await self._checker.read_answer(text, reading.members or (), replies.MAX_DEPTH, owner)
        except (OffloadError, jsontext.JsonError) as exc:
            log.info("a large answer cannot be read", extra={"backend": self._name, "reason": repr(exc)})
            return None

    def _broke_off(
        self, exc: TransportError, lease: Lease[Server], invocation: Invocation, given_s: float
    ) -> ToolResult:
        """The result of a call that may have run. Raises BACKEND_UNAVAILABLE if nothing was sent."""
        note_broken_off(lease, exc, given_s)
        check_sent(exc)
        about = {"backend": self._name, "kind": str(exc.kind), "reason": str(exc)}
        about |= {"toolgate_call_id": invocation.call_id}
        log.warning("a tool server did not complete its answer", extra=about)
        if exc.kind is Kind.TOO_LARGE:
            message = f"{TOO_LARGE} {exc} The max_response of its backend is {self._max_response_bytes} bytes."
            return ToolResult(failure=ToolFailure(message=message, code=FailureCode.RESULT_TOO_LARGE))
        if exc.kind in BROKEN_KINDS:
            return BROKEN
        if exc.kind is Kind.TIMEOUT:
            outcome = "timeout"
            message = f"The tool did not answer within {invocation.timeout_s:g} seconds; it may still be running."
        else:
            outcome, message = "unknown", "The connection to the tool server broke; the tool may have run."
        return ToolResult(failure=ToolFailure(message=message, can_retry=invocation.idempotent, outcome=outcome))

    # Lists, checks and challenges.

    async def list_tools(self, read: Callable[[Reply], Awaitable[Listing]]) -> Listing:
        """Asks a replica for its tools, and the next one when that fails. Raises BACKEND_UNAVAILABLE, as may `read`.

        Failures here do not count against a replica: calls may get through all the same.
        """
        replicas = self._admission.by_preference()
        for replica in replicas[:-1]:
            try:
                return await self._list_from(replica, NEXT_LIST_S, read)
            except GatewayError as exc:
                extra = {"backend": self._name, "replica": replica.name, "reason": exc.detail}
                log.info("a replica does not list its tools; asking the next", extra=extra)
        return await self._list_from(replicas[-1], LIST_TIMEOUT_S, read)

    async def _list_from(
        self, replica: Replica[Server], timeout_s: float, read: Callable[[Reply], Awaitable[Listing]]
    ) -> Listing:
        url = replica.target.url + self._list_request.path
        try:
            reply = await self._ask(replica.target, timeout_s)
        except TransportError as exc:
            where = "" if exc.kind in NAMES_ORIGIN else f" ({url})"
            raise _unavailable(exc, where) from exc
        answered = f"{url} answered {_shown(reply)}"
        if not 200 <= reply.status < 300:
            raise unavailable(answered)
        reading = read(reply)
        del reply  # up to 64 MiB, which `read` keeps as long as it needs it
        try:
            listing = await reading
        except GatewayError as exc:
            raise unavailable(f"{exc.detail}; {answered}") from exc
        replica.has_listed = True
        replica.breaker.note_alive()
        return listing

    async def _trouble_with(self, server: Server) -> str | None:
        """Asks a replica for its list. Returns why there was no answer below 500; None if there was one."""
        try:
            reply = await self._ask(server, CHECK_TIMEOUT_S)
        except TransportError as exc:
            return None if exc.kind is Kind.TOO_LARGE else f"{exc.kind}: {exc}"
        except GatewayError:  # an answer, although it is no list
            return None
        return None if reply.status < 500 else f"status {reply.status}"

    def _ask_with_token(self, server: Server, timeout_s: float) -> Awaitable[Reply]:
        assert self.tokens is not None
        return self.tokens.authorized(partial(self._ask_whole, server, timeout_s), timeout_s)

    def _ask_whole(self, server: Server, timeout_s: float) -> Awaitable[Reply]:
        request = self._list_request
        return server.pool.request(
            request.method,
            server.target(request.path),
            (USER_AGENT, *request.headers, *self.credentials("anonymous")),
            request.body,
            timeout_s=timeout_s,
            max_body=MAX_LIST_BYTES,
        )

    async def challenge_status(self, check_url: str) -> str:
        """How a challenge stands: `pending`, `completed` or `failed`."""
        if self.tokens is not None:
            with suppress(TransportError):
                await self.tokens.ready(CHECK_TIMEOUT_S)
        return await self._challenges.status(check_url)

    async def aclose(self) -> None:
        """Refuses the calls that wait and closes every connection."""
        await self._admission.aclose()
        if self.tokens is not None:
            await self.tokens.aclose()
        for server in self._servers:
            await server.pool.aclose()


def _shown(reply: Reply) -> str:
    """An answer that is not what it should be, for an operator: its status, its type, and how it begins."""
    text = f"{reply.status}, {(reply.header(b'content-type') or b'no content type').decode('latin-1')[:SHOWN_BYTES]}"
    if 300 <= reply.status < 400 and (location := reply.header(b"location")) is not None:
        text = f"{reply.status}, a redirect to {location.partition(b'?')[0][:MAX_LOCATION].decode('latin-1')}"
    elif begin := " ".join(reply.body[:SHOWN_BYTES].decode("utf-8", "replace").split()):
        text += f", {begin!r}"
    return "".join(character for character in text if character.isprintable())
