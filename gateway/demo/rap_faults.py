"""What the RAP demonstration server can do wrong on order: acknowledgements, callbacks, manifests.

Each is a real server's behaviour, or one that the Reactive Agent Protocol allows or warns of. Orders name an operation,
or `manifest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import httpx

from gateway.demo.faults import Fault
from gateway.demo.rap_callbacks import Delivery
from gateway.demo.rap_calls import Invocation, Message
from gateway.demo.toolbox import Json, JsonObject

Messages: TypeAlias = AsyncGenerator[Message, None]
Edit: TypeAlias = Callable[[Message], Message]
Flow: TypeAlias = Callable[[Invocation, Fault, Messages], Messages]
Sending: TypeAlias = Callable[[Delivery], list[Delivery]]

BIG_TEXT_CHARACTERS = 1_100_000  # above the 1 MiB that is many a limit
STORM = 200  # view updates around one result
BIG_INTEGER = 2**63 + 1  # what a parser that uses doubles cannot keep

# How the invocation is acknowledged. From 300 on it is refused and nothing runs.
STATUSES = {f"ack_{status}": status for status in (202, 204, 302, 400, 409, 413, 422, 429, 500, 503)}
CONNECTION = {
    "ack_ok_body",  # 200 with a body, which nobody may read
    "slow_ack",  # the work starts after it
    "callback_before_ack",  # all callbacks, or those of the first `seconds`
    "reset_before_ack",  # the connection breaks, the work is done all the same
    "reset_and_drop",  # the connection breaks and nothing runs
    "ignore_cancel",  # results and events go on after a cancellation, as if they had crossed
}


def _said(**fields: Json) -> Edit:
    """Replaces what a result says."""

    def edit(message: Message) -> Message:
        return {**{name: value for name, value in message.items() if name not in ("text", "content")}, **fields}

    return edit


def _with(**fields: Json) -> Edit:
    return lambda message: {**message, **fields}


def _without(name: str) -> Edit:
    return lambda message: {key: value for key, value in message.items() if key != name}


# What becomes of each tool_result.
EDITS: dict[str, Edit] = {
    "wrong_id": lambda message: {**message, "id": f"{message['id']}-other"},
    "wrong_group": lambda message: {**message, "group_id": f"{message['group_id']}-other"},
    "call_id_omitted": _without("call_id"),
    "call_id_null": _with(call_id=None),
    "call_id_wrong": _with(call_id="call-other"),
    "missing_type": _without("type"),
    "missing_group": _without("group_id"),
    "unknown_type": _with(type="progress"),
    "unknown_fields": _with(x_vendor={"shard": 7}),
    "text_not_a_string": _said(text={"status": "built"}),
    "neither_text_nor_content": _said(),
    "both_text_and_content": _said(text="the text", content=[{"type": "text", "text": "the content"}]),
    "empty_content": _said(text="the text", content=[]),
    "only_empty_content": _said(content=[]),
    "unknown_content": _said(content=[{"type": "audio", "data": "", "mediaType": "audio/ogg"}]),
    "empty_text": _said(text=""),
    "plain_text": _said(text="Built in 3 steps."),
    "text_array": _said(text="[1, 2, 3]"),
    "text_scalar": _said(text="42"),
    "text_broken_json": _said(text='{"status": "built"'),
    "text_big_integer": _said(text=f'{{"build": {BIG_INTEGER}}}'),
    "big_text": _said(text="x" * BIG_TEXT_CHARACTERS),
    "error": _said(text="Error: The disk is full; free some space and build again"),
    "error_unprefixed": _said(text="Command cancelled."),
    "error_mentioned_later": _said(text="Built. The log has one line that begins with Error: deprecated"),
    "display_as_list": _with(display_as=[{"type": "text", "content": "a label"}]),
    "display_as_string": _with(display_as="a label"),  # as servers of early 2026 write it
    "subscription_on_error": _said(text="Error: There is nothing to watch", subscription=True),
}


async def _never(_call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    async for _ in messages:
        pass  # the work is done, and nobody hears of it
    return
    yield {}  # makes this a generator, as every flow is


async def _delayed(_call: Invocation, fault: Fault, messages: Messages) -> Messages:
    await asyncio.sleep(fault.seconds)
    async for message in messages:
        yield message


async def _two_different(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    async for message in messages:
        yield message
    yield call.result("This is the second result, and it is not like the first")


async def _view_updates(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    async for message in messages:
        for number in range(STORM):
            yield call.message("view_update", view_type="progress", content={"step": number})
        yield message


async def _still_running(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    """As the reference shell tool: not a subscription at all, only a result that comes in pieces."""
    yield call.result("Still running; output follows", subscription=True)
    async for message in messages:
        yield call.event(str(message.get("text", "")), associative=True, final=True)


async def _event_first(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    """An event overtakes the confirmation of its subscription."""
    held = [message async for message in messages]
    for message in [*held[1:2], *held[:1], *held[2:]]:
        yield message


async def _event_after_final(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    async for message in messages:
        yield message
    yield call.event("one event too many", associative=True)


async def _result_first(call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    """Its mind made up already; whatever it asks the user after that is late."""
    yield call.result("Decided without asking")
    async for message in messages:
        yield message


async def _oauth_never(_call: Invocation, _fault: Fault, messages: Messages) -> Messages:
    """The request for consent, and then nothing, whatever the user answers."""
    async for message in messages:
        if message["type"] == "oauth":
            yield message


FLOWS: dict[str, Flow] = {
    "never": _never,
    "delayed": _delayed,
    "two_different": _two_different,
    "view_update_storm": _view_updates,
    "still_running": _still_running,
    "event_before_confirmation": _event_first,
    "event_after_final": _event_after_final,
    "oauth_never_resolved": _oauth_never,
    "result_first": _result_first,
}


def _wrong_token(delivery: Delivery) -> list[Delivery]:
    """Another callback URL of the same shape: the first character of its last segment differs."""
    url = httpx.URL(delivery.url)
    folder, _, token = url.path.rpartition("/")
    token = ("B" if token.startswith("A") else "A") + token[1:]
    return [replace(delivery, url=str(url.copy_with(path=f"{folder}/{token}")))]


SENDINGS: dict[str, Sending] = {
    "duplicate": lambda delivery: [delivery, delivery],
    "wrong_token": _wrong_token,
    "invalid_json": lambda delivery: [replace(delivery, body=delivery.body[:-1])],
    "not_an_object": lambda delivery: [replace(delivery, body=b"[" + delivery.body + b"]")],
    "wrong_content_type": lambda delivery: [replace(delivery, headers={"Content-Type": "text/plain"})],
    # Cloud tools sign their callbacks for a gateway of their own, in front of or instead of ours.
    "extra_authorization": lambda delivery: [replace(delivery, headers={"Authorization": "AWS4-HMAC-SHA256 demo"})],
    "no_retry": lambda delivery: [replace(delivery, max_attempts=1)],  # as all reference tools
}

CALL_FAULTS = {*STATUSES, *CONNECTION, *EDITS, *FLOWS, *SENDINGS}


async def deliveries(call: Invocation, fault: Fault | None, messages: Messages) -> AsyncGenerator[Delivery, None]:
    """The messages of one call as they go out, spoilt as ordered."""
    name = "" if fault is None else fault.name
    if fault is not None and name in FLOWS:
        messages = FLOWS[name](call, fault, messages)
    async for message in messages:
        if name in EDITS and message["type"] == "tool_result":
            message = EDITS[name](message)
        delivery = Delivery.of(call, message)
        for sent in SENDINGS[name](delivery) if name in SENDINGS else [delivery]:
            yield sent


def _first_tool(manifest: JsonObject, edit: Callable[[JsonObject], JsonObject]) -> JsonObject:
    first, *others = manifest["tools"]
    return {**manifest, "tools": [edit(first), *others]}


# What becomes of the toolset object; of a wrong one no tool may be offered (Toolsets, Validation).
MANIFESTS: Mapping[str, Callable[[JsonObject], Json]] = {
    "no_tools": lambda manifest: {**manifest, "tools": []},
    "no_name": lambda manifest: {**manifest, "name": ""},
    "duplicate_names": lambda manifest: {**manifest, "tools": [*manifest["tools"], manifest["tools"][0]]},
    "missing_description": lambda manifest: _first_tool(manifest, _without("description")),
    "missing_schema": lambda manifest: _first_tool(manifest, _without("inputSchema")),
    "invalid_schema": lambda manifest: _first_tool(manifest, _with(inputSchema={"type": "text"})),
    "bad_endpoint": lambda manifest: {**manifest, "endpoint": "not a url"},
    # The same server under another name, so that a caller who goes there can be told from one who does not.
    "foreign_endpoint": lambda manifest: {
        **manifest,
        "endpoint": manifest["endpoint"].replace("127.0.0.1", "localhost"),
    },
    "changed_schema": lambda manifest: _first_tool(manifest, _with(inputSchema={"type": "object"})),
    "not_an_object": lambda manifest: [manifest],
}
MANIFEST_REPLIES = {"status_404", "status_500", "slow", "invalid_json"}
KNOWN_MANIFEST = {*MANIFESTS, *MANIFEST_REPLIES}
