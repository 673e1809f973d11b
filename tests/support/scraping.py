"""What a scrape says, read as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import GaugeSample, LabelValues, Metrics, Scraper

KNOWN = LabelValues(
    dialects=frozenset({"otc", "oxp"}),
    protocols={"mail": "oxp", "builds": "callback"},
    reasons=frozenset({"expired"}),
    rules=frozenset({"per-caller"}),
    accounts=frozenset({"key:ci"}),
)

Samples = Mapping[str, float]


def made(*, max_tools: int = 1000, gauges: Iterable[GaugeSample] = ()) -> Metrics:
    return Metrics(KNOWN, max_tools=max_tools, gauges=lambda: gauges)


def samples_of(text: bytes) -> Samples:
    """Each sample under its name and labels, as `name{key=value}`."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def scraped(metrics: Metrics) -> Samples:
    return samples_of(await Scraper(metrics, dict).text())
