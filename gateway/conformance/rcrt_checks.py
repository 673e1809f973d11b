"""Checks of tool servers that speak RCRT: tokens, breadcrumbs, the event stream, discovery, and requests for tools."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from gateway.conformance.checks import Check, Level, SkippedError
from gateway.conformance.http import Answer
from gateway.conformance.rcrt import (
    CATALOG,
    CODE,
    KIT,
    NOTE,
    RESPONSE,
    WORKSPACE,
    Asked,
    RcrtServer,
    Response,
    answers,
)
from gateway.conformance.rcrt_events import Event, Recording, is_of, is_ping
from gateway.conformance.schemas import fits, is_schema

MUST, SHOULD, GOOD = Level
SERVER, OPENAPI = "RCRT server, main.rs", "RCRT, openapi.json"
CHANGES = "RCRT, openapi.json: PATCH /breadcrumbs/{id}"
RUNNER, TOOLS = "RCRT tools-runner, index.ts", "RCRT, deno-runtime.ts"
STANDARD = "RCRT Universal Tool Invocation Standard 1.0"
NO_TOOL = "kit-no-such-tool"
APPROVED = "approved"
READERS = 3
AT_ONCE = 5  # what one runner executes at once
EVENT_LINE = re.compile(rb"data: [^\r\n]+")
TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panicked at")

RunCheck = Callable[[RcrtServer], Awaitable[None]]

_checks: list[Check] = []


def check(number: int, level: Level, title: str, section: str, remedy: str) -> Callable[[RunCheck], RunCheck]:
    """Adds a check; `section` is the document of RCRT that it follows, and the place in it."""

    def add(run: RunCheck) -> RunCheck:
        _checks.append(Check(f"RCRT-{number:03d}", level, title, section, remedy, run))
        return run

    return add


def rcrt_checks() -> list[Check]:
    """All checks, by id."""
    return sorted(_checks, key=lambda each: each.id)


# Tokens.


@check(1, MUST, "`POST /auth/token` gives a token, its identity and its end", f"{SERVER}: generate_jwt_token",
       "Answer 200 with token, owner_id, agent_id, roles, and exp in seconds since 1970.")  # fmt: skip
async def token(server: RcrtServer) -> None:
    answer = await server.minted()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.member("token"), str), "A text in `token`.")
    for name, wanted in (("owner_id", server.owner_id), ("agent_id", server.agent_id)):
        answer.must(answer.member(name) == wanted, f"`{name}` {wanted}.")
    answer.must(isinstance(answer.member("roles"), list), "A list in `roles`.")
    ends = answer.member("exp")
    answer.must(isinstance(ends, int | float) and ends > time.time(), "A time in the future in `exp`.")


@check(2, MUST, "Identities that are no UUIDs get no token", f"{SERVER}: generate_jwt_token",
       "Answer 400 unless owner_id and agent_id are both UUIDs.")  # fmt: skip
async def token_needs_uuids(server: RcrtServer) -> None:
    for members in ({"owner_id": "me"}, {"agent_id": "me"}, {"owner_id": ""}):
        answer = await server.minted(**members)
        answer.must(answer.status == 400, "Status 400.")


@check(3, SHOULD, "Requests without a token are refused with 401", f"{SERVER}: AuthContext",
       "Leave AUTH_MODE at jwt: otherwise whoever reaches the port may run tools.")  # fmt: skip
async def without_token(server: RcrtServer) -> None:
    answer = await server.client.send("GET", f"/breadcrumbs/{uuid.uuid4()}/full", is_known=False)
    answer.must(answer.status == 401, "Status 401 for a read.")
    body = json.dumps(server.draft()).encode()
    headers = {"content-type": "application/json"}
    answer = await server.client.send("POST", "/breadcrumbs", body=body, headers=headers, is_known=False)
    answer.must(answer.status == 401, "Status 401 for a new breadcrumb.")


@check(4, SHOULD, "A wrong token opens no event stream", f"{SERVER}: AuthContext",
       "Check signature and exp before the stream begins; answer 401.")  # fmt: skip
async def wrong_token(server: RcrtServer) -> None:
    async with server.stream(authorization="Bearer kit.wrong.token") as stream:
        stream.must(stream.status == 401, "Status 401.")


# Breadcrumbs.


@check(10, MUST, "A new breadcrumb is answered with 200 and its id", f"{OPENAPI}: POST /breadcrumbs",
       "Answer 200 and {\"id\": uuid}: clients look for no other status.")  # fmt: skip
async def create(server: RcrtServer) -> None:
    answer = await server.create(server.draft())
    answer.must(answer.status == 200, "Status 200.")
    answer.must(_is_uuid(answer.member("id")), "A UUID in `id`.")


@check(11, MUST, "A breadcrumb is read as it was stored, with version 1", f"{OPENAPI}: GET /breadcrumbs/{{id}}/full",
       "Store title, schema_name, tags and context without a change.")  # fmt: skip
async def read(server: RcrtServer) -> None:
    draft = server.draft(context={"text": "ä€😀", "list": [1, 2.5, None, True], "empty": {}})
    crumb_id, _ = await server.created(draft)
    record, answer = await server.record(crumb_id)
    answer.must(record.get("id") == crumb_id, f"`id` {crumb_id}.")
    for name in ("title", "schema_name", "tags", "context"):
        answer.must(record.get(name) == draft[name], f"`{name}` as it was sent: {json.dumps(draft[name])}.")
    answer.must(record.get("version") == 1, "`version` 1.")


@check(12, MUST, "A breadcrumb that is not there is answered with 404", f"{OPENAPI}: GET /breadcrumbs/{{id}}/full",
       "Answer 404, for reading and for deleting.")  # fmt: skip
async def unknown(server: RcrtServer) -> None:
    nowhere = uuid.uuid4()
    for method, path in (("GET", f"/breadcrumbs/{nowhere}/full"), ("DELETE", f"/breadcrumbs/{nowhere}")):
        answer = await server.send(method, path)
        answer.must(answer.status == 404, "Status 404.")


@check(13, MUST, "Bodies that are no breadcrumb are refused with 4xx", f"{OPENAPI}: POST /breadcrumbs",
       "Answer 400 to what is no JSON and 422 to the wrong shape, never 5xx.")  # fmt: skip
async def bad_bodies(server: RcrtServer) -> None:
    await server.created(server.draft())
    draft = server.draft()
    wrong: list[Any] = [b"{", b"", b"\xff", b"null", [], {**draft, "tags": "none"}, {**draft, "title": 1}]
    wrong += [{name: value for name, value in draft.items() if name != left_out} for left_out in ("title", "tags")]
    for body in wrong:
        answer = await server.create(body)
        answer.must(400 <= answer.status < 500, "A status of 4xx.")


@check(14, MUST, "What is refused is not stored", f"{OPENAPI}: POST /breadcrumbs",
       "Validate the whole breadcrumb before anything is stored.")  # fmt: skip
async def refused_is_not_stored(server: RcrtServer) -> None:
    draft = server.draft(title=1)
    refusal = await server.create(draft)
    if refusal.status < 400:
        raise SkippedError("The server takes a title that is a number.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(found == [], "An empty list.")


@check(15, MUST, "`tag` finds the breadcrumbs with that tag and no others", f"{OPENAPI}: GET /breadcrumbs",
       "Compare the whole tag.")  # fmt: skip
async def list_by_tag(server: RcrtServer) -> None:
    draft = server.draft()
    tag = draft["tags"][-1]
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"tags": [KIT, f"{tag}-more"]})
    found, answer = await server.entries(tag=tag)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(16, MUST, "`schema_name` finds the breadcrumbs with that schema and no others", f"{OPENAPI}: GET /breadcrumbs",
       "Compare the whole name; with `tag`, both have to fit.")  # fmt: skip
async def list_by_schema(server: RcrtServer) -> None:
    draft = server.draft()
    crumb_id, _ = await server.created(draft)
    await server.created(draft | {"schema_name": f"{NOTE}.more"})
    found, answer = await server.entries(tag=draft["tags"][-1], schema_name=NOTE)
    answer.must([entry.get("id") for entry in found] == [crumb_id], f"Only {crumb_id}.")


@check(17, MUST, "`limit` and `offset` cut a list that has the latest first", f"{OPENAPI}: GET /breadcrumbs",
       "Sort by updated_at, descending, then cut.")  # fmt: skip
async def list_pages(server: RcrtServer) -> None:
    draft = server.draft()
    ids = [(await server.created(draft))[0] for _ in range(3)]
    for offset, wanted in ((0, ids[:0:-1]), (2, ids[:1])):
        found, answer = await server.entries(tag=draft["tags"][-1], limit=2, offset=offset)
        answer.must([entry.get("id") for entry in found] == wanted, f"In this order: {', '.join(wanted)}.")


@check(18, MUST, "`include_context=true` puts the contexts into a list", f"{OPENAPI}: GET /breadcrumbs",
       "Send the context as it was stored: responses are looked up this way.")  # fmt: skip
async def list_with_context(server: RcrtServer) -> None:
    draft = server.draft(context={"text": "ä€😀", "list": [1, None]})
    await server.created(draft)
    found, answer = await server.entries(tag=draft["tags"][-1], include_context="true")
    answer.must([entry.get("context") for entry in found] == [draft["context"]], "The context as it was sent.")


@check(19, MUST, "A change replaces context and tags, and counts the version up", CHANGES,
       "Replace what is sent, keep the rest, answer 200.")  # fmt: skip
async def change(server: RcrtServer) -> None:
    crumb_id, _ = await server.created(server.draft())
    members = {"context": {"changed": True}, "tags": [KIT, "changed"]}
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", members)
    answer.must(answer.status == 200, "Status 200.")
    record, answer = await server.record(crumb_id)
    wanted = {**members, "title": "conformance", "version": 2}
    answer.must({name: record.get(name) for name in wanted} == wanted, f"In the record: {json.dumps(wanted)}.")


@check(20, MUST, "A change that expects another version is refused with 412", CHANGES,
       "Compare If-Match with the version, and change nothing if they differ.")  # fmt: skip
async def version_conflict(server: RcrtServer) -> None:
    crumb_id, _ = await server.created(server.draft())
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", {"title": "changed"}, if_match='"7"')
    answer.must(answer.status == 412, "Status 412.")
    record, answer = await server.record(crumb_id)
    answer.must(record.get("title") == "conformance" and record.get("version") == 1, "A breadcrumb without a change.")


@check(21, MUST, "A deleted breadcrumb is gone", f"{OPENAPI}: DELETE /breadcrumbs/{{id}}",
       "Answer 200, then 404; take it out of lists, too.")  # fmt: skip
async def delete(server: RcrtServer) -> None:
    draft = server.draft()
    crumb_id, _ = await server.created(draft)
    answer = await server.send("DELETE", f"/breadcrumbs/{crumb_id}")
    answer.must(answer.status == 200, "Status 200.")
    answer = await server.read(crumb_id)
    answer.must(answer.status == 404, "Status 404 once it is deleted.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(found == [], "An empty list once it is deleted.")


@check(22, MUST, "An idempotency key stores one breadcrumb", f"{OPENAPI}: POST /breadcrumbs, Idempotency-Key",
       "Answer 409 to a key that was used: a request that is repeated would run its tool twice.")  # fmt: skip
async def idempotency_key(server: RcrtServer) -> None:
    draft, key = server.draft(), server.new_id()
    await server.created(draft, idempotency_key=key)
    again = await server.create(draft, idempotency_key=key)
    again.must(again.status == 409, "Status 409 the second time.")
    found, answer = await server.entries(tag=draft["tags"][-1])
    answer.must(len(found) == 1, "One breadcrumb.")


@check(23, SHOULD, "Refusals are plain text", SERVER,
       "Send text/plain: clients show the body as it is.")  # fmt: skip
async def refusals_are_text(server: RcrtServer) -> None:
    for answer in await _refusals(server):
        fits = answer.headers.get("content-type", "").startswith("text/plain")
        answer.must(fits, "A content type of text/plain.")


@check(24, GOOD, "No refusal shows what is inside", SERVER, "Keep stack traces in the log.")
async def refusals_hide(server: RcrtServer) -> None:
    for answer in await _refusals(server):
        text = answer.body.decode("utf-8", "replace")
        answer.must(not any(trace in text for trace in TRACES), "No stack trace.")


# The event stream.


@check(30, MUST, "`GET /events/stream` is an event stream", f"{SERVER}: sse_stream",
       "Answer 200 with the content type text/event-stream; 503 means that NATS is missing.")  # fmt: skip
async def stream_opens(server: RcrtServer) -> None:
    stream = await server.shared()
    stream.must(stream.status == 200, "Status 200.")
    fits = stream.headers.get("content-type", "").startswith("text/event-stream")
    stream.must(fits, "A content type of text/event-stream.")


@check(31, MUST, "An event is one line `data: ` with a JSON object, and a blank line", f"{SERVER}: sse_stream",
       "Write the space after the colon, and the JSON in one line: runners split lines by hand.")  # fmt: skip
async def stream_lines(server: RcrtServer) -> None:
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft(context={"text": "one\ntwo\r\nthree"}))
    await stream.wait(is_of(crumb_id), server.limits.event_s)
    stream.must(stream.malformed == [], "Events that are JSON objects.")
    blocks = bytes(stream.start).split(b"\n\n")[:-1]
    stream.must(bool(blocks), "Events that end with a blank line.")
    for block in blocks:
        shown = block[:100].decode("utf-8", "replace")
        stream.must(EVENT_LINE.fullmatch(block) is not None, f"One line `data: ` and JSON, not {shown!r}.")


@check(32, MUST, "The first event of a stream is a ping, at once", f"{SERVER}: sse_stream",
       "Send {\"type\":\"ping\"} as data once the subscription stands.")  # fmt: skip
async def first_ping(server: RcrtServer) -> None:
    stream = await server.events()
    stream.must(bool(stream.events) and is_ping(stream.events[0]), f"A ping within {server.limits.event_s:g} s.")


@check(33, SHOULD, "Pings go on, one every 5 s", f"{SERVER}: sse_stream",
       "Send a ping as data every 5 s: clients take a silent stream for dead.")  # fmt: skip
async def next_ping(server: RcrtServer) -> None:
    stream = await server.events()
    so_far = len(stream.found(is_ping))
    found = await stream.wait(is_ping, server.limits.ping_s, so_far + 1)
    stream.must(len(found) > so_far, f"A ping within {server.limits.ping_s:g} s.")


@check(34, MUST, "A new breadcrumb comes as an event `breadcrumb.updated`", f"{SERVER}: sse_stream",
       "Publish each new breadcrumb to the streams of its owner; nothing is replayed.")  # fmt: skip
async def event_comes(server: RcrtServer) -> None:
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft())
    found = await stream.wait(is_of(crumb_id), server.limits.event_s)
    stream.must(bool(found), f"An event about {crumb_id} within {server.limits.event_s:g} s.")
    stream.must(found[0].get("type", "breadcrumb.updated") == "breadcrumb.updated", "`type` breadcrumb.updated.")


@check(35, MUST, "An event has all of the breadcrumb that runners read", f"{SERVER}: sse_stream",
       "Send owner_id, version, tags, schema_name, updated_at and the whole context.")  # fmt: skip
async def event_is_whole(server: RcrtServer) -> None:
    draft, event, stream = await _announced(server)
    wanted = {name: draft[name] for name in ("tags", "schema_name", "context")}
    wanted |= {"owner_id": server.owner_id, "version": 1}
    for name, value in wanted.items():
        stream.must(event.get(name) == value, f"`{name}` {json.dumps(value)}.")
    stream.must(isinstance(event.get("updated_at"), str), "A text in `updated_at`.")


@check(36, MUST, "A change comes as an event with the next version", f"{SERVER}: sse_stream",
       "Publish changes like new breadcrumbs.")  # fmt: skip
async def change_comes(server: RcrtServer) -> None:
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft())
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", {"context": {"changed": True}})
    if answer.status != 200:  # which is a check of its own
        raise SkippedError(f"Breadcrumbs cannot be changed: {answer.status}.")
    fits = is_of(crumb_id)
    found = await stream.wait(lambda event: fits(event) and event.get("version") == 2, server.limits.event_s)
    stream.must(bool(found), f"An event with version 2 of {crumb_id} within {server.limits.event_s:g} s.")


@check(37, MUST, "Each of several streams gets an event", f"{SERVER}: sse_stream",
       "Give each stream a subscription of its own, not one of a queue group.")  # fmt: skip
async def several_readers(server: RcrtServer) -> None:
    await server.events()
    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(server.stream()) for _ in range(READERS)]
        if any(stream.status != 200 for stream in streams):
            raise SkippedError("Several event streams cannot be opened.")
        await asyncio.gather(*(stream.wait(bool, server.limits.event_s) for stream in streams))
        crumb_id, _ = await server.created(server.draft())
        await asyncio.gather(*(stream.wait(is_of(crumb_id), server.limits.event_s) for stream in streams))
        for number, stream in enumerate(streams, 1):
            stream.must(bool(stream.found(is_of(crumb_id))), f"An event about {crumb_id} on stream {number}, too.")


@check(38, SHOULD, "An event comes once on a stream", f"{SERVER}: sse_stream",
       "Delete the selectors of this agent: each that fits sends the event again.")  # fmt: skip
async def event_comes_once(server: RcrtServer) -> None:
    draft, event, stream = await _announced(server)
    await asyncio.sleep(server.limits.quiet_s)
    found = stream.found(is_of(event["breadcrumb_id"]))
    stream.must(len(found) == 1, f"One event about the breadcrumb tagged {draft['tags'][-1]}.")


@check(39, MUST, "A stream that is opened again goes on with what happens then", f"{SERVER}: sse_stream",
       "Subscribe anew for each stream: one that only sends pings leaves runners deaf.")  # fmt: skip
async def stream_again(server: RcrtServer) -> None:
    await server.events()
    async with server.stream() as first:
        await first.wait(bool, server.limits.event_s)
    async with server.stream() as stream:
        if stream.status != 200:
            raise SkippedError(f"The event stream cannot be opened: {stream.status}.")
        await stream.wait(bool, server.limits.event_s)
        crumb_id, _ = await server.created(server.draft())
        found = await stream.wait(is_of(crumb_id), server.limits.event_s)
        stream.must(bool(found), f"An event about {crumb_id} on the stream that was opened again.")


@check(40, MUST, "Events of other owners do not come", f"{SERVER}: sse_stream",
       "Compare the owner of each event with that of the token.")  # fmt: skip
async def other_owners(server: RcrtServer) -> None:
    stream = await server.events()
    other = str(uuid.uuid4())
    credentials = await server.credentials(owner_id=other)
    draft = server.draft()
    answer = await server.create(draft, **credentials)
    if not credentials or answer.status != 200:  # the real server has no tenant for it
        raise SkippedError("Nothing can be stored in the name of another owner.")
    await asyncio.sleep(server.limits.quiet_s)
    stream.must(stream.found(is_of(answer.member("id"))) == [], f"No event about a breadcrumb of {other}.")


# Discovery.


@check(50, MUST, "The workspace lists its tools", TOOLS,
       f"Store a {CODE} tagged {WORKSPACE} for each tool; older servers have one {CATALOG}.")  # fmt: skip
async def tools_are_listed(server: RcrtServer) -> None:
    for schema_name in (CODE, CATALOG):
        found, answer = await server.entries(schema_name=schema_name, tag=WORKSPACE, limit=1)
        if found:
            return
    answer.must(False, f"A {CODE} or a {CATALOG} with the tag {WORKSPACE}.")


@check(51, MUST, "Each tool has one name, in its context and in its tag `tool:`", TOOLS,
       "A runner finds the breadcrumb by the tag and the code by the name: make them the same.")  # fmt: skip
async def tools_are_named(server: RcrtServer) -> None:
    names = Counter[str]()
    for record, answer in await server.tools():
        name, tags = _context(record).get("name"), record.get("tags")
        answer.must(isinstance(name, str) and name != "", "A name in `context.name`.")
        answer.must(isinstance(tags, list) and f"tool:{name}" in tags, f"The tag tool:{name}.")
        names[str(name)] += 1
        answer.must(names[str(name)] == 1, f"One tool called {name}.")


@check(52, MUST, "The schemas of each tool are JSON Schema, that of its input of an object", TOOLS,
       "Write input_schema with type object, and output_schema.")  # fmt: skip
async def tools_have_schemas(server: RcrtServer) -> None:
    for record, answer in await server.tools():
        context = _context(record)
        given = _schema(context, "input")
        answer.must(isinstance(given, dict), f"An input schema of {context.get('name')}.")
        answer.must(given.get("type") == "object", f"An object as the input of {context.get('name')}.")
        for schema in (given, _schema(context, "output")):
            is_valid = schema is None or is_schema(schema)
            answer.must(is_valid, f"A valid JSON Schema: {json.dumps(schema)[:200]}.")


@check(53, SHOULD, "Each tool has a description", TOOLS, "Say what the tool does: models read it.")
async def tools_are_described(server: RcrtServer) -> None:
    for record, answer in await server.tools():
        found = record.get("description") or _context(record).get("description")
        answer.must(isinstance(found, str) and found != "", f"A description of {_context(record).get('name')}.")


@check(54, SHOULD, "The tools of --call are listed, and approved where tools are", TOOLS,
       "Tag the tool `approved` and restart the runner: other tools do not run.")  # fmt: skip
async def tools_are_approved(server: RcrtServer) -> None:
    server.allowed()
    tools = await server.tools()
    tags = {str(_context(record).get("name")): record.get("tags") or [] for record, _ in tools}
    is_asked = any(APPROVED in each for each in tags.values())
    for call in server.calls:
        answer = tools[0][1]
        answer.must(call.tool in tags, f"A {CODE} called {call.tool}.")
        answer.must(not is_asked or APPROVED in tags[call.tool], f"The tag `approved` of {call.tool}.")


# Requests for tools.


@check(60, MUST, "A request is answered with its id and its tool", f"{STANDARD}: tool.response.v1",
       f"Store a {RESPONSE} with request_id and tool in its context; run a tools-runner.")  # fmt: skip
async def request_is_answered(server: RcrtServer) -> None:
    asked, response = await _answered(server)
    for name, wanted in (("request_id", asked.request_id), ("tool", server.allowed().tool)):
        response.must(response.context.get(name) == wanted, f"`{name}` {wanted}.")


@check(61, MUST, "A response of success has an output and no error", f"{STANDARD}: tool.response.v1",
       "Send status success and output, null if the tool returns nothing.")  # fmt: skip
async def response_has_output(server: RcrtServer) -> None:
    _, response = await server.made(server.allowed())
    response.must(response.context.get("status") == "success", "`status` success.")
    response.must("output" in response.context, "An `output`.")
    response.must(not response.context.get("error"), "No `error`.")


@check(62, MUST, "A response has the tags of one", f"{STANDARD}: tool.response.v1",
       f"Tag it tool:response, {WORKSPACE}, and request: with the id of the request.")  # fmt: skip
async def response_has_tags(server: RcrtServer) -> None:
    asked, response = await server.made(server.allowed())
    for tag in ("tool:response", WORKSPACE, f"request:{asked.request_id}"):
        response.must(tag in response.tags, f"The tag {tag}.")


@check(63, MUST, "A request gets one response", f"{RUNNER}: dispatchEventToTool",
       "Let one runner serve a workspace, and run a request once, however often its event comes.")  # fmt: skip
async def one_response(server: RcrtServer) -> None:
    asked, response = await server.made(server.allowed())
    await asyncio.sleep(server.limits.quiet_s)
    response.must(len(await server.responses(asked)) == 1, "One response.")


@check(64, MUST, "The response comes as an event, and is stored as such", f"{STANDARD}: tool.response.v1",
       "Publish what is stored. NATS loses what is larger than its max_payload.")  # fmt: skip
async def response_is_event(server: RcrtServer) -> None:
    stream = await server.events()
    asked, _ = await server.made(server.allowed())
    found = await stream.wait(lambda event: answers(asked, event), server.limits.event_s)
    stream.must(bool(found), f"An event about the response to {asked.request_id}.")
    record, answer = await server.record(str(found[0].get("breadcrumb_id")))
    answer.must(record.get("schema_name") == RESPONSE, f"`schema_name` {RESPONSE}.")
    answer.must(record.get("context") == found[0].get("context"), "The context of the event.")


@check(65, MUST, "The response is found in the list by the tag of its request", f"{OPENAPI}: GET /breadcrumbs",
       "Index tags before the event goes out: clients that lost their stream look there.")  # fmt: skip
async def response_is_listed(server: RcrtServer) -> None:
    asked, response = await server.made(server.allowed())
    query = {"schema_name": RESPONSE, "tag": f"request:{asked.request_id}", "include_context": "true", "limit": 5}
    if f"request:{asked.request_id}" not in response.tags:  # which is a check of its own
        raise SkippedError("The response lacks the tag.")
    found, answer = await server.entries(**query)
    fits = any(entry.get("id") == response.crumb_id and entry.get("context") == response.context for entry in found)
    answer.must(fits, f"The response {response.crumb_id} with its context.")


@check(66, MUST, "Five requests at once get a response each", f"{RUNNER}: dispatchEventToTool",
       "Queue what cannot run yet, and keep nothing of a request in what requests share.")  # fmt: skip
async def requests_at_once(server: RcrtServer) -> None:
    await server.made(server.allowed())
    calls = [server.calls[number % len(server.calls)] for number in range(AT_ONCE)]
    asked = await asyncio.gather(*(server.ask(call.tool, call.input) for call in calls))
    responses = await asyncio.gather(*(server.response(each) for each in asked))
    for call, each, response in zip(calls, asked, responses, strict=True):
        each.answer.must(response is not None, f"A response within {server.limits.response_s:g} s.")
        assert response is not None
        response.must(response.context.get("tool", call.tool) == call.tool, f"`tool` {call.tool}.")
    ids = {response.crumb_id for response in responses if response is not None}
    asked[0].answer.must(len(ids) == AT_ONCE, "A response for each request.")


@check(67, MUST, "A request without an id goes by that of its breadcrumb", f"{RUNNER}: dispatchEventToTool",
       "Take the id of the breadcrumb where context.requestId is missing.")  # fmt: skip
async def request_without_id(server: RcrtServer) -> None:
    call = server.allowed()
    await server.made(call)
    asked = await server.ask(call.tool, call.input, has_id=False)
    response = await server.response(asked, server.limits.event_s)
    asked.answer.must(response is not None, f"A response with request_id {asked.crumb_id}.")


@check(68, MUST, "Requests that are not for this workspace do not run", f"{RUNNER}: dispatchEventToTool",
       "Run only what is tagged tool:request and with the workspace, and not health:check.")  # fmt: skip
async def other_requests(server: RcrtServer) -> None:
    call = server.allowed()
    await server.made(call)
    wrong = ((WORKSPACE,), ("tool:request", "workspace:kit"), ("tool:request", WORKSPACE, "health:check"))
    asked = [await server.ask(call.tool, call.input, tags=tags) for tags in wrong]
    await asyncio.sleep(server.limits.quiet_s)
    for tags, each in zip(wrong, asked, strict=True):
        each.answer.must(await server.responses(each) == [], f"No response to a request with {', '.join(tags)}.")


@check(70, MUST, "A request for a tool that is not there is answered with an error", f"{RUNNER}: dispatchEventToTool",
       "Answer it at once: a client would wait to its deadline.")  # fmt: skip
async def unknown_tool(server: RcrtServer) -> None:
    _, response = await _refused(server, within_s=server.limits.response_s)
    response.must(response.context.get("status") == "error", "`status` error.")


@check(71, MUST, "A response of an error has a text and no output", f"{STANDARD}: tool.response.v1",
       "Say in context.error what went wrong.")  # fmt: skip
async def error_has_text(server: RcrtServer) -> None:
    _, response = await _refused(server, within_s=None)
    error = response.context.get("error")
    response.must(isinstance(error, str) and error != "", "A text in `error`.")
    response.must("output" not in response.context, "No `output`.")


@check(72, SHOULD, "Input that a tool cannot use is answered with an error", f"{STANDARD}: input_schema",
       "Let the tool check its input: the runner does not.")  # fmt: skip
async def bad_input(server: RcrtServer) -> None:
    server.allowed()
    requiring = [call for call in server.calls if (await _input_schema(server, call.tool)).get("required")]
    if not requiring:
        raise SkippedError("No tool of a --call requires an input.")
    call = requiring[0]
    await server.made(call)
    asked = await server.ask(call.tool, {})
    response = await server.response(asked)
    asked.answer.must(response is not None, f"A response within {server.limits.response_s:g} s.")
    assert response is not None
    response.must(response.context.get("status") == "error", "`status` error.")


@check(73, SHOULD, "`execution_time_ms` is a number of milliseconds, at least 0", f"{STANDARD}: tool.response.v1",
       "Leave it out, or send a number.")  # fmt: skip
async def execution_time(server: RcrtServer) -> None:
    _, response = await server.made(server.allowed())
    took = response.context.get("execution_time_ms", 0)
    fits = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    response.must(fits, f"A number, at least 0, not {took!r}.")


@check(74, SHOULD, "The output fits the output schema of its tool", f"{STANDARD}: output_schema",
       "Return what output_schema promises.")  # fmt: skip
async def output_fits(server: RcrtServer) -> None:
    call = server.allowed()
    schema = _schema(await _context_of(server, call.tool), "output")
    if not isinstance(schema, dict) or not is_schema(schema):
        raise SkippedError("The tool has no output schema that can be used.")
    _, response = await server.made(call)
    if response.context.get("status") != "success" or "output" not in response.context:  # which is a check of its own
        raise SkippedError("The call of --call does not succeed.")
    if (does_fit := fits(schema, response.context.get("output"))) is None:
        raise SkippedError("The output schema of the tool refers to another document.")
    response.must(does_fit, f"An output that fits {json.dumps(schema)[:200]}.")


# What checks have in common.


async def _refusals(server: RcrtServer) -> list[Answer]:
    found = [await server.create(b"{"), await server.create({"title": 1}), await server.read(str(uuid.uuid4()))]
    return [answer for answer in found if answer.status >= 400]


async def _announced(server: RcrtServer) -> tuple[dict[str, Any], Event, Recording]:
    """A breadcrumb that was stored, its first event, and the stream it came on. Raises SkippedError."""
    stream = await server.events()
    draft = server.draft(context={"text": "ä€😀", "list": [1, None]})
    crumb_id, _ = await server.created(draft)
    found = await stream.wait(is_of(crumb_id), server.limits.event_s)
    if not found:  # which is a check of its own
        raise SkippedError("New breadcrumbs do not come as events.")
    return draft, found[0], stream


async def _answered(server: RcrtServer) -> tuple[Asked, Response]:
    """A call that is allowed and its response. Raises UnfitError without one."""
    call = server.allowed()
    await server.events()
    asked = await server.ask(call.tool, call.input)
    response = await server.response(asked)
    asked.answer.must(response is not None, f"A response within {server.limits.response_s:g} s.")
    assert response is not None
    return asked, response


async def _refused(server: RcrtServer, *, within_s: float | None) -> tuple[Asked, Response]:
    """The response to a request for a tool that is not there. Without a limit of time, one that must not be lacking."""
    await server.events()
    asked = await server.ask(NO_TOOL, {})
    response = await server.response(asked, within_s or server.limits.event_s)
    if response is None and within_s is None:  # which is a check of its own
        raise SkippedError("A request for a tool that is not there is not answered.")
    asked.answer.must(response is not None, f"A response within {server.limits.response_s:g} s.")
    assert response is not None
    return asked, response


def _context(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get("context")
    return found if isinstance(found, dict) else {}


async def _context_of(server: RcrtServer, tool: str) -> Mapping[str, Any]:
    """The context of the breadcrumb of a tool. Raises SkippedError."""
    for record, _ in await server.tools():
        if _context(record).get("name") == tool:
            return _context(record)
    raise SkippedError(f"The tool {tool} is not listed.")


async def _input_schema(server: RcrtServer, tool: str) -> Mapping[str, Any]:
    found = _schema(await _context_of(server, tool), "input")
    return found if isinstance(found, dict) else {}


def _schema(context: Mapping[str, Any], which: str) -> Any:
    """A schema under its present name or an older one."""
    return context.get(f"{which}_schema", context.get(f"{which}Schema"))


def _is_uuid(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(uuid.UUID(value))
    except ValueError:
        return False
