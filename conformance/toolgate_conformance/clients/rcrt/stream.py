"""Checks of how a client reads the event stream, and what it does about events that it misses."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.seen import Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.rcrt.registry import OPENAPI, SERVER

STREAM = f"{SERVER}: sse_stream"
LIST = f"{OPENAPI}: GET /breadcrumbs"

check = Registry("RCRTC")


@check(
    40,
    MUST,
    "A response that is stored before the answer to its request arrives is returned",
    "early",
    section=STREAM,
    remedy="Register the call before you send the request, or list its responses afterwards.",
)
def early_response(early: Seen) -> None:
    early.must_return()


@check(
    41,
    MUST,
    "Pings, partial events and events of unknown types are ignored",
    "noise",
    section=STREAM,
    remedy="Treat every member of an event as optional: schema_name, tags and context may be missing.",
)
def noise_is_ignored(noise: Seen) -> None:
    noise.must_hear()


@check(
    42,
    MUST,
    "An event may arrive in pieces, cut within a character",
    "pieces",
    section=STREAM,
    remedy="Collect bytes up to the end of a line before you decode them.",
)
def pieces(cut: Seen) -> None:
    cut.must_hear()


@check(
    43,
    SHOULD,
    "An event needs no space after `data:`",
    "no-space",
    section=f"{STREAM}; WHATWG HTML, server-sent events",
    remedy="Strip one space after the colon if there is one, or use a parser of server-sent events.",
)
def no_space(tight: Seen) -> None:
    tight.must_hear()


@check(
    44,
    GOOD,
    "An event without `type` is about a breadcrumb if it has a `breadcrumb_id`",
    "no-type",
    section=STREAM,
    remedy="Treat it as breadcrumb.updated: older servers send no type.",
)
def no_type(untyped: Seen) -> None:
    untyped.must_hear()


@check(
    45,
    MUST,
    "A response that was stored while the stream was down is returned",
    "gap",
    section=STREAM,
    remedy="List the responses by the tag of the request after each reconnect: events are not sent again.",
)
def gap(down: Seen) -> None:
    down.must_return()


@check(
    46,
    SHOULD,
    "A response without an event is returned",
    "no-event",
    section=LIST,
    remedy="List the responses by the tag of the request every few seconds: large ones are stored, but not announced.",
)
def no_event(silent: Seen) -> None:
    silent.must_return()


@check(
    47,
    GOOD,
    "A call opens only one stream",
    "late",
    section=STREAM,
    remedy="Keep one stream open for all calls: each that is opened costs the server a thread for good.",
)
def one_stream(late: Seen) -> None:
    opened = [reply for _, reply in late.streams() if reply.status == 200]
    late.must(len(opened) == 1, f"One stream, not {len(opened)}.")
