"""A RAP server under test, as the checks call it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from toolgate_conformance.callbacks import Callback, Receiver, Reply, accept
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import NEEDS_CALL, SkippedError, UnfitError
from toolgate_conformance.http import JSON, Answer, Client
from toolgate_conformance.samples import sample
from toolgate_conformance.servers.rap.invocation import (
    CANCEL,
    CLOSE,
    OUTCOMES,
    TOOLSET,
    Invocation,
    Waits,
    default_of,
    is_url,
    origin,
)

MAX_QUESTIONS = 5  # of one call


class RapServer:
    """The server under test, and what is known of it: its toolset, and what came of the calls that may be made."""

    def __init__(
        self,
        client: Client,
        calls: Sequence[ToolCall],
        receiver: Receiver,
        waits: Waits,
        *,
        has_credential: bool,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` shows a sentence to the person who runs the checks."""
        self.client = client
        self.calls = calls
        self.receiver = receiver
        self.waits = waits
        self.has_credential = has_credential
        self._tell = tell
        self._toolset: dict[str, Any] | None = None
        self._observing: asyncio.Task[list[tuple[ToolCall, Invocation]]] | None = None

    async def aclose(self) -> None:
        """Ends observing, if the checks ended first."""
        if self._observing is not None:
            self._observing.cancel()
            await asyncio.wait({self._observing})

    # The toolset.

    async def discover(self, **more: Any) -> Answer:
        """Asks for the toolset."""
        return await self.client.send("GET", TOOLSET, headers={"accept": "application/json"}, **more)

    async def toolset(self) -> dict[str, Any]:
        """The toolset, asked for once. Raises SkippedError where there is none to read."""
        if self._toolset is None:
            try:
                answer = await self.discover()
                document = answer.document
            except UnfitError as exc:
                raise SkippedError("The toolset cannot be read.") from exc
            if answer.status != 200 or not isinstance(document, dict):
                raise SkippedError("The toolset cannot be read.")
            self._toolset = document
        return self._toolset

    async def tools(self) -> list[dict[str, Any]]:
        """The definitions in the toolset that are objects. Raises SkippedError."""
        listed = (await self.toolset()).get("tools")
        found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        if not found:
            raise SkippedError("The toolset has no tools.")
        return found

    async def endpoint(self) -> str:
        """Where invocations go. Raises SkippedError."""
        endpoint = (await self.toolset()).get("endpoint")
        if not is_url(endpoint):
            raise SkippedError("The toolset names no endpoint.")
        return str(endpoint)

    # Invocations.

    async def post(self, body: bytes, **more: Any) -> Answer:
        """Sends a body to the endpoint. Credentials go to the server's own origin only."""
        endpoint = await self.endpoint()
        is_known = more.pop("is_known", True) and origin(endpoint) == origin(self.client.url)
        headers = JSON | more.pop("headers", {})
        return await self.client.send("POST", endpoint, body=body, headers=headers, is_known=is_known, **more)

    def open_call(self, call_id: str | None = None, group_id: str | None = None, reply: Reply = accept) -> Invocation:
        """The ids of a call, and the place for its callbacks."""
        id_ = f"kit-{secrets.token_hex(16)}"
        group = group_id or f"kit-thread-{secrets.token_hex(8)}"
        return Invocation(id=id_, group_id=group, call_id=call_id, inbox=self.receiver.open_inbox(reply))

    async def invoke(
        self,
        operation: Any,
        arguments: Any,
        *,
        call_id: str | None = None,
        reply: Reply = accept,
        context: Mapping[str, Any] | None = None,
        without: Collection[str] = (),
        members: Mapping[str, Any] | None = None,
        is_known: bool = True,
    ) -> Invocation:
        """Sends an invocation as the gateway does, but for the members that are left out or are others.

        Without an acknowledgement the trouble is noted (Tool Invocation, Request).
        """
        given = context or {}
        invocation = self.open_call(call_id, given.get("group_id"), reply)
        body = {**invocation.members(operation, arguments, given), **(members or {})}
        data = json.dumps({name: value for name, value in body.items() if name not in without}).encode()
        invocation.sent_s = time.monotonic()
        try:
            invocation.ack = await self.post(data, is_known=is_known)
        except UnfitError as unfit:
            invocation.trouble = unfit
            invocation.sent = "" if unfit.exchange is None else unfit.exchange.sent
        invocation.acked_s = time.monotonic()
        return invocation

    async def make(self, call: ToolCall, **more: Any) -> Invocation:
        """Makes a call that is allowed."""
        return await self.invoke(call.tool, dict(call.input), context=call.context, **more)

    async def result(self, invocation: Invocation) -> Callback | None:
        """The result of a call that was sent, once it is there; None if it was not accepted, or brings none."""
        if not invocation.is_accepted:
            return None
        return await invocation.inbox.first(lambda it: it.kind == "tool_result", self.waits.result_s)

    async def finished(self, call: ToolCall, **more: Any) -> tuple[Invocation, Callback]:
        """Makes a call that is allowed, and has its result. Raises UnfitError without one."""
        invocation = await self.make(call, **more)
        invocation.acknowledgement().must(invocation.is_accepted, "Status 200 as the acknowledgement.")
        result = await self.result(invocation)
        if result is None:
            raise UnfitError("A result of this call.", invocation.exchange())
        return invocation, result

    async def quiet(self) -> None:
        """Waits for what may not come."""
        await asyncio.sleep(self.waits.quiet_s)

    # What came of the calls that may be made.

    async def observed(self) -> list[tuple[ToolCall, Invocation]]:
        """Each call that may be made, and what came of it: made once, one after the other. Raises SkippedError."""
        if self._observing is None:
            self._observing = asyncio.create_task(self._observe_all())
        # A check that runs out of time leaves the calls going: the next check waits for them, and repeats none.
        return await asyncio.shield(self._observing)

    async def _observe_all(self) -> list[tuple[ToolCall, Invocation]]:
        if not self.calls:
            self.calls = [await self._harmless()]
        observed = [(call, await self._observe(call, number)) for number, call in enumerate(self.calls)]
        await self.quiet()
        await self._cancel_what_goes_on([invocation for _, invocation in observed])
        return observed

    async def _harmless(self) -> ToolCall:
        """A call of a tool that the toolset declares as reading only. Raises SkippedError."""
        for tool in await self.tools():
            said = tool.get("annotations")
            annotations = said if isinstance(said, dict) else {}
            is_harmless = annotations.get("readOnly") is True and annotations.get("destructive") is not True
            if not is_harmless or annotations.get("requiresAuth") or annotations.get("longRunning") is True:
                continue
            name, arguments = tool.get("name"), sample(tool.get("inputSchema"))
            if isinstance(name, str) and arguments is not None:
                self._tell(f"{name} is called, because the toolset declares it as readOnly.")
                return ToolCall(name, arguments)
        raise SkippedError(NEEDS_CALL)

    async def accepted(self) -> list[tuple[ToolCall, Invocation]]:
        """Those that were acknowledged. Raises SkippedError if there are none."""
        found = [each for each in await self.observed() if each[1].is_accepted]
        if not found:
            raise SkippedError("No call of --call is acknowledged.")
        return found

    async def plain(self) -> ToolCall:
        """A call that may be made, and that brings a result without asking anybody. Raises SkippedError."""
        for call, invocation in await self.observed():
            kinds = {each.kind for each in invocation.inbox.callbacks}
            results = invocation.inbox.of("tool_result")
            is_subscription = any(each.document.get("subscription") is True for each in results)
            if results and not kinds & {"oauth", "user_choice"} and not is_subscription:
                return call
        raise SkippedError("No call of --call brings a result by itself.")

    async def calls_with(self, kind: str) -> list[tuple[ToolCall, Invocation, Callback]]:
        """Those that have brought a message of a type, each with it. Raises SkippedError."""
        found = [
            (call, invocation, callback)
            for call, invocation in await self.observed()
            for callback in invocation.inbox.of(kind)
        ]
        if not found:
            raise SkippedError(f"No call of --call brings a message `{kind}`.")
        return found

    async def callbacks(self) -> Iterator[tuple[Invocation, Callback]]:
        """All callbacks that have come. Raises SkippedError if there are none."""
        found = [(it, callback) for _, it in await self.accepted() for callback in it.inbox.callbacks]
        if not found:
            raise SkippedError("No callback has come.")
        return iter(found)

    async def _observe(self, call: ToolCall, number: int) -> Invocation:
        invocation = await self.make(call, call_id=f"kit-observed-{number}")
        if not invocation.is_accepted:
            return invocation
        seen, wait_s = 0, self.waits.result_s
        for _ in range(MAX_QUESTIONS):
            outcome = await invocation.inbox.first(lambda it: it.kind in OUTCOMES, wait_s, after=seen)
            if outcome is None or outcome.kind == "tool_result":
                break
            seen = invocation.inbox.callbacks.index(outcome) + 1
            if outcome.kind == "oauth":
                if not self.waits.consent_s:
                    break
                self._ask_for_consent(outcome)
                wait_s = self.waits.consent_s
                continue
            wait_s = self.waits.result_s
            try:
                invocation.choice = await self.choose(invocation, default_of(outcome), outcome)
            except (SkippedError, UnfitError) as exc:
                invocation.choice_trouble = exc
                break
        return invocation

    def _ask_for_consent(self, asked: Callback) -> None:
        url = asked.document.get("auth_url")
        self._tell(f"Consent at {url!r:.500}. The kit waits {self.waits.consent_s:g} s for the result.")

    async def choose(self, invocation: Invocation, selected: int, question: Callback) -> Answer:
        """Answers a question.

        Raises SkippedError for a `response_url` at another origin, and UnfitError if nothing answers there.
        """
        url = question.document.get("response_url")
        if not is_url(url) or origin(str(url)) not in (origin(self.client.url), origin(await self.endpoint())):
            raise SkippedError("The kit answers questions only at an origin of the server.")
        body = json.dumps({"id": invocation.id, "selected": selected}).encode()
        is_known = origin(str(url)) == origin(self.client.url)
        return await self.client.send("POST", str(url), body=body, headers=JSON, is_known=is_known)

    async def _cancel_what_goes_on(self, invocations: Sequence[Invocation]) -> None:
        """Cancels subscriptions, and calls that wait for somebody; what comes from then on comes too late."""
        going_on = [invocation for invocation in invocations if invocation.goes_on]
        for invocation in going_on:
            try:
                await self.cancel(invocation.group_id, invocation.id)
            except UnfitError:
                continue
            invocation.cancelled_s = time.monotonic()
        if going_on:
            await self.quiet()

    # Notices.

    async def cancel(self, group_id: str, id_: str) -> Answer:
        """Tool Cancellation."""
        return await self.notice(CANCEL, {"thread_id": group_id, "tool_call_id": id_})

    async def close(self, group_id: str) -> Answer:
        """Thread Closure."""
        return await self.notice(CLOSE, {"thread_id": group_id})

    async def notice(self, path: str, body: Any, **more: Any) -> Answer:
        """Sends a notice, below the URL of the server and not of the endpoint."""
        return await self.client.send("POST", path, body=json.dumps(body).encode(), headers=JSON, **more)
