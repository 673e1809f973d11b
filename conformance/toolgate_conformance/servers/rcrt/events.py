"""Records the event stream of an RCRT server, within limits of size, for checks that wait for events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from toolgate_conformance.checks import Exchange, UnfitError, shown

PATH = "/events/stream"
OPEN_S = 10.0  # until the head of the answer
MAX_EVENT_BYTES = 4 * 1024 * 1024
LINE_END = re.compile(rb"\r\n|\n|\r")
MAX_EVENTS = 20_000  # on one stream; the owner may have others who are busy
MAX_START_BYTES = 64 * 1024  # of the stream, kept as they came
SHOWN_EVENTS = 5  # in a report, the latest

Event = dict[str, Any]


class Recording:
    """What came on one stream: the head, the first bytes unchanged, and all events that are JSON objects."""

    def __init__(self, answer: httpx.Response, sent: str) -> None:
        self.status = answer.status_code
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self.start = bytearray()
        self.events: list[Event] = []
        self.times_s: list[float] = []  # of each event, since the stream was opened
        self.malformed: list[bytes] = []  # data that is no JSON object
        self.has_ended = False
        self._opened_at = time.monotonic()
        self._sent = sent
        self._answer = answer
        self._news = asyncio.Event()

    @property
    def exchange(self) -> Exchange:
        """For a report: the head and the latest events."""
        head = f"HTTP/1.1 {self.status}\ncontent-type: {self.headers.get('content-type', '')}\n"
        lines = [json.dumps(event, ensure_ascii=False) for event in self.events[-SHOWN_EVENTS:]]
        end = ["(the stream has ended)"] if self.has_ended else []
        return Exchange(self._sent, shown("\n".join([head, *lines, *end])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with what came unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    def found(self, fits: Callable[[Event], bool]) -> list[Event]:
        """The events so far that fit."""
        return [event for event in self.events if fits(event)]

    async def wait(self, fits: Callable[[Event], bool], within_s: float, count: int = 1) -> list[Event]:
        """The events that fit, once there are `count` of them; fewer after the time or at the end of the stream."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while len(self.found(fits)) < count and not self.has_ended:
                    self._news.clear()
                    await self._news.wait()
        return self.found(fits)

    async def record(self) -> None:
        """Reads to the end, or until there are too many events."""
        reader = EventReader()
        try:
            async for chunk in self._answer.aiter_raw():
                self.start += chunk[: MAX_START_BYTES - len(self.start)]
                for data in reader.feed(chunk):
                    self._take(data)
                self._news.set()
                if len(self.events) >= MAX_EVENTS:
                    break
        except httpx.HTTPError:
            pass  # the end, as one without a break is
        self.has_ended = True
        self._news.set()

    def _take(self, data: bytes) -> None:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self.events.append(event)
            self.times_s.append(time.monotonic() - self._opened_at)
        else:
            self.malformed.append(data)


class EventReader:
    """Puts the data of events together from chunks that may be cut anywhere (WHATWG HTML, section 9.2).

    What is larger than MAX_EVENT_BYTES is cut off there, so that it is no JSON.
    """

    def __init__(self) -> None:
        self._line = bytearray()  # that has not ended
        self._data: list[bytes] = []  # of the event that has not ended
        self._after_return = False  # whether a line feed would be the other half of an end of a line

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the data of the events that are now complete."""
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        *lines, rest = LINE_END.split(chunk)
        complete = []
        for line in lines:
            self._extend(line)
            data = self._end_line()
            complete += [] if data is None else [data]
        self._extend(rest)
        return complete

    def _extend(self, part: bytes) -> None:
        self._line += part[: max(0, MAX_EVENT_BYTES - len(self._line))]

    def _end_line(self) -> bytes | None:
        """The data of the event that ends with this line, if one does."""
        line, self._line = bytes(self._line), bytearray()
        if line:
            name, _, value = line.partition(b":")
            if name == b"data" and sum(map(len, self._data)) <= MAX_EVENT_BYTES:
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data = self._data, []
        return b"\n".join(data) if data else None


@asynccontextmanager
async def recording(
    http: httpx.AsyncClient, url: str, headers: Mapping[str, str], **query: str
) -> AsyncIterator[Recording]:
    """Opens a stream and records it. Reports do not show `query`. Raises UnfitError without an answer."""
    request = http.build_request("GET", url + PATH, params=query, headers={**headers, "accept": "text/event-stream"})
    hidden = "".join(f"?{name}=***" for name in query)
    sent = f"GET {url}{PATH}{hidden}\naccept: text/event-stream"
    try:
        async with asyncio.timeout(OPEN_S):
            answer = await http.send(request, stream=True)
    except (httpx.HTTPError, TimeoutError) as exc:
        raise UnfitError("An answer.", Exchange(sent, f"{type(exc).__name__}: {exc}")) from exc
    recorded = Recording(answer, sent)
    task = asyncio.create_task(recorded.record())
    try:
        yield recorded
    finally:
        task.cancel()
        await asyncio.wait([task])
        await answer.aclose()


def is_ping(event: Event) -> bool:
    return event.get("type") == "ping"


def is_crumb(event: Event) -> bool:
    """Whether an event is about a breadcrumb."""
    return "breadcrumb_id" in event


def is_of(crumb_id: object) -> Callable[[Event], bool]:
    """Whether an event is about the breadcrumb with an id."""
    return lambda event: event.get("breadcrumb_id") == crumb_id
