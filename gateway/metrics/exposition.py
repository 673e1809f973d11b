"""The text of a scrape, in the format of Prometheus 0.0.4.

It is made in a thread, because hundreds of tools take tens of milliseconds, and once at a time, because scraping twice
as often must not cost twice as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gateway.metrics.families import FAMILIES, Family
from gateway.metrics.processes import figures
from gateway.metrics.recording import Metrics
from gateway.metrics.store import Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Scraper:
    """Answers scrapes. `refresh` brings the metrics up to date where other processes count too.

    `processes` names the processes that serve, with their numbers.
    """

    def __init__(
        self,
        metrics: Metrics,
        processes: Callable[[], Mapping[str, int]],
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._metrics = metrics
        self._processes = processes
        self._refresh = refresh
        self._running: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """All metrics. Scrapes at the same time share one text; one that is cancelled does not disturb the others."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._make())
        return await asyncio.shield(self._running)

    async def _make(self) -> bytes:
        try:
            if self._refresh is not None:
                await self._refresh()
            # Read in one turn of the loop, so that all numbers are of the same moment.
            return await asyncio.to_thread(_text, self._metrics.series(), dict(self._processes()))
        finally:
            self._running = None


def _text(series: list[Series], processes: Mapping[str, int]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collector([*series, *figures(processes)]))
    return generate_latest(registry)


class _Collector(Collector):
    """Hands the numbers to the client library, grouped by metric; a metric without numbers is shown by its name."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._found: dict[str, list[Series]] = {name: [] for name in FAMILIES}
        for child in series:
            self._found[child.family.name].append(child)

    def collect(self) -> Iterator[Metric]:
        for name, family in FAMILIES.items():
            yield _metric(family, sorted(self._found[name], key=lambda series: series.labels))


def _metric(family: Family, children: Iterable[Series]) -> Metric:
    match family.kind:
        case "histogram":
            return _histogram(family, children)
        case "counter":
            metric: Metric = CounterMetricFamily(family.name, family.help, labels=family.labels)
        case "gauge":
            metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for child in children:
        metric.add_sample(family.name, dict(zip(family.labels, child.labels, strict=True)), child.values[0])
    return metric


def _histogram(family: Family, children: Iterable[Series]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*map(floatToGoString, family.buckets), "+Inf"]
    for child in children:
        total, buckets = 0.0, []
        for bound, count in zip(bounds, child.values, strict=False):
            total += count
            buckets.append((bound, total))
        metric.add_metric(child.labels, buckets, child.values[-1])
    return metric
