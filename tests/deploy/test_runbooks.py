"""The queries of the handbook: Prometheus understands them, and they ask for metrics and labels that there are."""

from __future__ import annotations

import pytest

from gateway.metrics.families import FAMILIES
from tests.deploy import promql
from tests.deploy.test_rules import FROM_SCRAPING, OF_HISTOGRAMS
from tests.support.markdown import PAGES, blocks

QUERIES = [block.text for page in PAGES for block in blocks(page.read_text("utf-8"), "promql")]
OF_PROMETHEUS = {"up"}  # it makes these itself


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_handbook_finds_what_there_is(query: str) -> None:
    known, found = set(FROM_SCRAPING), list(promql.selectors(query))
    assert found
    for metric, labels in found:
        if metric in OF_PROMETHEUS:
            continue
        name = next((metric.removesuffix(end) for end in OF_HISTOGRAMS if metric.removesuffix(end) in FAMILIES), metric)
        family = FAMILIES[name]
        known |= {*family.labels, *(["le"] if family.kind == "histogram" else [])}
        assert labels <= {*family.labels, *FROM_SCRAPING}
    assert promql.grouped_by(query) <= known
