"""The backend for tool servers that speak OTC or OXP over HTTP, in any form real ones do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from time import monotonic
from typing import Literal

from msgspec.structs import replace

from gateway import jsontext
from gateway.admission import Admission, DispatchGate, Lease, Replica
from gateway.backends.credentials import Credentials
from gateway.backends.http_listing import ListReader, Terms, unlisted
from gateway.backends.http_refusals import Refusals
from gateway.backends.server import BROKEN_KINDS, USER_AGENT, Server, note_broken_off, note_status
from gateway.dialects import recognise, replies
from gateway.errors import FailureCode, GatewayError, unavailable
from gateway.model import Invocation, Json, Listing, ToolFailure, ToolResult
from gateway.offload import Checker, OffloadError
from gateway.ports import Backend, ServerDialect
from gateway.transport import Kind, Reply, TransportError
from gateway.wire import Headers, WireRequest

log = logging.getLogger("gateway.backends")

MAX_LIST_BYTES = 64 * 1024 * 1024  # 20,000 tools of 3 KiB each
LONG_BYTES = 1024 * 1024  # of an answer that is read between two looks at the event loop: 8 MiB take 10 ms
LIST_TIMEOUT_S = 30.0  # a catalogue is asked for in the background; nobody waits for it
NEXT_LIST_S = 5.0  # while another replica is left to be asked; the start waits for the first catalogue
CHECK_TIMEOUT_S = 5.0  # whoever asks only wants to know whether anybody is there
BROKEN = ToolResult(
    failure=ToolFailure(message="The tool server gave a broken answer.", code=FailureCode.BROKEN_ANSWER)
)


class HttpBackend:
    """One tool server, or several replicas of it. Durations in seconds, sizes in bytes.

    `dialect` None: learned from the tool server's catalogue, again each time it is listed.
    """

    deferred: Literal[False] = False

    def __init__(
        self,
        name: str,
        admission: Admission[Server],
        *,
        dialect: ServerDialect | None,
        asks_in: ServerDialect,
        credentials: Credentials,
        toolkit: str,
        max_response_bytes: int,
        checker: Checker,
        lists: Terms = Terms(),  # noqa: B008 - frozen
    ) -> None:
        self.name = name
        self._admission = admission
        self._servers = [replica.target for replica in admission.replicas]
        admission.check = self._answers
        self._fixed = dialect
        self._dialect = dialect or asks_in
        self._asks_in = asks_in
        self._credentials = credentials
        self._refusals = Refusals(name, self._servers, credentials)
        self._reader = ListReader(name, toolkit, lists)
        self._max_response_bytes = max_response_bytes
        self._checker = checker
        self._call_path: str | None = None  # set once a tool server was found not to have the first

    @property
    def dialect(self) -> str:
        """The wire form in use: fixed, or learned from the last list."""
        return self._dialect.name

    def take_over(self, before: Backend) -> None:
        """Speaks as the backend that it replaces had learned to, until it has heard its tool server itself."""
        if self._fixed is None and isinstance(before, HttpBackend):
            self._dialect, self._call_path = before._dialect, before._call_path

    async def call(self, invocation: Invocation, gate: DispatchGate | None = None) -> ToolResult:
        """Runs a tool; every failure after the first byte went out is a result (RFC 9110: a POST is not repeated).

        Raises GatewayError: BACKEND_UNAVAILABLE while nothing was sent, or what the tool server refused with.
        """
        dialect, started = self._dialect, monotonic()
        request = dialect.request_call(invocation)
        if self._call_path is not None:
            request = replace(request, path=self._call_path)
        deadline, begun = started + invocation.timeout_s, started
        tool = invocation.tool.remote_id
        lease = self._admission.enter(tool)
        if lease is None:
            lease = await self._admission.wait(tool, invocation.timeout_s, gate)
            begun = monotonic()
        try:
            try:
                reply = await self._send(lease, request, invocation, deadline)
            except TransportError as exc:
                reply = await self._again(exc, lease, request, invocation, deadline)
            if reply.status == 404:
                reply = await self._elsewhere(reply, lease, request, invocation, deadline)
            document = None
            if reply.status == 200 and len(reply.body) > jsontext.ALWAYS_HERE_BYTES:
                document = await self._read_large(reply, invocation)
            result = self._read(reply, lease, dialect, invocation, document)
        except TransportError as exc:
            return self._broke_off(exc, lease, invocation, deadline - begun)
        finally:
            self._admission.leave(lease)
        if result.duration_ms is None:
            took_ms = int((monotonic() - started) * 1e6) / 1e3
            value, size = result.value, result.value_bytes
            return ToolResult(value=value, failure=result.failure, duration_ms=took_ms, value_bytes=size)
        return result

    async def _read_large(self, reply: Reply, invocation: Invocation) -> Json:
        """Reads an answer of very many values in another process, a long one in a turn of its own.

        None if it is neither, or cannot be read.
        """
        text = replies.without_mark(reply.body)
        try:
            if jsontext.is_wide(text):
                owner = invocation.principal
                return await self._checker.read(text, replies.VALUE, replies.MAX_DEPTH, owner, is_owed=True)
            if len(text) <= LONG_BYTES:
                return None
            await asyncio.sleep(0)
            document = jsontext.decode(text, replies.MAX_DEPTH)
            await asyncio.sleep(0)
            return document
        except (OffloadError, jsontext.JsonError) as exc:
            log.info("a large answer cannot be read", extra={"backend": self.name, "reason": repr(exc)})
            return None

    def _read(
        self, reply: Reply, lease: Lease[Server], dialect: ServerDialect, invocation: Invocation, document: Json
    ) -> ToolResult:
        """Reads an answer, and tells the breakers what it says. Raises what the tool server refused with."""
        status = reply.status
        try:
            result = replies.decode_reply(reply, invocation, document)
        except replies.BrokenReplyError as exc:
            if 400 <= status < 500:
                lease.answered = True
            else:
                lease.tool_failed("a broken answer")
            log.warning("a tool server gave a broken answer", extra={"backend": self.name, "reason": str(exc)})
            return BROKEN
        except GatewayError as error:
            lease.answered = True
            raise self._refusals.completed(error, lease.replica.target) from None
        if status < 500 or (status == 500 and dialect is recognise.LC):  # LC's way to say `success: false`
            lease.answered = True
        else:
            note_status(lease, status)
        challenge = replies.in_band_challenge(result.value) if dialect is recognise.LC else None
        if challenge is not None:
            raise self._refusals.completed(challenge, lease.replica.target)
        return result

    async def _again(
        self, exc: TransportError, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Reply:
        """Sends to the next replica what provably was not sent, in time.

        What was is sent a second time, once, if the route allows it and the connection broke before an answer: to
        another replica if one is worth asking.
        """
        sent = False
        while monotonic() < deadline:
            if exc.sent:
                if sent or exc.kind is not Kind.CLOSED or not invocation.idempotent:
                    break
                sent = True
                self._admission.move(lease, reason=str(exc.kind), counts=True, may_return=True)
            elif exc.kind is Kind.INVALID or not self._move(lease, exc.kind):
                break
            try:
                return await self._send(lease, request, invocation, deadline)
            except TransportError as again:
                exc = again
        if sent and not exc.sent:  # whatever became of the second, the first was sent
            raise TransportError(exc.kind, str(exc), sent=True) from exc
        raise exc

    def _move(self, lease: Lease[Server], kind: Kind) -> bool:
        """Takes another replica; with time left, running out of it was the fault of this one."""
        return self._admission.move(lease, reason=str(kind), counts=kind is not Kind.BUSY)

    async def _elsewhere(
        self, reply: Reply, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Reply:
        """Tries the dialect's other path if the 404 was about the first: nothing ran there."""
        other = next((path for path in self._dialect.call_paths if path != request.path), None)
        if other is None or not replies.is_unknown_path(reply):
            return reply
        request = replace(request, path=other)
        try:
            reply = await self._send(lease, request, invocation, deadline)
        except TransportError as exc:
            reply = await self._again(exc, lease, request, invocation, deadline)
        self._call_path = other if reply.status == 200 else None
        return reply

    def _send(
        self, lease: Lease[Server], request: WireRequest, invocation: Invocation, deadline: float
    ) -> Awaitable[Reply]:
        server = lease.replica.target
        return server.pool.request(
            request.method,
            server.target(request.path),
            (USER_AGENT, *request.headers, *self._credentials.headers(invocation.principal)),
            request.body,
            more=invocation.headers,
            timeout_s=max(deadline - monotonic(), 0.001),
            max_body=self._max_response_bytes,
        )

    def _broke_off(
        self, exc: TransportError, lease: Lease[Server], invocation: Invocation, given_s: float
    ) -> ToolResult:
        """Raises BACKEND_UNAVAILABLE when nothing was sent; else tells the truth about what may have happened."""
        note_broken_off(lease, exc, given_s)
        if not exc.sent:
            raise unavailable(f"{exc.kind}: {exc}") from exc
        log.warning("a tool server broke off", extra={"backend": self.name, "kind": str(exc.kind)})
        outcome = "unknown"
        if exc.kind is Kind.TIMEOUT:
            outcome = "timeout"
            message = f"The tool did not answer within {invocation.timeout_s:g} seconds; it may still be running."
        elif exc.kind in BROKEN_KINDS:
            return BROKEN
        else:
            message = "The tool server broke off; the tool may have run."
        return ToolResult(failure=ToolFailure(message=message, can_retry=invocation.idempotent, outcome=outcome))

    async def list_tools(self) -> Listing:
        """Asks a replica for the catalogue, the next when that fails; learns the dialect. Raises BACKEND_UNAVAILABLE.

        Failures here do not count against a replica: calls may get through all the same.
        """
        replicas = self._admission.by_worth()
        for replica in replicas[:-1]:
            try:
                return await self._list_from(replica, NEXT_LIST_S)
            except GatewayError as exc:
                extra = {"backend": self.name, "replica": replica.name, "reason": exc.detail}
                log.info("a replica does not list its tools; asking the next", extra=extra)
        return await self._list_from(replicas[-1], LIST_TIMEOUT_S)

    async def _list_from(self, replica: Replica[Server], timeout_s: float) -> Listing:
        request = self._asks_in.request_list()
        try:
            reply = await self._ask(replica.target, replica.target.target(request.path), request.headers, timeout_s)
            if reply.status != 200:
                raise unlisted(f"its answer has status {reply.status}")
        except TransportError as exc:
            raise unlisted(f"{exc.kind}: {exc}") from exc
        reading = self._reader.read(reply.body, tuple(reply.headers))
        del reply  # up to 64 MiB, which the reader lets go of
        shown, listing = await reading
        self._admission.vouch_for(replica)
        learned = self._fixed or recognise.SERVER_DIALECTS[shown]
        if learned is not self._dialect:
            self._dialect, self._call_path = learned, None
        return listing

    async def _answers(self, server: Server) -> bool:
        """Whether a replica answers at all; asking for its tools runs none."""
        request = self._asks_in.request_list()
        try:
            reply = await self._ask(server, server.target(request.path), request.headers, CHECK_TIMEOUT_S)
        except TransportError as exc:
            return exc.kind is Kind.TOO_LARGE
        return reply.status < 500

    def _ask(self, server: Server, target: bytes, headers: Headers, timeout_s: float) -> Awaitable[Reply]:
        credentials = self._credentials.headers("anonymous")
        return server.pool.request(
            b"GET", target, (USER_AGENT, *headers, *credentials), b"", timeout_s=timeout_s, max_body=MAX_LIST_BYTES
        )

    async def challenge_status(self, check_url: str) -> str:
        """How a challenge of this backend stands: `pending`, `completed` or `failed`."""
        return await self._refusals.challenge_status(check_url)

    async def aclose(self) -> None:
        await self._admission.aclose()
        for server in self._servers:
            await server.pool.aclose()
