"""The RCRT server of a scenario: tokens, breadcrumbs, the event stream, and a runner that takes steps for each request.

As RCRT's server of November 2025: errors are plain text, success is 200, lists need no token, events are not replayed.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from msgspec import structs

from toolgate_conformance.clients.program import made_up
from toolgate_conformance.clients.rcrt.breadcrumbs import (
    StoredCrumb,
    entry,
    is_draft,
    is_json,
    is_request,
    is_uuid,
    now,
    record,
    token_in,
)
from toolgate_conformance.clients.rcrt.scenarios import (
    TEXT,
    TOOL,
    Event,
    RcrtScenario,
    Reception,
    Step,
    ToolRequest,
    tool,
)
from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.servers.rcrt.messages import REQUEST
from toolgate_conformance.servers.rcrt.server import WORKSPACE
from toolgate_conformance.servers.rcrt.store import JSON

PING_S = 5.0
TOKEN_LIFE_S = 3600
MAX_STREAMS = 100  # at a time
MAX_UNREAD = 1000  # events for one stream
STEP_S = 0.02  # between two pieces of an event
SSE = {"content-type": "text/event-stream", "cache-control": "no-cache"}
FALSY = (None, "", 0, False)  # inputs that the runner drops


class RcrtScript:
    """Plays a scenario. `crumbs` is what was stored, the first being the tool; `sent` are the events."""

    def __init__(self, scenario: RcrtScenario, owner_id: str) -> None:
        self.scenario = scenario
        self.crumbs: list[StoredCrumb] = []
        self.sent: list[Event] = []
        self.tokens: set[str] = set()  # that were issued
        self._refused: set[str] = set()
        self._keys: set[str] = set()
        self._owner_id = owner_id
        self._requests = 0
        self._streams: set[asyncio.Queue[Event | None]] = set()
        self._was_heard = False  # whether any stream was opened
        self._tasks: set[asyncio.Task[None]] = set()
        self._store(tool())

    async def aclose(self) -> None:
        """Ends the steps that are still to come."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def answer(self, request: Request) -> Reply:
        """Answers one request."""
        prefix = self.scenario.path.rstrip("/")
        if not request.path.startswith(prefix):
            return _refusal(404, "not found")
        path = request.path.removeprefix(prefix)
        match request.method, path:
            case "POST", "/auth/token":
                return self._mint(request)
            case "GET", "/breadcrumbs":
                return self._list(request)
            case "GET", "/health":
                return Reply(200, TEXT, b"ok")
        return self._unauthorized(request) or self._answer_known(request, path.split("/")[1:])

    def _answer_known(self, request: Request, path: Sequence[str]) -> Reply:
        """Answers a request that has a valid token."""
        match request.method, path:
            case "POST", ["breadcrumbs"]:
                return self._create(request)
            case "GET", ["events", "stream"]:
                return self._open_stream()
            case "GET", ["breadcrumbs", crumb_id] | ["breadcrumbs", crumb_id, "full"]:
                found = [each for each in self.crumbs if each.id == crumb_id]
                return _answer(record(found[0])) if found else _refusal(404, "not found")
            case ("PATCH" | "DELETE", ["breadcrumbs", _]) | ("POST", ["breadcrumbs", _, *_]):
                return _answer({"ok": True})  # which the checks judge
        return _refusal(404, "not found")

    # Tokens.

    def _mint(self, request: Request) -> Reply:
        document = request.document if isinstance(request.document, dict) else {}
        for name in ("owner_id", "agent_id"):
            if not is_uuid(document.get(name)):
                return _refusal(400, f"invalid {name} format")
        token = made_up("kit-token")
        self.tokens.add(token)
        identity = {name: document[name] for name in ("owner_id", "agent_id")}
        roles = document.get("roles") or ["curator", "emitter", "subscriber"]
        return _answer({"token": token, **identity, "roles": roles, "exp": int(time.time()) + TOKEN_LIFE_S})

    def _unauthorized(self, request: Request) -> Reply | None:
        """The refusal of a request without a valid token."""
        header = request.headers.get("authorization")
        if header is not None and not header.startswith("Bearer "):
            return _refusal(401, "invalid Authorization header")
        token = token_in(request)
        if not token:
            return _refusal(401, "missing Authorization")
        is_good = token in self.tokens and token not in self._refused
        return None if is_good else _refusal(401, "invalid token: InvalidSignature")

    # Breadcrumbs.

    def _create(self, request: Request) -> Reply:
        draft = request.document
        if not is_json(request):
            return _refusal(415, "Expected request with `Content-Type: application/json`")
        if not is_draft(draft):
            return _refusal(422, "Failed to deserialize the JSON body into the target type")
        key = request.headers.get("idempotency-key")
        if key in self._keys:
            return _refusal(409, "duplicate idempotency key")
        taken = self._taken(key) if is_request(draft) else Reception()
        if taken.reply is not None and taken.reply.status == 401:
            self._refused.add(token_in(request))
        elif key is not None:
            self._keys.add(key)
        if not taken.is_stored:
            return taken.reply or _refusal(500, "not stored")
        crumb = self._store(draft)
        self._announce(crumb)
        if crumb.is_request:
            self._run(crumb)
        return taken.reply or structs.replace(_answer({"id": crumb.id}), after_s=taken.after_s)

    def _taken(self, key: str | None) -> Reception:
        self._requests += 1
        taken = self.scenario.on_request(self._requests)
        return Reception() if taken.is_keyed and key is None else taken

    def _store(self, draft: Mapping[str, Any], *, is_listed: bool = True) -> StoredCrumb:
        crumb = StoredCrumb(str(uuid.uuid4()), time.monotonic(), draft, is_listed)
        self.crumbs.append(crumb)
        return crumb

    def _list(self, request: Request) -> Reply:
        query = parse_qs(request.target.partition("?")[2])
        (tag, *more_tags), (schema, *more_schemas) = (query.get(name, [""]) for name in ("tag", "schema_name"))
        limit, offset = (query.get(name, [fallback])[0] for name, fallback in (("limit", "1000"), ("offset", "0")))
        with_context = query.get("include_context", ["false"])[0]
        is_fine = limit.isdecimal() and offset.isdecimal() and with_context in ("true", "false")
        if more_tags or more_schemas or not is_fine:
            return _refusal(400, "Failed to deserialize query string")
        found = [each for each in reversed(self.crumbs) if each.is_listed]
        found = [each for each in found if not tag or tag in each.draft["tags"]]
        found = [each for each in found if not schema or schema == each.draft.get("schema_name")]
        entries = [entry(each, with_context=with_context == "true") for each in found]
        return _answer(entries[int(offset) :][: int(limit)])

    # Events.

    def _open_stream(self) -> Reply:
        if len(self._streams) >= MAX_STREAMS:
            return _refusal(503, "too many streams")
        unread: asyncio.Queue[Event | None] = asyncio.Queue(MAX_UNREAD)
        self._streams.add(unread)
        self._was_heard = True
        return Reply(200, SSE, chunks=self._chunks(unread))

    async def _chunks(self, unread: asyncio.Queue[Event | None]) -> AsyncGenerator[bytes, None]:
        """The bytes of one stream: a ping at once and every 5 s, and events; None in the queue ends it."""
        event: Event | None = _ping()
        try:
            while event is not None:
                for piece in self._pieces(event):
                    yield piece
                    if self.scenario.is_cut:
                        await asyncio.sleep(STEP_S)  # so that the pieces arrive apart
                try:
                    async with asyncio.timeout(PING_S):
                        event = await unread.get()
                except TimeoutError:
                    event = _ping()
        finally:
            self._streams.discard(unread)

    def _pieces(self, event: Event) -> list[bytes]:
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        block = self.scenario.prefix + data + b"\n\n"
        cuts = [at + 1 for at, byte in enumerate(block) if byte >= 0xC0] if self.scenario.is_cut else []
        return [block[start:end] for start, end in zip([0, *cuts], [*cuts, len(block)], strict=True)]

    def _send(self, event: Event) -> None:
        self.sent.append(event)
        for unread in self._streams:
            if not unread.full():
                unread.put_nowait(event)

    def _announce(self, crumb: StoredCrumb) -> None:
        members = {name: crumb.draft.get(name) for name in ("tags", "schema_name", "context")}
        event = {"breadcrumb_id": crumb.id, "owner_id": self._owner_id, "version": 1, **members}
        event["updated_at"] = now()
        self._send(event | ({"type": "breadcrumb.updated"} if self.scenario.has_type else {}))

    # The runner.

    def _run(self, crumb: StoredCrumb) -> None:
        """Runs the tool, unless the runner would drop the request without a response."""
        context = crumb.draft["context"]
        tags = set(crumb.draft["tags"])
        is_ours = crumb.draft.get("schema_name") == REQUEST and {"tool:request", WORKSPACE} <= tags
        if not is_ours or "health:check" in tags or not isinstance(context, dict) or context.get("input") in FALSY:
            return
        asked = ToolRequest(context.get("requestId") or crumb.id, crumb.id)
        if context.get("tool") == TOOL:
            task = asyncio.create_task(self._play(asked))
            self._tasks.add(task)

    async def _play(self, asked: ToolRequest) -> None:
        for step in self.scenario.steps(asked):
            await asyncio.sleep(step.after_s)
            self._take(step)

    def _take(self, step: Step) -> None:
        if step.stored is not None:
            crumb = self._store(step.stored, is_listed=step.is_listed or not self._was_heard)
            for _ in range(step.copies):
                self._announce(crumb)
        for event in step.events:
            self._send(event)
        if step.ends_streams:
            for unread in self._streams:
                if not unread.full():
                    unread.put_nowait(None)


def _answer(document: Any) -> Reply:
    return Reply(200, JSON, json.dumps(document, ensure_ascii=False).encode())


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, TEXT, text.encode())


def _ping() -> Event:
    return {"type": "ping", "ts": now()}
