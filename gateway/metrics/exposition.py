"""The text a scrape gets, in the format of Prometheus 0.0.4.

Made in a thread, because hundreds of tools take tens of milliseconds, and once at a time, because whoever scrapes
twice as often must not cost twice as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gateway.metrics.families import FAMILIES, Family
from gateway.metrics.store import Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Read = Callable[[], Iterable[Series]]


class Scraper:
    """Answers scrapes. `publish` is called in the event loop first, `read` in a thread."""

    def __init__(self, publish: Callable[[], None], read: Read) -> None:
        self._publish = publish
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(read))
        self._under_way: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """All metrics. Whoever comes while it is made gets the same; whoever leaves spoils it for nobody."""
        if self._under_way is None:
            self._under_way = asyncio.get_running_loop().create_task(self._make())
        return await asyncio.shield(self._under_way)

    async def _make(self) -> bytes:
        try:
            self._publish()
            return await asyncio.to_thread(generate_latest, self._registry)
        finally:
            self._under_way = None


class _Collector(Collector):
    """Hands the numbers to the client library, grouped by metric; one without numbers is shown by its name alone."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        return [_metric(family, ()) for family in FAMILIES.values()]

    def collect(self) -> Iterator[Metric]:
        found: dict[str, list[Series]] = {name: [] for name in FAMILIES}
        for series in self._read():
            found[series.family.name].append(series)
        for name, family in FAMILIES.items():
            yield _metric(family, sorted(found[name], key=lambda series: series.labels))


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
