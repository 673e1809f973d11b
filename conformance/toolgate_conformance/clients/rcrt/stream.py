"""Checks of how a client reads the event stream, and what it does about events that it misses."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import OPENAPI, SERVER

STREAM = f"{SERVER}: sse_stream"
LIST = f"{OPENAPI}: GET /breadcrumbs"

check: Registry[RcrtObservation] = Registry()


@check(40, MUST, STREAM)
def early_response(early: RcrtObservation) -> None:
    """A response that is stored before the answer to its request arrives is returned.

    Fix: Register the call before you send the request, or list its responses afterwards.
    """
    early.must_return()


@check(41, MUST, STREAM)
def noise_is_ignored(noise: RcrtObservation) -> None:
    """Pings, partial events and events of unknown types are ignored.

    Fix: Treat every member of an event as optional: schema_name, tags and context may be missing.
    """
    noise.must_hear()


@check(42, MUST, STREAM)
def pieces(pieces: RcrtObservation) -> None:
    """An event may arrive in pieces, cut within a character.

    Fix: Collect bytes up to the end of a line before you decode them.
    """
    pieces.must_hear()


@check(43, SHOULD, f"{STREAM}; WHATWG HTML, server-sent events")
def no_space(no_space: RcrtObservation) -> None:
    """An event needs no space after `data:`.

    Fix: Strip one space after the colon if there is one, or use a parser of server-sent events.
    """
    no_space.must_hear()


@check(44, GOOD, STREAM)
def no_type(no_type: RcrtObservation) -> None:
    """An event without `type` is about a breadcrumb if it has a `breadcrumb_id`.

    Fix: Treat it as breadcrumb.updated: older servers send no type.
    """
    no_type.must_hear()


@check(45, MUST, STREAM)
def gap(gap: RcrtObservation) -> None:
    """A response that was stored while the stream was down is returned.

    Fix: List the responses by the tag of the request after each reconnect: events are not sent again.
    """
    gap.must_return()


@check(46, SHOULD, LIST)
def no_event(no_event: RcrtObservation) -> None:
    """A response without an event is returned.

    Fix: List the responses by the tag of the request every few seconds: large ones are stored, but not announced.
    """
    no_event.must_return()


@check(47, GOOD, STREAM)
def one_stream(late: RcrtObservation) -> None:
    """A call opens only one stream.

    Fix: Keep one stream open for all calls: each that is opened costs the server a thread for good.
    """
    opened = [reply for _, reply in late.streams() if reply.status == 200]
    late.must(len(opened) == 1, f"One stream, not {len(opened)}.")
