"""The RCRT server under test, with its runner: tokens, breadcrumbs, the event stream, and requests for tools.

Follows RCRT's server and its tools-runner as of November 2025. Every breadcrumb that the checks store has the tag
`toolgate-kit` and a time to live, and is deleted at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from msgspec import Struct

from gateway.conformance.checks import NEEDS_CALL, SkippedError, UnfitError
from gateway.conformance.http import Answer, Client
from gateway.conformance.rcrt.events import Recording, recording
from gateway.conformance.rcrt.messages import REQUEST, RESPONSE, Asked, Response, answers, response_in
from gateway.conformance.rest import ToolCall

OWNER_ID = "00000000-0000-0000-0000-000000000001"  # the tenant of a server as it is shipped
AGENT_ID = "6f1c2b9e-4a0d-4e0e-9d0b-2f6f0a1b7c11"
ROLES = ["emitter", "subscriber"]
JSON = {"content-type": "application/json"}
WORKSPACE = "workspace:tools"
CODE, CATALOG = "tool.code.v1", "tool.catalog.v1"
NOTE = "toolgate.kit.v1"  # the schema of breadcrumbs that start no tool
KIT = "toolgate-kit"
NO_TOOL = "kit-no-such-tool"
UNISSUED = (404, 503)  # statuses of a server that issues no tokens
CRUMB_LIFE = timedelta(hours=1)
PAGE = 200  # tools of a list
MAX_TOOLS = 200  # whose records are read


class Limits(Struct, frozen=True):
    """How long the checks wait."""

    event_s: float = 5.0  # for an event about what was stored
    first_ping_s: float = 2.5  # for the ping at the start of a stream, half of the time between two pings
    response_s: float = 30.0  # for the response to a request
    ping_s: float = 12.0  # for the next ping; there is one every 5 s
    quiet_s: float = 1.5  # to see that nothing comes, or nothing more
    absent_s: float = 20.0  # at most, to see that no tool runs
    poll_s: float = 0.5  # between looks at the list, for a response whose event was lost


class RcrtServer:
    """The server under test. `headers` go with each request; without a token in them, one is requested."""

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
        self.client = client
        self.calls = calls
        self.owner_id = owner_id or OWNER_ID
        self.agent_id = agent_id or AGENT_ID
        self.limits = limits or Limits()
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(20.0, read=None), trust_env=False)
        self._streams = AsyncExitStack()
        self._shared: Recording | None = None
        self._token: dict[str, str] | None = None
        self._stored: list[str] = []
        self._records: list[tuple[dict[str, Any], Answer]] | None = None
        self._unanswered: str | None = None
        self._ids = itertools.count(1)

    async def aclose(self) -> None:
        """Deletes what was stored, as long as the server answers."""
        with contextlib.suppress(UnfitError, SkippedError):
            for crumb_id in self._stored:
                await self.send("DELETE", f"/breadcrumbs/{crumb_id}")
        await self._streams.aclose()
        await self._http.aclose()

    # Tokens.

    async def mint(self, **members: Any) -> Answer:
        """Requests a token; `members` replace those of the identity."""
        identity = {"owner_id": self.owner_id, "agent_id": self.agent_id, "roles": ROLES, "ttl_sec": 3600}
        return await self._post("/auth/token", identity | members)

    async def minted(self, **members: Any) -> Answer:
        """The answer to a request for a token. Raises SkippedError if the server issues none."""
        answer = await self.mint(**members)
        if answer.status in UNISSUED:
            raise SkippedError(f"The server issues no tokens: {answer.status}.")
        return answer

    async def credentials(self, **members: Any) -> dict[str, str]:
        """The header that authenticates an identity; empty if the server issues no tokens. Raises SkippedError."""
        if "authorization" in self._headers and not members:
            return {}  # the client sends it
        answer = await self.mint(**members)
        if answer.status in UNISSUED:
            return {}
        try:
            token = answer.member("token")
        except UnfitError:
            token = None
        if answer.status != 200 or not isinstance(token, str):  # which is a check of its own
            raise SkippedError(f"The server issued no token: {answer.status}.")
        return {"authorization": f"Bearer {token}"}

    async def token(self) -> str:
        """Our own token. Raises SkippedError if none is needed."""
        header = {**self._headers, **await self._own()}.get("authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise SkippedError("The server issues no tokens.")
        return token

    async def _own(self) -> dict[str, str]:
        if self._token is None:
            self._token = await self.credentials()
        return self._token

    # Breadcrumbs.

    def new_id(self) -> str:
        """A request id that no other request has."""
        return f"kit-{uuid.uuid4()}-{next(self._ids)}"

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Sends a request with our token: bytes unchanged, anything else as JSON."""
        fields = {**(JSON if body is not None else {}), **await self._own(), **_fields(headers)}
        return await self.client.send(method, path, body=_encoded(body), headers=fields)

    async def send_unauthenticated(self, method: str, path: str, body: Any = None) -> Answer:
        """Sends a request without any credentials; a breadcrumb that it creates is deleted at the end."""
        headers = JSON if body is not None else {}
        return self._noted(await self.client.send(method, path, body=_encoded(body), headers=headers, is_known=False))

    async def _post(self, path: str, body: Any) -> Answer:
        return await self.client.send("POST", path, body=_encoded(body), headers=JSON)

    def draft(self, **members: Any) -> dict[str, Any]:
        """A breadcrumb that starts no tool; its last tag is unique."""
        ends = (datetime.now(UTC) + CRUMB_LIFE).isoformat(timespec="seconds").replace("+00:00", "Z")
        basis = {"schema_name": NOTE, "title": "conformance", "context": {"kit": 1}, "ttl": ends}
        return basis | {"tags": [KIT, self.new_id()]} | members

    async def create(self, draft: Any, **headers: str) -> Answer:
        """Stores a breadcrumb, which is deleted at the end."""
        return self._noted(await self.send("POST", "/breadcrumbs", draft, **headers))

    def _noted(self, answer: Answer) -> Answer:
        """Remembers the breadcrumb that an answer says was stored."""
        if (crumb_id := _id_in(answer)) is not None:
            self._stored.append(crumb_id)
        return answer

    async def created(self, draft: Any, **headers: str) -> tuple[str, Answer]:
        """The id of a new breadcrumb. Raises SkippedError if it was refused."""
        answer = await self.create(draft, **headers)
        crumb_id = _id_in(answer)
        if crumb_id is None:  # which is a check of its own
            raise SkippedError(f"Breadcrumbs cannot be created: {answer.status}.")
        return crumb_id, answer

    async def read(self, crumb_id: str) -> Answer:
        """Reads the whole record of a breadcrumb."""
        return await self.send("GET", f"/breadcrumbs/{crumb_id}/full")

    async def record(self, crumb_id: str) -> tuple[dict[str, Any], Answer]:
        """The whole record of an existing breadcrumb. Raises UnfitError."""
        answer = await self.read(crumb_id)
        return _record_in(answer)

    async def entries(self, **query: Any) -> tuple[list[dict[str, Any]], Answer]:
        """The entries of a list. Raises UnfitError."""
        answer = await self.send("GET", f"/breadcrumbs?{httpx.QueryParams(query)}")
        answer.must(answer.status == 200, "Status 200 for a list.")
        document = answer.document
        fits = isinstance(document, list) and all(isinstance(entry, dict) for entry in document)
        answer.must(fits, "A list of objects.")
        return document, answer

    # Events.

    @asynccontextmanager
    async def stream(self, **credentials: str) -> AsyncIterator[Recording]:
        """Opens a stream of its own. Streams cost the server; most checks share one."""
        headers = self._headers | (credentials or await self._own())
        async with recording(self._http, self.client.url, headers) as stream:
            yield stream

    @asynccontextmanager
    async def stream_by_query(self) -> AsyncIterator[Recording]:
        """Opens a stream with our token in the query in place of the header. Raises SkippedError."""
        headers = {name: value for name, value in self._headers.items() if name != "authorization"}
        async with recording(self._http, self.client.url, headers, access_token=await self.token()) as stream:
            yield stream

    async def shared(self) -> Recording:
        """The stream that checks share, whatever its status; opened again if it has ended. Raises UnfitError."""
        if self._shared is None or self._shared.has_ended:
            await self._streams.aclose()
            self._shared = await self._streams.enter_async_context(self.stream())
            await self._shared.wait(bool, self.limits.event_s)  # until then a replica may not have subscribed
        return self._shared

    async def events(self) -> Recording:
        """The shared stream. Raises SkippedError if it cannot be opened."""
        try:
            stream = await self.shared()
        except UnfitError as exc:
            raise SkippedError("The event stream cannot be opened.") from exc
        if stream.status != 200:  # which is a check of its own
            raise SkippedError(f"The event stream cannot be opened: {stream.status}.")
        return stream

    # Requests for tools.

    def allowed(self) -> ToolCall:
        """The first call that may be made. Raises SkippedError."""
        if not self.calls:
            raise SkippedError(NEEDS_CALL)
        return self.calls[0]

    async def ask(self, tool: str, given: Any, *, tags: Sequence[str] | None = None, has_id: bool = True) -> Asked:
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
        return Asked(own if has_id else crumb_id, crumb_id, answer)

    async def responses(self, asked: Asked) -> list[Response]:
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

    async def response(self, asked: Asked, within_s: float | None = None) -> Response | None:
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

    async def must_respond(self, asked: Asked) -> Response:
        """The first response to a request. Raises UnfitError without one."""
        response = await self.response(asked)
        if response is None:
            expected = f"A response within {self.limits.response_s:g} s."
            raise UnfitError(expected, asked.answer.exchange)
        return response

    async def ask_unknown(self) -> Asked:
        """Stores a request for a tool that does not exist."""
        return await self.ask(NO_TOOL, {})

    async def made(self, call: ToolCall) -> tuple[Asked, Response]:
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
        return [_record_in(answer) for answer in answers_ if answer.status != 404]


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


def _record_in(answer: Answer) -> tuple[dict[str, Any], Answer]:
    answer.must(answer.status == 200, "Status 200 for an existing breadcrumb.")
    document = answer.document
    answer.must(isinstance(document, dict), "An object.")
    return document, answer


def _id_in(answer: Answer) -> str | None:
    try:
        found = answer.member("id")
    except UnfitError:
        return None
    return found if answer.status < 300 and isinstance(found, str) else None


def _encoded(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=False).encode()


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names, from the names of arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
