"""A collector that does not answer holds up nothing: what waits is bounded, and so is the end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gateway.core.tracing import random_digits
from gateway.settings.telemetry import TelemetrySettings
from gateway.telemetry.export import BATCH, MAX_WAITING, SpanExport
from gateway.telemetry.spans import MAX_SPANS, Recording, Span, within

pytestmark = pytest.mark.anyio

SETTINGS = TelemetrySettings(otlp="http://127.0.0.1:1")


class Stuck(SpanExporter):
    """An exporter that takes a batch once `released` is set. `taken` counts the spans."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.released.wait()
        self.taken += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    exporter = Stuck()
    yield exporter
    exporter.released.set()


def spans(count: int) -> Iterator[Span]:
    for _ in range(count):
        ended: list[Span] = []
        Recording(ended.append, random_digits(), b"1" * 32, name="x").root.end()
        yield ended[0]


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted(stuck: Stuck) -> None:
    counts = Counter[str]()
    export = SpanExport(SETTINGS, lambda outcome, count: counts.update({outcome: count}), exporter=stuck)
    for span in spans(MAX_WAITING + BATCH):
        export.put(span)
    assert counts == {"exported": 0, "failed": 0, "dropped": BATCH}
    stuck.released.set()
    await export.aclose()
    await asyncio.sleep(0)
    assert stuck.taken == counts["exported"] == MAX_WAITING


async def test_the_end_waits_for_a_moment_only(stuck: Stuck, caplog: pytest.LogCaptureFixture) -> None:
    export = SpanExport(SETTINGS, lambda _outcome, _count: None, exporter=stuck, close_s=0.01)
    for span in spans(3):
        export.put(span)
    await export.aclose()
    [line] = caplog.records
    assert (line.getMessage(), vars(line)["spans"]) == (
        "spans were lost, because they could not be exported in time",
        3,
    )


def test_a_request_has_so_many_spans_and_is_over_once_none_is_open() -> None:
    """What goes on after the answer is recorded as it ends; what was only begun in that context is not."""
    ended: list[Span] = []
    recording = Recording(ended.append, random_digits(), b"1" * 32, name="x")
    late = recording.begin("late", recording.root)
    assert late is not None
    for _ in range(2 * MAX_SPANS):
        with within(recording.root, "step"):
            pass
    assert not ended
    recording.root.end()
    assert len(ended) == MAX_SPANS - 1
    assert not recording.is_over
    late.end()
    assert ended[-1] is late
    assert recording.is_over
