"""The RCRT server under test, with its runner: requests for tools, and the responses to them.

Follows RCRT's tools-runner as of November 2025.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import NEEDS_CALL, SkippedError, UnfitError
from toolgate_conformance.http import Answer, Client
from toolgate_conformance.servers.rcrt.messages import REQUEST, RESPONSE, Response, StoredRequest, answers, response_in
from toolgate_conformance.servers.rcrt.store import KIT, Limits, Store, record_in

WORKSPACE = "workspace:tools"
CODE, CATALOG = "tool.code.v1", "tool.catalog.v1"
NO_TOOL = "kit-no-such-tool"
PAGE = 200  # tools of a list
MAX_TOOLS = 200  # whose records are read


class RcrtServer(Store):
    """The server under test, with the calls that may be made."""

    def __init__(
        self,
        client: Client,
        headers: Mapping[str, str],
        calls: Sequence[ToolCall] = (),
        *,
        owner_id: str | None = None,
        agent_id: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(client, headers, owner_id, agent_id, limits or Limits())
        self.calls = calls
        self._records: list[tuple[dict[str, Any], Answer]] | None = None
        self._unanswered: str | None = None

    # Requests for tools.

    def allowed(self) -> ToolCall:
        """The first call that may be made. Raises SkippedError."""
        if not self.calls:
            raise SkippedError(NEEDS_CALL)
        return self.calls[0]

    async def ask(
        self, tool: str, given: Any, *, tags: Sequence[str] | None = None, has_id: bool = True
    ) -> StoredRequest:
        """Stores a request; without an id of its own it is identified by its breadcrumb."""
        own = self.new_id()
        context = {"tool": tool, "input": given, "requestedBy": KIT, "return_to_llm": False}
        draft = self.draft(
            schema_name=REQUEST,
            title=f"conformance: {tool}",
            tags=[*(("tool:request", WORKSPACE) if tags is None else tags), KIT, f"kit:{own}"],
            context=context | ({"requestId": own} if has_id else {}),
        )
        crumb_id, answer = await self.created(draft, idempotency_key=own)
        return StoredRequest(own if has_id else crumb_id, crumb_id, answer)

    async def responses(self, asked: StoredRequest) -> list[Response]:
        """The responses to a request so far, each once: those that came as events, then those in lists."""
        stream = self._shared
        found = [] if stream is None else stream.found(lambda event: answers(asked, event))
        entries = list(found)
        for tag in (f"request:{asked.request_id}", "error"):  # for an unknown tool, there is no tag of the request
            query = {"schema_name": RESPONSE, "tag": tag, "include_context": "true", "limit": 50}
            listed, _ = await self.entries(**query)
            entries += [entry | {"breadcrumb_id": entry.get("id")} for entry in listed if answers(asked, entry)]
        by_id: dict[str, Response] = {}
        for entry in entries:
            made = response_in(asked, entry)
            by_id.setdefault(made.crumb_id, made)
            if made.crumb_id not in self._stored:
                self._stored.append(made.crumb_id)
        return list(by_id.values())

    async def response(self, asked: StoredRequest, within_s: float | None = None) -> Response | None:
        """The first response to a request: from an event, or from the list if that was lost; None if it is late."""
        limits = self.limits
        ends_at = time.monotonic() + (limits.response_s if within_s is None else within_s)
        while True:
            stream = self._shared
            left_s = max(0.0, min(limits.poll_s, ends_at - time.monotonic()))
            if stream is None or stream.has_ended:
                await asyncio.sleep(left_s)
            else:
                await stream.wait(lambda event: answers(asked, event), left_s)
            if found := await self.responses(asked):
                return found[0]
            if time.monotonic() >= ends_at:
                return None

    async def must_respond(self, asked: StoredRequest) -> Response:
        """The first response to a request. Raises UnfitError without one."""
        response = await self.response(asked)
        if response is None:
            expected = f"A response within {self.limits.response_s:g} s."
            raise UnfitError(expected, asked.answer.exchange)
        return response

    async def ask_unknown(self) -> StoredRequest:
        """Stores a request for a tool that does not exist."""
        return await self.ask(NO_TOOL, {})

    async def made(self, call: ToolCall) -> tuple[StoredRequest, Response]:
        """Makes a call that is allowed. Raises SkippedError if it is not answered, which is a check of its own."""
        if self._unanswered is not None:
            raise SkippedError(self._unanswered)
        with contextlib.suppress(SkippedError):  # then the list has the response
            await self.events()
        asked = await self.ask(call.tool, call.input)
        response = await self.response(asked)
        if response is None:
            self._unanswered = "The call of --call gets no response."
            raise SkippedError(self._unanswered)
        return asked, response

    async def stay_quiet(self, call: ToolCall) -> None:
        """Makes a call, and waits for as long as another one may take to run. Raises SkippedError as `made` does."""
        began_at = time.monotonic()
        await self.made(call)
        took_s = time.monotonic() - began_at
        await asyncio.sleep(min(took_s + self.limits.quiet_s, self.limits.absent_s))

    # Tools.

    async def tools(self) -> list[tuple[dict[str, Any], Answer]]:
        """The records of the tools in the workspace, read once. Raises SkippedError if there are none."""
        if self._records is None:
            try:
                listed, _ = await self.entries(schema_name=CODE, tag=WORKSPACE, limit=PAGE)
                self._records = await self._readable([str(entry.get("id")) for entry in listed[:MAX_TOOLS]])
            except UnfitError as exc:  # which is a check of its own
                raise SkippedError("The tools cannot be read.") from exc
        if not self._records:
            raise SkippedError(f"There is no {CODE} in {WORKSPACE}.")
        return self._records

    async def _readable(self, crumb_ids: Sequence[str]) -> list[tuple[dict[str, Any], Answer]]:
        """The records of breadcrumbs, without those of other owners, which lists contain too. Raises UnfitError."""
        answers_ = [await self.read(crumb_id) for crumb_id in crumb_ids]
        return [record_in(answer) for answer in answers_ if answer.status != 404]


@asynccontextmanager
async def rcrt_subject(
    url: str,
    headers: Mapping[str, str],
    calls: Sequence[ToolCall],
    owner_id: str | None = None,
    agent_id: str | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[RcrtServer]:
    """The server to judge; what the checks store there is deleted at the end."""
    client = Client(url, headers)
    server = RcrtServer(client, headers, calls, owner_id=owner_id, agent_id=agent_id, limits=limits)
    try:
        yield server
    finally:
        await server.aclose()
        await client.aclose()


def context_in(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The context of a breadcrumb; empty if it is not an object."""
    found = record.get("context")
    return found if isinstance(found, dict) else {}


def schema_in(context: Mapping[str, Any], which: str) -> Any:
    """The `input` or `output` schema in the context of a tool, under its present name or an older one."""
    older = context.get("definition")
    places = [context, older if isinstance(older, dict) else {}]
    found = [place[name] for place in places for name in (f"{which}_schema", f"{which}Schema") if name in place]
    return found[0] if found else context.get("parameters") if which == "input" else None
