"""Checks of what a call posts to its callback URL.

They follow both editions of the documents of RAP: a result has `text` or `content`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from toolgate_conformance.checks import SkippedError, UnfitError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rap.common import is_json
from toolgate_conformance.servers.rap.invocation import OUTCOMES
from toolgate_conformance.servers.rap.server import RapServer

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
SEGMENT = {  # a program that does not know a type skips the segment
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type", "content"],
    "allOf": [
        {"if": {"properties": {"type": {"const": kind}}}, "then": {"properties": {"content": content}}}
        for kind, content in {
            "text": {"type": "string"},
            "diff": {"type": "object", "required": ["path", "patch"]},
            "image": {"type": "object", "required": ["data", "mediaType"]},
        }.items()
    ],
}
MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "tool_result": {
        "properties": {
            "text": {"type": ["string", "null"]},
            "content": {"type": ["array", "null"], "items": {"type": "object", **ITEM}},
            "display_as": {"type": ["array", "string", "null"], "items": SEGMENT},  # a text in spring 2026
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

check: Registry[RapServer] = Registry()


@check(30, MUST, "Lifecycle")
async def brings_outcome(server: RapServer) -> None:
    """Each acknowledged call leads to an outcome.

    Fix: Always post a `tool_result` in the end, even for a failure; `oauth` or `user_choice` may come before it.
    """
    for _, invocation in await server.accepted():
        has_one = any(each.kind in OUTCOMES for each in invocation.inbox.callbacks)
        invocation.must(has_one, f"A tool_result, oauth or user_choice within {server.waits.result_s:g} s.")


@check(31, MUST, "Transport")
async def callbacks_are_json(server: RapServer) -> None:
    """Callbacks have the content type `application/json`.

    Fix: Send Content-Type: application/json.
    """
    for invocation, callback in await server.callbacks():
        invocation.must(is_json(callback.headers), "A content type application/json.", callback)


@check(32, MUST, "Transport")
async def known_types(server: RapServer) -> None:
    """Each callback is a JSON object with a known `type`.

    Fix: Send one of tool_result, subscription_event, view_update, oauth, user_choice, each in a callback of its
    own.
    """
    for invocation, callback in await server.callbacks():
        invocation.must(callback.kind in MESSAGES, f"An object with a type of {', '.join(MESSAGES)}.", callback)


@check(33, MUST, "Tool Result")
async def ids(server: RapServer) -> None:
    """Each callback has the `id` of its invocation.

    Fix: Copy `id` of the invocation; in a `subscription_event` it is called `tool_call_id`.
    """
    for invocation, callback in await server.callbacks():
        name = "tool_call_id" if callback.kind == "subscription_event" else "id"
        if callback.kind in (*OUTCOMES, "subscription_event"):
            invocation.must(callback.document.get(name) == invocation.id, f"`{name}` {invocation.id!r}.", callback)


@check(34, MUST, "Transport")
async def group_ids(server: RapServer) -> None:
    """Each callback has the `group_id` of its invocation.

    Fix: Copy `group_id` of the invocation.
    """
    for invocation, callback in await server.callbacks():
        is_own = callback.document.get("group_id") == invocation.group_id
        invocation.must(is_own, f"`group_id` {invocation.group_id!r}.", callback)


@check(35, MUST, "Tool Result")
async def call_ids(server: RapServer) -> None:
    """The result has the `call_id` of the invocation.

    Fix: Copy `call_id` of the invocation if there is one.
    """
    given = "kit-call-1"
    members = {"thread_ancestors": ["kit-root", "kit-parent"]}
    invocation, result = await server.finished(await server.plain(), call_id=given, members=members)
    invocation.must(result.document.get("call_id") == given, f"`call_id` {given!r}.", result)


@check(36, MUST, "Tool Result, Subscription Events, View Updates")
async def members(server: RapServer) -> None:
    """Each message has the members of its type.

    Fix: A result has a `text` or a `content`, an event has a `text`; values go as JSON in a text.
    """
    for invocation, callback in await server.callbacks():
        schema = MESSAGES.get(callback.kind, {})
        for error in jsonschema_rs.Draft202012Validator(dict(schema)).iter_errors(callback.document):
            where = "".join(f"/{step}" for step in error.instance_path)
            wrong = f"A {callback.kind} of the form that is specified ({where}: {error.message:.200})."
            raise UnfitError(wrong, invocation.exchange(callback))
        for item in callback.document.get("content") or () if callback.kind == "tool_result" else ():
            if item["type"] == "image":
                invocation.must(_is_base64(item["data"]), "Base64 in `data` of the image.", callback)


@check(37, MUST, "Lifecycle")
async def one_result(server: RapServer) -> None:
    """A call leads to one result.

    Fix: Post one `tool_result` for each call; send what follows as events.
    """
    for _, invocation in await server.accepted():
        results = invocation.inbox.of("tool_result")
        invocation.must(len(results) <= 1, f"One tool_result, not {len(results)}.")


@check(38, SHOULD, "Tool Result")
async def text_before_image(server: RapServer) -> None:
    """In a result, an image follows a text.

    Fix: Put an item of text first: some callers cannot show images.
    """
    is_tried = False
    for _, invocation, callback in await server.calls_with("tool_result"):
        content = callback.document.get("content")
        kinds = [each.get("type") for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        if "image" in kinds:
            is_tried = True
            invocation.must(kinds[0] == "text", "A text as the first item.", callback)
    if not is_tried:
        raise SkippedError("No call of --call brings an image.")


@check(39, MUST, "Transport")
async def callback_url(server: RapServer) -> None:
    """Callbacks go to exactly the `callback_url` of the invocation.

    Fix: Treat the URL as opaque: keep its path and its query, and decode nothing in it.
    """
    for invocation, callback in await server.callbacks():
        target = invocation.inbox.target
        invocation.must(callback.target == target, f"A POST to {target}.", callback)


@check(29, SHOULD, "Tool Result")
async def text_is_last_to_display(server: RapServer) -> None:
    """The last segment of `display_as` is a text.

    Fix: End `display_as` with a segment of type text: a program that can show no other type shows that one.
    """
    is_tried = False
    for _, invocation, callback in await server.calls_with("tool_result"):
        segments = callback.document.get("display_as")
        if isinstance(segments, list) and segments:
            is_tried = True
            last = segments[-1]
            invocation.must(
                isinstance(last, dict) and last.get("type") == "text", "A text as the last segment.", callback
            )
    if not is_tried:
        raise SkippedError("No result has `display_as` in segments.")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True
