"""Checks of invocations that are not valid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_conformance.callbacks import Callback
from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.schemas import is_schema
from toolgate_conformance.servers.rap.common import NOWHERE, has_trace, is_name, not_dropped
from toolgate_conformance.servers.rap.invocation import ERROR, Invocation, text_of
from toolgate_conformance.servers.rap.server import RapServer

LARGE = 256 * 1024  # characters of an argument
DEPTH = 5000  # of nested lists
DESTRUCTIVE = 2  # the most harm that annotations declare
SIMPLE = ("string", "number", "integer", "boolean")

check: Registry[RapServer] = Registry()


@check(40, MUST, "Tool Invocation")
async def unknown_operation(server: RapServer) -> None:
    """An unknown operation is not dropped silently.

    Fix: Acknowledge it and post a result that says so, or at least answer 4xx.
    """
    await not_dropped(server, await server.invoke(NOWHERE, {}))


@check(41, SHOULD, "Tool Invocation")
async def unknown_operation_is_told(server: RapServer) -> None:
    """An unknown operation leads to a result that begins with `Error: `.

    Fix: Acknowledge it with 200, and post a `tool_result` whose text begins with `Error: `.
    """
    await error_result(server, await server.invoke(NOWHERE, {}))


@check(42, MUST, "Tool Invocation")
async def wrong_arguments(server: RapServer) -> None:
    """Invalid arguments are not dropped silently.

    Fix: Validate arguments, and post a result that says what is wrong with them.
    """
    for operation, arguments in await misfits(server):
        await not_dropped(server, await server.invoke(operation, arguments))


@check(43, SHOULD, "Tool Invocation")
async def wrong_arguments_are_told(server: RapServer) -> None:
    """Invalid arguments lead to a result that begins with `Error: `.

    Fix: Acknowledge with 200, validate, and post a `tool_result` whose text begins with `Error: `.
    """
    for operation, arguments in await misfits(server):
        await error_result(server, await server.invoke(operation, arguments))


@check(44, SHOULD, "Tool Invocation")
async def wrong_members(server: RapServer) -> None:
    """Members of the wrong type lead to a result that begins with `Error: `.

    Fix: Read `id`, `group_id` and `callback_url` first: with them a result can be posted.
    """
    wrong: tuple[dict[str, Any], ...] = ({"operation": 1}, {"arguments": []}, {"arguments": "kit"})
    for given in wrong:
        await error_result(server, await server.invoke(NOWHERE, {}, members=given))


@check(45, SHOULD, "Tool Invocation")
async def no_invocation(server: RapServer) -> None:
    """A body without an id, a group and a callback URL is refused with 4xx.

    Fix: Answer 400 or 422 to a body that is not a JSON object, or lacks id, group_id or callback_url.
    """
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe", b"{}"):
        answer = await server.post(body)
        answer.must(400 <= answer.status < 500, "A status of 4xx.")


@check(46, GOOD, "Tool Invocation")
async def deep_body(server: RapServer) -> None:
    """Arguments nested 5,000 levels deep do no harm.

    Fix: Limit the depth of the JSON that is read.
    """
    invocation = server.open_call()
    request = {"operation": NOWHERE, "arguments": {"kit": "@"}, "id": invocation.id, "group_id": invocation.group_id}
    body = json.dumps(request | {"callback_url": invocation.inbox.url}).encode()
    answer = await server.post(body.replace(b'"@"', b"[" * DEPTH + b"]" * DEPTH))
    answer.must(answer.status < 500, "A status below 500.")
    again = await server.discover()
    again.must(again.status == 200, "A server that goes on.")


@check(47, GOOD, "Tool Invocation")
async def large_body(server: RapServer) -> None:
    """An argument of 256 KiB is not dropped silently.

    Fix: Refuse what is too large with 413, or post a result.
    """
    await not_dropped(server, await server.invoke(NOWHERE, {"kit": "x" * LARGE}))


@check(48, SHOULD, "Tool Result")
async def errors_hide(server: RapServer) -> None:
    """Errors contain no stack trace.

    Fix: Keep stack traces in the log.
    """
    answer = await server.post(b"{")
    answer.must(not has_trace(answer.body.decode("utf-8", "replace")), "No stack trace.")
    sent = [await server.invoke(NOWHERE, {}), *[it for _, it in (await server.observed() if server.calls else ())]]
    for invocation in sent:
        result = await server.result(invocation) if invocation is sent[0] else None
        found = invocation.inbox.of("tool_result") if result is None else [result]
        for each in found:
            shown = text_of(each)
            invocation.must(not (shown.startswith(ERROR) and has_trace(shown)), "No stack trace.", each)


async def error_result(server: RapServer, invocation: Invocation) -> Callback:
    """The result of a wrong invocation, which has to be an error. Raises UnfitError."""
    answer = invocation.acknowledgement()
    answer.must(answer.status == 200, "Status 200.")
    result = await server.result(invocation)
    invocation.must(result is not None and text_of(result).startswith(ERROR), f"A tool_result with `{ERROR}`.", result)
    assert result is not None
    return result


async def misfits(server: RapServer) -> list[tuple[str, Any]]:
    """Operations with arguments that do not fit their schemas. Raises SkippedError.

    A server that does not validate runs them: those that only read come first, and destructive ones are left out
    unless the operator allows them.
    """
    allowed = {call.tool for call in server.calls}
    tools = [
        each
        for each in await server.tools()
        if is_name(each.get("name"))
        and is_schema(each.get("inputSchema"))
        and (each["name"] in allowed or _harm(each) < DESTRUCTIVE)
    ]
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
    if annotations.get("destructive") is True:
        return DESTRUCTIVE
    return 0 if annotations.get("readOnly") is True else 1


def _requires(schema: Mapping[str, Any]) -> bool:
    required = schema.get("required")
    return isinstance(required, list) and bool(required)


def _simple(schema: Mapping[str, Any]) -> list[str]:
    """The arguments of a schema that take one simple type."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    return [name for name, it in properties.items() if isinstance(it, dict) and it.get("type") in SIMPLE]
