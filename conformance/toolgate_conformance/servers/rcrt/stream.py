"""Checks of the event stream, `GET /events/stream`."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from contextlib import AsyncExitStack
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import SERVER
from toolgate_conformance.servers.rcrt.events import Event, Recording, is_crumb, is_of, is_ping
from toolgate_conformance.servers.rcrt.server import RcrtServer

STREAM = f"{SERVER}: sse_stream"
READERS = 3
EVENT_LINE = re.compile(rb"data: [^\r\n]+")

check: Registry[RcrtServer] = Registry()


@check(30, MUST, STREAM)
async def stream_opens(server: RcrtServer) -> None:
    """`GET /events/stream` opens an event stream.

    Fix: Respond with 200 and the content type text/event-stream; 503 means that NATS is missing.
    """
    stream = await server.shared()
    stream.must(stream.status == 200, "Status 200.")
    fits = stream.headers.get("content-type", "").startswith("text/event-stream")
    stream.must(fits, "The content type text/event-stream.")


@check(31, MUST, STREAM)
async def stream_lines(server: RcrtServer) -> None:
    """An event is one `data: ` line with a JSON object, followed by a blank line.

    Fix: Write a space after the colon, and the JSON in one line: runners split the stream by hand.
    """
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft(context={"text": "one\ntwo\r\nthree"}))
    await stream.wait(is_of(crumb_id), server.limits.event_s)
    stream.must(stream.malformed == [], "Events that are JSON objects.")
    blocks = bytes(stream.start).split(b"\n\n")[:-1]
    stream.must(bool(blocks), "Events that end with a blank line.")
    for block in filter(None, map(_without_comments, blocks)):
        shown = block[:100].decode("utf-8", "replace")
        stream.must(EVENT_LINE.fullmatch(block) is not None, f"One `data: ` line with JSON, not {shown!r}.")


@check(32, MUST, STREAM)
async def first_ping(server: RcrtServer) -> None:
    """A stream starts with a ping, without delay.

    Fix: Send {"type":"ping"} as data as soon as the subscription is active.
    """
    stream = await server.events()
    # A breadcrumb of others may be stored before the first ping is written.
    signs = [(event, at_s) for event, at_s in zip(stream.events, stream.times_s, strict=True) if not is_crumb(event)]
    within_s = server.limits.first_ping_s
    fits = bool(signs) and is_ping(signs[0][0]) and signs[0][1] <= within_s
    stream.must(fits, f"A ping within {within_s:g} s.")


@check(33, SHOULD, STREAM)
async def next_ping(server: RcrtServer) -> None:
    """A stream carries a ping every 5 s.

    Fix: Send a ping as data every 5 s: clients give up a stream that is silent.
    """
    stream = await server.events()
    so_far = len(stream.found(is_ping))
    found = await stream.wait(is_ping, server.limits.ping_s, so_far + 1)
    stream.must(len(found) > so_far, f"Another ping within {server.limits.ping_s:g} s.")


@check(34, MUST, STREAM)
async def event_comes(server: RcrtServer) -> None:
    """A new breadcrumb is announced by an event of type `breadcrumb.updated`.

    Fix: Publish each new breadcrumb to the open streams of its owner.
    """
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft())
    found = await stream.wait(is_of(crumb_id), server.limits.event_s)
    stream.must(bool(found), f"An event for {crumb_id} within {server.limits.event_s:g} s.")
    stream.must(found[0].get("type", "breadcrumb.updated") == "breadcrumb.updated", "`type` breadcrumb.updated.")


@check(35, MUST, STREAM)
async def event_is_whole(server: RcrtServer) -> None:
    """An event contains every member of the breadcrumb that runners read.

    Fix: Send owner_id, version, tags, schema_name, updated_at and the whole context.
    """
    draft, event, stream = await _announced(server)
    record, _ = await server.record(event["breadcrumb_id"])
    wanted = {name: draft[name] for name in ("tags", "schema_name", "context")}
    # A token that was given, and a server without tokens, may act for another owner than ours.
    wanted |= {"owner_id": record.get("owner_id", server.owner_id), "version": 1}
    for name, value in wanted.items():
        stream.must(event.get(name) == value, f"`{name}` {json.dumps(value)}.")
    stream.must(isinstance(event.get("updated_at"), str), "A string in `updated_at`.")


@check(36, MUST, STREAM)
async def change_comes(server: RcrtServer) -> None:
    """A PATCH is announced by an event with the new version.

    Fix: Publish changes in the same way as new breadcrumbs.
    """
    stream = await server.events()
    crumb_id, _ = await server.created(server.draft())
    answer = await server.send("PATCH", f"/breadcrumbs/{crumb_id}", {"context": {"changed": True}})
    if answer.status != 200:  # which is a check of its own
        raise SkippedError(f"Breadcrumbs cannot be changed: {answer.status}.")
    fits = is_of(crumb_id)
    found = await stream.wait(lambda event: fits(event) and event.get("version") == 2, server.limits.event_s)
    stream.must(bool(found), f"An event with version 2 of {crumb_id} within {server.limits.event_s:g} s.")


@check(37, MUST, STREAM)
async def several_readers(server: RcrtServer) -> None:
    """Every open stream receives every event.

    Fix: Give each stream its own subscription, not a member of a queue group.
    """
    await server.events()
    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(server.stream()) for _ in range(READERS)]
        if any(stream.status != 200 for stream in streams):
            raise SkippedError("Several event streams cannot be opened.")
        await asyncio.gather(*(stream.wait(bool, server.limits.event_s) for stream in streams))
        crumb_id, _ = await server.created(server.draft())
        await asyncio.gather(*(stream.wait(is_of(crumb_id), server.limits.event_s) for stream in streams))
        for number, stream in enumerate(streams, 1):
            stream.must(bool(stream.found(is_of(crumb_id))), f"An event for {crumb_id} on stream {number}.")


@check(38, SHOULD, STREAM)
async def event_comes_once(server: RcrtServer) -> None:
    """A stream carries each event once.

    Fix: Delete the selectors of this agent: each one that matches sends the event again.
    """
    draft, event, stream = await _announced(server)
    await asyncio.sleep(server.limits.quiet_s)
    found = stream.found(is_of(event["breadcrumb_id"]))
    stream.must(len(found) == 1, f"One event for the breadcrumb tagged {draft['tags'][-1]}.")


@check(39, MUST, STREAM)
async def stream_again(server: RcrtServer) -> None:
    """A reopened stream carries new events.

    Fix: Subscribe again for each stream: one that carries pings only leaves runners deaf.
    """
    await server.events()
    async with server.stream() as first:
        await first.wait(bool, server.limits.event_s)
    async with server.stream() as stream:
        if stream.status != 200:
            raise SkippedError(f"The event stream cannot be opened: {stream.status}.")
        await stream.wait(bool, server.limits.event_s)
        crumb_id, _ = await server.created(server.draft())
        found = await stream.wait(is_of(crumb_id), server.limits.event_s)
        stream.must(bool(found), f"An event for {crumb_id} on the reopened stream.")


@check(40, MUST, STREAM)
async def other_owners(server: RcrtServer) -> None:
    """A stream carries no events of other owners.

    Fix: Compare the owner of each event with the owner of the token.
    """
    stream = await server.events()
    other = str(uuid.uuid4())
    refusal = SkippedError("Nothing can be stored in the name of another owner.")
    if not (credentials := await server.credentials(owner_id=other)):
        raise refusal
    answer = await server.create(server.draft(), **credentials)
    if answer.status != 200:  # RCRT's own server knows only owners that were set up
        raise refusal
    crumb_id = str(answer.member("id"))
    record = await server.send("GET", f"/breadcrumbs/{crumb_id}/full", **credentials)
    if record.status == 200 and record.member("owner_id") not in (None, other):  # it ignores tokens
        raise refusal
    await asyncio.sleep(server.limits.quiet_s)
    await server.send("DELETE", f"/breadcrumbs/{crumb_id}", **credentials)
    stream.must(stream.found(is_of(crumb_id)) == [], f"No event for a breadcrumb of {other}.")


@check(41, MUST, STREAM)
async def no_replay(server: RcrtServer) -> None:
    """A new stream carries no earlier events.

    Fix: Start each stream at the present: runners that get an old request again run its tool again.
    """
    _, event, _ = await _announced(server)
    async with server.stream() as stream:
        await stream.wait(bool, server.limits.event_s)
        await asyncio.sleep(server.limits.quiet_s)
        found = stream.found(is_of(event["breadcrumb_id"]))
        stream.must(found == [], f"No event for {event['breadcrumb_id']}, which is older than the stream.")


def _without_comments(block: bytes) -> bytes:
    """The lines of an event; proxies may add comments to keep a stream open."""
    return b"\n".join(line for line in block.split(b"\n") if not line.startswith(b":"))


async def _announced(server: RcrtServer) -> tuple[dict[str, Any], Event, Recording]:
    """A new breadcrumb, its first event, and the stream that carried it. Raises SkippedError."""
    stream = await server.events()
    draft = server.draft(context={"text": "ä€😀", "list": [1, None]})
    crumb_id, _ = await server.created(draft)
    found = await stream.wait(is_of(crumb_id), server.limits.event_s)
    if not found:  # which is a check of its own
        raise SkippedError("New breadcrumbs are not announced by events.")
    return draft, found[0], stream
