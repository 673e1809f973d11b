"""How long an RCRT backend waits for what, each with its reason. All in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The waits of one backend."""

    # A breadcrumb is stored in milliseconds; a server that takes longer is asked what became of it.
    create_s: float = 10.0
    # Before each further look for a request that may not have been stored, doubling from first to last; all four
    # take 4 s. A loaded server, or one behind a proxy, stores what it was sent within some seconds or never.
    look_s: tuple[float, float] = (0.25, 2.0)
    looks: int = 4
    # Lists and records; nobody but a background task waits for them.
    read_s: float = 10.0
    # How long a call waits for the first attempt to open the stream before it goes out without.
    stream_open_s: float = 2.0
    # The server pings every 5 s: three of them missed, and some room.
    idle_s: float = 17.0
    # Our own request comes back as an event in some milliseconds, unless the stream is deaf.
    canary_s: float = 5.0
    # Before the first three reconnects, doubling; they follow an ordinary restart.
    backoff_s: float = 0.5
    # Between later ones: each connection costs the server a thread for ever, of the 512 it has.
    reconnect_s: float = 30.0
    # A stream that lasted as long is forgiven its past.
    calm_s: float = 60.0
    # Between two polls for one call: the first and the last of a rising series, without a stream and beside one.
    poll_s: tuple[float, float] = (1.0, 5.0)
    insurance_s: tuple[float, float] = (5.0, 60.0)
    # Between two looks at all responses without a tag, which only an unknown tool gets.
    untagged_s: float = 10.0
    # How long the outcome of a call is looked for: as long as a call is kept while it is not over.
    watch_s: float = 24 * 3600.0
    # How long a request breadcrumb is kept; a runner acts on it at once or never.
    request_ttl_s: float = 3600.0
    # How long a tool seen in the workspace is taken to be there.
    seen_s: float = 30.0
    # Changes of tools come in bursts; one listing answers a whole one.
    change_s: float = 1.0
    # A workflow is stopped after 300 s; a place whose response was lost is free again some time later.
    workflow_s: float = 360.0
