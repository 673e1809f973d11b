"""The text of a scrape: complete, well-formed, made once at a time and beside the event loop."""

from __future__ import annotations

import asyncio
import os
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import GaugeSample, Scraper, families
from tests.support.scraping import made

pytestmark = pytest.mark.anyio


async def everything() -> bytes:
    """A scrape with at least one child of every metric."""
    gauges = [family for family in families.FAMILIES.values() if family.kind == "gauge"]
    metrics = made(gauges=[GaugeSample(family, ('quo"te\\\n',) * len(family.labels), 1.0) for family in gauges])
    metrics.request("otc", "call", 200, 0.5, 0.25, "key:ci", 100, 200)
    metrics.tool_call("mail", "Mail.Send", "ok", 0.25, "key:ci")
    metrics.refused("key:ci", "rate_limited")
    metrics.quota_met("pending", False)
    metrics.limit_used("per-caller", 0.5)
    metrics.spans("exported", 1)
    metrics.auth_failure("expired")
    metrics.authorization("denied")
    metrics.authorization_asked(0.25)
    metrics.rate_limited("per-caller")
    metrics.callback("builds", 200)
    metrics.notice_dropped("builds")
    metrics.reload("ok")
    return await Scraper(metrics, lambda: {"gateway": os.getpid()}).text()


async def test_every_metric_has_its_type_its_help_and_its_samples() -> None:
    read = list(text_string_to_metric_families((await everything()).decode()))
    assert {metric.name for metric in read} == {name.removesuffix("_total") for name in families.FAMILIES}
    for metric in read:
        family = families.FAMILIES.get(metric.name) or families.FAMILIES[f"{metric.name}_total"]
        assert (metric.type, metric.documentation) == (family.kind, family.help)
        assert metric.samples
        assert {key for sample in metric.samples for key in sample.labels} - {"le"} == set(family.labels)


async def test_names_follow_the_conventions() -> None:
    """Prometheus, Metric and label naming: base units, `_total` for counters and for nothing else."""
    for family in families.FAMILIES.values():
        assert re.fullmatch("[a-z_]+", family.name)
        assert family.name.endswith("_total") is (family.kind == "counter")
        assert not {"le", "quantile", "job", "instance"} & set(family.labels)
        assert family.help.endswith(".")
        assert list(family.buckets) == sorted(set(family.buckets))


async def test_a_metric_that_nothing_was_counted_in_is_there_by_name() -> None:
    text = await Scraper(made(), dict).text()
    assert all(f"# TYPE {name} " in text.decode() for name in families.FAMILIES)


class Gate:
    """Metrics of other processes, which arrive only when the gate is opened."""

    def __init__(self) -> None:
        self.opened, self.entered = asyncio.Event(), asyncio.Event()
        self.scraper = Scraper(made(), dict, self._refresh)
        self.refreshed = 0

    async def _refresh(self) -> None:
        self.refreshed += 1
        self.entered.set()
        await self.opened.wait()


async def test_scrapes_at_the_same_time_share_one_text() -> None:
    gate = Gate()
    scrapes = [asyncio.create_task(gate.scraper.text()) for _ in range(10)]
    await gate.entered.wait()
    gate.opened.set()
    assert len({await scrape for scrape in scrapes}) == 1
    assert gate.refreshed == 1


async def test_a_scrape_that_is_cancelled_does_not_disturb_the_others() -> None:
    gate = Gate()
    first, second = (asyncio.create_task(gate.scraper.text()) for _ in range(2))
    await gate.entered.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.opened.set()
    assert b"toolgate_requests_total" in await second
