"""Checks of tool servers that speak the Reactive Agent Protocol (RAP).

They follow both editions of its documents: a server may send `text` or `content`, and needs no version of its toolset.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema_rs

from gateway.conformance.callbacks import Callback, statuses
from gateway.conformance.checks import Check, Level, SkippedError, UnfitError
from gateway.conformance.http import Answer
from gateway.conformance.rap import (
    CANCEL,
    CLOSE,
    ERROR,
    OUTCOMES,
    Invocation,
    RapServer,
    is_url,
    origin,
    text_of,
)
from gateway.conformance.schemas import is_schema

MUST, SHOULD, GOOD = Level
SOURCE = "RAP"
NOWHERE = "kit_no_such_operation"
NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
MAX_NAME = 128  # characters
AT_ONCE = 10
LARGE = 256 * 1024  # characters of an argument
DEPTH = 5000  # of nested lists
TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "\n    at ", "node_modules/", "panic: ")
NOT_SERVED = (404, 405)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CROSSING = 0.25  # of the time in which nothing may come: a message and a notice may cross
SIMPLE = ("string", "number", "integer", "boolean")
# The library would fetch any other `$schema` from wherever it points.

# What messages are made of besides what names their call; members that are not known are ignored.
OPTIONAL_FLAG = {"type": ["boolean", "null"]}
ITEM = {
    "oneOf": [
        {"properties": {"type": {"const": "text"}, "text": {"type": "string"}}, "required": ["type", "text"]},
        {
            "properties": {"type": {"const": "image"}, "data": {"type": "string"}, "mediaType": {"type": "string"}},
            "required": ["type", "data", "mediaType"],
        },
    ]
}
MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "tool_result": {
        "properties": {
            "text": {"type": ["string", "null"]},
            "content": {"type": ["array", "null"], "items": {"type": "object", **ITEM}},
            "display_as": {"type": ["array", "string", "null"]},  # a text in documents of spring 2026
            "subscription": OPTIONAL_FLAG,
        },
        "anyOf": [
            {"properties": {"text": {"type": "string"}}, "required": ["text"]},
            {"properties": {"content": {"type": "array", "minItems": 1}}, "required": ["content"]},
        ],
    },
    "subscription_event": {
        "properties": {"text": {"type": "string"}, "associative": OPTIONAL_FLAG, "final": OPTIONAL_FLAG},
        "required": ["tool_call_id", "text"],
    },
    "view_update": {
        "properties": {"view_type": {"type": "string"}, "content": {"type": "object"}},
        "required": ["view_type", "content"],
    },
    "oauth": {},  # these two have checks of their own
    "user_choice": {},
}
# Members that may be left out, and what they have to be otherwise.
TYPES = {str: "A text", bool: "true or false", dict: "An object"}
OF_TOOLSET = {"description": str, "needsMigration": bool}
OF_TOOL = {"annotations": dict, "displayScript": str}
OF_ANNOTATIONS = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}

RunCheck = Callable[[RapServer], Awaitable[None]]

_checks: list[Check] = []


def check(number: int, level: Level, title: str, page: str, remedy: str) -> Callable[[RunCheck], RunCheck]:
    """Adds a check; `page` is the page of the documents that it follows."""

    def add(run: RunCheck) -> RunCheck:
        _checks.append(Check(f"RAP-{number:03d}", level, title, f"{SOURCE}, {page}", remedy, run))
        return run

    return add


def rap_checks() -> list[Check]:
    """All checks, by id."""
    return sorted(_checks, key=lambda each: each.id)


# The toolset.


@check(1, MUST, "`GET /.well-known/rap-toolset` answers 200 with a JSON object", "Toolsets",
       "Serve the toolset there, below the URL that callers are given.")  # fmt: skip
async def discovery(server: RapServer) -> None:
    answer = await server.discover()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.document, dict), "A body that is a JSON object.")


@check(2, SHOULD, "The toolset has the content type of JSON", "Toolsets", "Send Content-Type: application/json.")
async def discovery_is_json(server: RapServer) -> None:
    await server.toolset()
    answer = await server.discover()
    answer.must(_is_json(answer.headers), "A content type application/json.")


@check(3, MUST, "The toolset has a `name` of 1 to 128 characters", "Toolsets", "Name the toolset.")
async def toolset_name(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(_is_name(toolset.get("name")), f"A name of 1 to 128 characters, not {toolset.get('name')!r:.200}.")


@check(4, MUST, "The `endpoint` of the toolset is a URL", "Toolsets",
       "Name the whole URL that invocations are posted to, with http or https and the host.")  # fmt: skip
async def endpoint(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    answer.must(is_url(toolset.get("endpoint")), f"An http or https URL, not {toolset.get('endpoint')!r:.200}.")


@check(5, MUST, "The toolset has at least one tool", "Toolsets", "Send `tools`, a list of objects; never an empty one.")
async def has_tools(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    tools = toolset.get("tools")
    fits = isinstance(tools, list) and bool(tools) and all(isinstance(each, dict) for each in tools)
    answer.must(fits, "A list of objects in `tools`.")


@check(6, MUST, "Each tool has a `name` of its own, of 1 to 128 characters", "Toolsets",
       "Name each tool once: one flaw in one tool, and no tool of the toolset may be offered.")  # fmt: skip
async def tool_names(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    names = [each.get("name") for each in tools]
    for name in names:
        answer.must(_is_name(name), f"A name of 1 to 128 characters, not {name!r:.200}.")
    answer.must(len(set(names)) == len(names), "Names that differ.")


@check(
    7, SHOULD, "The names of tools have letters, digits, `_` and `-` only", "Toolsets", "Make names that models take."
)
async def tool_name_characters(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        name = str(each.get("name"))
        answer.must(not name or NAME.fullmatch(name) is not None, f"A name of A-Z a-z 0-9 _ -, not {name!r:.200}.")


@check(8, MUST, "Each tool has a `description`", "Toolsets", "Say what the tool does: models read it.")
async def descriptions(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        said = each.get("description")
        answer.must(isinstance(said, str) and said != "", f"A description of {each.get('name')!r:.200}.")


@check(9, MUST, "The `inputSchema` of each tool is a JSON Schema", "Toolsets",
       "Send an object that is valid in draft 2020-12, or in the draft that $schema names.")  # fmt: skip
async def input_schemas(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        answer.must(is_schema(each.get("inputSchema")), f"A valid JSON Schema of {each.get('name')!r:.200}.")


@check(10, SHOULD, "The `inputSchema` says that the arguments are an object, and which", "Toolsets",
       'Say "type": "object"; of a tool without arguments also "additionalProperties": false.')  # fmt: skip
async def schemas_of_objects(server: RapServer) -> None:
    tools, answer = await server.tools(), await server.discover()
    for each in tools:
        schema, name = each.get("inputSchema"), f"{each.get('name')!r:.200}"
        if not isinstance(schema, dict) or not is_schema(schema):
            continue
        is_composed = bool(schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"})
        answer.must(is_composed or schema.get("type") == "object", f"An object as the arguments of {name}.")
        says_which = bool(schema.keys() - {"type", "title", "description", "$schema", "properties", "required"})
        says = says_which or bool(schema.get("properties"))
        answer.must(says, f"Arguments of {name}, or additionalProperties: false.")


@check(11, MUST, "Members that may be left out are of their types", "Toolsets",
       "Flags are true or false, texts are texts, `annotations` is an object.")  # fmt: skip
async def optional_members(server: RapServer) -> None:
    toolset, answer = await server.toolset(), await server.discover()
    _typed_as(answer, toolset, OF_TOOLSET, "the toolset")
    for each in await server.tools():
        name = f"{each.get('name')!r:.200}"
        _typed_as(answer, each, OF_TOOL, name)
        _typed_as(answer, each.get("annotations") or {}, OF_ANNOTATIONS, f"the annotations of {name}")


@check(12, GOOD, "The `endpoint` is at the origin of the toolset", "Toolsets",
       "Name the host that callers know: careful ones post to no other. Behind a proxy, configure it.")  # fmt: skip
async def own_endpoint(server: RapServer) -> None:
    endpoint, answer = await server.endpoint(), await server.discover()
    answer.must(origin(endpoint) == origin(server.client.url), "The scheme, host and port that were asked.")


# Invocations.


@check(20, MUST, "A valid invocation is acknowledged with 200", "Tool Invocation", "Answer 200; the body is not read.")
async def acknowledges(server: RapServer) -> None:
    for _, invocation in await server.observed():
        answer = invocation.acknowledgement()
        answer.must(answer.status == 200, "Status 200.")


@check(21, MUST, "The acknowledgement comes at once", "Tool Invocation",
       "Answer first and work then, in a task of the background.")  # fmt: skip
async def acknowledges_at_once(server: RapServer) -> None:
    for _, invocation in await server.accepted():
        took, answer = invocation.acked_s - invocation.sent_s, invocation.acknowledgement()
        answer.must(took <= server.waits.ack_s, f"An answer within {server.waits.ack_s:g} s, not after {took:.3f} s.")


@check(22, MUST, "The acknowledgement does not wait for the callback", "Tool Invocation",
       "Post the result from a task of the background: callers may answer it after the acknowledgement.")  # fmt: skip
async def acknowledges_first(server: RapServer) -> None:
    acknowledged, waited = asyncio.Event(), False

    async def hold(_number: int) -> int:
        nonlocal waited
        try:
            async with asyncio.timeout(server.waits.hold_s):
                await acknowledged.wait()
        except TimeoutError:
            waited = True
        return 200

    invocation = await server.make(await server.plain(), reply=hold)
    acknowledged.set()
    answer = invocation.acknowledgement()
    answer.must(not waited, "An acknowledgement before the callback is answered.")
    await server.result(invocation)


@check(23, MUST, "Members that may be left out may be absent, and null", "Tool Invocation",
       "Take `call_id`, `thread_ancestors` and `user_id` as null, as real callers send them.")  # fmt: skip
async def optional_absent(server: RapServer) -> None:
    call = await server.plain()
    names = [name for name in ("call_id", "thread_ancestors", "user_id") if call.context.get(name) is None]
    await server.finished(call, without=names)
    await server.finished(call, members=dict.fromkeys(names))


@check(24, GOOD, "Members that nobody knows are ignored", "Tool Invocation",
       "Read what is known and ignore the rest: callers may be of a newer edition.")  # fmt: skip
async def unknown_members(server: RapServer) -> None:
    await server.finished(await server.plain(), members={"kit_member": {"kit": [1]}})


# Callbacks.


@check(30, MUST, "Each call that is acknowledged brings an outcome", "Lifecycle",
       "Post a `tool_result` in the end, also of a failure; `oauth` or `user_choice` may come before it.")  # fmt: skip
async def brings_outcome(server: RapServer) -> None:
    for _, invocation in await server.accepted():
        has_one = any(each.kind in OUTCOMES for each in invocation.inbox.callbacks)
        invocation.must(has_one, f"A tool_result, oauth or user_choice within {server.waits.result_s:g} s.")


@check(31, MUST, "Callbacks have the content type of JSON", "Transport", "Send Content-Type: application/json.")
async def callbacks_are_json(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        invocation.must(_is_json(callback.headers), "A content type application/json.", callback)


@check(32, MUST, "Each callback is a JSON object of a known `type`", "Transport",
       f"Send one of {', '.join(MESSAGES)}, each in a callback of its own.")  # fmt: skip
async def known_types(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        invocation.must(callback.kind in MESSAGES, f"An object with a type of {', '.join(MESSAGES)}.", callback)


@check(33, MUST, "Each callback has the `id` of its invocation", "Tool Result",
       "Copy `id` of the invocation; in a `subscription_event` it is called `tool_call_id`.")  # fmt: skip
async def ids(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        name = "tool_call_id" if callback.kind == "subscription_event" else "id"
        if callback.kind in (*OUTCOMES, "subscription_event"):
            invocation.must(callback.document.get(name) == invocation.id, f"`{name}` {invocation.id!r}.", callback)


@check(
    34, MUST, "Each callback has the `group_id` of its invocation", "Transport", "Copy `group_id` of the invocation."
)
async def group_ids(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        is_own = callback.document.get("group_id") == invocation.group_id
        invocation.must(is_own, f"`group_id` {invocation.group_id!r}.", callback)


@check(
    35,
    MUST,
    "A `call_id` that was given comes back",
    "Tool Result",
    "Copy `call_id` of the invocation if there is one.",
)
async def call_ids(server: RapServer) -> None:
    given = "kit-call-1"
    members = {"thread_ancestors": ["kit-root", "kit-parent"]}
    invocation, result = await server.finished(await server.plain(), call_id=given, members=members)
    invocation.must(result.document.get("call_id") == given, f"`call_id` {given!r}.", result)


@check(36, MUST, "Each message has the members of its type", "Tool Result, Subscription Events, View Updates",
       "A result has a `text` or a `content`, an event has a `text`; values go as JSON in a text.")  # fmt: skip
async def members(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        schema = MESSAGES.get(callback.kind, {})
        for error in jsonschema_rs.Draft202012Validator(dict(schema)).iter_errors(callback.document):
            where = "".join(f"/{step}" for step in error.instance_path)
            wrong = f"A {callback.kind} of the form that is specified ({where}: {error.message:.200})."
            raise UnfitError(wrong, invocation.exchange(callback))


@check(37, MUST, "A call brings one result", "Lifecycle", "Post one `tool_result` for each call; more go as events.")
async def one_result(server: RapServer) -> None:
    for _, invocation in await server.accepted():
        results = invocation.inbox.of("tool_result")
        invocation.must(len(results) <= 1, f"One tool_result, not {len(results)}.")


@check(38, SHOULD, "An image comes after a text", "Tool Result",
       "Put an item of text first: some callers cannot show images.")  # fmt: skip
async def text_before_image(server: RapServer) -> None:
    is_tried = False
    for _, invocation, callback in await server.calls_with("tool_result"):
        content = callback.document.get("content")
        kinds = [each.get("type") for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        if "image" in kinds:
            is_tried = True
            invocation.must(kinds[0] == "text", "A text as the first item.", callback)
    if not is_tried:
        raise SkippedError("No call of --call brings an image.")


@check(39, MUST, "Callbacks go to the `callback_url` as it was given", "Transport",
       "Take the URL as opaque: keep its path and its query, and decode nothing in it.")  # fmt: skip
async def callback_url(server: RapServer) -> None:
    for invocation, callback in await server.callbacks():
        url = urlsplit(invocation.inbox.url)
        invocation.must(callback.target == f"{url.path}?{url.query}", f"A POST to {url.path}?{url.query}.", callback)


# Invocations that are wrong.


@check(40, MUST, "An operation that is not there is not dropped", "Tool Invocation",
       "Acknowledge it and post a result that says so. Answering 4xx is the lesser way.")  # fmt: skip
async def unknown_operation(server: RapServer) -> None:
    await _not_dropped(server, await server.invoke(NOWHERE, {}))


@check(41, SHOULD, "An operation that is not there brings a result with `Error: `", "Tool Invocation",
       "Acknowledge it with 200, and post a `tool_result` whose text begins with `Error: `.")  # fmt: skip
async def unknown_operation_is_told(server: RapServer) -> None:
    await _told(server, await server.invoke(NOWHERE, {}))


@check(42, MUST, "Arguments that do not fit are not dropped", "Tool Invocation",
       "Validate arguments, and post a result that says what is wrong with them.")  # fmt: skip
async def wrong_arguments(server: RapServer) -> None:
    for operation, arguments in await _misfits(server):
        await _not_dropped(server, await server.invoke(operation, arguments))


@check(43, SHOULD, "Arguments that do not fit bring a result with `Error: `", "Tool Invocation",
       "Acknowledge with 200, validate, and post a `tool_result` whose text begins with `Error: `.")  # fmt: skip
async def wrong_arguments_are_told(server: RapServer) -> None:
    for operation, arguments in await _misfits(server):
        await _told(server, await server.invoke(operation, arguments))


@check(44, SHOULD, "Members of the wrong type bring a result with `Error: `", "Tool Invocation",
       "Read `id`, `group_id` and `callback_url` first: with them there is somebody to tell.")  # fmt: skip
async def wrong_members(server: RapServer) -> None:
    wrong: tuple[dict[str, Any], ...] = ({"operation": 1}, {"arguments": []}, {"arguments": "kit"})
    for given in wrong:
        await _told(server, await server.invoke(NOWHERE, {}, members=given))


@check(45, SHOULD, "A body that nobody could be told about is refused with 4xx", "Tool Invocation",
       "Answer 400 or 422 to what is no JSON object, or has no id, group_id and callback_url.")  # fmt: skip
async def no_invocation(server: RapServer) -> None:
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe", b"{}"):
        answer = await server.post(body)
        answer.must(400 <= answer.status < 500, "A status of 4xx.")


@check(46, GOOD, "Arguments nested five thousand times do no harm", "Tool Invocation", "Bound the depth that is read.")
async def deep_body(server: RapServer) -> None:
    invocation = server.open_call()
    request = {"operation": NOWHERE, "arguments": {"kit": "@"}, "id": invocation.id, "group_id": invocation.group_id}
    body = json.dumps(request | {"callback_url": invocation.inbox.url}).encode()
    answer = await server.post(body.replace(b'"@"', b"[" * DEPTH + b"]" * DEPTH))
    answer.must(answer.status < 500, "A status below 500.")
    again = await server.discover()
    again.must(again.status == 200, "A server that goes on.")


@check(47, GOOD, "An argument of 256 KiB is not dropped", "Tool Invocation",
       "Refuse what is too large with 413, or post a result.")  # fmt: skip
async def large_body(server: RapServer) -> None:
    await _not_dropped(server, await server.invoke(NOWHERE, {"kit": "x" * LARGE}))


@check(48, SHOULD, "No error shows what is inside", "Tool Result", "Keep stack traces in the log.")
async def errors_hide(server: RapServer) -> None:
    answer = await server.post(b"{")
    answer.must(not _has_trace(answer.body.decode("utf-8", "replace")), "No stack trace.")
    sent = [await server.invoke(NOWHERE, {}), *[it for _, it in (await server.observed() if server.calls else ())]]
    for invocation in sent:
        result = await server.result(invocation) if invocation is sent[0] else None
        found = invocation.inbox.of("tool_result") if result is None else [result]
        for each in found:
            shown = text_of(each)
            invocation.must(not (shown.startswith(ERROR) and _has_trace(shown)), "No stack trace.", each)


# Answers to callbacks.


@check(50, SHOULD, "A callback that is answered with 503 comes again", "Transport",
       "Post it again after a while, on 5xx and without an answer; a few times, with longer pauses.")  # fmt: skip
async def delivers_again(server: RapServer) -> None:
    invocation, first = await server.finished(await server.plain(), reply=statuses(503))
    again = await invocation.inbox.first(lambda it: True, server.waits.result_s, after=1)
    invocation.must(again is not None, "The same callback again.", first)
    invocation.must(again is not None and again.document == first.document, "The same callback again.", again)


@check(51, SHOULD, "A callback that is answered with 4xx does not come again", "Transport",
       "Give it up: the caller does not know the call any more.")  # fmt: skip
async def gives_up(server: RapServer) -> None:
    invocation, _ = await server.finished(await server.plain(), reply=statuses(404, 404, 404))
    await server.quiet()
    invocation.must(len(invocation.inbox.callbacks) == 1, "No callback after a status of 404.")


@check(52, GOOD, "A callback whose answer takes a while comes once", "Transport",
       "Wait some seconds for the answer: the caller may have to store the result first.")  # fmt: skip
async def waits_for_answers(server: RapServer) -> None:
    async def slowly(_number: int) -> int:
        await asyncio.sleep(server.waits.hold_s)
        return 200

    invocation, _ = await server.finished(await server.plain(), reply=slowly)
    await asyncio.sleep(server.waits.hold_s)
    await server.quiet()
    invocation.must(len(invocation.inbox.callbacks) == 1, f"One callback, answered after {server.waits.hold_s:g} s.")


# Notices.


@check(60, SHOULD, "The paths of notices are served", "Tool Cancellation, Thread Closure",
       f"Serve POST {CANCEL} and {CLOSE}, below the URL of the toolset.")  # fmt: skip
async def notices_are_served(server: RapServer) -> None:
    for answer in (await server.cancel("kit-thread", "kit-unknown"), await server.close("kit-thread")):
        answer.must(answer.status not in NOT_SERVED, "Status 200.")


@check(61, MUST, "A cancellation is answered with 200, also of an unknown call", "Tool Cancellation",
       "Answer 200 always: never, twice and too late are all allowed.")  # fmt: skip
async def cancels(server: RapServer) -> None:
    await _served(server, CANCEL)
    for _ in range(2):
        answer = await server.cancel("kit-thread", "kit-unknown")
        answer.must(answer.status == 200, "Status 200.")


@check(62, MUST, "The closure of a thread is answered with 200, also of an unknown one", "Thread Closure",
       "Answer 200 always: never, twice and too late are all allowed.")  # fmt: skip
async def closes(server: RapServer) -> None:
    await _served(server, CLOSE)
    for _ in range(2):
        answer = await server.close("kit-thread")
        answer.must(answer.status == 200, "Status 200.")


@check(63, MUST, "A call that is cancelled brings one result or none", "Tool Cancellation",
       "End the call quietly, or finish it: result and cancellation may cross.")  # fmt: skip
async def cancels_calls(server: RapServer) -> None:
    call = await server.plain()
    await _served(server, CANCEL)
    invocation = await server.make(call)
    for _ in range(2):  # the second comes too late
        answer = await server.cancel(invocation.group_id, invocation.id)
        answer.must(answer.status == 200, "Status 200.")
    await server.quiet()
    results = invocation.inbox.of("tool_result")
    invocation.must(len(results) <= 1, f"At most one tool_result, not {len(results)}.")
    await server.finished(call)


@check(64, MUST, "A subscription that has ended brings no event", "Subscription Events",
       "Send nothing after the event that is `final`, nor after the cancellation of the call.")  # fmt: skip
async def ends_subscriptions(server: RapServer) -> None:
    is_tried = False
    for _, invocation in await server.observed():
        events = invocation.inbox.of("subscription_event")
        finals = [number for number, each in enumerate(events) if each.document.get("final") is True]
        if finals:
            is_tried = True
            invocation.must(len(events) == finals[0] + 1, "No event after the one that is final.", events[-1])
        elif invocation.cancelled_s is not None and invocation.inbox.of("tool_result"):
            is_tried = True
            since = invocation.cancelled_s + server.waits.quiet_s * CROSSING
            late = [each for each in events if each.came_s > since]
            invocation.must(not late, "No event after the cancellation.", late[0] if late else None)
    if not is_tried:
        raise SkippedError("No call of --call opens a subscription.")


@check(65, GOOD, "A notice that cannot be read does no harm", "Tool Cancellation, Thread Closure",
       "Take the ids of notices for hostile; answer 200 or 4xx.")  # fmt: skip
async def unreadable_notices(server: RapServer) -> None:
    hostile: tuple[Any, ...] = ([], {}, {"thread_id": 1, "tool_call_id": {"kit": []}}, {"thread_id": "../" * 1000})
    for path in (CANCEL, CLOSE):
        for body in hostile:
            answer = await server.notice(path, body)
            answer.must(answer.status < 500, "A status below 500.")


# Calls at the same time.


@check(70, MUST, "Calls at the same time get their own results", "Tool Result",
       "Keep nothing of a call in what calls share.")  # fmt: skip
async def calls_at_once(server: RapServer) -> None:
    call = await server.plain()
    for invocation, result in await asyncio.gather(*(server.finished(call) for _ in range(AT_ONCE))):
        named = result.document.get("id"), result.document.get("group_id")
        invocation.must(named == (invocation.id, invocation.group_id), "The result of this call.", result)


# People who are asked.


@check(
    80, MUST, "The `auth_url` of `oauth` is an https URL", "OAuth", "Send people to https; http is for loopback only."
)
async def auth_url(server: RapServer) -> None:
    for _, invocation, callback in await server.calls_with("oauth"):
        url = callback.document.get("auth_url")
        fits = is_url(url) and (httpx.URL(str(url)).scheme == "https" or httpx.URL(str(url)).host in LOOPBACK)
        invocation.must(fits, f"An https URL in `auth_url`, not {url!r:.200}.", callback)


@check(81, MUST, "A question has a prompt, choices, a default and where to answer", "User Choice",
       "Send `prompt`, `choices`, `default` as an index of them, and `response_url`.")  # fmt: skip
async def questions(server: RapServer) -> None:
    for _, invocation, callback in await server.calls_with("user_choice"):
        asked = callback.document
        choices, default = asked.get("choices"), asked.get("default")
        invocation.must(isinstance(asked.get("prompt"), str), "A text in `prompt`.", callback)
        fits = isinstance(choices, list) and bool(choices) and all(isinstance(each, str) for each in choices)
        invocation.must(fits, "A list of texts in `choices`.", callback)
        in_range = type(default) is int and isinstance(choices, list) and 0 <= default < len(choices)
        invocation.must(in_range, f"An index of `choices` in `default`, not {default!r:.200}.", callback)
        invocation.must(is_url(asked.get("response_url")), "A URL in `response_url`.", callback)


@check(82, MUST, "The answer to a question is taken with 200, and brings the result", "User Choice",
       "Answer 200, go on with the choice, and post the `tool_result`.")  # fmt: skip
async def takes_answers(server: RapServer) -> None:
    for _, invocation, callback in await server.calls_with("user_choice"):
        if invocation.choice is None:
            raise SkippedError("The response_url is not at an origin of the server, or does not answer.")
        invocation.choice.must(invocation.choice.status == 200, "Status 200.")
        invocation.must(bool(invocation.inbox.of("tool_result")), "A tool_result after the answer.", callback)


@check(83, MUST, "A choice that is none brings a result all the same", "User Choice",
       "Post an error as the `tool_result` if the choice is no index of `choices`, or ask for another.")  # fmt: skip
async def takes_no_wrong_answers(server: RapServer) -> None:
    call, _, _ = (await server.calls_with("user_choice"))[0]
    invocation = await server.make(call)
    question = await invocation.inbox.first(lambda it: it.kind == "user_choice", server.waits.result_s)
    if question is None:
        raise SkippedError("The tool does not ask again.")
    answer = await server.choose(invocation, 1_000_000, question)
    if answer is None:
        raise SkippedError("The response_url is not at an origin of the server, or does not answer.")
    answer.must(answer.status < 500, "A status below 500.")
    if answer.status >= 400:  # which is told at once; the question is still open
        answer = await server.choose(invocation, question.document.get("default"), question)
    result = await server.result(invocation)
    invocation.must(result is not None, "A tool_result after the answer.", question)


# Credentials.


@check(90, GOOD, "An invocation without a credential is refused with 401 or 403", "Transport",
       "Ask for the credential at the endpoint.")  # fmt: skip
async def without_credential(server: RapServer) -> None:
    _ensure_credential(server)
    answer = (await server.invoke(NOWHERE, {}, is_known=False)).acknowledgement()
    answer.must(answer.status in (401, 403), "Status 401.")


@check(91, MUST, "Notices without a credential are refused as invocations are", "Tool Cancellation, Thread Closure",
       "Ask for the credential of the endpoint: whoever guesses an id could cancel a call.")  # fmt: skip
async def notices_without_credential(server: RapServer) -> None:
    _ensure_credential(server)
    invocation = await server.invoke(NOWHERE, {}, is_known=False)
    if invocation.acknowledgement().status not in (401, 403):
        raise SkippedError("Invocations need no credential.")
    for path in (CANCEL, CLOSE):
        with contextlib.suppress(SkippedError):
            await _served(server, path)
            answer = await server.notice(path, {"thread_id": "kit", "tool_call_id": "kit"}, is_known=False)
            answer.must(answer.status in (401, 403), "Status 401.")


# What checks have in common.


async def _not_dropped(server: RapServer, invocation: Invocation) -> None:
    """A wrong invocation is refused, or brings a result. Raises UnfitError."""
    answer = invocation.acknowledgement()
    answer.must(answer.status < 500, "Status 200, or a status of 4xx.")
    if invocation.is_accepted:
        result = await server.result(invocation)
        invocation.must(result is not None, "A tool_result after the acknowledgement.")


async def _told(server: RapServer, invocation: Invocation) -> Callback:
    """The result of a wrong invocation, which has to be an error. Raises UnfitError."""
    answer = invocation.acknowledgement()
    answer.must(answer.status == 200, "Status 200.")
    result = await server.result(invocation)
    invocation.must(result is not None and text_of(result).startswith(ERROR), f"A tool_result with `{ERROR}`.", result)
    assert result is not None
    return result


async def _misfits(server: RapServer) -> list[tuple[str, Any]]:
    """Operations with arguments that do not fit their schemas. Raises SkippedError.

    Operations that only read come first, those that destroy last: a server that does not look would run them.
    """
    tools = [each for each in await server.tools() if _is_name(each.get("name")) and is_schema(each.get("inputSchema"))]
    found: list[tuple[str, Any]] = []
    by_harm = sorted(tools, key=_harm)
    lacking = next((each for each in by_harm if _requires(each["inputSchema"])), None)
    if lacking is not None:
        found.append((lacking["name"], {}))
    typed = next((each for each in by_harm if _simple(each["inputSchema"])), None)
    if typed is not None:
        found.append((typed["name"], {_simple(typed["inputSchema"])[0]: {"kit": []}}))
    if not found:
        raise SkippedError("No tool has an argument that is required, or that takes only one type.")
    return found


def _harm(tool: Mapping[str, Any]) -> int:
    said = tool.get("annotations")
    annotations = said if isinstance(said, dict) else {}
    return 0 if annotations.get("readOnly") is True else 2 if annotations.get("destructive") is True else 1


def _requires(schema: Mapping[str, Any]) -> bool:
    required = schema.get("required")
    return isinstance(required, list) and bool(required)


def _simple(schema: Mapping[str, Any]) -> list[str]:
    """The arguments of a schema that take one simple type."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    return [name for name, it in properties.items() if isinstance(it, dict) and it.get("type") in SIMPLE]


async def _served(server: RapServer, path: str) -> None:
    """Raises SkippedError for a notice that the server does not know: serving it is a check of its own."""
    answer = await server.notice(path, {"thread_id": "kit-thread", "tool_call_id": "kit-unknown"})
    if answer.status in NOT_SERVED:
        raise SkippedError(f"The server does not serve {path}.")


def _ensure_credential(server: RapServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")


def _typed_as(answer: Answer, given: Any, kinds: Mapping[str, type], what: str) -> None:
    if not isinstance(given, dict):
        return
    for name, kind in kinds.items():
        if given.get(name) is not None:
            answer.must(isinstance(given[name], kind), f"{TYPES[kind]} as {name} of {what}.")


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME


def _has_trace(text: str) -> bool:
    return any(trace in text for trace in TRACES)
